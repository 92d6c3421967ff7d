//! What one worker picks replicas by: the replicas as they are, what is in flight, what is
//! remembered, and the rules of placement.
//!
//! | a request | is picked for | where |
//! |---|---|---|
//! | of a window | jointly with the window's other members | `batch.rs` |
//! | of a unit that is remembered | when it arrives: it follows its unit | `one.rs` |
//! | that nobody holds | when it arrives | `one.rs` |

mod batch;
mod lists;
mod one;
mod view;

pub use view::{Listed, MOST_LISTED};

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Book, Placed, ReplicaHash, Total};
use crate::memory::{Key, Memory};
use crate::placement::{BalanceBy, Rules};
use crate::replicas::{Directory, Source};
use crate::workers::{Moment, Shared, WorkerId};
pub(crate) use view::View;

/// A request that asks to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Request {
    /// The pool that it is for; what stands in its messages and keys, so not a prompt.
    pub pool: String,
    /// The only replicas that it may go to, sorted; none = all of its pool.
    pub subset: Option<Vec<String>>,
    /// The block hashes of all its prompts.
    pub blocks: Vec<u64>,
    /// Whether each hash covers all blocks before it, as those of a single prompt do.
    pub chained: bool,
    /// How many samples it asks for, at least 1.
    pub weight: u32,
    /// A hash of the group that its client names: its members are one unit, whatever their
    /// prompts.
    pub group: Option<u64>,
    /// How many requests its group has, by its client.
    pub group_size: Option<NonZeroU32>,
}

impl Request {
    /// The key of its unit.
    #[must_use]
    pub fn unit(&self) -> Key {
        let subset = self.subset.as_deref();
        match self.group {
            Some(group) => Key::group(&self.pool, subset, group),
            None => Key::unit(&self.pool, subset, &self.blocks),
        }
    }
}

/// What was decided for one request. A replica is an index into the [`Listed`] that comes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// A full match on one replica.
    Assigned {
        /// Index of the replica.
        replica: u32,
        /// Members of its unit in this window; those so far where it was not held.
        group: u32,
    },
    /// It follows its unit, which was placed before.
    Remembered {
        /// Index of the replica.
        replica: u32,
        /// Members of its unit so far, itself included.
        group: u32,
    },
    /// It overlaps nothing in its window.
    Alone,
    /// There is no replica to place it on.
    NoReplicas,
    /// It came too late for its window, or its window was lost.
    TimedOut,
}

impl Decision {
    /// Index of the chosen replica.
    #[must_use]
    pub fn replica(self) -> Option<u32> {
        match self {
            Self::Assigned { replica, .. } | Self::Remembered { replica, .. } => Some(replica),
            Self::Alone | Self::NoReplicas | Self::TimedOut => None,
        }
    }
}

/// A decision, and the load that it brings to the chosen replica, in what the rules balance by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// What was decided.
    pub decision: Decision,
    /// The load.
    pub charge: u64,
    /// The chosen replica.
    pub replica: Option<ReplicaHash>,
    /// Whether its unit begins with it.
    pub begins: bool,
    /// Its place among the samples of its unit, from 1.
    pub place: u64,
    /// The samples that are expected to follow it there, or that it was one of: see [`Placed`].
    pub reserves: i64,
}

impl Pick {
    fn nowhere(decision: Decision) -> Self {
        Self {
            decision,
            charge: 0,
            replica: None,
            begins: false,
            place: 1,
            reserves: 0,
        }
    }
}

/// One worker's knowledge.
#[derive(Debug)]
pub struct Picker {
    rules: Rules,
    directory: Directory,
    memory: Option<Memory>,
    /// What this worker has in flight.
    pub(crate) book: Book,
    /// The samples that a unit is expected to have, as of the last look at what all workers have.
    expected: u64,
    /// The replicas of the pool asked for last, as headers list them: they are mostly the same.
    listed: Option<(View, Rc<Listed>)>,
}

