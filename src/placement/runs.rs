//! Where the members of each unit go: **rules 7 and 8**, with the choices of rule 6.

use super::before::Coming;
use super::bits;
use super::holders::Holders;
use super::intern::Seed;
use super::loads::Loads;
use super::prefer::{ByPrefix, Preference};
use super::roster::{CandidateSets, Roster};
use super::units::{Members, Unit, Units};
use super::{BalanceBy, Rules, Why};

/// Members of one unit that go to one replica.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The rank of the replica.
    pub(super) rank: u32,
    pub(super) members: u32,
    /// By tokens, the blocks that it brought to the replica's load.
    pub(super) tokens: u32,
    pub(super) why: Why,
}

/// The runs of all placed units, unit after unit in the order in which they were placed.
pub(super) struct Runs {
    pub(super) runs: Vec<Run>,
    /// For each unit that was placed: its number, and where its runs end.
    pub(super) ends: Vec<(u32, u32)>,
}

/// Places the units in this order, each on one or more of its candidates.
pub(super) fn assign(
    seed: Seed,
    rules: &Rules,
    roster: &Roster,
    sets: &CandidateSets<'_>,
    units: &Units<'_>,
    order: &[u32],
    coming: Coming<'_, '_>,
) -> Runs {
    let Coming { expected, held } = coming;
    // Without prefixes to prefer and tokens to discount, nobody asks who holds what.
    let holders_matter = rules.min_colocate_blocks > 0 || rules.balance_by == BalanceBy::Tokens;
    let holders = holders_matter.then(|| {
        // What is held before is held as if units had been placed before all others.
        let mut holders = match units.chains() {
            Some(tree) => Holders::of_chained(tree, roster.len()),
            None => {
                let placed = order.iter().filter_map(|&number| units.get(number));
                let before = held.prefixes().map(|prefix| prefix.blocks);
                let blocks = before.chain(placed.map(|unit| unit.blocks));
                Holders::new(seed, roster.len(), blocks)
            }
        };
        for (number, prefix) in units.held().zip(held.prefixes()) {
            holders.walk(number, prefix.blocks);
            holders.hold(prefix.blocks, held.ranks(prefix));
        }
        holders
    });
    let fair_share = units.fair_share(order, rules.balance_by, expected, roster.loads());
    let mut batch = Batch {
        rules,
        sets,
        loads: Loads::new(roster.loads(), fair_share),
        expected,
        is_first: true,
        holders,
        preference: Preference::new(rules.min_colocate_blocks),
        runs: Vec::with_capacity(order.len()),
        taken: Vec::new(),
    };
    let mut ends = Vec::with_capacity(order.len());
    for &number in order {
        if let Some(unit) = units.get(number) {
            batch.place(number, &unit, units.members(number));
            ends.push((number, batch.runs.len() as u32));
        }
    }
    Runs {
        runs: batch.runs,
        ends,
    }
}

/// The batch while its units are placed.
struct Batch<'a> {
    rules: &'a Rules,
    sets: &'a CandidateSets<'a>,
    loads: Loads,
    /// What a unit's first run counts at least, by requests.
    expected: u64,
    /// Whether the unit in hand has no run yet.
    is_first: bool,
    holders: Option<Holders<'a>>,
    preference: Preference,
    runs: Vec<Run>,
    /// Scratch: replicas taken out of the queue of the least loaded.
    taken: Vec<u32>,
}

