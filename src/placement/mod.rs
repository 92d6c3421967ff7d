//! Placement: which replica each request of a batch goes to, so that requests with one prompt
//! land together.
//!
//! These are the published rules of llm-d's `burst-prefix-cache-producer`; golden vectors in
//! `tests/vectors` hold its answers. In short, with *k* = [`Rules::max_per_replica`] and *m* =
//! [`Rules::min_colocate_blocks`]:
//!
//! | rule | | where |
//! |---|---|---|
//! | 1 | Requests with equal blocks (and equal candidates) are one *unit*; a request without blocks is in none. | `units.rs` |
//! | 2 | A unit of two or more, a *group*, is always placed. A unit of one is placed when *m* > 0 and another request begins with the same *m* blocks. | `units.rs` |
//! | 3 | All groups go first, then the singles; among each, those with more blocks, then those that came first. | `units.rs` |
//! | 4 | The *fair share* of a replica is the total over the placed units, divided by the number of replicas and rounded up. The total counts members, or blocks once per unit. | `units.rs` |
//! | 5 | A replica's *match*: walk the unit's blocks up to the first that no replica holds, and count those that this one holds. | `holders.rs` |
//! | 6 | A unit's first run, if *m* > 0, goes to the longest match of *m* or more below the fair share. If there is none, and for every later run: to the least loaded with fewer than *k* of this unit, or, when all are full, to the least loaded of all. | `prefer.rs`, `runs.rs` |
//! | 7 | A run takes all members left, or as many as the replica has room for, and at least one. | `runs.rs` |
//! | 8 | The load of a run is its members; or, when the unit first touches the replica, its blocks less the match. Once placed, the unit's blocks are held wherever it went. | `runs.rs`, `holders.rs` |
//! | 9 | Less loaded is: lower load, then fewer running requests, then the bytewise lower name. | `roster.rs`, `loads.rs` |
//!
//! Three things the published rules leave open:
//!
//! - A request for *n* samples weighs *n*: in the fair share, in the load, and in the room that *k*
//!   leaves. Its samples are never torn apart, so a replica takes at least one request in a run,
//!   whatever it weighs. Whether a unit is a group goes by its requests.
//! - Requests with different candidates are never one unit, but they share the loads and the
//!   held blocks of the replicas. The fair share counts all replicas. A request that may go
//!   nowhere is in no unit.
//! - Entries of the replica list with one name are one replica.
//!
//! What the published rules don't know, and a caller that remembers earlier batches does; where
//! it says nothing, they hold as they are:
//!
//! - Loads start at [`Replica::load`], and the fair share is of the total with all loads before.
//! - Requests of one [`Request::group`] (and equal candidates) are one unit whatever their blocks;
//!   the unit's blocks are those of the first that arrived.
//! - [`Before::place_all`] places the other units of one too, among the singles.
//! - [`Before::held`]: blocks that replicas hold before the batch count in rules 5, 6 and 8 as if a
//!   unit had been placed there, without load; and in rule 2 as one more request.
//!
//! The module is pure: the same batch always gets the same answer, in whatever order the
//! replicas are listed. It never fails.

mod before;
mod bits;
mod blocks;
mod holders;
mod intern;
mod loads;
mod prefer;
mod roster;
mod runs;
mod shared_sets;
#[cfg(test)]
mod tests;
mod tree;
mod units;
mod ways;
mod why;

use std::num::NonZeroU32;

use before::{Coming, HeldBefore};
use intern::{NONE, Seed};
use roster::{CandidateSets, Roster};
use runs::Runs;
use units::Units;

pub use before::{Before, HeldPrefix};
pub use why::{Explanation, PlacedRun, PlacedUnit, Why, explain};

/// What a replica's load is measured in (the reference's `balanceBy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BalanceBy {
    /// Requests placed.
    Requests,
    /// Blocks to prefill: those of each unit once, less what is held already.
    Tokens,
}

/// The settings of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// *k*: how many requests of one unit a replica gets before another does; `None` = no bound
    /// (the reference's `maxPerReplica: -1`).
    pub max_per_replica: Option<NonZeroU32>,
    /// *m*: how many leading blocks make an overlap (the reference's `minColocateBlocks`); 0 =
    /// only whole prompts count.
    pub min_colocate_blocks: u32,
    /// What loads are measured in.
    pub balance_by: BalanceBy,
}

/// A replica that requests may be placed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica<'a> {
    /// Its name; entries with the same name are the same replica.
    pub name: &'a str,
    /// Requests that it runs now. They only break ties (rule 9).
    pub running: i64,
    /// The load that it has before the batch, in what [`Rules::balance_by`] measures: samples
    /// placed, or blocks; 0 in the reference. Of entries with one name, the largest counts.
    pub load: u64,
}

impl<'a> Replica<'a> {
    /// An idle replica.
    pub fn new(name: &'a str) -> Self {
        Self {
            name,
            running: 0,
            load: 0,
        }
    }
}

