//! From requests to units, and which of them are placed in which order: **rules 1 to 4**.

use std::cmp::Reverse;

use super::before::HeldBefore;
use super::intern::{Interner, NONE, Seed, equal};
use super::roster::{CandidateSets, Roster};
use super::{BalanceBy, Request, Rules};

/// Requests with equal block sequences, or of one group, and with equal candidates.
pub(super) struct Unit<'a> {
    /// The blocks that each member has; in a group of the caller's, those of the first.
    pub(super) blocks: &'a [u64],
    /// The request that came first.
    first: u32,
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
    /// What each member weighs; none where each weighs 1, as most do.
    weights: Option<Weights>,
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
    ) -> Self {
        let mut units = Interner::<Unit<'a>>::new(seed);
        let mut unit_of = Vec::with_capacity(requests.len());
        for (place, request) in (0u32..).zip(requests) {
            let number = if request.blocks.is_empty() {
                None
            } else {
                sets.number(roster, request.candidates)
            };
            unit_of.push(match number {
                None => NONE,
                Some(candidates) => {
                    let hash = match request.group {
                        None => seed.words(request.blocks),
                        Some(group) => seed.word(group),
                    };
                    let hash = hash ^ seed.word(candidates.into());
                    let is_same = |unit: &Unit<'_>| {
                        let group = requests.get(unit.first as usize).and_then(|r| r.group);
                        unit.candidates == candidates
                            && group == request.group
                            && (group.is_some() || equal(unit.blocks, request.blocks))
                    };
                    let make = || Unit {
                        blocks: request.blocks,
                        first: place,
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
        units.forget();
        let even = requests.iter().all(|request| request.weight <= 1);
        let weights = (!even).then(|| Weights::of(requests, &units, &unit_of));
        Self {
            seed,
            units,
            unit_of,
            weights,
        }
    }

    /// The members of this unit, for runs to take from.
    pub(super) fn members(&self, number: u32) -> Members<'_> {
        let left = self.units.get(number).map_or(0, |unit| unit.members);
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
    pub(super) fn in_order(
        &self,
        rules: &Rules,
        place_all: bool,
        held: HeldBefore<'_>,
    ) -> Vec<u32> {
        let overlapping = if place_all {
            Vec::new()
        } else {
            self.overlapping_singles(rules.min_colocate_blocks as usize, held)
        };
        let mut order: Vec<u32> = (0u32..)
            .zip(self.units.iter())
            .filter(|(_, unit)| place_all || unit.is_group())
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

    /// **Rule 2.** The units of one whose first `min` blocks are those of another request too, or
    /// were held before.
    fn overlapping_singles(&self, min: usize, held: HeldBefore<'_>) -> Vec<u32> {
        if min == 0 || self.units.iter().all(Unit::is_group) {
            return Vec::new();
        }
        // How many requests start with the same `min` blocks. A prefix held before counts as one.
        struct Start<'a> {
            blocks: &'a [u64],
            requests: usize,
        }
        let mut starts = Interner::<Start<'_>>::new(self.seed);
        let mut count = |blocks, requests: u32| {
            let start = starts.intern(
                self.seed.words(blocks),
                |start| equal(start.blocks, blocks),
                || Start {
                    blocks,
                    requests: 0,
                },
            );
            if let Some(start) = starts.get_mut(start) {
                start.requests += requests as usize;
            }
            start
        };
        for prefix in held.prefixes() {
            if let Some(blocks) = prefix.blocks.get(..min) {
                count(blocks, 1);
            }
        }
        let mut singles = Vec::new();
        for (number, unit) in (0u32..).zip(self.units.iter()) {
            let Some(blocks) = unit.blocks.get(..min) else {
                continue;
            };
            let start = count(blocks, unit.members);
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
    /// `expected`: what a unit counts at least, by requests.
    pub(super) fn fair_share(
        &self,
        order: &[u32],
        balance_by: BalanceBy,
        expected: u64,
        before: &[u64],
    ) -> u64 {
        let total: u64 = order
            .iter()
            .map(|&number| match balance_by {
                BalanceBy::Requests => self.members(number).weight.max(expected),
                BalanceBy::Tokens => {
                    let unit = self.units.get(number);
                    unit.map_or(0, |unit| unit.blocks.len() as u64)
                }
            })
            .sum();
        let total = before.iter().copied().fold(total, u64::saturating_add);
        total.div_ceil((before.len() as u64).max(1))
    }
}

impl Weights {
    fn of(requests: &[Request<'_>], units: &Interner<Unit<'_>>, unit_of: &[u32]) -> Self {
        let mut end = 0;
        let mut ends: Vec<usize> = Vec::with_capacity(units.len());
        for unit in units.iter() {
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
