//! Any bytes on a worker's queue and in the shared cells: shared data outlives a VM, and nobody
//! knows who wrote it. Requests come out all the same, each once and in time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use burst_prefix_cache::memory::replica_hash;
use burst_prefix_cache::placement::{BalanceBy, Rules};
use burst_prefix_cache::replicas::Source;
use burst_prefix_cache::window::{Arrival, Request, Settings, StreamId, Worker};
use burst_prefix_cache::workers::{BUCKETS, Cell, Moment, Refused, Shared, Slot, Stored};
use proptest::prelude::*;
use proptest::sample::Index;
use serde::Serialize;

use crate::cases;
use crate::mutate::{Change, changed, changes};

const WINDOW: Duration = Duration::from_millis(20);
const PROMISE: Duration = Duration::from_millis(300);
const WORKERS: usize = 2;
/// The window of the one pool that there is: the lane of its empty name.
const WINDOW_CELL: Cell = Cell::Window(0x4c2);
const START: Moment = Moment(1_000_000_000);

/// The shared state, in which anybody may write anything.
#[derive(Default)]
struct Fabric {
    cells: HashMap<Cell, (Vec<u8>, u32)>,
    queues: HashMap<Slot, VecDeque<Vec<u8>>>,
    version: u32,
    /// All that was ever sent.
    sent: Vec<Vec<u8>>,
}

impl Fabric {
    fn put(&mut self, cell: Cell, value: Vec<u8>) {
        self.version += 1;
        self.cells.insert(cell, (value, self.version));
    }
}

/// What one worker sees of it.
struct Port<'a> {
    fabric: &'a mut Fabric,
    own: &'a mut Option<Slot>,
}

impl Shared for Port<'_> {
    fn read(&mut self, cell: Cell) -> Stored {
        let stored = self.fabric.cells.get(&cell);
        stored.map_or_else(Stored::default, |(value, version)| Stored {
            value: Some(value.clone()),
            version: Some(*version),
        })
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        if self.fabric.cells.get(&cell).map(|(_, version)| *version) != seen {
            return Err(Refused);
        }
        self.fabric.put(cell, value.to_vec());
        Ok(())
    }

    fn listen(&mut self, slot: Slot) -> Result<(), Refused> {
        *self.own = Some(slot);
        self.fabric.queues.entry(slot).or_default();
        Ok(())
    }

    fn send(&mut self, slot: Slot, message: &[u8]) -> Result<(), Refused> {
        self.fabric.sent.push(message.to_vec());
        let queue = self.fabric.queues.get_mut(&slot).ok_or(Refused)?;
        queue.push_back(message.to_vec());
        Ok(())
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.fabric.queues.get_mut(&(*self.own)?)?.pop_front()
    }
}

/// What happens, at which worker or on whose queue.
#[derive(Debug, Clone)]
enum Event {
    Arrive(usize, Vec<u64>),
    Leave(Index),
    Receive(usize),
    /// The clock goes on; ticks that are due come.
    Later(u64),
    /// Bytes on a queue.
    Junk(Slot, Vec<u8>),
    /// A message that was sent before, nearly.
    Again(Slot, Index, Vec<Change>),
    Cell(Cell, Vec<u8>),
    /// A cell as it is, nearly.
    Change(Cell, Vec<Change>),
}

fn bytes(value: impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(&value).unwrap()
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..4_u64, 1 => any::<u64>()]
}

fn any_index() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..6_u32, 1 => 0..1_u32 << 24, 1 => any::<u32>()]
}

/// A moment of the schedule, or any.
fn any_moment() -> impl Strategy<Value = u64> {
    let millis = (0..500_u64).prop_map(|millis| START.plus(Duration::from_millis(millis)).0);
    prop_oneof![4 => millis, 1 => any::<u64>()]
}

/// Bytes that are messages in all but their sense: addressed, of each kind, with any fields.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let numbers = (any_number(), any_window(), any_number(), any_moment());
    let indexes = (any_index(), any_index(), 0..4_u16);
    let blocks = prop::collection::vec(any_number(), 0..6);
    let hints = (
        prop::option::of(any_index()),
        prop::option::of(any_number()),
        prop::option::of(1..6_u32),
    );
    let decision = (0..6_u32, any_index(), any_index());
    let answers = prop::collection::vec((any_index(), decision, any_index(), any_number()), 0..4);
    (numbers, indexes, blocks, hints, answers, 0..6_u32).prop_map(
        |((to, window, sender, at), (index, stream, slot), blocks, hints, answers, kind)| {
            let from = (slot, sender);
            let mut message = bytes((to, kind, window));
            match kind {
                0 => {
                    let (sealed, group, size) = hints;
                    message.extend(bytes((index, from, stream, at, sealed)));
                    message.extend(bytes(("", None::<Vec<String>>, blocks, stream % 2 == 0)));
                    message.extend(bytes((index, group, size)));
                }
                1 => message.extend(bytes(index)),
                2 => {
                    let names = [("10.0.0.1:8000", "10.0.0.9:1", true)];
                    message.extend(bytes((from, index)));
                    message.extend(bytes((names.len(), 2, names[0].0, names[0].1, true)));
                    message.extend(bytes(answers.len()));
                    for (stream, (decision, replica, group), list, charge) in answers {
                        message.extend(bytes((stream, decision)));
                        if decision < 2 {
                            message.extend(bytes((replica, group)));
                        }
                        message.extend(bytes((list, charge)));
                    }
                }
                _ => {}
            }
            message
        },
    )
}

