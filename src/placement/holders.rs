//! Which replicas hold which blocks, and how much of a unit each has: **rule 5**, and the second
//! half of **rule 8**.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::bits::{self, BitSets};
use super::intern::{NONE, Seed};

/// The blocks placed so far and their holders.
///
/// Blocks in a row mostly have the same holders, so a block names a set of holders and sets are
/// shared. A block that no later unit has is never looked up again, so it isn't kept.
pub(super) struct Holders {
    /// See [`needed_later`].
    needed: Vec<u64>,
    holders_of: HashMap<u64, u32, Seed>,
    sets: SharedSets,
    /// What the last walk found.
    walked: Vec<Stretch>,
    /// The replicas that the unit in hand touched.
    touched: Vec<u64>,
}

/// Blocks of a walk in a row that have the same holders.
#[derive(Clone, Copy)]
struct Stretch {
    holders: u32,
    blocks: u32,
}

impl Holders {
    /// Nobody holds anything yet. The units with these blocks will be placed, in this order:
    /// for each, first [`walk`](Self::walk), then [`hold`](Self::hold).
    pub(super) fn new<'a>(
        seed: Seed,
        replicas: usize,
        units: impl DoubleEndedIterator<Item = &'a [u64]> + Clone,
    ) -> Self {
        Self {
            needed: needed_later(seed, units),
            holders_of: HashMap::with_hasher(seed),
            sets: SharedSets::new(replicas),
            walked: Vec::new(),
            touched: vec![0; bits::words_for(replicas)],
        }
    }

    /// **Rule 5.** Walks the blocks of a unit up to the first that no replica holds.
    pub(super) fn walk(&mut self, blocks: &[u64]) {
        self.walked.clear();
        for &block in blocks {
            let Some(&holders) = self.holders_of.get(&block) else {
                break;
            };
            match self.walked.last_mut() {
                Some(last) if last.holders == holders => last.blocks += 1,
                _ => self.walked.push(Stretch { holders, blocks: 1 }),
            }
        }
    }

    /// **Rule 5.** How many blocks of the last walk this replica holds.
    pub(super) fn matched(&self, rank: u32) -> u32 {
        self.stretches()
            .filter(|(holders, _)| bits::contains(holders, rank))
            .map(|(_, blocks)| blocks)
            .sum()
    }

    /// The last walk: holders, and how many blocks in a row they hold.
    pub(super) fn stretches(&self) -> impl DoubleEndedIterator<Item = (&[u64], u32)> + Clone {
        self.walked
            .iter()
            .map(|stretch| (self.sets.get(stretch.holders), stretch.blocks))
    }

    /// Whether each stretch of the last walk is held by no one who doesn't hold the one before:
    /// so it is when each block's hash covers all that comes before it.
    pub(super) fn is_nested(&self) -> bool {
        let inner = self.stretches().skip(1);
        inner
            .zip(self.stretches())
            .all(|((inner, _), (outer, _))| bits::is_subset(inner, outer))
    }

    /// **Rule 8.** From now on the blocks of the unit that was walked last are held by each of
    /// these replicas.
    pub(super) fn hold(&mut self, blocks: &[u64], ranks: impl Iterator<Item = u32>) {
        self.touched.fill(0);
        let mut first = None;
        let mut is_single = true;
        for rank in ranks {
            bits::insert(&mut self.touched, rank);
            is_single &= *first.get_or_insert(rank) == rank;
        }
        // What the walk found to be held by all of them needs no change.
        let mut held: usize = self
            .stretches()
            .take_while(|(holders, _)| bits::is_subset(&self.touched, holders))
            .map(|(_, blocks)| blocks as usize)
            .sum();
        let touched = match first {
            Some(rank) if is_single => self.sets.add_single(rank, &self.touched),
            _ => self.sets.add(&self.touched),
        };
        // The last union: neighbours mostly need the same.
        let mut union = (NONE, NONE);
        for blocks in blocks.chunks(64) {
            let mut needed = self.needed.pop().unwrap_or(u64::MAX);
            if held >= blocks.len() {
                held -= blocks.len();
                continue;
            }
            needed &= u64::MAX << held;
            held = 0;
            for i in bits::ranks(std::iter::once(needed)) {
                if let Some(&block) = blocks.get(i as usize) {
                    self.hold_block(block, touched, &mut union);
                }
            }
        }
        self.sets.release(touched);
    }

    fn hold_block(&mut self, block: u64, touched: u32, (before, after): &mut (u32, u32)) {
        match self.holders_of.entry(block) {
            Entry::Vacant(entry) => {
                entry.insert(touched);
                self.sets.retain(touched);
            }
            Entry::Occupied(mut entry) => {
                let holders = *entry.get();
                if holders != *before {
                    *before = holders;
                    *after = self.sets.union(holders, touched);
                }
                if *after != holders {
                    entry.insert(*after);
                    self.sets.retain(*after);
                    self.sets.release(holders);
                }
            }
        }
    }
}

