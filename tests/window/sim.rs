//! Workers on a simulated proxy: shared cells and queues, a clock, a seeded order of events.
//!
//! One seed is one schedule. Callbacks of different workers interleave where it matters: between
//! the read and the write of a compare-and-swap, and after a message is sent, another worker's
//! callback may run.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use burst_prefix_cache::window::{self, Arrival, Decision, Release, Settings, Worker};
use burst_prefix_cache::workers::{self, Moment, Refused, Shared, Slot, Stored};
use fastrand::Rng;

/// The most requests one callback releases, as in the filter.
const MOST_RELEASES: usize = 64;

/// What happens in a schedule. Requests and workers go by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Arrive(usize),
    Leave(usize),
    Notify(usize),
    Tick(usize),
    Die(usize),
    /// A replica has answered the request.
    End(usize),
}

/// A request of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) worker: usize,
    pub(crate) at: Moment,
    pub(crate) leaves: Option<Moment>,
    /// How long its replica takes.
    pub(crate) lasts: Duration,
    pub(crate) asks: window::Request,
}

impl Request {
    pub(crate) fn new(worker: usize, at: Moment, blocks: Vec<u64>) -> Self {
        Self {
            worker,
            at,
            leaves: None,
            lasts: Duration::from_secs(1),
            asks: window::Request {
                blocks,
                weight: 1,
                ..window::Request::default()
            },
        }
    }
}

/// What may go wrong in a schedule.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// One in so many writes is refused for no reason; 0 = none.
    pub(crate) refuse_one_in: u32,
    /// Messages are announced up to this late.
    pub(crate) late_messages: Duration,
    /// Ticks come up to this late.
    pub(crate) late_ticks: Duration,
    /// One in so many messages gets lost; 0 = none.
    pub(crate) lose_one_in: u32,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    /// It was not held.
    Passed(Arrival),
    Released {
        at: Moment,
        decision: Decision,
        /// The name of the chosen replica.
        replica: Option<String>,
        window: u64,
    },
    Left,
    /// Its worker died.
    Lost,
}

struct Vm {
    worker: RefCell<Worker>,
    alive: Cell<bool>,
    queue: Cell<Option<Slot>>,
    tick_at: Cell<Option<Moment>>,
    arriving: Cell<Option<usize>>,
}

#[derive(Default)]
struct Fabric {
    cells: HashMap<workers::Cell, (Vec<u8>, u32)>,
    queues: HashMap<Slot, (usize, VecDeque<Vec<u8>>)>,
    version: u32,
}

/// A schedule in progress.
pub(crate) struct Sim {
    requests: Vec<Request>,
    faults: Faults,
    vms: Vec<Vm>,
    fabric: RefCell<Fabric>,
    agenda: RefCell<BinaryHeap<Reverse<(Moment, u64, Event)>>>,
    sequence: Cell<u64>,
    rng: RefCell<Rng>,
    now: Cell<Moment>,
    depth: Cell<u32>,
    /// All that happened to each request.
    pub(crate) fates: RefCell<Vec<Vec<Fate>>>,
    /// Requests in the order in which they joined.
    pub(crate) joined: RefCell<Vec<usize>>,
    pub(crate) trace: RefCell<Vec<String>>,
}

impl Sim {
    pub(crate) fn new(
        settings: &Settings,
        workers: usize,
        requests: Vec<Request>,
        deaths: &[(Moment, usize)],
        faults: Faults,
        seed: u64,
    ) -> Self {
        let vm = |_| Vm {
            worker: RefCell::new(Worker::new(settings.clone())),
            alive: Cell::new(true),
            queue: Cell::new(None),
            tick_at: Cell::new(None),
            arriving: Cell::new(None),
        };
        let sim = Self {
            faults,
            vms: (0..workers).map(vm).collect(),
            fabric: RefCell::default(),
            agenda: RefCell::default(),
            sequence: Cell::new(0),
            rng: RefCell::new(Rng::with_seed(seed)),
            now: Cell::new(Moment(1_000_000_000)),
            depth: Cell::new(0),
            fates: RefCell::new(vec![Vec::new(); requests.len()]),
            joined: RefCell::default(),
            trace: RefCell::default(),
            requests,
        };
        for (number, request) in sim.requests.iter().enumerate() {
            sim.plan(request.at, Event::Arrive(number));
            if let Some(leaves) = request.leaves {
                sim.plan(leaves, Event::Leave(number));
            }
        }
        for (at, worker) in deaths {
            sim.plan(*at, Event::Die(*worker));
        }
        sim
    }

