//! A window as its owner sees it: who joined, what is still on its way, when to place.

use std::collections::BTreeMap;

use super::message::{Decision, StreamId};
use super::{GRACE, Settings};
use crate::placement::{Replica, Request, place};
use crate::workers::Moment;
use crate::workers::WorkerId;

/// A request that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) from: WorkerId,
    pub(super) stream: StreamId,
    pub(super) blocks: Vec<u64>,
    pub(super) weight: u32,
}

#[derive(Debug)]
enum Phase {
    Open {
        closes_at: Moment,
    },
    /// `joined` is final.
    Closed {
        joined: usize,
        at: Moment,
    },
}

/// A window that this worker owns.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) id: u64,
    phase: Phase,
    /// The members whose messages have come, by their indexes; none where one has left. By index,
    /// and no list: what a message says must not decide how much memory is taken.
    places: BTreeMap<u32, Option<Member>>,
}

impl Owned {
    pub(super) fn new(id: u64, closes_at: Moment) -> Self {
        Self {
            id,
            phase: Phase::Open { closes_at },
            places: BTreeMap::new(),
        }
    }

    /// It must close by then, if not earlier.
    pub(super) fn close_by(&mut self, close_by: Moment) {
        if let Phase::Open { closes_at } = &mut self.phase {
            *closes_at = close_by.min(*closes_at);
        }
    }

    /// A request that joined is here. One that has left already stays away.
    pub(super) fn arrived(&mut self, index: u32, member: Member) {
        self.places.entry(index).or_insert(Some(member));
    }

    /// A request that joined has left, whether it was here already or not.
    pub(super) fn left(&mut self, index: u32) {
        self.places.insert(index, None);
    }

    /// The record is closed: nobody joins any more.
    pub(super) fn close(&mut self, joined: u32, now: Moment) {
        self.phase = Phase::Closed {
            joined: joined as usize,
            at: now,
        };
    }

    /// Whether its time to close has come.
    pub(super) fn due(&self, now: Moment) -> bool {
        matches!(self.phase, Phase::Open { closes_at } if closes_at <= now)
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
            Phase::Open { closes_at } => closes_at,
            Phase::Closed { at, .. } => at.plus(GRACE),
        }
    }

    /// Places all members jointly, in their order of arrival.
    pub(super) fn place_members(self, settings: &Settings) -> Vec<(Member, Decision)> {
        let members: Vec<Member> = self.places.into_values().flatten().collect();
        let replicas: Vec<Replica<'_>> = settings
            .replicas
            .iter()
            .map(|name| Replica::new(name))
            .collect();
        let requests: Vec<Request<'_>> = members
            .iter()
            .map(|member| Request {
                weight: member.weight,
                ..Request::new(&member.blocks)
            })
            .collect();
        let placement = place(&settings.rules, &replicas, &requests);
        let decisions: Vec<Decision> = (0..members.len())
            .map(|index| match placement.assigned(index) {
                Some(replica) => Decision::Assigned {
                    replica: u32::try_from(replica).unwrap_or(u32::MAX),
                    group: placement.group(index),
                },
                None if replicas.is_empty() => Decision::NoReplicas,
                None => Decision::Alone,
            })
            .collect();
        members.into_iter().zip(decisions).collect()
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
            blocks: Vec::new(),
            weight: 1,
        }
    }

    #[test]
    fn members_stand_in_the_order_of_their_indexes_and_take_no_room_between() {
        let mut window = Owned::new(1, Moment(0));
        window.arrived(u32::MAX, member(3));
        window.left(1 << 23);
        window.arrived(1 << 23, member(2));
        window.arrived(0, member(1));
        window.arrived(0, member(9));
        assert_eq!(window.places.len(), 3);
        let members: Vec<Member> = window.places.into_values().flatten().collect();
        assert_eq!(members, [member(1), member(3)]);
    }
}
