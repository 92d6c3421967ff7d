//! Everything of the simulated proxy but the VMs' own memories: the clock, what is planned, the
//! requests, what the filter told.

use std::collections::{BTreeMap, VecDeque};

use burst_prefix_cache::config::Config;
use fastrand::Rng;

use super::admin::{Admin, Answer};
use super::exchange::{Client, Exchange, Fate, Headers};
use super::fabric::Fabric;
use super::witness::Witness;

pub(crate) const MILLI: u64 = 1_000_000;

/// What happens, on the thread of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The next part of a request comes.
    Part(usize),
    /// Its client closes the connection, or hears nothing for too long.
    Leave(usize),
    /// A replica answers.
    Respond(usize),
    /// Envoy logs the request, which goes on.
    Log(usize),
    Notify {
        thread: usize,
        root: u32,
        token: u32,
    },
    Tick {
        thread: usize,
        vm: usize,
        root: u32,
        generation: u32,
    },
    /// A call of the thread's VM is answered.
    Answer {
        thread: usize,
        vm: usize,
        token: u32,
    },
    /// The thread gets its VM, before any request needs it.
    Start { thread: usize },
    /// The thread's VM traps at its so many-th host call from now; 0 = now.
    Trap { thread: usize, calls: u32 },
    /// The thread learns of a new configuration, by its index.
    Configure { thread: usize, config: usize },
}

/// What a VM is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callback {
    /// A part of a request.
    Request,
    /// The response, or the end of a stream.
    Response,
    /// A tick or a message.
    Root,
}

/// What may go wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// At one in so many crossings the others come first; 0 = never.
    pub(crate) yield_one_in: u32,
    /// One in so many writes of shared data is refused; 0 = none.
    pub(crate) refuse_data_one_in: u32,
    /// In this time all of them are.
    pub(crate) refuse_data_between: Option<(u64, u64)>,
    /// One in so many header writes is refused; 0 = none.
    pub(crate) refuse_headers_one_in: u32,
    /// Messages are announced, and ticks come, up to so many nanoseconds late.
    pub(crate) late_messages: u64,
    pub(crate) late_ticks: u64,
    /// After a trap requests are refused for so long, until there is a fresh VM.
    pub(crate) back_off: u64,
}

/// A root context: one configuration in one VM.
#[derive(Debug, Default)]
pub(crate) struct Root {
    pub(crate) config: usize,
    pub(crate) period: u64,
    pub(crate) generation: u32,
}

/// What Envoy knows of a VM.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) thread: usize,
    pub(crate) alive: bool,
    pub(crate) roots: BTreeMap<u32, Root>,
    /// The root context that new streams belong to.
    pub(crate) newest_root: u32,
    /// The requests of its stream contexts.
    pub(crate) streams: BTreeMap<u32, usize>,
    pub(crate) next_context: u32,
    /// The context of the running callback, and the one that host calls act on instead.
    pub(crate) callback: Callback,
    pub(crate) current: u32,
    pub(crate) effective: u32,
    /// Streams that the running callback resumed: they go on when it is over.
    pub(crate) resumed: VecDeque<usize>,
    /// The host calls left until it traps.
    pub(crate) traps_in: Option<u32>,
    /// The answer whose callback is running.
    pub(crate) answer: Option<Answer>,
    /// The names of its metrics, by their ids.
    pub(crate) metrics: Vec<String>,
}

/// A worker thread of Envoy.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) vm: Option<usize>,
    pub(crate) config: usize,
    pub(crate) dead_until: u64,
}