/// Ids of windows, mostly of the lane that is used.
fn any_window() -> impl Strategy<Value = u64> {
    let of_lane = (0..4_u64).prop_map(|number| number * 64 + 2);
    prop_oneof![4 => of_lane, 1 => any::<u64>()]
}

/// Bytes that are the load of a worker in all but their sense.
fn any_load() -> impl Strategy<Value = Vec<u8>> {
    let replica = || prop_oneof![Just(replica_hash("10.0.0.1:8000")), any::<u64>()];
    let sums = || prop::collection::vec((replica(), any_index(), any_number()), 0..4);
    let lately = prop::collection::vec((replica(), any::<(f32, f32, f32, f32)>()), 0..4);
    let parcels = prop::collection::vec((any_number(), any_number(), any_moment(), sums()), 0..3);
    let heard = prop::collection::vec((any_number(), any_number()), 0..4);
    (any_number(), any_moment(), sums(), lately, parcels, heard).prop_map(bytes)
}

fn any_record() -> impl Strategy<Value = Vec<u8>> {
    let owner = (0..4_u16, any_number());
    let sealed = prop::collection::vec((any_window(), any_index()), 0..3);
    let counts = (any_index(), any_index(), any_moment(), sealed);
    (any_window(), any::<bool>(), owner, any_moment(), counts).prop_map(bytes)
}

fn any_slots() -> impl Strategy<Value = Vec<u8>> {
    let leases = prop::collection::vec((any_number(), any_moment()), 0..5);
    (any_number(), leases).prop_map(bytes)
}

fn any_event() -> impl Strategy<Value = Event> {
    let worker = || 0..WORKERS;
    let slot = || 0..3_u16;
    let cells: &[Cell] = &[WINDOW_CELL, Cell::Slots, Cell::Load(0), Cell::Load(1)];
    let cell = move || {
        prop_oneof![
            prop::sample::select(cells),
            (0..BUCKETS).prop_map(Cell::Memory)
        ]
    };
    let junk = || prop::collection::vec(any::<u8>(), 0..60);
    prop_oneof![
        6 => (worker(), prop::collection::vec(0..3_u64, 0..4))
            .prop_map(|(worker, blocks)| Event::Arrive(worker, blocks)),
        1 => any::<Index>().prop_map(Event::Leave),
        3 => worker().prop_map(Event::Receive),
        3 => (0..40_u64).prop_map(Event::Later),
        1 => (0..100_000_u64).prop_map(Event::Later),
        1 => (slot(), junk()).prop_map(|(slot, bytes)| Event::Junk(slot, bytes)),
        5 => (slot(), any_message()).prop_map(|(slot, bytes)| Event::Junk(slot, bytes)),
        3 => (slot(), any::<Index>(), changes())
            .prop_map(|(slot, which, changes)| Event::Again(slot, which, changes)),
        1 => (cell(), junk()).prop_map(|(cell, bytes)| Event::Cell(cell, bytes)),
        2 => any_record().prop_map(|bytes| Event::Cell(WINDOW_CELL, bytes)),
        1 => any_slots().prop_map(|bytes| Event::Cell(Cell::Slots, bytes)),
        2 => (slot(), any_load()).prop_map(|(slot, bytes)| Event::Cell(Cell::Load(slot), bytes)),
        2 => (cell(), changes()).prop_map(|(cell, changes)| Event::Change(cell, changes)),
    ]
}

/// The workers, and what became of their requests.
struct World {
    now: Moment,
    fabric: Fabric,
    workers: Vec<(Worker, Option<Slot>)>,
    arrived_at: Vec<Moment>,
    waiting: HashSet<(usize, StreamId)>,
    /// Requests that went on, whose replicas have not answered.
    under_way: Vec<(usize, StreamId)>,
}