impl Batch<'_> {
    fn place(&mut self, number: u32, unit: &Unit<'_>, mut members: Members<'_>) {
        let &Unit { blocks, candidates } = unit;
        let start = self.runs.len();
        self.is_first = true;
        if let Some(holders) = &mut self.holders {
            holders.walk(number, blocks);
        }
        // Rule 6: the first run by prefix, if that gives one, and the others by load.
        let by_prefix = match &self.holders {
            Some(holders) => {
                self.preference
                    .choose(holders, &mut self.loads, self.sets, candidates)
            }
            None => ByPrefix::NoMatch,
        };
        let left = &mut members;
        match by_prefix {
            ByPrefix::Chosen(rank) => {
                self.run(blocks, rank, left, Why::Prefix);
                self.runs_by_load(blocks, candidates, left, Some(rank), Why::LeastLoaded);
            }
            ByPrefix::AllAboveFairShare => {
                self.runs_by_load(blocks, candidates, left, None, Why::FairShare);
            }
            ByPrefix::NoMatch => {
                self.runs_by_load(blocks, candidates, left, None, Why::LeastLoaded);
            }
        }
        self.overflow(candidates, left);

        // Rule 8, the second half.
        if let Some(holders) = &mut self.holders {
            let touched = self.runs.iter().skip(start).map(|run| run.rank);
            holders.hold(blocks, touched);
        }
    }

    /// **Rules 7 and 8.** A run on a replica that has none of this unit yet: as many members as
    /// it has room for, and the load that they bring.
    fn run(&mut self, blocks: &[u64], rank: u32, left: &mut Members<'_>, why: Why) {
        let (members, weight) = left.take(self.room());
        let tokens = match (self.rules.balance_by, &self.holders) {
            (BalanceBy::Requests, _) => 0,
            (BalanceBy::Tokens, None) => blocks.len() as u32,
            (BalanceBy::Tokens, Some(holders)) => {
                (blocks.len() as u32).saturating_sub(holders.matched(rank))
            }
        };
        let load = match self.rules.balance_by {
            BalanceBy::Requests if self.is_first => weight.max(self.expected),
            BalanceBy::Requests => weight,
            BalanceBy::Tokens => tokens.into(),
        };
        self.is_first = false;
        self.loads.add(rank, load);
        self.runs.push(Run {
            rank,
            members,
            tokens,
            why,
        });
    }

    /// What an empty replica has room for, of one unit.
    fn room(&self) -> u64 {
        self.rules
            .max_per_replica
            .map_or(u64::MAX, |k| k.get().into())
    }

    /// **Rule 6.** Runs on the least loaded with room until all members are placed or all
    /// candidates are full. A replica that has any of this unit is full, so each is taken at
    /// most once, and `full` not at all.
    fn runs_by_load(
        &mut self,
        blocks: &[u64],
        candidates: u32,
        left: &mut Members<'_>,
        full: Option<u32>,
        mut why: Why,
    ) {
        if full.is_none() && left.weight() <= self.room() {
            // The usual case: one run. Nobody needs to leave the queue.
            if let Some(rank) = self.loads.least(self.sets, candidates) {
                self.run(blocks, rank, left, why);
            }
            return;
        }
        self.taken.clear();
        while !left.is_empty()
            && let Some(rank) = self.loads.take_least(self.sets, candidates)
        {
            self.taken.push(rank);
            if full != Some(rank) {
                self.run(blocks, rank, left, why);
                why = Why::LeastLoaded;
            }
        }
        self.loads.put_back(candidates, self.taken.iter().copied());
    }

    /// **Rules 6 to 8** when all candidates are full: one at a time to the least loaded of all.
    fn overflow(&mut self, candidates: u32, left: &mut Members<'_>) {
        if left.is_empty() {
            return;
        }
        match (self.rules.balance_by, left.even()) {
            // Whoever has some of a unit already gets no load for more of it, so the least
            // loaded stays the least loaded.
            (BalanceBy::Tokens, _) => {
                if let Some(rank) = self.loads.least(self.sets, candidates) {
                    let (members, _) = left.take(u64::MAX);
                    self.push_overflow(rank, members);
                }
            }
            (BalanceBy::Requests, Some(members)) => {
                self.overflow_level_by_level(candidates, members);
            }
            (BalanceBy::Requests, None) => self.overflow_one_by_one(candidates, left),
        }
    }

    /// Members of different weights: the queue knows who is least loaded.
    fn overflow_one_by_one(&mut self, candidates: u32, left: &mut Members<'_>) {
        while !left.is_empty()
            && let Some(rank) = self.loads.least(self.sets, candidates)
        {
            let (members, weight) = left.take(1);
            self.loads.add(rank, weight);
            self.push_overflow(rank, members);
        }
    }

    /// Each member makes its replica's load one higher, so one at a time to the least loaded is
    /// level by level: at each level, all replicas that are not above it, in the order of rank.
    fn overflow_level_by_level(&mut self, candidates: u32, members: u32) {
        let candidates = self.sets.get(candidates);
        let mut waiting: Vec<(u64, u32)> = bits::ranks(candidates.iter().copied())
            .map(|rank| (self.loads.of(rank), rank))
            .collect();
        waiting.sort_unstable();
        let mut waiting = waiting.into_iter().peekable();
        let Some(&(mut level, _)) = waiting.peek() else {
            return;
        };
        let mut at_level = vec![0; candidates.len()];
        let mut left = members;
        while left > 0 {
            while let Some((_, rank)) = waiting.next_if(|&(load, _)| load == level) {
                bits::insert(&mut at_level, rank);
            }
            for rank in bits::ranks(at_level.iter().copied()).take(left as usize) {
                self.loads.add(rank, 1);
                self.push_overflow(rank, 1);
                left -= 1;
            }
            level = level.saturating_add(1);
        }
    }

    fn push_overflow(&mut self, rank: u32, members: u32) {
        match self.runs.last_mut() {
            Some(last) if last.rank == rank && last.why == Why::Overflow => last.members += members,
            _ => self.runs.push(Run {
                rank,
                members,
                tokens: 0,
                why: Why::Overflow,
            }),
        }
    }
}
