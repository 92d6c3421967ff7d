//! Which replicas hold which blocks, and how much of a unit each has: **rule 5**, and the second
//! half of **rule 8**.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::bits::{self, BitSets};
use super::intern::{NONE, Seed};

/// The blocks placed so far and their holders.
///
/// Blocks in a row mostly have the same holders, so a block names a set of holders and sets are
/// shared. A block that only one unit has is never looked up by another, so it isn't kept.
pub(super) struct Holders {
    repeats: Repeats,
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
    /// Nobody holds anything; the units with these blocks will be placed.
    pub(super) fn new<'a>(
        seed: Seed,
        replicas: usize,
        units: impl Iterator<Item = &'a [u64]> + Clone,
    ) -> Self {
        let repeats = Repeats::among(seed, units);
        Self {
            holders_of: HashMap::with_capacity_and_hasher(repeats.found, seed),
            repeats,
            sets: SharedSets::new(replicas),
            walked: Vec::new(),
            touched: vec![0; bits::words_for(replicas)],
        }
    }

    /// **Rule 5.** Walks the blocks of a unit up to the first that no replica holds.
    pub(super) fn walk(&mut self, blocks: &[u64]) {
        self.walked.clear();
        for &block in blocks {
            if !self.repeats.maybe(block) {
                break;
            }
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

    /// **Rule 8.** From now on all these blocks are held by each of these replicas.
    pub(super) fn hold(&mut self, blocks: &[u64], ranks: impl Iterator<Item = u32>) {
        self.touched.fill(0);
        for rank in ranks {
            bits::insert(&mut self.touched, rank);
        }
        let touched = self.sets.add(&self.touched);
        // The last union: neighbours mostly need the same.
        let (mut before, mut after) = (NONE, NONE);
        for &block in blocks {
            if !self.repeats.maybe(block) {
                continue;
            }
            match self.holders_of.entry(block) {
                Entry::Vacant(entry) => {
                    entry.insert(touched);
                    self.sets.retain(touched);
                }
                Entry::Occupied(mut entry) => {
                    let holders = *entry.get();
                    if holders != before {
                        before = holders;
                        after = self.sets.union(holders, touched);
                    }
                    if after != holders {
                        entry.insert(after);
                        self.sets.retain(after);
                        self.sets.release(holders);
                    }
                }
            }
        }
        self.sets.release(touched);
    }
}

/// Which blocks may occur more than once among the units: certain when it says no, and seldom
/// wrong when it says yes.
///
/// Two Bloom filters side by side, "seen" and "seen again", in which a block is two bits of one
/// word.
struct Repeats {
    seed: Seed,
    mask: u64,
    words: Vec<[u64; 2]>,
    /// About how many blocks were seen again.
    found: usize,
}

impl Repeats {
    /// The more, the fewer blocks are kept in vain.
    const BITS_PER_BLOCK: u64 = 4;
    /// 16 MiB.
    const MOST_WORDS: u64 = 1 << 20;

    fn among<'a>(seed: Seed, units: impl Iterator<Item = &'a [u64]> + Clone) -> Self {
        let blocks: u64 = units.clone().map(|unit| unit.len() as u64).sum();
        let words = (blocks.saturating_mul(Self::BITS_PER_BLOCK) / 64)
            .clamp(1, Self::MOST_WORDS)
            .next_power_of_two();
        let mut this = Self {
            seed,
            mask: words - 1,
            words: vec![[0; 2]; words as usize],
            found: 0,
        };
        for unit in units {
            for &block in unit {
                let (place, bits) = this.place(block);
                if let Some([seen, again]) = this.words.get_mut(place) {
                    let repeated = *seen & bits == bits;
                    *seen |= bits;
                    if repeated {
                        this.found += usize::from(*again & bits != bits);
                        *again |= bits;
                    }
                }
            }
        }
        this
    }

    #[inline]
    fn maybe(&self, block: u64) -> bool {
        let (place, bits) = self.place(block);
        self.words
            .get(place)
            .is_some_and(|[_, again]| again & bits == bits)
    }

    #[inline]
    fn place(&self, block: u64) -> (usize, u64) {
        let hash = self.seed.word(block);
        let bits = 1 << (hash >> 58) | 1 << (hash >> 52 & 63);
        ((hash & self.mask) as usize, bits)
    }
}

/// Sets that many blocks name. A set that no block names any more makes room for another.
struct SharedSets {
    sets: BitSets,
    /// How many name each set.
    uses: Vec<u32>,
    free: Vec<u32>,
    scratch: Vec<u64>,
}

impl SharedSets {
    fn new(replicas: usize) -> Self {
        Self {
            sets: BitSets::new(replicas),
            uses: Vec::new(),
            free: Vec::new(),
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
        let units: [&[u64]; 3] = [&[1, 2], &[4, 5], &[1, 2, 3, 4]];
        let mut h = holders(&units);
        assert_eq!(walked(&mut h, &[1, 2, 3, 4]), [0, 0, 0]);
        h.hold(&[1, 2], [0].into_iter());
        h.hold(&[4, 5], [1].into_iter());
        assert_eq!(walked(&mut h, &[1, 2, 3, 4]), [2, 0, 0]);
        assert_eq!(walked(&mut h, &[1, 2, 4]), [2, 1, 0]);
        assert!(!h.is_nested());
    }

    #[test]
    fn a_block_counts_as_often_as_it_occurs() {
        let units: [&[u64]; 2] = [&[1, 1, 2], &[1, 1, 2]];
        let mut h = holders(&units);
        h.hold(&[1, 1, 2], [69].into_iter());
        assert_eq!(walked(&mut h, &[1, 1, 2]), [0, 0, 3]);
    }

    #[test]
    fn holders_add_up_and_sets_are_reused() {
        let chain: Vec<u64> = (1..=40).collect();
        let units = [chain.as_slice(); 200];
        let mut h = holders(&units);
        for i in 0..200usize {
            let rank = [0, 1, 69][i % 3];
            h.hold(&chain[..40 - i % 40], [rank].into_iter());
        }
        assert_eq!(walked(&mut h, &chain), [40, 40, 40]);
        assert!(h.is_nested());
        assert!(h.sets.uses.len() < 50, "{} sets", h.sets.uses.len());
    }

    #[test]
    fn a_block_of_one_unit_only_is_not_kept() {
        let units: [&[u64]; 2] = [&[1, 2], &[1, 3]];
        let mut h = holders(&units);
        h.hold(&[1, 2], [0].into_iter());
        h.hold(&[1, 3], [0].into_iter());
        assert!(h.holders_of.contains_key(&1));
        assert!(h.holders_of.len() <= 3);
    }
}
