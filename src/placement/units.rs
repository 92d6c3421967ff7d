//! From requests to units, and which of them are placed in which order: **rules 1 to 4**.

use std::cmp::Reverse;

use super::intern::{Interner, NONE, Seed, equal};
use super::roster::{CandidateSets, Roster};
use super::{BalanceBy, Request, Rules};

/// Requests with equal block sequences and equal candidates.
pub(super) struct Unit<'a> {
    /// The blocks that each member has.
    pub(super) blocks: &'a [u64],
    /// How many requests it has.
    pub(super) members: u32,
    /// The number of its candidate set.
    pub(super) candidates: u32,
}

impl Unit<'_> {
    fn is_group(&self) -> bool {
        self.members >= 2
    }
}

/// **Rule 1.** The units of a batch, in order of first arrival.
pub(super) struct Units<'a> {
    seed: Seed,
    units: Interner<Unit<'a>>,
    /// The unit of each request, or [`NONE`].
    unit_of: Vec<u32>,
}

impl<'a> Units<'a> {
    /// A request without blocks is in no unit, and neither is one that may go nowhere.
    pub(super) fn find(
        seed: Seed,
        requests: &'a [Request<'a>],
        roster: &Roster,
        sets: &mut CandidateSets<'a>,
    ) -> Self {
        let mut units = Interner::<Unit<'a>>::new(seed);
        let mut unit_of = Vec::with_capacity(requests.len());
        for request in requests {
            let number = if request.blocks.is_empty() {
                None
            } else {
                sets.number(roster, request.candidates)
            };
            unit_of.push(match number {
                None => NONE,
                Some(candidates) => {
                    let hash = seed.words(request.blocks) ^ seed.word(candidates.into());
                    let is_same = |unit: &Unit<'_>| {
                        unit.candidates == candidates && equal(unit.blocks, request.blocks)
                    };
                    let make = || Unit {
                        blocks: request.blocks,
                        members: 0,
                        candidates,
                    };
                    let number = units.intern(hash, is_same, make);
                    if let Some(unit) = units.get_mut(number) {
                        unit.members += 1;
                    }
                    number
                }
            });
        }
        Self {
            seed,
            units,
            unit_of,
        }
    }

    /// The number of units.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Unit<'a>> {
        self.units.get(number)
    }

    /// The unit of each request, or [`NONE`].
    pub(super) fn unit_of(&self) -> &[u32] {
        &self.unit_of
    }

    /// **Rules 2 and 3.** The units that are placed, in the order in which they are.
    pub(super) fn in_order(&self, rules: &Rules) -> Vec<u32> {
        let overlapping = self.overlapping_singles(rules.min_colocate_blocks as usize);
        let mut order: Vec<u32> = (0u32..)
            .zip(self.units.iter())
            .filter(|(_, unit)| unit.is_group())
            .map(|(number, _)| number)
            .chain(overlapping)
            .collect();
        order.sort_by_key(|&number| {
            self.units
                .get(number)
                .map(|unit| (!unit.is_group(), Reverse(unit.blocks.len())))
        });
        order
    }

    /// **Rule 2.** The units of one whose first `min` blocks are those of another request too.
    fn overlapping_singles(&self, min: usize) -> Vec<u32> {
        if min == 0 || self.units.iter().all(Unit::is_group) {
            return Vec::new();
        }
        // How many requests start with the same `min` blocks, and one unit of them.
        struct Start {
            unit: u32,
            requests: usize,
        }
        let start_of = |number| {
            self.units
                .get(number)
                .and_then(|unit| unit.blocks.get(..min))
        };
        let mut starts = Interner::<Start>::new(self.seed);
        let mut singles = Vec::new();
        for (number, unit) in (0u32..).zip(self.units.iter()) {
            let Some(blocks) = start_of(number) else {
                continue;
            };
            let start = starts.intern(
                self.seed.words(blocks),
                |start| start_of(start.unit).is_some_and(|start| equal(start, blocks)),
                || Start {
                    unit: number,
                    requests: 0,
                },
            );
            if let Some(start) = starts.get_mut(start) {
                start.requests += unit.members as usize;
            }
            if !unit.is_group() {
                singles.push((number, start));
            }
        }
        let is_shared = |start| starts.get(start).is_some_and(|start| start.requests >= 2);
        singles
            .into_iter()
            .filter(|&(_, start)| is_shared(start))
            .map(|(number, _)| number)
            .collect()
    }

    /// **Rule 4.** The load that a replica may have and still be chosen for its prefix, at most:
    /// one less than this.
    pub(super) fn fair_share(&self, order: &[u32], balance_by: BalanceBy, replicas: usize) -> u64 {
        let total: u64 = order
            .iter()
            .filter_map(|&number| self.units.get(number))
            .map(|unit| match balance_by {
                BalanceBy::Requests => u64::from(unit.members),
                BalanceBy::Tokens => unit.blocks.len() as u64,
            })
            .sum();
        total.div_ceil((replicas as u64).max(1))
    }
}
