//! A window as its owner sees it: who joined, what is still on its way, when it closes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::groups::Groups;
use super::message::StreamId;
use super::record::Because;
use super::{GRACE, Request};
use crate::workers::{Moment, WorkerId};

/// A request that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) from: WorkerId,
    pub(super) stream: StreamId,
    pub(super) request: Request,
}

#[derive(Debug)]
enum Phase {
    Open {
        closes_at: Moment,
        /// When somebody joined last, as far as this worker knows.
        joined_at: Moment,
    },
    /// `joined` is final.
    Closed { joined: usize, at: Moment },
}

/// A window that this worker owns.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) id: u64,
    phase: Phase,
    /// After how long without an arrival it closes, if at all.
    quiet: Option<Duration>,
    /// The members whose messages have come, by their indexes; none where one has left. By index,
    /// and no list: what a message says must not decide how much memory is taken.
    places: BTreeMap<u32, Option<Member>>,
    groups: Groups,
}

impl Owned {
    pub(super) fn new(id: u64, now: Moment, closes_at: Moment, quiet: Option<Duration>) -> Self {
        Self {
            id,
            phase: Phase::Open {
                closes_at,
                joined_at: now,
            },
            quiet,
            places: BTreeMap::new(),
            groups: Groups::default(),
        }
    }

    /// It must close by then, if not earlier.
    pub(super) fn close_by(&mut self, close_by: Moment) {
        if let Phase::Open { closes_at, .. } = &mut self.phase {
            *closes_at = close_by.min(*closes_at);
        }
    }

    /// Somebody joined then.
    pub(super) fn joined(&mut self, at: Moment) {
        if let Phase::Open { joined_at, .. } = &mut self.phase {
            *joined_at = at.max(*joined_at);
        }
    }

    /// A request that joined is here. One that has left already stays away.
    pub(super) fn arrived(&mut self, index: u32, member: Member) {
        if let std::collections::btree_map::Entry::Vacant(place) = self.places.entry(index) {
            self.groups.joined(&member.request);
            place.insert(Some(member));
        }
    }

    /// A request that joined has left, whether it was here already or not.
    pub(super) fn left(&mut self, index: u32) {
        if let Some(Some(member)) = self.places.insert(index, None) {
            self.groups.left(&member.request);
        }
    }

    /// The record is closed: nobody joins any more.
    pub(super) fn close(&mut self, joined: u32, now: Moment) {
        self.phase = Phase::Closed {
            joined: joined as usize,
            at: now,
        };
    }

    /// Why it is to close now, if it is.
    pub(super) fn due(&self, now: Moment) -> Option<Because> {
        let Phase::Open {
            closes_at,
            joined_at,
        } = self.phase
        else {
            return None;
        };
        if closes_at <= now {
            Some(Because::TimeIsUp)
        } else if self.groups.are_complete() {
            let joined = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            Some(Because::Complete(joined))
        } else {
            self.quiet
                .filter(|quiet| joined_at.plus(*quiet) <= now)
                .map(Because::Quiet)
        }
    }

    /// Whether it has waited long enough for members that are not here.
    pub(super) fn lacks_members(&self, now: Moment) -> bool {
        match self.phase {
            Phase::Open { .. } => false,
            Phase::Closed { joined, at } => self.places.len() < joined && now >= at.plus(GRACE),
        }
    }

    /// Whether it is closed and waits for nobody, or has waited long enough.
    pub(super) fn complete(&self, now: Moment) -> bool {
        match self.phase {
            Phase::Open { .. } => false,
            Phase::Closed { joined, at } => self.places.len() >= joined || now >= at.plus(GRACE),
        }
    }

    /// When to look at it again, if no message comes before.
    pub(super) fn wake_at(&self) -> Moment {
        match self.phase {
            Phase::Open {
                closes_at,
                joined_at,
            } => self
                .quiet
                .map_or(closes_at, |quiet| closes_at.min(joined_at.plus(quiet))),
            Phase::Closed { at, .. } => at.plus(GRACE),
        }
    }

    /// All members that are here, in their order of arrival.
    pub(super) fn into_members(self) -> Vec<Member> {
        self.places.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(stream: StreamId) -> Member {
        Member {
            from: WorkerId {
                slot: 0,
                incarnation: 1,
            },
            stream,
            request: Request::default(),
        }
    }

    #[test]
    fn members_stand_in_the_order_of_their_indexes_and_take_no_room_between() {
        let mut window = Owned::new(1, Moment(0), Moment(0), None);
        window.arrived(u32::MAX, member(3));
        window.left(1 << 23);
        window.arrived(1 << 23, member(2));
        window.arrived(0, member(1));
        window.arrived(0, member(9));
        assert_eq!(window.places.len(), 3);
        assert_eq!(window.into_members(), [member(1), member(3)]);
    }

    #[test]
    fn a_quiet_window_is_due_when_nobody_came_for_that_long() {
        let millis = |ms: u64| Moment(ms * 1_000_000);
        let quiet = Duration::from_millis(5);
        let mut window = Owned::new(1, millis(0), millis(100), Some(quiet));
        assert_eq!(window.due(millis(4)), None);
        assert_eq!(window.due(millis(5)), Some(Because::Quiet(quiet)));
        window.joined(millis(4));
        assert_eq!(window.wake_at(), millis(9));
        assert_eq!(window.due(millis(5)), None);
        window.joined(millis(98));
        assert_eq!(window.wake_at(), millis(100));
        assert_eq!(window.due(millis(100)), Some(Because::TimeIsUp));
    }
}
