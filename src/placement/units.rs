//! From requests to units, and which of them are placed in which order: **rules 1 to 4**.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::before::HeldBefore;
use super::intern::{NONE, Seed};
use super::roster::{CandidateSets, Roster};
use super::tree::Tree;
use super::{BalanceBy, Request, Rules};

/// Requests with equal block sequences, or of one group, and with equal candidates.
pub(super) struct Unit<'a> {
    /// The blocks that each member has; in a group of the caller's, those of the first.
    pub(super) blocks: &'a [u64],
    /// The number of its candidate set.
    pub(super) candidates: u32,
}

/// **Rule 1.** The units of a batch, in order of first arrival.
pub(super) struct Units<'a> {
    seed: Seed,
    /// A leaf for each unit, of the same number, and then one for each prefix held before.
    tree: Tree<'a>,
    counts: Vec<Count>,
    /// The unit of each request, or [`NONE`].
    unit_of: Vec<u32>,
    /// What each member weighs; none where each weighs 1, as most do.
    weights: Option<Weights>,
    /// Whether all blocks are chained.
    is_chained: bool,
}

/// What a unit has besides its blocks.
struct Count {
    members: u32,
    candidates: u32,
}

impl Count {
    fn is_group(&self) -> bool {
        self.members >= 2
    }
}

/// The weights of the members of all units, in order of arrival.
struct Weights {
    /// Unit after unit.
    weights: Vec<u32>,
    /// Where each unit's weights end.
    ends: Vec<usize>,
}

impl<'a> Units<'a> {
    /// A request without blocks is in no unit, and neither is one that may go nowhere.
    pub(super) fn find(
        seed: Seed,
        requests: &'a [Request<'a>],
        roster: &Roster,
        sets: &mut CandidateSets<'a>,
        held: HeldBefore<'_, 'a>,
    ) -> Self {
        let mut tree = Tree::new(seed, requests.len());
        let mut groups: HashMap<(u64, u32), u32, Seed> = HashMap::with_hasher(seed);
        let mut counts: Vec<Count> = Vec::with_capacity(requests.len());
        let mut unit_of = Vec::with_capacity(requests.len());
        let (mut is_even, mut is_chained) = (true, true);
        for chunk in requests.chunks(32) {
            fetch(chunk);
            for request in chunk {
                is_even &= request.weight <= 1;
                is_chained &= request.chained;
                let candidates = if request.blocks.is_empty() {
                    None
                } else {
                    sets.number(roster, request.candidates)
                };
                let Some(candidates) = candidates else {
                    unit_of.push(NONE);
                    continue;
                };
                let number = match request.group {
                    None => tree.leaf(request.blocks, candidates),
                    Some(group) => {
                        let new = || tree.leaf(request.blocks, NONE);
                        *groups.entry((group, candidates)).or_insert_with(new)
                    }
                };
                match counts.get_mut(number as usize) {
                    Some(unit) => unit.members += 1,
                    None => counts.push(Count {
                        members: 1,
                        candidates,
                    }),
                }
                unit_of.push(number);
            }
        }
        for prefix in held.prefixes() {
            is_chained &= prefix.chained;
            tree.leaf(prefix.blocks, NONE);
        }
        tree.forget_ways();
        let weights = (!is_even).then(|| Weights::of(requests, &counts, &unit_of));
        Self {
            seed,
            tree,
            counts,
            unit_of,
            weights,
            is_chained,
        }
    }

    /// The members of this unit, for runs to take from.
    pub(super) fn members(&self, number: u32) -> Members<'_> {
        let left = self.size(number);
        let weights = self.weights.as_ref().map(|weights| weights.of_unit(number));
        Members {
            left,
            weight: weights.map_or(left.into(), |weights| {
                weights.iter().copied().map(u64::from).sum()
            }),
            weights,
        }
    }

    /// The number of units.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// How many requests a unit has.
    pub(super) fn size(&self, number: u32) -> u32 {
        let unit = self.counts.get(number as usize);
        unit.map_or(0, |unit| unit.members)
    }

    /// Forgets blocks and weights, to make room. Units have none from now on.
    pub(super) fn forget_blocks(&mut self) {
        self.tree = Tree::new(self.seed, 0);
        self.weights = None;
    }

    pub(super) fn get(&self, number: u32) -> Option<Unit<'a>> {
        let count = self.counts.get(number as usize)?;
        Some(Unit {
            blocks: self.tree.blocks(number),
            candidates: count.candidates,
        })
    }

    /// The unit of each request, or [`NONE`].
    pub(super) fn unit_of(&self) -> &[u32] {
        &self.unit_of
    }

    /// The leaves of the prefixes held before.
    pub(super) fn held(&self) -> std::ops::Range<u32> {
        self.counts.len() as u32..self.tree.len() as u32
    }

    /// Where the units' blocks part, if all of the batch and what was held before are chained.
    pub(super) fn chains(&self) -> Option<&Tree<'a>> {
        self.is_chained.then_some(&self.tree)
    }

    /// **Rules 2 and 3.** The units that are placed, in the order in which they are.
    pub(super) fn in_order(&self, rules: &Rules, place_all: bool) -> Vec<u32> {
        let min = rules.min_colocate_blocks as usize;
        let mut order = Vec::with_capacity(self.counts.len());
        for (number, unit) in (0u32..).zip(&self.counts) {
            // Rule 2: a prefix held before counts as one more request.
            if place_all || unit.is_group() || min > 0 && self.tree.shared(number) >= min {
                order.push(number);
            }
        }
        order.sort_by_key(|&number| {
            let unit = self.counts.get(number as usize);
            unit.map(|unit| (!unit.is_group(), Reverse(self.tree.blocks(number).len())))
        });
        order
    }

    /// **Rule 4.** The load that a replica may have and still be chosen for its prefix, at most:
    /// one less than this.
    /// `expected`: what a unit counts at least, by requests.
    pub(super) fn fair_share(
        &self,
        order: &[u32],
        balance_by: BalanceBy,
        expected: u64,
        before: &[u64],
    ) -> u64 {
        let of_units = order.iter().map(|&number| match balance_by {
            BalanceBy::Requests => self.members(number).weight.max(expected),
            BalanceBy::Tokens => self.tree.blocks(number).len() as u64,
        });
        let all = of_units.chain(before.iter().copied());
        let total = all.fold(0, u64::saturating_add);
        total.div_ceil((before.len() as u64).max(1))
    }
}