/// A request as placement sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The block hashes of all its prompts, one prompt after the other. Any values will do.
    pub blocks: &'a [u64],
    /// Where it may go.
    pub candidates: Candidates<'a>,
    /// How many samples of its prompt it asks for; 0 counts as 1. They stay together.
    pub weight: u32,
    /// Requests of one group are one unit, whatever their blocks; `None` = by blocks, and never one
    /// unit with a request of a group. Any values will do.
    pub group: Option<u64>,
    /// Whether each block's hash covers all blocks before it, so that equal blocks stand behind
    /// equal ones, in requests and prefixes that are chained: then a batch of these alone is
    /// placed in less time. Said of others, their blocks count for rule 5 only behind equal ones.
    pub chained: bool,
}

impl<'a> Request<'a> {
    /// A request for one sample that may go to all replicas and is in no group, of any hashes.
    pub fn new(blocks: &'a [u64]) -> Self {
        Self {
            blocks,
            candidates: Candidates::All,
            weight: 1,
            group: None,
            chained: false,
        }
    }
}

/// The replicas that a request may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates<'a> {
    /// All of them.
    All,
    /// Those at these places of the replica list, in any order. Places outside the list and
    /// repeated ones don't count; the others of the same name do.
    Only(&'a [u32]),
}

/// Where the requests of a batch go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    spots: Vec<Spot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    replica: u32,
    group: u32,
    charge: u32,
}

impl Placement {
    /// The replica that request `i` goes to, by its place in the replica list (the first of its
    /// name), or `None` if it goes anywhere, without affinity.
    pub fn assigned(&self, i: usize) -> Option<usize> {
        let replica = self.spots.get(i)?.replica;
        (replica != NONE).then_some(replica as usize)
    }

    /// How many requests the unit of request `i` has, itself included; 0 if it is in none.
    pub fn group(&self, i: usize) -> u32 {
        self.spots.get(i).map_or(0, |spot| spot.group)
    }

    /// The load that request `i` brings to its replica; 0 if it goes anywhere. By requests it is
    /// its weight. By tokens it is what its unit brings, in blocks, for the first of the unit on
    /// this replica, and 0 for the others. So the charges of all requests are all loads of the
    /// batch.
    pub fn charge(&self, i: usize) -> u64 {
        self.spots.get(i).map_or(0, |spot| spot.charge.into())
    }

    /// The number of requests of the batch.
    pub fn len(&self) -> usize {
        self.spots.len()
    }

    /// Whether the batch had no requests.
    pub fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }
}

/// Places the requests of a batch on replicas.
///
/// Takes time linear in the blocks of all requests, for chained hashes and up to a factor of the
/// logarithm of the number of replicas; and memory linear in the requests, where they are
/// [`chained`](Request::chained), or else in their blocks.
pub fn place(rules: &Rules, replicas: &[Replica<'_>], requests: &[Request<'_>]) -> Placement {
    place_after(rules, replicas, requests, &Before::default())
}

/// Like [`place`], with what is so before the batch. That takes time linear in the blocks held
/// before, too.
pub fn place_after(
    rules: &Rules,
    replicas: &[Replica<'_>],
    requests: &[Request<'_>],
    before: &Before<'_>,
) -> Placement {
    solve(rules, replicas, requests, before).placement()
}

/// All that is known when a batch is placed.
struct Solution<'a> {
    requests: &'a [Request<'a>],
    balance_by: BalanceBy,
    roster: Roster,
    units: Units<'a>,
    runs: Runs,
}

fn solve<'a>(
    rules: &Rules,
    replicas: &[Replica<'_>],
    requests: &'a [Request<'a>],
    before: &Before<'a>,
) -> Solution<'a> {
    let seed = Seed::of(replicas);
    let roster = Roster::new(replicas);
    let mut sets = CandidateSets::new(seed, roster.len());
    let held = HeldBefore::new(before, &roster);
    let units = Units::find(seed, requests, &roster, &mut sets, held);
    let order = units.in_order(rules, before.place_all);
    let most = rules.max_per_replica.map_or(u64::MAX, |k| k.get().into());
    let coming = Coming {
        expected: before.expected.min(most),
        held,
    };
    let runs = runs::assign(seed, rules, &roster, &sets, &units, &order, coming);
    Solution {
        requests,
        balance_by: rules.balance_by,
        roster,
        units,
        runs,
    }
}

impl Solution<'_> {
    /// Deals the runs of each unit out to its members, in order of arrival.
    fn placement(mut self) -> Placement {
        self.units.forget_blocks();
        let Runs { mut runs, ends } = self.runs;
        let mut next_run = vec![u32::MAX; self.units.len()];
        let mut start = 0;
        for (number, end) in ends {
            if let Some(next) = next_run.get_mut(number as usize) {
                *next = start;
            }
            start = end;
        }
        let mut deal = |number: u32, request: &Request<'_>| {
            let next = next_run.get_mut(number as usize)?;
            let run = runs.get_mut(*next as usize)?;
            run.members -= 1;
            if run.members == 0 {
                *next += 1;
            }
            let charge = match self.balance_by {
                BalanceBy::Requests => request.weight.max(1),
                BalanceBy::Tokens => std::mem::take(&mut run.tokens),
            };
            Some((self.roster.index(run.rank)?, charge))
        };
        let spots = self.units.unit_of().iter().zip(self.requests);
        let spots = spots.map(|(&number, request)| {
            let (replica, charge) = deal(number, request).unwrap_or((NONE, 0));
            Spot {
                replica,
                group: self.units.size(number),
                charge,
            }
        });
        Placement {
            spots: spots.collect(),
        }
    }
}