/// For each block of each unit, whether a later unit may have it: certain when it says no, and
/// seldom wrong when it says yes.
///
/// A word says it for 64 blocks in a row, the lowest bit for the first. The words of the unit
/// that is next are last.
fn needed_later<'a>(
    seed: Seed,
    units: impl DoubleEndedIterator<Item = &'a [u64]> + Clone,
) -> Vec<u64> {
    // A Bloom filter of the blocks of later units, in which a block is two bits of one word.
    const BITS_PER_BLOCK: u64 = 4;
    const MOST_WORDS: u64 = 1 << 20;
    let blocks: u64 = units.clone().map(|unit| unit.len() as u64).sum();
    let words = (blocks.saturating_mul(BITS_PER_BLOCK) / 64).clamp(1, MOST_WORDS);
    let mut later = vec![0u64; words as usize];

    let mut needed = Vec::with_capacity(units.clone().map(|unit| unit.len().div_ceil(64)).sum());
    for blocks in units.rev().flat_map(|unit| unit.chunks(64).rev()) {
        let mut word = 0;
        for (&block, i) in blocks.iter().zip(0u32..) {
            let hash = seed.word(block);
            let bits = 1 << (hash >> 58) | 1 << (hash >> 52 & 63);
            // The low half, scaled to the filter: a power of two would make it up to twice as
            // large, and it is quick as long as it stays in the processor's cache.
            let place = ((hash & 0xffff_ffff) * words) >> 32;
            if let Some(later) = later.get_mut(place as usize) {
                word |= u64::from(*later & bits == bits) << i;
                *later |= bits;
            }
        }
        needed.push(word);
    }
    needed
}

/// Sets that many blocks name. A set that no block names any more makes room for another.
struct SharedSets {
    sets: BitSets,
    /// How many name each set.
    uses: Vec<u32>,
    free: Vec<u32>,
    /// The set of each replica alone, once there is one. Most units go to one replica, and there
    /// are far more units than replicas.
    singles: Vec<u32>,
    scratch: Vec<u64>,
}

impl SharedSets {
    fn new(replicas: usize) -> Self {
        Self {
            sets: BitSets::new(replicas),
            uses: Vec::new(),
            free: Vec::new(),
            singles: vec![NONE; replicas],
            scratch: Vec::new(),
        }
    }

    fn get(&self, number: u32) -> &[u64] {
        self.sets.get(number)
    }

