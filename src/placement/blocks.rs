//! Holders of any blocks, where each has to be looked up by itself.

use std::collections::HashMap;

use super::bits;
use super::intern::{NONE, Seed};

/// The holders of each block. A block that no later unit has is never looked up again, so it isn't
/// kept.
pub(super) struct Blocks {
    /// See [`needed_later`].
    needed: Vec<u64>,
    holders_of: HashMap<u64, u32, Seed>,
}

impl Blocks {
    /// The units with these blocks will be held, in this order.
    pub(super) fn new<'a>(
        seed: Seed,
        units: impl DoubleEndedIterator<Item = &'a [u64]> + Clone,
    ) -> Self {
        Self {
            needed: needed_later(seed, units),
            holders_of: HashMap::with_hasher(seed),
        }
    }

    /// The holders of each of these blocks up to the first that no replica holds.
    pub(super) fn held(&self, blocks: &[u64]) -> impl Iterator<Item = u32> {
        blocks
            .iter()
            .map_while(|block| self.holders_of.get(block).copied())
    }

    /// Gives out the holders of each block of the next unit that is needed later, to be changed;
    /// [`NONE`] where it has none yet. The first `skip` blocks are left out.
    pub(super) fn each_needed(
        &mut self,
        blocks: &[u64],
        mut skip: usize,
        mut change: impl FnMut(&mut u32),
    ) {
        for blocks in blocks.chunks(64) {
            let mut needed = self.needed.pop().unwrap_or(u64::MAX);
            if skip >= blocks.len() {
                skip -= blocks.len();
                continue;
            }
            needed &= u64::MAX << skip;
            skip = 0;
            for i in bits::ranks(std::iter::once(needed)) {
                if let Some(&block) = blocks.get(i as usize) {
                    change(self.holders_of.entry(block).or_insert(NONE));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_no_later_unit_has_is_not_kept() {
        let units: [&[u64]; 3] = [&[1, 2], &[1, 3], &[4]];
        let mut blocks = Blocks::new(Seed::of(&[]), units.iter().copied());
        for unit in units {
            blocks.each_needed(unit, 0, |holders| *holders = 7);
        }
        assert_eq!(blocks.held(&[1, 2]).next(), Some(7));
        assert!(blocks.holders_of.len() <= 2);
    }
}
