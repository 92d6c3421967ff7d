//! What one worker tells the others of its load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ReplicaHash;
use crate::workers::Moment;

/// A worker with requests in flight renews its sheet this often.
pub const BEAT: Duration = Duration::from_millis(500);
/// What is in flight by a sheet older than this does not count: its worker is dead.
pub const STALE: Duration = Duration::from_millis(2000);
/// What was placed for another worker counts as on its way for this long, at most.
pub(super) const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// Requests, and the load that they bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) requests: u32,
    /// In what the rules balance by.
    pub(super) charge: u64,
}

impl Sum {
    pub(super) fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.charge = self.charge.saturating_add(other.charge);
    }

    pub(super) fn take(&mut self, other: Self) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.charge = self.charge.saturating_sub(other.charge);
    }
}

/// What was placed on a replica lately, and fades.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Lately {
    /// The load.
    pub(super) charge: f32,
    /// Units that began there.
    pub(super) begun: f32,
    /// The logarithm of each sample's place in its unit, from 1, added up.
    pub(super) places: f32,
    /// The samples that are still expected of the units there. Of one worker it may be negative:
    /// one begins a unit, and others see its samples come.
    pub(super) reserved: f32,
}

impl Lately {
    /// What is left of it after `age`.
    pub(super) fn faded(self, age: Duration, half_life: Duration) -> Self {
        let halves = age.as_secs_f32() / half_life.as_secs_f32().max(0.001);
        let left = (-halves).exp2();
        // A junk sheet may say anything.
        let sane = |value: f32| if value.abs() < 1e12 { value } else { 0.0 };
        Self {
            charge: sane(self.charge * left).max(0.0),
            begun: sane(self.begun * left).max(0.0),
            places: sane(self.places * left).max(0.0),
            reserved: sane(self.reserved * left),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.charge += other.charge;
        self.begun += other.begun;
        self.places += other.places;
        self.reserved += other.reserved;
    }

    /// Whether it has faded to nothing that counts.
    pub(super) fn is_over(self) -> bool {
        const NOTHING: f32 = 0.05;
        self.charge < NOTHING && self.begun < NOTHING && self.reserved.abs() < NOTHING
    }
}

/// What an owner placed for another worker, in one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Parcel {
    /// The other worker's incarnation.
    pub(super) to: u64,
    /// The number of the message, counted for each receiver.
    pub(super) number: u64,
    pub(super) at: Moment,
    pub(super) sums: Vec<(ReplicaHash, Sum)>,
}

/// A worker's load, as it stands in its cell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Sheet {
    pub(super) incarnation: u64,
    pub(super) written_at: Moment,
    /// Each replica once.
    pub(super) in_flight: Vec<(ReplicaHash, Sum)>,
    /// What was placed lately, as of `written_at`; each replica once.
    pub(super) lately: Vec<(ReplicaHash, Lately)>,
    pub(super) on_their_way: Vec<Parcel>,
    /// The last message heard of each other worker, by its incarnation.
    pub(super) heard: Vec<(u64, u64)>,
}

impl Sheet {
    pub(super) fn has_heard(&self, from: u64, number: u64) -> bool {
        let mut of = self.heard.iter().filter(|(worker, _)| *worker == from);
        of.any(|(_, heard)| *heard >= number)
    }
}
