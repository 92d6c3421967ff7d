//! The window: one for all of Envoy's workers, without a leader.
//!
//! Every worker thread of Envoy runs the filter in a VM of its own, and a burst comes in over
//! all of them. So the window is a record in a cell that all workers share:
//!
//! 1. A request **joins** by compare-and-swap on that record, which counts the members. Who finds
//!    no open window opens one and **owns** it. The record's count gives each member its index,
//!    which is the order of arrival, and says to the last request whether the batch is full.
//! 2. Whoever joined tells the owner, over the owner's queue, its block hashes.
//! 3. When its time is up the owner **closes** the record, again by compare-and-swap; or earlier,
//!    when nobody has joined for the quiet period, or when all groups are there whose clients say
//!    how many they are. Whoever fills it closes it too, where full windows are sealed. From then
//!    on the owner knows how many joined, and waits for what is still on its way (microseconds; a
//!    bound of [`GRACE`] stands for a worker that died between 1 and 2).
//! 4. The owner places all members jointly and **answers** each worker once, over its queue.
//! 5. Each worker **releases** its own requests, a bounded number in one go.
//!
//! Each pool of replicas has a window of its own, in one of [`LANES`](crate::workers::LANES)
//! records; should two pools share one they are still placed apart.
//!
//! A request whose unit is remembered does not join: it is decided when it arrives, and so are all
//! where nobody is held ([`crate::picker`]).
//!
//! A request that leaves is withdrawn from the count and at the owner.
//!
//! **An owner that dies** leaves requests without an answer. Each worker guards its own: a
//! request that was not answered [`RESCUE_AFTER`] its window should have closed is offered again,
//! as if it had just come, in a window that closes [`RESCUE_WINDOW`] later. Because they all wait
//! for the same moment, the survivors meet there. A record whose owner is overdue by [`OVERDUE`]
//! counts as closed. What has no answer [`GIVE_UP`] after its window's time is released without
//! affinity. An answer counts only for the window in which the request last was, so none is
//! released twice.
//!
//! This room knows no proxy and no clock: [`Worker`] is told the time, speaks to the others
//! through [`Shared`](crate::workers::Shared), and hands out what is to be released.

mod groups;
mod guards;
mod message;
mod owned;
mod owner;
mod record;
mod seats;
mod worker;

pub use crate::picker::{Decision, Listed, Request};
pub use message::StreamId;
pub use worker::Worker;

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use crate::placement::Rules;
use crate::replicas::Source;
use crate::workers::Moment;

/// How long the owner of a closed window waits for members that are still on their way.
pub const GRACE: Duration = Duration::from_millis(50);
/// An open window whose closing is overdue by this much has lost its owner.
pub const OVERDUE: Duration = Duration::from_millis(60);
/// A request without an answer this long after its window's closing time is offered again. Later
/// than [`OVERDUE`], so that a rescue never joins the window that it flees from.
pub const RESCUE_AFTER: Duration = Duration::from_millis(100);
/// How long the window of rescued requests stays open: long enough for all workers' ticks.
pub const RESCUE_WINDOW: Duration = Duration::from_millis(30);
/// A request is released without affinity when its window's length and this are over. The
/// promise is 300 ms; what is left is for a late tick.
pub const GIVE_UP: Duration = Duration::from_millis(250);

/// What all workers of a window agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a window stays open, at most.
    pub window: Duration,
    /// A window closes earlier when nobody has joined for this long.
    pub quiet: Option<Duration>,
    /// The most members of a window; none = no bound.
    pub max_batch: Option<NonZeroU32>,
    /// A full window closes at once, instead of turning requests away.
    pub seal: bool,
    /// Whether requests are held at all; if not, `memory` must not be zero.
    pub hold: bool,
    /// How long a placed unit is remembered; zero = not at all.
    pub memory: Duration,
    /// How a window is placed.
    pub rules: Rules,
    /// Where the replicas are known from.
    pub source: Source,
}

/// What became of a request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// It waits; it comes out of [`Worker::take_ready`] exactly once, unless it leaves before.
    Held,
    /// It need not wait: pass it on at once, to the replica of the decision if there is one.
    Decided(Decision, Rc<Listed>),
    /// The window has as many members as it may: pass it on at once.
    BatchFull(Rc<Listed>),
    /// The shared state could not be used: pass it on at once.
    Unavailable,
}

/// A request to release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The stream to resume.
    pub stream: StreamId,
    /// What was decided.
    pub decision: Decision,
    /// The candidates that it was decided among.
    pub listed: Rc<Listed>,
    /// Number of blocks of the request's prompts.
    pub blocks: u32,
    /// When it arrived.
    pub arrived_at: Moment,
    /// The window in which it was decided; windows of a lane count up.
    pub window: u64,
}
