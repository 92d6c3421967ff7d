//! The window's record: the cell in which all workers see the current window of a lane.
//!
//! Pools have lanes, so that the windows of one pool do not wait for another's requests; which
//! lane a window is in is told by its id.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{OVERDUE, RESCUE_AFTER};
use crate::workers::{Cell, Change, LANES, Moment, Refused, Shared, WorkerId, update};

/// The current window, as it stands in its cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    id: u64,
    open: bool,
    owner: WorkerId,
    closes_at: Moment,
    /// All that ever joined; the next one's index.
    joined: u32,
    /// Those that have left again.
    left: u32,
    /// When the last one joined.
    joined_at: Moment,
    /// The windows before that were closed by whoever filled them, and how many joined those: the
    /// message that tells the owner may come later than its tick. The last [`MOST_SEALED`].
    sealed: Vec<(u64, u32)>,
}

/// Far more than are closed while a message is on its way.
const MOST_SEALED: usize = 32;

impl Record {
    /// Those that are in the window now; the batch size counts these.
    fn members(&self) -> u32 {
        self.joined.saturating_sub(self.left)
    }
}

/// Where a request stands: the window it last joined, and as which member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) window: u64,
    pub(super) index: u32,
    pub(super) owner: WorkerId,
    pub(super) closes_at: Moment,
}

impl Seat {
    /// When to look after a request that took this seat now.
    pub(super) fn guard(self, now: Moment) -> Moment {
        self.closes_at.max(now).plus(RESCUE_AFTER)
    }
}

/// What came of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// A seat; and, where it was the last of its window, how many joined that.
    Seat(Seat, Option<u32>),
    /// The window has as many members as it may.
    Full,
}

/// Who wants to join, and on what terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joining {
    pub(super) me: WorkerId,
    pub(super) now: Moment,
    /// When the window must close at the latest.
    pub(super) close_by: Moment,
    pub(super) max_batch: Option<NonZeroU32>,
    /// Who fills a window closes it, and nobody is turned away.
    pub(super) seal: bool,
    pub(super) lane: u16,
}

/// The lane of a pool.
pub(super) fn lane(pool: &str) -> u16 {
    (xxh3_64(pool.as_bytes()) % u64::from(LANES)) as u16
}

/// The cell of a window.
fn cell(window: u64) -> Cell {
    Cell::Window((window % u64::from(LANES)) as u16)
}

/// Takes a seat in the open window, or opens one that closes at `close_by`; a window that would
/// close later is made to close then. `owns` tells which windows this worker knows as its own.
///
/// # Errors
/// The record could not be written.
pub(super) fn join(
    shared: &mut dyn Shared,
    joining: &Joining,
    owns: impl Fn(u64) -> bool,
) -> Result<Joined, Refused> {
    let Joining {
        me,
        now,
        close_by,
        max_batch,
        seal,
        lane,
    } = *joining;
    let cell = Cell::Window(lane);
    update(shared, cell, |record: Option<Record>| {
        let record = record.filter(|record| record.id % u64::from(LANES) == u64::from(lane));
        let last = record.as_ref().map(|record| record.id);
        let sealed = record
            .as_ref()
            .map_or(Vec::new(), |record| record.sealed.clone());
        let open = record.filter(|record| {
            record.open
                && if record.owner == me {
                    owns(record.id)
                } else {
                    now < record.closes_at.plus(OVERDUE)
                }
        });
        let mut next = match open {
            Some(record) if max_batch.is_some_and(|max| record.members() >= max.get()) => {
                return Change::Keep(Joined::Full);
            }
            Some(record) => record,
            None => Record {
                id: next_id(last, lane),
                open: true,
                owner: me,
                closes_at: close_by,
                joined: 0,
                left: 0,
                joined_at: now,
                sealed,
            },
        };
        next.closes_at = next.closes_at.min(close_by);
        let seat = Seat {
            window: next.id,
            index: next.joined,
            owner: next.owner,
            closes_at: next.closes_at,
        };
        next.joined = next.joined.saturating_add(1);
        next.joined_at = now.max(next.joined_at);
        let is_last = seal && max_batch.is_some_and(|max| next.members() >= max.get());
        if is_last {
            next.open = false;
            next.sealed.push((next.id, next.joined));
            let surplus = next.sealed.len().saturating_sub(MOST_SEALED);
            next.sealed.drain(..surplus);
        }
        let sealed = is_last.then_some(next.joined);
        Change::Write(next, Joined::Seat(seat, sealed))
    })
}

/// The id of the next window in a lane.
fn next_id(last: Option<u64>, lane: u16) -> u64 {
    let lanes = u64::from(LANES);
    let last = last.map_or(u64::from(lane), |id| id / lanes * lanes + u64::from(lane));
    last.wrapping_add(lanes)
}

/// Counts a member of the window less, if that is still open.
///
/// # Errors
/// The record could not be written.
pub(super) fn leave(shared: &mut dyn Shared, window: u64) -> Result<(), Refused> {
    let left = |record: Option<Record>| match record {
        Some(mut record) if record.open && record.id == window => {
            record.left = record.left.saturating_add(1);
            Change::Write(record, ())
        }
        _ => Change::Keep(()),
    };
    update(shared, cell(window), left)
}

/// Why a window closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// Its time is up.
    TimeIsUp,
    /// Nobody has joined for this long.
    Quiet(Duration),
    /// So many have joined, and all their groups are complete.
    Complete(u32),
}

/// What came of closing a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// It is closed, and so many joined.
    Now(u32),
    /// Somebody joined in the meantime, at this moment; the reason does not hold.
    NotYet(Moment),
    /// Another worker has taken over in the meantime.
    TakenOver,
}

/// Closes a window of this worker's, if the reason still holds.
///
/// # Errors
/// The record could not be written.
pub(super) fn close(
    shared: &mut dyn Shared,
    window: u64,
    me: WorkerId,
    now: Moment,
    because: Because,
) -> Result<Closed, Refused> {
    let closed = |record: Option<Record>| match record {
        Some(mut record) if record.open && record.id == window && record.owner == me => {
            let holds = match because {
                Because::TimeIsUp => true,
                Because::Quiet(quiet) => record.joined_at.plus(quiet) <= now,
                Because::Complete(joined) => record.joined == joined,
            };
            if !holds {
                return Change::Keep(Closed::NotYet(record.joined_at));
            }
            record.open = false;
            let joined = record.joined;
            Change::Write(record, Closed::Now(joined))
        }
        record => {
            let sealed = record.map_or(Vec::new(), |record| record.sealed);
            let this = sealed.iter().find(|(id, _)| *id == window);
            Change::Keep(this.map_or(Closed::TakenOver, |(_, joined)| Closed::Now(*joined)))
        }
    };
    update(shared, cell(window), closed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_score_of_pools_have_windows_of_their_own() {
        for kind in ["pool", "cluster", "outbound|8000||vllm"] {
            let lanes = (0..20).map(|number| lane(&format!("{kind}-{number}")));
            assert_eq!(lanes.collect::<BTreeSet<u16>>().len(), 20, "{kind}");
        }
    }
}
