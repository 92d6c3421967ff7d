//! Sets of replicas as bit sets: bit `r` stands for the replica of rank `r`.
//!
//! All sets of one batch have the same number of words, so a set is a plain `[u64]`; [`BitSets`]
//! keeps many of them in one allocation.

/// Many sets of the same width, each known by its number.
pub(super) struct BitSets {
    width: usize,
    words: Vec<u64>,
}

impl BitSets {
    /// No sets yet; each will have room for `ranks` replicas.
    pub(super) fn new(ranks: usize) -> Self {
        Self {
            width: words_for(ranks),
            words: Vec::new(),
        }
    }

    /// Adds a copy of `set` as the set with the next number.
    pub(super) fn push(&mut self, set: &[u64]) {
        let end = self.words.len() + self.width;
        self.words.extend(set.iter().take(self.width));
        self.words.resize(end, 0);
    }

    /// The set with this number, empty if there is none.
    pub(super) fn get(&self, number: u32) -> &[u64] {
        let start = number as usize * self.width;
        self.words
            .get(start..start + self.width)
            .unwrap_or_default()
    }

    /// The set with this number, to be changed.
    pub(super) fn get_mut(&mut self, number: u32) -> &mut [u64] {
        let start = number as usize * self.width;
        self.words
            .get_mut(start..start + self.width)
            .unwrap_or_default()
    }
}

/// How many words a set of `ranks` replicas takes.
pub(super) fn words_for(ranks: usize) -> usize {
    ranks.div_ceil(64)
}

/// The set of the first `ranks` replicas.
pub(super) fn full(ranks: usize) -> Vec<u64> {
    let mut set = vec![u64::MAX; words_for(ranks)];
    if let Some(last) = set.last_mut()
        && !ranks.is_multiple_of(64)
    {
        *last = (1 << (ranks % 64)) - 1;
    }
    set
}

pub(super) fn insert(set: &mut [u64], rank: u32) {
    if let Some(word) = set.get_mut(rank as usize / 64) {
        *word |= 1 << (rank % 64);
    }
}

pub(super) fn remove(set: &mut [u64], rank: u32) {
    if let Some(word) = set.get_mut(rank as usize / 64) {
        *word &= !(1 << (rank % 64));
    }
}

pub(super) fn contains(set: &[u64], rank: u32) -> bool {
    set.get(rank as usize / 64)
        .is_some_and(|word| word >> (rank % 64) & 1 == 1)
}

pub(super) fn is_subset(inner: &[u64], outer: &[u64]) -> bool {
    inner.iter().zip(outer).all(|(a, b)| a & !b == 0)
}

pub(super) fn intersects(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

/// The ranks in a set given word by word, ascending.
pub(super) fn ranks(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    words.zip(0u32..).flat_map(|(mut word, i)| {
        std::iter::from_fn(move || {
            if word == 0 {
                return None;
            }
            let bit = word.trailing_zeros();
            word &= word - 1;
            Some(i * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_has_exactly_the_first_ranks() {
        for n in [1, 2, 63, 64, 65, 128, 1024] {
            let set = full(n);
            assert_eq!(ranks(set.iter().copied()).count(), n);
            assert!(contains(&set, n as u32 - 1));
            assert!(!contains(&set, n as u32));
        }
    }

    #[test]
    fn ranks_come_back_ascending() {
        let mut set = vec![0; 3];
        for rank in [130, 0, 63, 64] {
            insert(&mut set, rank);
        }
        insert(&mut set, 5);
        remove(&mut set, 5);
        assert_eq!(
            ranks(set.iter().copied()).collect::<Vec<_>>(),
            [0, 63, 64, 130]
        );
    }

    #[test]
    fn a_rank_or_number_out_of_range_is_ignored() {
        let mut set = vec![0; 1];
        insert(&mut set, 64);
        assert!(!contains(&set, 64));
        assert_eq!(BitSets::new(4).get(7), &[] as &[u64]);
    }
}
