//! The window's record: the cell in which all workers see the current window.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{OVERDUE, RESCUE_AFTER};
use crate::workers::WorkerId;
use crate::workers::{Cell, Change, Moment, Refused, Shared, update};

/// The current window, as it stands in its cell.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Record {
    id: u64,
    open: bool,
    owner: WorkerId,
    closes_at: Moment,
    /// All that ever joined; the next one's index.
    joined: u32,
    /// Those that have left again.
    left: u32,
}

impl Record {
    /// Those that are in the window now; the batch size counts these.
    fn members(self) -> u32 {
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
    Seat(Seat),
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
    } = *joining;
    update(shared, Cell::Window(0), |record: Option<Record>| {
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
                id: record.map_or(0, |record| record.id).wrapping_add(1),
                open: true,
                owner: me,
                closes_at: close_by,
                joined: 0,
                left: 0,
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
        Change::Write(next, Joined::Seat(seat))
    })
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
    update(shared, Cell::Window(0), left)
}

/// Closes a window of this worker's, and tells how many joined it; none where another worker has
/// taken over in the meantime.
///
/// # Errors
/// The record could not be written.
pub(super) fn close(
    shared: &mut dyn Shared,
    window: u64,
    me: WorkerId,
) -> Result<Option<u32>, Refused> {
    let closed = |record: Option<Record>| match record {
        Some(mut record) if record.open && record.id == window && record.owner == me => {
            record.open = false;
            Change::Write(record, Some(record.joined))
        }
        _ => Change::Keep(None),
    };
    update(shared, Cell::Window(0), closed)
}