    /// Runs the schedule to its end: until nothing is planned any more.
    pub(crate) fn run(&self) {
        /// Far more than any schedule takes: one that does not end fails instead.
        const MOST_EVENTS: usize = 100_000;
        while let Some((at, event)) = self.next(None) {
            let events = self.trace.borrow().len();
            assert!(events < MOST_EVENTS, "the schedule does not end");
            self.now.set(self.now.get().max(at));
            self.happen(event);
        }
    }

    /// Requests that still wait at some worker that lives.
    pub(crate) fn waiting(&self) -> usize {
        let alive = self.vms.iter().filter(|vm| vm.alive.get());
        alive.map(|vm| vm.worker.borrow().held()).sum()
    }

    /// What the workers that live have in flight.
    pub(crate) fn in_flight(&self) -> usize {
        let alive = self.vms.iter().filter(|vm| vm.alive.get());
        alive.map(|vm| vm.worker.borrow().in_flight()).sum()
    }

    fn plan(&self, at: Moment, event: Event) {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        self.agenda
            .borrow_mut()
            .push(Reverse((at, sequence, event)));
    }

    fn next(&self, until: Option<Moment>) -> Option<(Moment, Event)> {
        let mut agenda = self.agenda.borrow_mut();
        let Reverse((at, _, event)) = *agenda.peek()?;
        if until.is_some_and(|until| at > until || self.busy(event)) {
            return None;
        }
        agenda.pop();
        Some((at, event))
    }

    fn worker_of(&self, event: Event) -> usize {
        match event {
            Event::Arrive(request) | Event::Leave(request) | Event::End(request) => {
                self.requests[request].worker
            }
            Event::Notify(worker) | Event::Tick(worker) | Event::Die(worker) => worker,
        }
    }

    /// Whether the event's worker is in the middle of a callback.
    fn busy(&self, event: Event) -> bool {
        self.vms[self.worker_of(event)]
            .worker
            .try_borrow_mut()
            .is_err()
    }

    /// Lets another worker's next callback come between.
    fn interleave(&self) {
        if self.depth.get() < 3 && self.rng.borrow_mut().u32(..4) == 0 {
            let soon = self.now.get().plus(Duration::from_millis(2));
            if let Some((at, event)) = self.next(Some(soon)) {
                self.depth.set(self.depth.get() + 1);
                self.now.set(self.now.get().max(at));
                self.happen(event);
                self.depth.set(self.depth.get() - 1);
            }
        }
    }

    fn late(&self, most: Duration) -> Duration {
        Duration::from_nanos(
            self.rng
                .borrow_mut()
                .u64(..=u64::try_from(most.as_nanos()).unwrap()),
        )
    }

    fn happen(&self, event: Event) {
        let index = self.worker_of(event);
        let vm = &self.vms[index];
        let now = self.now.get();
        self.trace
            .borrow_mut()
            .push(format!("{:>12} worker {index}: {event:?}", now.0));
        if !vm.alive.get() {
            if let Event::Arrive(request) = event {
                self.fates.borrow_mut()[request].push(Fate::Lost);
            }
            return;
        }
        let port = &mut Port { sim: self, index };
        match event {
            Event::Arrive(request) => {
                vm.arriving.set(Some(request));
                let asks = self.requests[request].asks.clone();
                let stream = u32::try_from(request).unwrap();
                let arrival = vm.worker.borrow_mut().arrive(now, stream, asks, port);
                vm.arriving.set(None);
                if arrival != Arrival::Held {
                    self.fates.borrow_mut()[request].push(Fate::Passed(arrival));
                    self.plan(now.plus(self.requests[request].lasts), Event::End(request));
                }
                self.release(index);
            }
            Event::End(request) => {
                let stream = u32::try_from(request).unwrap();
                vm.worker.borrow_mut().ended(now, stream, port);
            }
            Event::Leave(request) => {
                if self.fates.borrow()[request].is_empty() {
                    let stream = u32::try_from(request).unwrap();
                    vm.worker.borrow_mut().gone(now, stream, port);
                    self.fates.borrow_mut()[request].push(Fate::Left);
                }
            }
            Event::Notify(_) => {
                vm.worker.borrow_mut().receive(now, port);
                self.release(index);
            }
            Event::Tick(_) => {
                if vm.tick_at.get().is_none_or(|at| at > now) {
                    return;
                }
                vm.tick_at.set(None);
                vm.worker.borrow_mut().tick(now, port);
                self.release(index);
            }
            Event::Die(_) => {
                vm.alive.set(false);
                for (number, request) in self.requests.iter().enumerate() {
                    let mut fates = self.fates.borrow_mut();
                    if request.worker == index && request.at <= now && fates[number].is_empty() {
                        fates[number].push(Fate::Lost);
                    }
                }
                return;
            }
        }
        self.set_tick(index);
    }

