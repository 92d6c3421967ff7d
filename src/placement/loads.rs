//! How loaded each replica is, and which one least: **rule 9**, over the loads of **rule 8**.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bits;
use super::intern::NONE;
use super::roster::CandidateSets;

/// The least loaded on top: lower load, then lower rank.
type Queue = BinaryHeap<Reverse<(u64, u32)>>;

/// The load of each replica, before the batch and in it.
///
/// Loads only grow, so a queue may hold loads from earlier: they are at most the real ones, and
/// are brought up to date when they come to the top.
pub(super) struct Loads {
    load: Vec<u64>,
    fair_share: u64,
    below_fair_share: Vec<u64>,
    /// A queue for each of the first candidate sets, filled when it is first needed.
    queues: Vec<Option<Queue>>,
    /// One queue for all other sets, and whose it is now.
    spare: Queue,
    spare_of: u32,
}

impl Loads {
    /// Candidate sets with a queue of their own, to bound the memory.
    const OWN_QUEUES: u32 = 64;

    /// The loads before the batch, by rank.
    pub(super) fn new(before: &[u64], fair_share: u64) -> Self {
        let mut below_fair_share = vec![0; bits::words_for(before.len())];
        for (rank, &load) in (0u32..).zip(before) {
            if load < fair_share {
                bits::insert(&mut below_fair_share, rank);
            }
        }
        Self {
            load: before.to_vec(),
            fair_share,
            below_fair_share,
            queues: Vec::new(),
            spare: Queue::new(),
            spare_of: NONE,
        }
    }

    /// **Rule 8.** Adds to the load of a replica.
    pub(super) fn add(&mut self, rank: u32, amount: u64) {
        if let Some(load) = self.load.get_mut(rank as usize) {
            *load = load.saturating_add(amount);
            if *load >= self.fair_share {
                bits::remove(&mut self.below_fair_share, rank);
            }
        }
    }

    /// The replicas whose load is below the fair share.
    pub(super) fn below_fair_share(&self) -> &[u64] {
        &self.below_fair_share
    }

    pub(super) fn of(&self, rank: u32) -> u64 {
        self.load.get(rank as usize).copied().unwrap_or(u64::MAX)
    }

    /// **Rule 9.** The least loaded of the candidates that are in this set too and below the
    /// fair share.
    pub(super) fn least_below_fair_share(
        &mut self,
        set: &[u64],
        sets: &CandidateSets<'_>,
        number: u32,
    ) -> Option<u32> {
        // With many to choose from, the least loaded of all candidates is often one of them; it
        // is below the fair share if any is.
        const MANY: u32 = 16;
        let candidates = sets.get(number);
        let many = in_all_three(set, candidates, &self.below_fair_share)
            .map(u64::count_ones)
            .sum::<u32>()
            > MANY;
        if many
            && let Some(least) = self.least(sets, number)
            && bits::contains(set, least)
        {
            return Some(least);
        }
        bits::ranks(in_all_three(set, candidates, &self.below_fair_share))
            .min_by_key(|&rank| (self.of(rank), rank))
    }

    /// **Rule 9.** The least loaded of the candidates.
    pub(super) fn least(&mut self, sets: &CandidateSets<'_>, number: u32) -> Option<u32> {
        self.queue(sets, number)?
            .peek()
            .map(|&Reverse((_, rank))| rank)
    }

    /// **Rule 9.** Takes the least loaded of the candidates out of their queue, until it is put
    /// back.
    pub(super) fn take_least(&mut self, sets: &CandidateSets<'_>, number: u32) -> Option<u32> {
        self.queue(sets, number)?
            .pop()
            .map(|Reverse((_, rank))| rank)
    }

    /// Puts back what was taken from the queue of this candidate set.
    pub(super) fn put_back(&mut self, number: u32, taken: impl Iterator<Item = u32>) {
        let queue = match self.queues.get_mut(number as usize) {
            Some(Some(queue)) => queue,
            _ => &mut self.spare,
        };
        let load = &self.load;
        queue.extend(taken.filter_map(|rank| entry(load, rank)));
    }

    /// The queue of this candidate set, with its top up to date.
    fn queue(&mut self, sets: &CandidateSets<'_>, number: u32) -> Option<&mut Queue> {
        let load = &self.load;
        let fill = || {
            let candidates = sets.get(number).iter().copied();
            bits::ranks(candidates)
                .filter_map(|rank| entry(load, rank))
                .collect::<Queue>()
        };
        let queue = if number < Self::OWN_QUEUES {
            let place = number as usize;
            if self.queues.len() <= place {
                self.queues.resize_with(place + 1, || None);
            }
            self.queues.get_mut(place)?.get_or_insert_with(fill)
        } else {
            if self.spare_of != number {
                self.spare_of = number;
                self.spare = fill();
            }
            &mut self.spare
        };
        while let Some(mut top) = queue.peek_mut() {
            let Reverse((known, rank)) = *top;
            let now = load.get(rank as usize).copied().unwrap_or(known);
            if now == known {
                break;
            }
            *top = Reverse((now, rank));
        }
        Some(queue)
    }
}

fn in_all_three(a: &[u64], b: &[u64], c: &[u64]) -> impl Iterator<Item = u64> {
    a.iter().zip(b).zip(c).map(|((a, b), c)| a & b & c)
}

fn entry(load: &[u64], rank: u32) -> Option<Reverse<(u64, u32)>> {
    load.get(rank as usize).map(|&load| Reverse((load, rank)))
}

#[cfg(test)]
mod tests {
    use super::super::intern::Seed;
    use super::*;

    #[test]
    fn the_least_loaded_is_lowest_in_load_then_in_rank() {
        let sets = CandidateSets::new(Seed::of(&[]), 3);
        let mut loads = Loads::new(&[0; 3], 0);
        for (least, add) in [(0, 5), (1, 3), (2, 3), (1, 1), (2, 2), (1, 1)] {
            assert_eq!(loads.least(&sets, CandidateSets::ALL), Some(least));
            loads.add(least, add);
        }
    }

    #[test]
    fn what_is_taken_is_gone_until_it_is_put_back() {
        let sets = CandidateSets::new(Seed::of(&[]), 2);
        let mut loads = Loads::new(&[0; 2], 0);
        let take = |loads: &mut Loads| loads.take_least(&sets, CandidateSets::ALL);
        assert_eq!(take(&mut loads), Some(0));
        assert_eq!(take(&mut loads), Some(1));
        assert_eq!(take(&mut loads), None);
        loads.add(0, 1);
        loads.put_back(CandidateSets::ALL, [0, 1].into_iter());
        assert_eq!(take(&mut loads), Some(1));
        assert_eq!(take(&mut loads), Some(0));
    }

    #[test]
    fn a_load_reaches_the_fair_share_and_is_no_longer_below() {
        let mut loads = Loads::new(&[0, 2, 3], 3);
        loads.add(0, 2);
        assert_eq!(loads.below_fair_share(), [0b011]);
        loads.add(0, 1);
        assert_eq!(loads.below_fair_share(), [0b010]);
    }

    #[test]
    fn a_load_stays_at_the_highest_there_is() {
        let mut loads = Loads::new(&[u64::MAX - 1], 0);
        loads.add(0, 5);
        assert_eq!(loads.of(0), u64::MAX);
    }
}