impl Picker {
    /// A worker that has nothing in flight. `memory`: how long placed units are remembered; zero
    /// = not at all.
    #[must_use]
    pub fn new(rules: Rules, source: &Source, memory: Duration) -> Self {
        let remembers = !memory.is_zero();
        // Long enough for the stragglers of a step; the memory itself may be much longer.
        let half_life = (memory / 2).clamp(Duration::from_millis(100), Duration::from_secs(5));
        Self {
            rules,
            directory: Directory::new(source),
            memory: remembers.then(|| Memory::new(memory)),
            book: Book::new(remembers.then_some(half_life)),
            expected: expected(&rules, &Total::default()),
            listed: None,
        }
    }

    /// A request was placed just now, by this worker and for whichever.
    pub(crate) fn placed(&mut self, now: Moment, pick: Pick) {
        if let Some(replica) = pick.replica {
            let placed = Placed {
                charge: pick.charge,
                begins: pick.begins,
                place: pick.place,
                reserves: pick.reserves,
            };
            self.book.placed(now, replica, placed);
        }
    }

    /// The replicas that a request may go to now, as its headers list them; none of them where
    /// nothing is known.
    pub fn candidates(
        &mut self,
        pool: &str,
        subset: Option<&[String]>,
        shared: &mut dyn Shared,
    ) -> Rc<Listed> {
        let view = self.view(pool, subset, shared);
        self.list(&view)
    }

    /// The replicas that a request may go to now.
    pub(crate) fn view(
        &mut self,
        pool: &str,
        subset: Option<&[String]>,
        shared: &mut dyn Shared,
    ) -> View {
        View::new(self.directory.pool(pool, shared), subset)
    }

    /// How headers list them.
    pub(crate) fn list(&mut self, view: &View) -> Rc<Listed> {
        if let Some((known, listed)) = &self.listed
            && known.is(view)
        {
            return Rc::clone(listed);
        }
        let listed = Rc::new(view.listed());
        self.listed = Some((view.clone(), Rc::clone(&listed)));
        listed
    }

    /// What is in flight over all workers.
    pub(crate) fn total(
        &mut self,
        now: Moment,
        me: Option<WorkerId>,
        shared: &mut dyn Shared,
    ) -> Total {
        let total = Total::read(now, &mut self.book, me, shared);
        self.expected = expected(&self.rules, &total);
        total
    }
}

/// The samples that a unit is expected to have in the end, where loads are in requests.
fn expected(rules: &Rules, total: &Total) -> u64 {
    match rules.balance_by {
        BalanceBy::Requests => total.expected(),
        // Whoever comes later brings next to nothing.
        BalanceBy::Tokens => 0,
    }
}

/// What a request reserves of a replica's room for those that are expected to follow it, or, being
/// one of these, gives back. `there` and `elsewhere` are the samples of its unit that were placed
/// on this replica and on others before.
fn reserves(rules: &Rules, expected: u64, there: u64, elsewhere: u64, weight: u64) -> i64 {
    let most = rules.max_per_replica.map_or(u64::MAX, |k| k.get().into());
    let here = expected.saturating_sub(elsewhere).min(most);
    let samples = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if there == 0 {
        samples(here.saturating_sub(weight))
    } else {
        samples(there.min(here)) - samples(there.saturating_add(weight).min(here))
    }
}

/// What a first request of a unit brings to a replica that holds `matched` of its blocks.
fn first_charge(rules: &Rules, request: &Request, matched: u64) -> u64 {
    match rules.balance_by {
        BalanceBy::Requests => u64::from(request.weight.max(1)),
        BalanceBy::Tokens => (request.blocks.len() as u64).saturating_sub(matched),
    }
}

/// What a later request of a unit brings to a replica that holds it.
fn later_charge(rules: &Rules, request: &Request) -> u64 {
    match rules.balance_by {
        BalanceBy::Requests => u64::from(request.weight.max(1)),
        BalanceBy::Tokens => 0,
    }
}
