//! The replicas of a batch, and which requests may go where.

use super::bits::{self, BitSets};
use super::intern::{Interner, Seed};
use super::{Candidates, Replica};

/// The replicas, ranked by what never changes within a batch: **rule 9** without the load, so
/// fewer running requests first, then the lower name.
///
/// Everything inside placement speaks of ranks; "less loaded" is then just the lower
/// `(load, rank)`. Entries of the list with one name are one replica: it is known by the first of
/// them, and as busy and as loaded as the busiest and the most loaded.
pub(super) struct Roster {
    /// Place in the caller's list, by rank.
    index: Vec<u32>,
    /// Rank, by place in the caller's list.
    rank: Vec<u32>,
    /// The load before the batch, by rank.
    load: Vec<u64>,
}

impl Roster {
    pub(super) fn new(replicas: &[Replica<'_>]) -> Self {
        let mut by_name: Vec<(u32, &Replica<'_>)> = (0..u32::MAX).zip(replicas).collect();
        by_name.sort_by_key(|&(_, replica)| replica.name);

        // What ranks, and then the load.
        let mut distinct: Vec<(i64, u32, u64)> = Vec::with_capacity(by_name.len());
        let namesakes = by_name.chunk_by(|(_, a), (_, b)| a.name == b.name);
        for entries in namesakes.clone() {
            let running = entries.iter().map(|(_, replica)| replica.running).max();
            let load = entries.iter().map(|(_, replica)| replica.load).max();
            let name = distinct.len() as u32;
            distinct.push((running.unwrap_or(0), name, load.unwrap_or(0)));
        }
        distinct.sort_unstable();
        let mut rank_of_name = vec![0; distinct.len()];
        for (rank, &(_, name, _)) in (0u32..).zip(&distinct) {
            if let Some(slot) = rank_of_name.get_mut(name as usize) {
                *slot = rank;
            }
        }

        let mut index = vec![0; distinct.len()];
        let mut rank = vec![0; by_name.len()];
        for (entries, &its_rank) in namesakes.zip(&rank_of_name) {
            for &(place, _) in entries.iter().rev() {
                if let Some(slot) = rank.get_mut(place as usize) {
                    *slot = its_rank;
                }
                if let Some(slot) = index.get_mut(its_rank as usize) {
                    *slot = place;
                }
            }
        }
        let load = distinct.into_iter().map(|(_, _, load)| load).collect();
        Self { index, rank, load }
    }

    /// The number of different replicas.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The place in the caller's list of the replica with this rank.
    pub(super) fn index(&self, rank: u32) -> Option<u32> {
        self.index.get(rank as usize).copied()
    }

    /// The ranks of the replicas at these places in the caller's list.
    pub(super) fn ranks(&self, places: &[u32]) -> impl Iterator<Item = u32> {
        let rank = |&place: &u32| self.rank.get(place as usize).copied();
        places.iter().filter_map(rank)
    }

    /// The load of each replica before the batch, by rank.
    pub(super) fn loads(&self) -> &[u64] {
        &self.load
    }
}

/// The different candidate sets of a batch, each known by its number. The first is the set of
/// all replicas.
pub(super) struct CandidateSets<'a> {
    seed: Seed,
    sets: BitSets,
    known: Interner<u32>,
    scratch: Vec<u64>,
    /// The list seen last, and its set: neighbours often share one list.
    last: Option<(&'a [u32], Option<u32>)>,
}

impl<'a> CandidateSets<'a> {
    /// The number of the set of all replicas.
    pub(super) const ALL: u32 = 0;

    pub(super) fn new(seed: Seed, replicas: usize) -> Self {
        let all = bits::full(replicas);
        let mut known = Interner::new(seed);
        known.intern(seed.words(&all), |_| false, || Self::ALL);
        let mut sets = BitSets::new(replicas);
        sets.push(&all);
        Self {
            seed,
            sets,
            known,
            scratch: all,
            last: None,
        }
    }

    /// The number of the set that these candidates are, or `None` when there is no candidate.
    #[inline]
    pub(super) fn number(&mut self, roster: &Roster, candidates: Candidates<'a>) -> Option<u32> {
        match candidates {
            Candidates::All => (roster.len() > 0).then_some(Self::ALL),
            Candidates::Only(list) => self.number_of_list(roster, list),
        }
    }

    fn number_of_list(&mut self, roster: &Roster, list: &'a [u32]) -> Option<u32> {
        if let Some((last, number)) = self.last
            && std::ptr::eq(last, list)
        {
            return number;
        }
        self.scratch.fill(0);
        for rank in roster.ranks(list) {
            bits::insert(&mut self.scratch, rank);
        }
        let number = if self.scratch.iter().all(|&word| word == 0) {
            None
        } else {
            let next = self.known.len() as u32;
            let hash = self.seed.words(&self.scratch);
            let is_same = |&number: &u32| self.sets.get(number) == self.scratch;
            let number = self.known.intern(hash, is_same, || next);
            if number == next {
                self.sets.push(&self.scratch);
            }
            Some(number)
        };
        self.last = Some((list, number));
        number
    }

    /// The candidates in the set with this number.
    pub(super) fn get(&self, number: u32) -> &[u64] {
        self.sets.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, running: i64) -> Replica<'_> {
        Replica {
            running,
            ..Replica::new(name)
        }
    }

    #[test]
    fn fewer_running_ranks_first_then_the_bytewise_lower_name() {
        let roster = Roster::new(&[
            replica("pod2", 0),
            replica("pod10", 0),
            replica("pod1", 3),
            replica("pod3", -1),
        ]);
        assert_eq!(roster.index, [3, 1, 0, 2]);
        assert_eq!(roster.rank, [2, 1, 3, 0]);
    }

    #[test]
    fn entries_of_one_name_are_one_replica_as_busy_and_loaded_as_the_most() {
        let mut replicas = [
            replica("b", 0),
            replica("a", 0),
            replica("a", 9),
            replica("b", 1),
        ];
        for (replica, load) in replicas.iter_mut().zip([7, 2, 1, 3]) {
            replica.load = load;
        }
        let roster = Roster::new(&replicas);
        assert_eq!(roster.len(), 2);
        assert_eq!(roster.loads(), [7, 2]);
        assert_eq!(roster.index, [0, 1]);
        assert_eq!(roster.rank, [0, 1, 1, 0]);
    }

    #[test]
    fn without_replicas_there_is_no_candidate() {
        let roster = Roster::new(&[]);
        let mut sets = CandidateSets::new(Seed::of(&[]), 0);
        for candidates in [Candidates::All, Candidates::Only(&[0])] {
            assert_eq!(sets.number(&roster, candidates), None);
        }
    }

    #[test]
    fn a_candidate_list_is_a_set() {
        let replicas = ["a", "b", "c"].map(|name| replica(name, 0));
        let roster = Roster::new(&replicas);
        let mut sets = CandidateSets::new(Seed::of(&replicas), roster.len());
        let mut number = |list| sets.number(&roster, Candidates::Only(list));
        assert_eq!(number(&[]), None);
        assert_eq!(number(&[3, u32::MAX]), None);
        assert_eq!(number(&[2, 0, 1]), Some(CandidateSets::ALL));
        assert_eq!(number(&[2, 0]), Some(1));
        assert_eq!(number(&[0, 2, 2, 7]), Some(1));
        assert_eq!(number(&[1]), Some(2));
    }
}