    /// A set of its own with this content, in use once.
    fn add(&mut self, set: &[u64]) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.sets.get_mut(number).copy_from_slice(set);
                self.retain(number);
                number
            }
            None => {
                self.sets.push(set);
                self.uses.push(1);
                self.uses.len() as u32 - 1
            }
        }
    }

    /// The set of this replica alone, in use once more. It stays for the whole batch.
    fn add_single(&mut self, rank: u32, set: &[u64]) -> u32 {
        let known = self.singles.get(rank as usize).copied().unwrap_or(NONE);
        if known != NONE {
            self.retain(known);
            return known;
        }
        let number = self.add(set);
        if let Some(single) = self.singles.get_mut(rank as usize) {
            *single = number;
            self.retain(number);
        }
        number
    }

    /// The number of a set that is the union of both: one of them where it can be. A new one is
    /// in use by nobody until it is retained.
    fn union(&mut self, a: u32, b: u32) -> u32 {
        let mut union = std::mem::take(&mut self.scratch);
        union.clear();
        let words = self.get(a).iter().zip(self.get(b));
        union.extend(words.map(|(a, b)| a | b));
        let number = if union == self.get(a) {
            a
        } else if union == self.get(b) {
            b
        } else {
            let number = self.add(&union);
            if let Some(uses) = self.uses.get_mut(number as usize) {
                *uses = 0;
            }
            number
        };
        self.scratch = union;
        number
    }

    fn retain(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(number as usize) {
            *uses += 1;
        }
    }

    fn release(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(number as usize) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.free.push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(units: &[&[u64]]) -> Holders {
        Holders::new(Seed::of(&[]), 70, units.iter().copied())
    }

    fn walked(holders: &mut Holders, blocks: &[u64]) -> [u32; 3] {
        holders.walk(blocks);
        [0, 1, 69].map(|rank| holders.matched(rank))
    }

    #[test]
    fn a_walk_stops_at_the_first_block_that_nobody_holds() {
        let units: [&[u64]; 4] = [&[1, 2], &[4, 5], &[1, 2, 3, 4], &[1, 2, 4]];
        let mut h = holders(&units);
        assert_eq!(walked(&mut h, &[1, 2]), [0, 0, 0]);
        h.hold(&[1, 2], [0].into_iter());
        assert_eq!(walked(&mut h, &[4, 5]), [0, 0, 0]);
        h.hold(&[4, 5], [1].into_iter());
        assert_eq!(walked(&mut h, &[1, 2, 3, 4]), [2, 0, 0]);
        assert!(h.is_nested());
        assert_eq!(walked(&mut h, &[1, 2, 4]), [2, 1, 0]);
        assert!(!h.is_nested());
    }

    #[test]
    fn a_block_counts_as_often_as_it_occurs() {
        let units: [&[u64]; 2] = [&[1, 1, 2], &[1, 1, 2]];
        let mut h = holders(&units);
        assert_eq!(walked(&mut h, &[1, 1, 2]), [0, 0, 0]);
        h.hold(&[1, 1, 2], [69].into_iter());
        assert_eq!(walked(&mut h, &[1, 1, 2]), [0, 0, 3]);
    }

    #[test]
    fn holders_add_up_and_sets_are_reused() {
        let chain: Vec<u64> = (1..=200).collect();
        let mut units: Vec<&[u64]> = (0..200).map(|i| &chain[..200 - i]).collect();
        units.push(&chain);
        let mut h = holders(&units);
        for (i, blocks) in units.iter().take(200).enumerate() {
            h.walk(blocks);
            h.hold(blocks, [[0, 1, 69][i % 3]].into_iter());
        }
        assert_eq!(walked(&mut h, &chain), [200, 199, 198]);
        assert!(h.is_nested());
        assert!(h.sets.uses.len() < 10, "{} sets", h.sets.uses.len());
    }

    #[test]
    fn a_block_that_no_later_unit_has_is_not_kept() {
        let units: [&[u64]; 3] = [&[1, 2], &[1, 3], &[4]];
        let mut h = holders(&units);
        for unit in units {
            h.walk(unit);
            h.hold(unit, [0].into_iter());
        }
        assert!(h.holders_of.contains_key(&1));
        assert!(h.holders_of.len() <= 2);
    }
}
