//! The load of all workers together.

use std::collections::HashMap;

use super::sheet::{ON_ITS_WAY, STALE, Sheet, Sum, faded};
use super::{Book, ReplicaHash};
use crate::workers::{Cell, Moment, Shared, WorkerId, leased};

/// What the filter knows of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Carried {
    /// Requests that the filter sent there and has not seen end.
    pub requests: u32,
    /// Their load, in what the rules balance by.
    pub charge: u64,
    /// The load placed there lately, faded.
    pub lately: f32,
}

impl Carried {
    /// The load that a placement starts from: what is in flight, or what was placed lately,
    /// whichever is more.
    #[must_use]
    pub fn load(self) -> u64 {
        self.charge.max(self.lately.round() as u64)
    }
}

/// The load of all workers together, at one moment.
#[derive(Debug, Default)]
pub struct Total(HashMap<ReplicaHash, Carried>);

impl Total {
    /// Sums up this worker's book and the sheets of the others.
    #[must_use]
    pub fn read(
        now: Moment,
        book: &mut Book,
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Self {
        let half_life = book.half_life();
        let mine = me.map_or(0, |me| me.incarnation);
        let mut sheets = vec![book.sheet(now, mine)];
        for worker in leased(shared) {
            if Some(worker) == me {
                continue;
            }
            let stored = shared.read(Cell::Load(worker.slot)).value;
            let sheet = stored.and_then(|bytes| postcard::from_bytes::<Sheet>(&bytes).ok());
            sheets.extend(sheet.filter(|sheet| sheet.incarnation == worker.incarnation));
        }
        let mut total = Self::default();
        for sheet in &sheets {
            let age = now.since(sheet.written_at);
            if let Some(half_life) = half_life {
                for (replica, load) in &sheet.lately {
                    total.of_mut(*replica).lately += faded(*load, age, half_life);
                }
            }
            if age > STALE {
                continue;
            }
            for (replica, sum) in &sheet.in_flight {
                total.add(*replica, *sum);
            }
            for parcel in &sheet.on_their_way {
                let receiver = sheets.iter().find(|sheet| sheet.incarnation == parcel.to);
                let arrived = receiver
                    .is_some_and(|receiver| receiver.has_heard(sheet.incarnation, parcel.number));
                if !arrived && now.since(parcel.at) < ON_ITS_WAY {
                    for (replica, sum) in &parcel.sums {
                        total.add(*replica, *sum);
                    }
                }
            }
        }
        total
    }

    /// What is known of one replica.
    #[must_use]
    pub fn of(&self, replica: ReplicaHash) -> Carried {
        self.0.get(&replica).copied().unwrap_or_default()
    }

    fn of_mut(&mut self, replica: ReplicaHash) -> &mut Carried {
        self.0.entry(replica).or_default()
    }

    fn add(&mut self, replica: ReplicaHash, sum: Sum) {
        let of_replica = self.of_mut(replica);
        of_replica.requests = of_replica.requests.saturating_add(sum.requests);
        of_replica.charge = of_replica.charge.saturating_add(sum.charge);
    }
}
