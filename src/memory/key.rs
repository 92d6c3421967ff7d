//! What units are known by.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::workers::{BUCKETS, Cell};

/// What a unit is known by: a hash of all that makes it one. Units of different kinds, pools or
/// candidates have different keys, as far as 128 bits go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

/// The kinds of keys; each starts its hash with another byte.
#[derive(Clone, Copy)]
enum Kind {
    Unit = 1,
    Group = 2,
    Prefix = 3,
}

impl Key {
    /// The requests of `pool` with all these blocks, that may go to the same replicas:
    /// `candidates` by name, sorted, or none for all.
    #[must_use]
    pub fn unit(pool: &str, candidates: Option<&[String]>, blocks: &[u64]) -> Self {
        let hashed = Hashed::new(Kind::Unit, pool).candidates(candidates);
        hashed.blocks(blocks).key()
    }

    /// The requests of `pool` that their client calls one group, whatever their prompts, and that
    /// may go to the same replicas: `candidates` by name, sorted, or none for all.
    #[must_use]
    pub fn group(pool: &str, candidates: Option<&[String]>, group: u64) -> Self {
        let hashed = Hashed::new(Kind::Group, pool).candidates(candidates);
        hashed.blocks(&[group]).key()
    }

    /// The requests of `pool` that begin with these blocks.
    #[must_use]
    pub fn prefix(pool: &str, blocks: &[u64]) -> Self {
        Hashed::new(Kind::Prefix, pool).blocks(blocks).key()
    }

    /// The bucket in which it is remembered, below [`BUCKETS`].
    pub(super) fn bucket(self) -> u16 {
        // A remainder by a u16 is one.
        u16::try_from(self.0 % u128::from(BUCKETS)).unwrap_or_default()
    }

    /// That bucket's cell.
    pub(super) fn cell(self) -> Cell {
        Cell::Memory(self.bucket())
    }
}

/// The hash by which a replica of this name is known as a holder.
#[must_use]
pub fn replica_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// What a key is the hash of. Lengths go before texts, so that no two keys are made of the same
/// bytes.
struct Hashed(Vec<u8>);

impl Hashed {
    fn new(kind: Kind, pool: &str) -> Self {
        Self(vec![kind as u8]).text(pool)
    }

    fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Self {
        let mut hashed = self.number(text.len() as u64);
        hashed.0.extend_from_slice(text.as_bytes());
        hashed
    }

    fn candidates(self, candidates: Option<&[String]>) -> Self {
        let Some(names) = candidates else {
            return self.number(u64::MAX);
        };
        let hashed = self.number(names.len() as u64);
        names.iter().fold(hashed, |hashed, name| hashed.text(name))
    }

    fn blocks(mut self, blocks: &[u64]) -> Self {
        self.0.reserve_exact(size_of_val(blocks));
        for hash in blocks {
            self.0.extend_from_slice(&hash.to_le_bytes());
        }
        self
    }

    fn key(self) -> Key {
        Key(xxh3_128(&self.0))
    }
}
