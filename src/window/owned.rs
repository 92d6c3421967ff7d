//! A window as its owner sees it: who joined, what is still on its way, when to place.

use super::message::{Decision, StreamId};
use super::shared::Moment;
use super::slots::WorkerId;
use super::{GRACE, Settings};
use crate::placement::{Candidates, Replica, Request, place};

/// A request that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) from: WorkerId,
    pub(super) stream: StreamId,
    pub(super) blocks: Vec<u64>,
    pub(super) weight: u32,
}

/// What the owner knows of one index of the window.
#[derive(Debug, Default)]
enum Place {
    /// It joined, and its message has not come yet.
    #[default]
    Expected,
    Here(Member),
    Left,
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
    places: Vec<Place>,
    /// Indexes that are no longer expected.
    known: usize,
}

impl Owned {
    pub(super) fn new(id: u64, closes_at: Moment) -> Self {
        Self {
            id,
            phase: Phase::Open { closes_at },
            places: Vec::new(),
            known: 0,
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
        if let Some(place @ Place::Expected) = self.place(index) {
            *place = Place::Here(member);
            self.known += 1;
        }
    }

    /// A request that joined has left, whether it was here already or not.
    pub(super) fn left(&mut self, index: u32) {
        match self.place(index) {
            Some(place @ Place::Expected) => {
                *place = Place::Left;
                self.known += 1;
            }
            Some(place) => *place = Place::Left,
            None => {}
        }
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
            Phase::Closed { joined, at } => self.known >= joined || now >= at.plus(GRACE),
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
        let members: Vec<Member> = self
            .places
            .into_iter()
            .filter_map(|place| match place {
                Place::Here(member) => Some(member),
                Place::Expected | Place::Left => None,
            })
            .collect();
        let replicas: Vec<Replica<'_>> = settings
            .replicas
            .iter()
            .map(|name| Replica { name, running: 0 })
            .collect();
        let requests: Vec<Request<'_>> = members
            .iter()
            .map(|member| Request {
                blocks: &member.blocks,
                candidates: Candidates::All,
                weight: member.weight,
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

    fn place(&mut self, index: u32) -> Option<&mut Place> {
        /// No window is larger: an index beyond this is not of this filter's making.
        const MOST: usize = 1 << 24;
        let index = index as usize;
        if index >= MOST {
            return None;
        }
        if index >= self.places.len() {
            self.places.resize_with(index + 1, Place::default);
        }
        self.places.get_mut(index)
    }
}
