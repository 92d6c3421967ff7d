//! Which replicas hold which blocks, and how much of a unit each has: **rule 5**, and the second
//! half of **rule 8**.

use super::bits;
use super::blocks::Blocks;
use super::intern::{NONE, Seed};
use super::shared_sets::SharedSets;
use super::tree::Tree;

/// The blocks placed so far and their holders.
///
/// Blocks in a row mostly have the same holders, so a block names a set of holders and sets are
/// shared.
pub(super) struct Holders<'a> {
    known: Known<'a>,
    sets: SharedSets,
    /// What the last walk found.
    walked: Vec<Stretch>,
    /// The replicas that the unit in hand touched.
    touched: Vec<u64>,
}

/// Where the holders are kept.
enum Known<'a> {
    /// Of any blocks, by each of them.
    Blocks(Blocks),
    /// Of chained blocks, by fork: those between two forks are held by the same replicas, and
    /// those behind the last fork are nobody else's.
    Forks(Forks<'a>),
}

struct Forks<'a> {
    tree: &'a Tree<'a>,
    /// The holders of the blocks between each fork and the one before.
    holders: Vec<u32>,
    /// The forks that the unit in hand comes by.
    path: Vec<u32>,
}

/// Blocks of a walk in a row that have the same holders.
#[derive(Clone, Copy)]
struct Stretch {
    holders: u32,
    blocks: u32,
}

impl<'a> Holders<'a> {
    /// Nobody holds anything yet. The units with these blocks will be placed, in this order:
    /// for each, first [`walk`](Self::walk), then [`hold`](Self::hold).
    pub(super) fn new<'b>(
        seed: Seed,
        replicas: usize,
        units: impl DoubleEndedIterator<Item = &'b [u64]> + Clone,
    ) -> Self {
        Self::with(Known::Blocks(Blocks::new(seed, units)), replicas)
    }

    /// Nobody holds anything yet. The units to be placed are leaves of this tree, and their blocks
    /// are chained.
    pub(super) fn of_chained(tree: &'a Tree<'a>, replicas: usize) -> Self {
        let forks = Forks {
            tree,
            holders: vec![NONE; tree.forks()],
            path: Vec::new(),
        };
        Self::with(Known::Forks(forks), replicas)
    }

    fn with(known: Known<'a>, replicas: usize) -> Self {
        Self {
            known,
            sets: SharedSets::new(replicas),
            walked: Vec::new(),
            touched: vec![0; bits::words_for(replicas)],
        }
    }

    /// **Rule 5.** Walks the blocks of a unit up to the first that no replica holds.
    pub(super) fn walk(&mut self, number: u32, blocks: &[u64]) {
        self.walked.clear();
        match &mut self.known {
            Known::Blocks(known) => {
                for holders in known.held(blocks) {
                    go_on(&mut self.walked, holders, 1);
                }
            }
            Known::Forks(forks) => {
                forks.path.clear();
                forks.path.extend(forks.tree.path(number));
                forks.path.reverse();
                let mut start = 0;
                for &fork in &forks.path {
                    let end = forks.tree.end(fork);
                    match forks.holders.get(fork as usize) {
                        Some(&holders) if holders != NONE => {
                            go_on(&mut self.walked, holders, (end - start) as u32);
                        }
                        _ => break,
                    }
                    start = end;
                }
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
        let held: usize = self
            .stretches()
            .take_while(|(holders, _)| bits::is_subset(&self.touched, holders))
            .map(|(_, blocks)| blocks as usize)
            .sum();
        let touched = match first {
            Some(rank) if is_single => self.sets.add_single(rank, &self.touched),
            _ => self.sets.add(&self.touched),
        };
        let mut more = More {
            touched,
            union: (NONE, NONE),
        };
        match &mut self.known {
            Known::Blocks(known) => {
                known.each_needed(blocks, held, |holders| more.hold(&mut self.sets, holders));
            }
            Known::Forks(forks) => {
                for &fork in &forks.path {
                    if forks.tree.end(fork) > held
                        && let Some(holders) = forks.holders.get_mut(fork as usize)
                    {
                        more.hold(&mut self.sets, holders);
                    }
                }
            }
        }
        self.sets.release(touched);
    }
}

/// Adds blocks to a walk.
fn go_on(walked: &mut Vec<Stretch>, holders: u32, blocks: u32) {
    match walked.last_mut() {
        Some(last) if last.holders == holders => last.blocks += blocks,
        _ => walked.push(Stretch { holders, blocks }),
    }
}

/// The replicas that hold a unit's blocks from now on.
struct More {
    touched: u32,
    /// The last union with them, and what with: neighbours mostly need the same.
    union: (u32, u32),
}

impl More {
    /// They hold what these hold, or, with [`NONE`], nobody.
    fn hold(&mut self, sets: &mut SharedSets, holders: &mut u32) {
        if *holders == NONE {
            *holders = self.touched;
            sets.retain(self.touched);
            return;
        }
        let (before, after) = &mut self.union;
        if *holders != *before {
            *before = *holders;
            *after = sets.union(*holders, self.touched);
        }
        if after != holders {
            sets.retain(*after);
            sets.release(*holders);
            *holders = *after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(units: &[&[u64]]) -> Holders<'static> {
        Holders::new(Seed::of(&[]), 70, units.iter().copied())
    }

    fn walked(holders: &mut Holders<'_>, blocks: &[u64]) -> [u32; 3] {
        holders.walk(0, blocks);
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
            h.walk(0, blocks);
            h.hold(blocks, [[0, 1, 69][i % 3]].into_iter());
        }
        assert_eq!(walked(&mut h, &chain), [200, 199, 198]);
        assert!(h.is_nested());
        assert!(h.sets.len() < 10, "{} sets", h.sets.len());
    }
}
