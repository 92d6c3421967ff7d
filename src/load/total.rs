//! The load of all workers together.

use std::collections::HashMap;

use super::sheet::{Lately, ON_ITS_WAY, STALE, Sheet, Sum};
use super::{Book, ReplicaHash};
use crate::workers::{Cell, Moment, Shared, WorkerId, leased};

/// What the filter knows of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Carried {
    /// Requests that the filter sent there and has not seen end.
    pub requests: u32,
    /// Their load, in what the rules balance by.
    pub charge: u64,
    lately: Lately,
}

/// The load of all workers together, at one moment.
#[derive(Debug, Default)]
pub struct Total {
    of: HashMap<ReplicaHash, Carried>,
    /// What was placed lately on all of them.
    lately: Lately,
}

/// The samples that a unit is expected to have as long as few have been seen; and as how many
/// seen ones this counts. Eight samples a prompt are what a rollout step usually has.
const USUAL: (f32, f32) = (8.0, 64.0);

/// No unit is expected to have more, whatever a sheet says.
const MOST_EXPECTED: f32 = 100_000.0;

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
                    let load = load.faded(age, half_life);
                    total.of_mut(*replica).lately.add(load);
                    total.lately.add(load);
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
        self.of.get(&replica).copied().unwrap_or_default()
    }

    /// The load that a placement starts from: what is in flight, or what was placed there lately,
    /// if that is more, since requests may be over as soon as they begin; and what is still
    /// expected of the units there.
    #[must_use]
    pub fn load(&self, replica: ReplicaHash) -> u64 {
        let of_replica = self.of(replica);
        let lately = of_replica.lately;
        let placed = of_replica.charge.max(lately.charge.round() as u64);
        placed.saturating_add(lately.reserved.max(0.0).round() as u64)
    }

    /// The samples that a unit is expected to have in the end. It is the mean of the units lately,
    /// which says too little while they are coming in; or, if that is more, what the places of
    /// their samples tell: among 1 to n the mean is n / e, by logarithms, so that one endless unit
    /// does not speak for all.
    #[must_use]
    pub fn expected(&self) -> u64 {
        let Lately {
            charge,
            begun,
            places,
            ..
        } = self.lately;
        let (samples, units) = USUAL;
        let mean = (charge + samples * units) / (begun + units);
        let place = (places / charge.max(1.0)).exp();
        let by_places = std::f32::consts::E * (place - 1.0) + 1.0;
        mean.max(by_places).round().clamp(1.0, MOST_EXPECTED) as u64
    }

    /// Requests in flight on all replicas.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.of.values().map(|of| u64::from(of.requests)).sum()
    }

    fn of_mut(&mut self, replica: ReplicaHash) -> &mut Carried {
        self.of.entry(replica).or_default()
    }

    fn add(&mut self, replica: ReplicaHash, sum: Sum) {
        let of_replica = self.of_mut(replica);
        of_replica.requests = of_replica.requests.saturating_add(sum.requests);
        of_replica.charge = of_replica.charge.saturating_add(sum.charge);
    }
}