/// The simulated proxy.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    /// Configurations, as Envoy hands them over.
    pub(crate) configs: Vec<Vec<u8>>,
    /// `allow_on_headers_stop_iteration`.
    pub(crate) headers_stop: bool,
    pub(crate) buffer_limit: usize,
    /// Nothing goes wrong by which a window could fall apart.
    pub(crate) whole_windows: bool,
    pub(crate) threads: Vec<Thread>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) agenda: BTreeMap<(u64, u64), Event>,
    planned: u64,
    pub(crate) fabric: Fabric,
    pub(crate) admin: Admin,
    pub(crate) witness: Witness,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        threads: usize,
        configs: Vec<Vec<u8>>,
        clients: Vec<Client>,
    ) -> Self {
        let mut world = Self {
            now: 1_000 * MILLI,
            rng: Rng::with_seed(seed),
            faults: Faults::default(),
            configs,
            headers_stop: true,
            buffer_limit: 4 << 20,
            whole_windows: false,
            threads: (0..threads)
                .map(|_| Thread {
                    vm: None,
                    config: 0,
                    dead_until: 0,
                })
                .collect(),
            machines: Vec::new(),
            exchanges: Vec::new(),
            agenda: BTreeMap::new(),
            planned: 0,
            fabric: Fabric::default(),
            admin: Admin::default(),
            witness: Witness::default(),
        };
        for client in clients {
            world.add(client);
        }
        world
    }

    /// A client that sends its request as it says; its number.
    pub(crate) fn add(&mut self, client: Client) -> usize {
        let number = self.exchanges.len();
        for (at, _) in &client.parts {
            self.plan(*at, Event::Part(number));
        }
        if let Some(leaves) = client.leaves {
            self.plan(leaves, Event::Leave(number));
        }
        self.exchanges.push(Exchange::new(client));
        number
    }

    pub(crate) fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), event);
    }

    pub(crate) fn thread_of(&self, event: Event) -> usize {
        match event {
            Event::Part(request)
            | Event::Leave(request)
            | Event::Respond(request)
            | Event::Log(request) => self.exchanges[request].client.thread,
            Event::Notify { thread, .. }
            | Event::Tick { thread, .. }
            | Event::Answer { thread, .. }
            | Event::Start { thread }
            | Event::Trap { thread, .. }
            | Event::Configure { thread, .. } => thread,
        }
    }

    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        count > 0 && self.rng.u32(..count) == 0
    }

    /// Writes a line of the trace.
    pub(crate) fn trace(&mut self, line: String) {
        let now = self.now;
        self.witness.trace(now, line);
    }

    /// A new VM on a thread; its number.
    pub(crate) fn add_machine(&mut self, thread: usize) -> usize {
        let number = self.machines.len();
        self.machines.push(Machine {
            thread,
            alive: true,
            roots: BTreeMap::new(),
            newest_root: 0,
            streams: BTreeMap::new(),
            next_context: 1,
            callback: Callback::Root,
            current: 0,
            effective: 0,
            resumed: VecDeque::new(),
            traps_in: None,
            answer: None,
            metrics: Vec::new(),
        });
        self.threads[thread].vm = Some(number);
        number
    }

    /// The VM has trapped: what it holds hears nothing any more.
    pub(crate) fn bury(&mut self, vm: usize) {
        self.trace(format!("vm {vm} is dead"));
        let now = self.now;
        let machine = &mut self.machines[vm];
        machine.alive = false;
        let streams = std::mem::take(&mut machine.streams);
        // What was resumed before the trap goes on.
        for request in std::mem::take(&mut machine.resumed) {
            let exchange = &mut self.exchanges[request];
            exchange.resumes += 1;
            exchange.forward(now);
        }
        for request in streams.into_values() {
            let exchange = &mut self.exchanges[request];
            exchange.vm = None;
            exchange.fate.get_or_insert(Fate::Lost);
        }
        let thread = &mut self.threads[self.machines[vm].thread];
        thread.vm = None;
        thread.dead_until = now + self.faults.back_off;
    }

    /// The root context and the period of its tick, from now on.
    pub(crate) fn set_tick(&mut self, vm: usize, root: u32, millis: u32) {
        let Some(known) = self.machines[vm].roots.get_mut(&root) else {
            return;
        };
        known.period = u64::from(millis) * MILLI;
        known.generation += 1;
        self.arm(vm, root);
    }

    /// Plans the next tick, if there is to be one.
    pub(crate) fn arm(&mut self, vm: usize, root: u32) {
        let machine = &self.machines[vm];
        let Some(known) = machine.roots.get(&root).filter(|root| root.period > 0) else {
            return;
        };
        let tick = Event::Tick {
            thread: machine.thread,
            vm,
            root,
            generation: known.generation,
        };
        let at = self.now + known.period;
        let late = self.rng.u64(..=self.faults.late_ticks);
        self.plan(at + late, tick);
    }

    /// The request that host calls of the VM act on now.
    pub(crate) fn acts_on(&mut self, vm: usize) -> Option<&mut Exchange> {
        let machine = &self.machines[vm];
        let context = match machine.effective {
            0 => machine.current,
            effective => effective,
        };
        let request = *machine.streams.get(&context)?;
        self.exchanges.get_mut(request)
    }

    /// The root context that host calls of the VM act on now.
    pub(crate) fn acts_on_root(&mut self, vm: usize) -> u32 {
        let context = match self.machines[vm].effective {
            0 => self.machines[vm].current,
            effective => effective,
        };
        self.acts_on(vm).map_or(context, |exchange| exchange.root)
    }

    /// The stream has ended, in whatever way.
    pub(crate) fn forget(&mut self, request: usize) {
        let exchange = &mut self.exchanges[request];
        exchange.closed = true;
        if let Some(vm) = exchange.vm.take() {
            self.machines[vm].streams.remove(&exchange.context);
        }
    }

    /// The headers of the response to a request.
    pub(crate) fn respond(&mut self, request: usize, status: u16) {
        let status = status.to_string();
        self.exchanges[request].response = Some(Headers::new([(":status", status.as_str())]));
    }
}

/// `maxBatchSize` of a configuration.
pub(crate) fn most_members(config: &[u8]) -> Option<usize> {
    let config = Config::parse(config).ok()?;
    config.max_batch.map(|most| most.get() as usize)
}
