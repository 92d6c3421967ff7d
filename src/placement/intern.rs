//! Hashing, and giving equal things one number.
//!
//! Hashes only speed up the search: whatever has equal hashes is compared in full, so a
//! collision costs time and never a wrong placement. They are seeded by the names and the load
//! of the replicas, which a client doesn't know, so that nobody can send blocks that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Replica;

/// The seed of all hashes of one batch. It never influences an answer.
#[derive(Clone, Copy)]
pub(super) struct Seed {
    flip: u64,
    factor: u64,
}

impl Seed {
    /// A seed drawn from what the replicas are called and how busy they are.
    pub(super) fn of(replicas: &[Replica<'_>]) -> Self {
        let flip = replicas.iter().fold(0, |seed: u64, replica| {
            xxh3_64_with_seed(
                replica.name.as_bytes(),
                seed.rotate_left(7) ^ replica.running as u64 ^ replica.load.rotate_left(32),
            )
        });
        let factor = xxh3_64_with_seed(&flip.to_le_bytes(), 1) | 1;
        Self { flip, factor }
    }

    /// A hash of one word, good in its high and its low bits.
    #[inline]
    pub(super) fn word(self, word: u64) -> u64 {
        let hash = (word ^ self.flip).wrapping_mul(self.factor);
        hash ^ hash >> 32
    }

    /// A hash of a sequence of words: four independent lanes, so that a processor works on all
    /// at once.
    #[inline]
    pub(super) fn words(self, words: &[u64]) -> u64 {
        let step = |lane: u64, word: u64| {
            (lane ^ word)
                .wrapping_mul(self.factor)
                .rotate_left(29)
                .wrapping_add(word)
        };
        let [mut a, mut b, mut c, mut d] = [0, 1, 2, 3].map(|lane| self.flip.rotate_left(lane));
        let (chunks, rest) = words.as_chunks::<4>();
        for &[w, x, y, z] in chunks {
            a = step(a, w);
            b = step(b, x);
            c = step(c, y);
            d = step(d, z);
        }
        for &word in rest {
            a = step(a, word);
        }
        let mut hash = words.len() as u64;
        for lane in [a, b, c, d] {
            hash = step(hash, self.word(lane));
        }
        self.word(hash)
    }
}

impl BuildHasher for Seed {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher {
            seed: *self,
            hash: 0,
        }
    }
}

/// Hashes `u64` keys with a [`Seed`].
pub(super) struct WordHasher {
    seed: Seed,
    hash: u64,
}

impl Hasher for WordHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.hash = self.seed.word(word);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = self.seed.word(self.hash ^ u64::from(byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

/// "None" where a number stands.
pub(super) const NONE: u32 = u32::MAX;

/// Gives equal things one number, counted from 0 in order of first appearance.
pub(super) struct Interner<T> {
    first: HashMap<u64, u32, Seed>,
    items: Vec<Item<T>>,
}

struct Item<T> {
    value: T,
    /// The next item with the same hash.
    next: u32,
}

impl<T> Interner<T> {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            first: HashMap::with_hasher(seed),
            items: Vec::new(),
        }
    }

    /// The number of the thing with this hash that `is_same` recognises; if there is none yet,
    /// it becomes what `make` makes.
    #[inline]
    pub(super) fn intern(
        &mut self,
        hash: u64,
        is_same: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> u32 {
        let new = self.items.len() as u32;
        let mut number = *self.first.entry(hash).or_insert(new);
        while let Some(item) = self.items.get_mut(number as usize) {
            if is_same(&item.value) {
                return number;
            }
            if item.next == NONE {
                item.next = new;
            }
            number = item.next;
        }
        self.items.push(Item {
            value: make(),
            next: NONE,
        });
        new
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_of_unequal_things_stay_apart() {
        let mut interner = Interner::new(Seed::of(&[]));
        let mut number = |text: &'static str| interner.intern(7, |&t| t == text, || text);
        let numbers = ["a", "b", "a", "c", "b", "c"].map(&mut number);
        assert_eq!(numbers, [0, 1, 0, 2, 1, 2]);
    }

    #[test]
    fn the_hash_of_a_sequence_sees_order_and_length() {
        let seed = Seed::of(&[]);
        let sequences: [&[u64]; 6] = [&[], &[0], &[0, 0], &[1, 2], &[2, 1], &[0, 0, 0, 0]];
        let mut hashes = sequences.map(|s| seed.words(s)).to_vec();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), sequences.len());
    }
}
