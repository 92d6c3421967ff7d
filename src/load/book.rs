//! The requests of one worker that a replica has not finished.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::ReplicaHash;
use super::sheet::{BEAT, Lately, ON_ITS_WAY, Parcel, Sheet, Sum};
use crate::workers::{Cell, Moment, Shared, WorkerId};

/// Id of a stream in a worker's VM.
type StreamId = u32;

/// The most other workers of which the last message is kept.
const MOST_HEARD: usize = 64;

/// What a request brings to the replica that it was placed on, beside itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placed {
    /// Its load, in what the rules balance by.
    pub charge: u64,
    /// Whether a unit begins with it.
    pub begins: bool,
    /// Its place among the samples of its unit, from 1.
    pub place: u64,
    /// The samples that are expected to follow a first request; negative for one that was
    /// expected.
    pub reserves: i64,
}

/// One worker's account.
#[derive(Debug)]
pub struct Book {
    /// After which half of a load placed lately has faded; none = it is not kept.
    half_life: Option<Duration>,
    streams: HashMap<StreamId, (ReplicaHash, Sum)>,
    in_flight: BTreeMap<ReplicaHash, Sum>,
    /// As of `lately_at`.
    lately: BTreeMap<ReplicaHash, Lately>,
    lately_at: Moment,
    on_their_way: Vec<Parcel>,
    /// The number of the last message to each other worker.
    sent: BTreeMap<u64, u64>,
    heard: BTreeMap<u64, u64>,
    written_at: Moment,
    is_written: bool,
    /// When it was last time to look at what all workers have.
    looked_at: Moment,
}

impl Book {
    /// An empty book. `half_life`: how fast the load placed lately fades; none where it does not
    /// count at all.
    #[must_use]
    pub fn new(half_life: Option<Duration>) -> Self {
        Self {
            half_life,
            streams: HashMap::new(),
            in_flight: BTreeMap::new(),
            lately: BTreeMap::new(),
            lately_at: Moment::default(),
            on_their_way: Vec::new(),
            sent: BTreeMap::new(),
            heard: BTreeMap::new(),
            written_at: Moment::default(),
            is_written: true,
            looked_at: Moment::default(),
        }
    }

    /// After which half of a load placed lately has faded.
    #[must_use]
    pub fn half_life(&self) -> Option<Duration> {
        self.half_life
    }

    /// A request goes to a replica, with this load.
    pub fn begin(&mut self, stream: StreamId, replica: ReplicaHash, charge: u64) {
        self.end(stream);
        let requests = 1;
        let sum = Sum { requests, charge };
        self.streams.insert(stream, (replica, sum));
        self.in_flight.entry(replica).or_default().add(sum);
        self.is_written = false;
    }

    /// A request is over. Nothing happens where it went to no replica that is known.
    pub fn end(&mut self, stream: StreamId) {
        let Some((replica, sum)) = self.streams.remove(&stream) else {
            return;
        };
        if let Some(of_replica) = self.in_flight.get_mut(&replica) {
            of_replica.take(sum);
            if of_replica.requests == 0 {
                self.in_flight.remove(&replica);
            }
        }
        self.is_written = false;
    }

    /// This worker placed a request on a replica just now, for whichever worker.
    pub fn placed(&mut self, now: Moment, replica: ReplicaHash, placed: Placed) {
        if self.half_life.is_some() {
            self.fade(now);
            self.lately.entry(replica).or_default().add(Lately {
                charge: placed.charge as f32,
                begun: f32::from(u8::from(placed.begins)),
                places: placed.charge as f32 * (placed.place.max(1) as f32).ln(),
                reserved: placed.reserves as f32,
            });
            self.is_written = false;
        }
    }

    /// The number of the next message to another worker that tells of these requests, by replica
    /// and load.
    pub fn send(
        &mut self,
        now: Moment,
        to: WorkerId,
        requests: impl Iterator<Item = (ReplicaHash, u64)>,
    ) -> u64 {
        let mut sums: BTreeMap<ReplicaHash, Sum> = BTreeMap::new();
        for (replica, charge) in requests {
            let requests = 1;
            sums.entry(replica)
                .or_default()
                .add(Sum { requests, charge });
        }
        self.on_their_way
            .retain(|parcel| now.since(parcel.at) < ON_ITS_WAY);
        let number = self.sent.entry(to.incarnation).or_default();
        *number += 1;
        let number = *number;
        bound(&mut self.sent);
        if !sums.is_empty() {
            self.on_their_way.push(Parcel {
                to: to.incarnation,
                number,
                at: now,
                sums: sums.into_iter().collect(),
            });
            self.is_written = false;
        }
        number
    }

    /// A message of another worker has come.
    pub fn hear(&mut self, from: u64, number: u64) {
        let heard = self.heard.entry(from).or_default();
        *heard = number.max(*heard);
        bound(&mut self.heard);
        self.is_written = false;
    }

    /// The number of requests that no replica has finished.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.streams.len()
    }

    /// When the sheet must be renewed, or what was refused tried again; none where nothing is in
    /// flight, and everybody knows.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        let told = self.streams.is_empty() && self.is_written;
        (!told).then(|| self.written_at.plus(BEAT))
    }

    /// Tells the others what has changed, if anything has, or if it is time to say so again. True
    /// from beat to beat, and where nothing is in flight any more: then it is time to look at what
    /// all have.
    pub fn publish(&mut self, now: Moment, me: WorkerId, shared: &mut dyn Shared) -> bool {
        let beat = self.written_at.plus(BEAT) <= now && !self.streams.is_empty();
        if self.is_written && !beat {
            return false;
        }
        let sheet = self.sheet(now, me.incarnation);
        let cell = Cell::Load(me.slot);
        let Ok(bytes) = postcard::to_allocvec(&sheet) else {
            return false;
        };
        // Nobody else writes it, but an earlier holder of the slot that is not quite dead. What is
        // refused is told the next time.
        let seen = shared.read(cell).version;
        self.is_written = shared.write(cell, &bytes, seen).is_ok();
        self.written_at = now;
        let looks = self.looked_at.plus(BEAT) <= now || self.streams.is_empty();
        if looks {
            self.looked_at = now;
        }
        looks
    }

    /// What the others are told.
    pub(super) fn sheet(&mut self, now: Moment, incarnation: u64) -> Sheet {
        self.fade(now);
        Sheet {
            incarnation,
            written_at: now,
            in_flight: self.in_flight.iter().map(|(r, sum)| (*r, *sum)).collect(),
            lately: self.lately.iter().map(|(r, load)| (*r, *load)).collect(),
            on_their_way: self.on_their_way.clone(),
            heard: self.heard.iter().map(|(w, n)| (*w, *n)).collect(),
        }
    }

    fn fade(&mut self, now: Moment) {
        let Some(half_life) = self.half_life else {
            return;
        };
        let age = now.since(self.lately_at);
        self.lately_at = now;
        for load in self.lately.values_mut() {
            *load = load.faded(age, half_life);
        }
        self.lately.retain(|_, load| !load.is_over());
    }
}

/// Forgets the workers that came first, where there are too many.
fn bound(workers: &mut BTreeMap<u64, u64>) {
    while workers.len() > MOST_HEARD {
        workers.pop_first();
    }
}