    fn release(&self, index: usize) {
        let port = &mut Port { sim: self, index };
        let ready = self.vms[index]
            .worker
            .borrow_mut()
            .take_ready(MOST_RELEASES, port);
        let at = self.now.get();
        for release in ready {
            let Release {
                stream,
                decision,
                listed,
                window,
                ..
            } = release;
            let replica = decision
                .replica()
                .map(|index| listed.names[index as usize].clone());
            let fate = &mut self.fates.borrow_mut()[stream as usize];
            // A stream that has ended cannot be resumed, and the filter skips it.
            if fate.last() != Some(&Fate::Left) {
                fate.push(Fate::Released {
                    at,
                    decision,
                    replica,
                    window,
                });
                let lasts = self.requests[stream as usize].lasts;
                self.plan(at.plus(lasts), Event::End(stream as usize));
            }
        }
    }

    fn set_tick(&self, index: usize) {
        let vm = &self.vms[index];
        let wake_at = vm.worker.borrow_mut().wake_at(self.now.get());
        if wake_at != vm.tick_at.get() {
            vm.tick_at.set(wake_at);
            if let Some(at) = wake_at {
                let late = self.late(self.faults.late_ticks);
                self.plan(at.max(self.now.get()).plus(late), Event::Tick(index));
            }
        }
    }

    fn one_in(&self, count: u32) -> bool {
        count > 0 && self.rng.borrow_mut().u32(..count) == 0
    }
}

/// What one worker sees of the fabric.
struct Port<'a> {
    sim: &'a Sim,
    index: usize,
}

impl Shared for Port<'_> {
    fn read(&mut self, cell: workers::Cell) -> Stored {
        let fabric = self.sim.fabric.borrow();
        fabric
            .cells
            .get(&cell)
            .map_or_else(Stored::default, |(value, version)| Stored {
                value: Some(value.clone()),
                version: Some(*version),
            })
    }

    fn write(
        &mut self,
        cell: workers::Cell,
        value: &[u8],
        seen: Option<u32>,
    ) -> Result<(), Refused> {
        self.sim.interleave();
        if self.sim.one_in(self.sim.faults.refuse_one_in) {
            return Err(Refused);
        }
        let mut fabric = self.sim.fabric.borrow_mut();
        if fabric.cells.get(&cell).map(|(_, version)| *version) != seen {
            return Err(Refused);
        }
        fabric.version += 1;
        let version = fabric.version;
        fabric.cells.insert(cell, (value.to_vec(), version));
        if matches!(cell, workers::Cell::Window(_))
            && let Some(request) = self.sim.vms[self.index].arriving.take()
        {
            self.sim.joined.borrow_mut().push(request);
        }
        Ok(())
    }

    fn listen(&mut self, slot: Slot) -> Result<(), Refused> {
        let mut fabric = self.sim.fabric.borrow_mut();
        fabric.queues.entry(slot).or_default().0 = self.index;
        self.sim.vms[self.index].queue.set(Some(slot));
        Ok(())
    }

    fn send(&mut self, slot: Slot, message: &[u8]) -> Result<(), Refused> {
        if self.sim.one_in(self.sim.faults.lose_one_in) {
            return Ok(());
        }
        let receiver = {
            let mut fabric = self.sim.fabric.borrow_mut();
            let (receiver, queue) = fabric.queues.get_mut(&slot).ok_or(Refused)?;
            queue.push_back(message.to_vec());
            *receiver
        };
        let late = self.sim.late(self.sim.faults.late_messages);
        let at = self.sim.now.get().plus(late);
        self.sim.plan(at, Event::Notify(receiver));
        self.sim.interleave();
        Ok(())
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let slot = self.sim.vms[self.index].queue.get()?;
        let mut fabric = self.sim.fabric.borrow_mut();
        fabric.queues.get_mut(&slot)?.1.pop_front()
    }
}