/// Reads what will be read first of all of these, and makes nothing of it: together, the processor
/// waits for memory once and not for each.
fn fetch(requests: &[Request<'_>]) {
    // Blocks in a line of the processor's cache; the first that not all have is often in the second.
    const LINE: usize = 8;
    let mut all = 0;
    for request in requests {
        for block in request.blocks.iter().step_by(LINE).take(2) {
            all ^= block;
        }
    }
    std::hint::black_box(all);
}

impl Weights {
    fn of(requests: &[Request<'_>], units: &[Count], unit_of: &[u32]) -> Self {
        let mut end = 0;
        let mut ends: Vec<usize> = Vec::with_capacity(units.len());
        for unit in units {
            // Where it begins, for now: each weight that is put in moves it on.
            ends.push(end);
            end += unit.members as usize;
        }
        let mut weights = vec![1; end];
        for (request, &number) in requests.iter().zip(unit_of) {
            if let Some(next) = ends.get_mut(number as usize)
                && let Some(weight) = weights.get_mut(*next)
            {
                *weight = request.weight.max(1);
                *next += 1;
            }
        }
        Self { weights, ends }
    }

    fn of_unit(&self, number: u32) -> &[u32] {
        let number = number as usize;
        let before = number.checked_sub(1).and_then(|n| self.ends.get(n));
        let start = before.copied().unwrap_or(0);
        let end = self.ends.get(number).copied().unwrap_or(start);
        self.weights.get(start..end).unwrap_or(&[])
    }
}

/// The members of a unit that are not placed yet, in order of arrival.
pub(super) struct Members<'a> {
    left: u32,
    weight: u64,
    /// What each weighs; none where each weighs 1.
    weights: Option<&'a [u32]>,
}

impl Members<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// What those that are left weigh together.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// How many are left, if each weighs 1.
    pub(super) fn even(&self) -> Option<u32> {
        self.weights.is_none().then_some(self.left)
    }

    /// **Rule 7.** Takes as many as fit into the room, and at least one: how many that is, and
    /// what they weigh.
    pub(super) fn take(&mut self, room: u64) -> (u32, u64) {
        let (members, weight) = if self.weight <= room {
            (self.left, self.weight)
        } else {
            match self.weights {
                None => {
                    let members = u32::try_from(room).unwrap_or(u32::MAX);
                    let members = members.max(1).min(self.left);
                    (members, members.into())
                }
                Some(weights) => first_that_fit(weights, room),
            }
        };
        self.left -= members;
        self.weight -= weight;
        let rest = |weights: &mut &[u32]| {
            *weights = weights.get(members as usize..).unwrap_or(&[]);
        };
        self.weights.as_mut().into_iter().for_each(rest);
        (members, weight)
    }
}

fn first_that_fit(weights: &[u32], room: u64) -> (u32, u64) {
    let mut taken = (0, 0);
    for &weight in weights {
        let (members, sum) = taken;
        let sum = sum + u64::from(weight);
        if members > 0 && sum > room {
            break;
        }
        taken = (members + 1, sum);
    }
    taken
}