impl World {
    fn new(remembers: bool, hold: bool, seal: bool) -> Self {
        let memory = Duration::from_secs(u64::from(remembers || !hold));
        let settings = Settings {
            window: WINDOW,
            quiet: seal.then_some(Duration::from_millis(7)),
            max_batch: seal.then_some(NonZeroU32::MIN.saturating_add(2)),
            seal,
            hold,
            memory,
            rules: Rules {
                max_per_replica: None,
                min_colocate_blocks: 0,
                balance_by: BalanceBy::Requests,
            },
            source: Source::Static(vec!["10.0.0.1:8000".into(), "10.0.0.2:8000".into()]),
        };
        let worker = |_| (Worker::new(settings.clone()), None);
        Self {
            now: START,
            fabric: Fabric::default(),
            workers: (0..WORKERS).map(worker).collect(),
            arrived_at: Vec::new(),
            waiting: HashSet::new(),
            under_way: Vec::new(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(worker, blocks) => {
                let stream = StreamId::try_from(self.arrived_at.len()).unwrap();
                self.arrived_at.push(self.now);
                let arrival = self.act(worker, |worker, now, port| {
                    let request = Request {
                        blocks,
                        weight: 1,
                        ..Request::default()
                    };
                    worker.arrive(now, stream, request, port)
                });
                if arrival == Arrival::Held {
                    self.waiting.insert((worker, stream));
                } else {
                    self.under_way.push((worker, stream));
                }
                self.release(worker);
            }
            Event::Leave(which) => {
                let mut waiting: Vec<_> = self.waiting.iter().copied().collect();
                waiting.sort_unstable();
                if !waiting.is_empty() {
                    let (worker, stream) = *which.get(&waiting);
                    self.act(worker, |worker, now, port| worker.gone(now, stream, port));
                    self.waiting.remove(&(worker, stream));
                }
            }
            Event::Receive(worker) => self.receive(worker),
            Event::Later(millis) => {
                let until = self.now.plus(Duration::from_millis(millis));
                while let Some(next) = self.next_tick().filter(|next| *next <= until) {
                    self.now = next;
                    self.tick();
                }
                self.now = until;
            }
            Event::Junk(slot, bytes) => self.junk(slot, bytes),
            Event::Again(slot, which, changes) => {
                if !self.fabric.sent.is_empty() {
                    let message = which.get(&self.fabric.sent).clone();
                    self.junk(slot, changed(message, &changes));
                }
            }
            Event::Cell(cell, bytes) => self.fabric.put(cell, bytes),
            Event::Change(cell, changes) => {
                if let Some((value, _)) = self.fabric.cells.get(&cell) {
                    let value = changed(value.clone(), &changes);
                    self.fabric.put(cell, value);
                }
            }
        }
    }

    fn act<T>(
        &mut self,
        worker: usize,
        act: impl FnOnce(&mut Worker, Moment, &mut Port<'_>) -> T,
    ) -> T {
        let (worker, own) = &mut self.workers[worker];
        let fabric = &mut self.fabric;
        act(worker, self.now, &mut Port { fabric, own })
    }

    fn junk(&mut self, slot: Slot, bytes: Vec<u8>) {
        if let Some(queue) = self.fabric.queues.get_mut(&slot) {
            queue.push_back(bytes);
        }
    }

    fn receive(&mut self, worker: usize) {
        self.act(worker, |worker, now, port| worker.receive(now, port));
        self.release(worker);
    }

    /// What the filter does after each callback: it releases what is ready.
    fn release(&mut self, worker: usize) {
        let ready = self.act(worker, |worker, _, port| worker.take_ready(64, port));
        for release in ready {
            let stream = release.stream;
            let waited = self.now.since(self.arrived_at[stream as usize]);
            assert!(
                self.waiting.remove(&(worker, stream)),
                "{stream} released twice"
            );
            assert!(waited <= WINDOW + PROMISE, "{stream} waited {waited:?}");
            self.under_way.push((worker, stream));
        }
    }

    /// When the next tick is due: no earlier than in a millisecond, as in Envoy.
    fn next_tick(&mut self) -> Option<Moment> {
        let now = self.now;
        let soon = now.plus(Duration::from_millis(1));
        let wake_at = self
            .workers
            .iter_mut()
            .filter_map(|(worker, _)| worker.wake_at(now));
        Some(wake_at.min()?.max(soon))
    }

    fn tick(&mut self) {
        for worker in 0..WORKERS {
            let now = self.now;
            if self.workers[worker]
                .0
                .wake_at(now)
                .is_some_and(|at| at <= now)
            {
                self.act(worker, |worker, now, port| worker.tick(now, port));
                self.release(worker);
            }
        }
    }

    /// Nothing comes any more: all that waits comes out, and then nobody ticks.
    fn end(&mut self) {
        for ticks in 0.. {
            for worker in 0..WORKERS {
                self.receive(worker);
            }
            for (worker, stream) in std::mem::take(&mut self.under_way) {
                self.act(worker, |worker, now, port| worker.ended(now, stream, port));
            }
            let Some(next) = self.next_tick() else {
                break;
            };
            assert!(ticks < 1000, "the ticks do not end");
            self.now = next;
            self.tick();
        }
        assert_eq!(self.waiting, HashSet::new(), "some wait for ever");
        let in_flight: usize = self.workers.iter().map(|(w, _)| w.in_flight()).sum();
        assert_eq!(in_flight, 0, "a load stays for ever");
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn requests_come_out_whatever_stands_in_queues_and_cells(
        events in prop::collection::vec(any_event(), 0..60),
        remembers in any::<bool>(),
        hold in prop::bool::weighted(0.8),
        seal in any::<bool>(),
    ) {
        let mut world = World::new(remembers, hold, seal);
        for event in events {
            world.happen(event);
        }
        world.end();
    }
}
