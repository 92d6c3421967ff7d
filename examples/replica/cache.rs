//! The prefix cache: full blocks of prompt tokens, each named by a hash over all that came
//! before it, the least recently used one thrown out first.
//!
//! As in vLLM, a block that a running sequence uses stays; a free one stays cached until its
//! place is needed; and of a sequence's blocks the last is thrown out first, so that what is
//! left is a prefix. Otherwise than in vLLM, generated tokens take no blocks, and where every
//! block is in use the rest of a prompt goes uncached instead of waiting.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;

/// What a sequence got from the cache when it was scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Leading blocks that were there already and need no prefill.
    pub(crate) hit: usize,
    /// Leading blocks now in use by the sequence; give them back when it ends.
    pub(crate) held: usize,
}

struct Block {
    users: usize,
    /// The key in `free` while nobody uses the block.
    freed: u64,
}

pub(crate) struct PrefixCache {
    capacity: usize,
    blocks: HashMap<u64, Block>,
    /// Blocks that nobody uses, the next to throw out first.
    free: BTreeMap<u64, u64>,
    /// Counts up with each block freed.
    clock: u64,
}

impl PrefixCache {
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        Self {
            capacity: capacity.get(),
            blocks: HashMap::new(),
            free: BTreeMap::new(),
            clock: 0,
        }
    }

    /// Takes a chain of blocks for a sequence. All of them count as cached from now on, of which
    /// at most `max_hit` as a hit.
    pub(crate) fn take(&mut self, chain: &[u64], max_hit: usize) -> Taken {
        let known = chain
            .iter()
            .take_while(|hash| self.blocks.contains_key(hash))
            .count();
        let mut held = 0;
        for &hash in chain {
            if let Some(block) = self.blocks.get_mut(&hash) {
                if block.users == 0 {
                    self.free.remove(&block.freed);
                }
                block.users += 1;
            } else if self.make_room() {
                self.blocks.insert(hash, Block { users: 1, freed: 0 });
            } else {
                break;
            }
            held += 1;
        }
        Taken {
            hit: known.min(max_hit),
            held,
        }
    }

    /// Ends the use of blocks that [`take`](Self::take) gave.
    pub(crate) fn give_back(&mut self, held: &[u64]) {
        for hash in held.iter().rev() {
            let Some(block) = self.blocks.get_mut(hash) else {
                continue;
            };
            block.users = block.users.saturating_sub(1);
            if block.users == 0 {
                self.clock += 1;
                block.freed = self.clock;
                self.free.insert(self.clock, *hash);
            }
        }
    }

    /// The share of the capacity that running sequences use, 0 to 1.
    pub(crate) fn usage(&self) -> f64 {
        (self.blocks.len() - self.free.len()) as f64 / self.capacity as f64
    }

    fn make_room(&mut self) -> bool {
        if self.blocks.len() < self.capacity {
            return true;
        }
        match self.free.pop_first() {
            Some((_, oldest)) => self.blocks.remove(&oldest).is_some(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: usize) -> PrefixCache {
        PrefixCache::new(NonZeroUsize::new(capacity).unwrap())
    }

    /// Takes a chain, gives it back, and returns the hit.
    fn serve(cache: &mut PrefixCache, chain: &[u64]) -> usize {
        let taken = cache.take(chain, usize::MAX);
        cache.give_back(&chain[..taken.held]);
        taken.hit
    }

    #[test]
    fn a_hit_is_the_longest_cached_prefix() {
        let mut cache = cache(10);
        assert_eq!(serve(&mut cache, &[1, 2, 3]), 0);
        assert_eq!(serve(&mut cache, &[1, 2, 3]), 3);
        assert_eq!(serve(&mut cache, &[1, 2, 9]), 2);
        assert_eq!(serve(&mut cache, &[8, 2, 3]), 0);
        assert_eq!(cache.take(&[1, 2, 3], 2).hit, 2);
    }

    #[test]
    fn blocks_are_cached_while_their_first_user_still_runs() {
        let mut cache = cache(10);
        cache.take(&[1, 2], 2);
        assert_eq!(cache.take(&[1, 2], 2).hit, 2);
        assert_eq!(cache.usage(), 0.2);
    }

    #[test]
    fn the_least_recently_used_goes_first_and_of_a_chain_its_end() {
        let mut cache = cache(4);
        serve(&mut cache, &[1, 2]);
        serve(&mut cache, &[3, 4]);
        serve(&mut cache, &[1, 2]);
        serve(&mut cache, &[5]);
        assert_eq!(serve(&mut cache, &[1, 2]), 2);
        assert_eq!(serve(&mut cache, &[3]), 1, "the head outlives the tail");
    }

    #[test]
    fn blocks_in_use_stay_and_the_rest_goes_uncached() {
        let mut cache = cache(3);
        let first = cache.take(&[1, 2], 2);
        let second = cache.take(&[5, 6, 7], 3);
        assert_eq!((first.held, second.held), (2, 1));
        assert_eq!(cache.usage(), 1.0);
        cache.give_back(&[5]);
        assert_eq!(cache.take(&[1, 2], 2).hit, 2);
    }
}
