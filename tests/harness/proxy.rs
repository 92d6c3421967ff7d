//! The schedule: which thread goes on next.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::call::lock;
use super::engine::Vm;
use super::exchange::Client;
use super::thread::Thread;
use super::world::{Event, MILLI, World};

/// For so long a callback may be in progress while others come between.
const LONGEST_CALLBACK: u64 = 2 * MILLI;

/// A thread that is at work on an event.
struct Running {
    thread: usize,
    since: u64,
    work: Pin<Box<dyn Future<Output = Thread>>>,
}

/// A simulated Envoy with the filter in all of its worker threads.
pub(crate) struct Proxy {
    world: Arc<Mutex<World>>,
    idle: Vec<Option<Thread>>,
    running: Vec<Running>,
}

enum Step {
    Start(Event),
    Poll(usize),
    Over,
}

impl Proxy {
    pub(crate) fn new(
        seed: u64,
        threads: usize,
        configs: Vec<Vec<u8>>,
        clients: Vec<Client>,
    ) -> Self {
        let world = World::new(seed, threads, configs, clients);
        let world = Arc::new(Mutex::new(world));
        let thread = |number| {
            Some(Thread {
                number,
                vm: None,
                world: Arc::clone(&world),
            })
        };
        Self {
            idle: (0..threads).map(thread).collect(),
            running: Vec::new(),
            world,
        }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The size of the memory of a thread's VM.
    pub(crate) fn memory_bytes(&self, thread: usize) -> usize {
        let vm = self.idle[thread].as_ref().and_then(|idle| idle.vm.as_ref());
        vm.map_or(0, Vm::memory_bytes)
    }

    /// Runs until nothing is planned any more.
    pub(crate) fn run(&mut self) {
        self.run_until(u64::MAX);
    }

    /// Runs what is planned up to a moment.
    pub(crate) fn run_until(&mut self, until: u64) {
        /// Far more than any schedule takes.
        const MOST_STEPS: usize = 100_000;
        for _ in 0..MOST_STEPS {
            match self.choose(until) {
                Step::Start(event) => self.start(event),
                Step::Poll(index) => self.poll(index),
                Step::Over => return,
            }
        }
        self.world().witness.wrong("it does not end".to_owned());
    }

    fn choose(&mut self, until: u64) -> Step {
        let mut world = lock(&self.world);
        let since = self.running.iter().map(|running| running.since).min();
        let until = since.map_or(until, |since| until.min(since + LONGEST_CALLBACK));
        let running = self.running.len();
        if running > 0 && world.rng.bool() {
            return Step::Poll(world.rng.usize(..running));
        }
        let free = |event: Event| self.idle[world.thread_of(event)].is_some();
        let due = world.agenda.range(..=(until, u64::MAX));
        // Those of busy threads wait until these are free.
        let next = due.take(64).find(|(_, event)| free(**event));
        match next.map(|(key, event)| (*key, *event)) {
            Some((key, event)) => {
                world.agenda.remove(&key);
                world.now = world.now.max(key.0);
                Step::Start(event)
            }
            None if running > 0 => Step::Poll(world.rng.usize(..running)),
            None => Step::Over,
        }
    }

    fn start(&mut self, event: Event) {
        let (thread, since) = {
            let world = self.world();
            (world.thread_of(event), world.now)
        };
        let Some(idle) = self.idle[thread].take() else {
            return;
        };
        self.running.push(Running {
            thread,
            since,
            work: Box::pin(idle.happen(event)),
        });
        self.poll(self.running.len() - 1);
    }

    fn poll(&mut self, index: usize) {
        let work = self.running[index].work.as_mut();
        if let Poll::Ready(thread) = work.poll(&mut Context::from_waker(Waker::noop())) {
            let number = self.running.swap_remove(index).thread;
            self.idle[number] = Some(thread);
        }
    }
}
