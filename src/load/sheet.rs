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
    /// The load placed lately, as of `written_at`; each replica once.
    pub(super) lately: Vec<(ReplicaHash, f32)>,
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

/// What is left of a load that was placed `age` ago.
pub(super) fn faded(load: f32, age: Duration, half_life: Duration) -> f32 {
    let halves = age.as_secs_f32() / half_life.as_secs_f32().max(0.001);
    // A junk sheet may say anything.
    let left = load * (-halves).exp2();
    if left.is_finite() && left > 0.0 {
        left
    } else {
        0.0
    }
}
