//! Which sequences of blocks begin alike, and how far: a radix tree.
//!
//! A *leaf* is a sequence, and a *fork* is where sequences part that began alike. A new sequence
//! is read up to where it parts from all others, and no further.

use super::intern::{NONE, Seed};
use super::ways::{Way, Ways};

/// Sequences of blocks that may begin alike.
pub(super) struct Tree<'a> {
    seed: Seed,
    leaves: Vec<Leaf<'a>>,
    forks: Vec<Fork<'a>>,
    /// What goes on behind each fork: found by the fork and by the block that comes next, or by
    /// the mark where none does.
    ways: Ways,
}

/// One sequence.
struct Leaf<'a> {
    blocks: &'a [u64],
    /// The last fork that it comes by.
    fork: u32,
    mark: u32,
}

/// Where sequences part, or one ends that another goes on from.
struct Fork<'a> {
    /// What all of them begin with.
    blocks: &'a [u64],
    /// The fork before it.
    before: u32,
}

/// How far a sequence goes along a way.
struct Met {
    way: Way,
    /// Blocks that both have behind the fork.
    common: usize,
    /// Whether they part before the way's end.
    parts: bool,
}

/// The fork where all sequences begin.
const ROOT: u32 = 0;

impl<'a> Tree<'a> {
    pub(super) fn new(seed: Seed, most: usize) -> Self {
        let root = Fork {
            blocks: &[],
            before: NONE,
        };
        Self {
            seed,
            leaves: Vec::with_capacity(most),
            forks: vec![root],
            ways: Ways::new(),
        }
    }

    /// The number of the leaf with these blocks and this mark, counted from 0 in order of first
    /// appearance. With the mark [`NONE`] it is always a new one.
    pub(super) fn leaf(&mut self, blocks: &'a [u64], mark: u32) -> u32 {
        let new = self.leaves.len() as u32;
        let mut fork = ROOT;
        let mut start = 0;
        loop {
            let rest = blocks.get(start..).unwrap_or_default();
            let Some(hash) = self.hash(fork, rest.first(), mark) else {
                break;
            };
            let follow = |way| self.follow(way, fork, start, rest, mark);
            let (place, met) = match self.ways.find(hash, follow) {
                Ok(found) => found,
                Err(vacant) => {
                    self.ways.fill(vacant, hash, Way::Leaf(new));
                    break;
                }
            };
            start += met.common;
            match met.way {
                way if met.parts => {
                    let begins = blocks.get(..start).unwrap_or_default();
                    fork = self.part(place, way, fork, begins);
                    if let Some(hash) = self.hash(fork, blocks.get(start), mark) {
                        self.ways.add(hash, Way::Leaf(new));
                    }
                    break;
                }
                Way::Leaf(known) => return known,
                Way::Fork(next) => fork = next,
            }
        }
        self.leaves.push(Leaf { blocks, fork, mark });
        new
    }

    /// What to look for behind a fork; `None` where nothing needs to be found.
    #[inline]
    fn hash(&self, fork: u32, next: Option<&u64>, mark: u32) -> Option<u64> {
        let next = match next {
            Some(&block) => block,
            None if mark == NONE => return None,
            None => u64::from(mark),
        };
        Some(self.seed.word(next ^ self.seed.word(fork.into())))
    }

    /// How far `rest` goes along a way, if that is a way from this fork and they have anything in
    /// common. The fork is `start` blocks from the beginning.
    #[inline]
    fn follow(&self, way: Way, fork: u32, start: usize, rest: &[u64], mark: u32) -> Option<Met> {
        let (theirs, before, is_end) = match way {
            Way::Fork(number) => {
                let fork = self.forks.get(number as usize)?;
                (fork.blocks, fork.before, true)
            }
            Way::Leaf(number) => {
                let leaf = self.leaves.get(number as usize)?;
                let is_same = leaf.mark == mark && mark != NONE;
                (leaf.blocks, leaf.fork, is_same)
            }
        };
        if before != fork {
            return None;
        }
        let theirs = theirs.get(start..)?;
        let common = common(rest, theirs);
        let parts = match way {
            Way::Fork(_) => common < theirs.len(),
            Way::Leaf(_) => !is_end || common < theirs.len() || common < rest.len(),
        };
        (common > 0 || !parts).then_some(Met { way, common, parts })
    }

    /// Makes a fork on the way that lies at `place`, where these blocks end.
    fn part(&mut self, place: usize, way: Way, before: u32, blocks: &'a [u64]) -> u32 {
        let fork = self.forks.len() as u32;
        self.forks.push(Fork { blocks, before });
        self.ways.turn(place, Way::Fork(fork));
        let (next, mark) = match way {
            Way::Fork(number) => {
                let known = self.forks.get_mut(number as usize);
                let next = known.map(|known| {
                    known.before = fork;
                    known.blocks.get(blocks.len())
                });
                (next.flatten(), NONE)
            }
            Way::Leaf(number) => match self.leaves.get_mut(number as usize) {
                None => (None, NONE),
                Some(known) => {
                    known.fork = fork;
                    (known.blocks.get(blocks.len()), known.mark)
                }
            },
        };
        if let Some(hash) = self.hash(fork, next, mark) {
            self.ways.add(hash, way);
        }
        fork
    }

    /// Forgets how to find leaves: from now on they are known by their numbers alone.
    pub(super) fn forget_ways(&mut self) {
        self.ways = Ways::new();
    }

    /// The number of leaves.
    pub(super) fn len(&self) -> usize {
        self.leaves.len()
    }

    /// The number of forks, the beginning included.
    pub(super) fn forks(&self) -> usize {
        self.forks.len()
    }

    /// The blocks of a leaf.
    pub(super) fn blocks(&self, leaf: u32) -> &'a [u64] {
        self.leaves
            .get(leaf as usize)
            .map_or(&[], |leaf| leaf.blocks)
    }

    /// How many leading blocks a leaf has in common with any other.
    pub(super) fn shared(&self, leaf: u32) -> usize {
        let leaf = self.leaves.get(leaf as usize);
        leaf.map_or(0, |leaf| self.end(leaf.fork))
    }

    /// How many blocks come before a fork.
    pub(super) fn end(&self, fork: u32) -> usize {
        let fork = self.forks.get(fork as usize);
        fork.map_or(0, |fork| fork.blocks.len())
    }

    /// The forks that a leaf comes by, from the last to the first, without the beginning.
    pub(super) fn path(&self, leaf: u32) -> impl Iterator<Item = u32> {
        let last = self.leaves.get(leaf as usize).map(|leaf| leaf.fork);
        std::iter::successors(last, |&fork| {
            self.forks.get(fork as usize).map(|fork| fork.before)
        })
        .take_while(|&fork| fork != ROOT && fork != NONE)
    }
}

/// How many leading words are equal.
#[inline]
fn common(a: &[u64], b: &[u64]) -> usize {
    let (a_chunks, _) = a.as_chunks::<8>();
    let (b_chunks, _) = b.as_chunks::<8>();
    let differ = |(a, b): &(&[u64; 8], &[u64; 8])| {
        a.iter().zip(b.iter()).fold(0, |all, (a, b)| all | (a ^ b)) != 0
    };
    let pairs = a_chunks.iter().zip(b_chunks);
    let equal = 8 * pairs.take_while(|pair| !differ(pair)).count();
    let pairs = a.iter().zip(b).skip(equal);
    equal + pairs.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What one and another begin with.
    fn both<'a>(a: &'a [u64], b: &[u64]) -> &'a [u64] {
        &a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()]
    }

    #[test]
    fn how_many_words_are_equal() {
        let words: Vec<u64> = (0..20).collect();
        for length in 0..=20 {
            assert_eq!(common(&words[..length], &words), length);
            assert_eq!(common(&words, &words[..length]), length);
            for i in 0..length {
                let mut other = words[..length].to_vec();
                other[i] += 1;
                assert_eq!(common(&words, &other), i);
            }
        }
    }

    proptest! {
        #[test]
        fn leaves_are_numbered_and_shared_as_comparing_all_of_them_says(
            sequences in prop::collection::vec(
                (prop::collection::vec(0u64..3, 0..20), prop_oneof![4 => 0u32..2, 1 => Just(NONE)]),
                0..60,
            ),
        ) {
            let mut tree = Tree::new(Seed::of(&[]), 0);
            let mut leaves: Vec<(&[u64], u32)> = Vec::new();
            for (blocks, mark) in &sequences {
                let known = leaves.iter().position(|&leaf| leaf == (blocks, *mark));
                let known = known.filter(|_| *mark != NONE);
                let number = known.unwrap_or(leaves.len());
                if known.is_none() {
                    leaves.push((blocks, *mark));
                }
                prop_assert_eq!(tree.leaf(blocks, *mark), number as u32);
            }
            prop_assert_eq!(tree.len(), leaves.len());
            for (number, &(blocks, _)) in leaves.iter().enumerate() {
                prop_assert_eq!(tree.blocks(number as u32), blocks);
                let others = leaves.iter().enumerate().filter(|&(other, _)| other != number);
                let mut shared: Vec<&[u64]> = others.map(|(_, leaf)| both(blocks, leaf.0)).collect();
                shared.sort_unstable_by_key(|shared| std::cmp::Reverse(shared.len()));
                shared.dedup();
                shared.retain(|shared| !shared.is_empty());
                let longest = shared.first().map_or(0, |shared| shared.len());
                prop_assert_eq!(tree.shared(number as u32), longest);
                let forks: Vec<&[u64]> = tree
                    .path(number as u32)
                    .map(|fork| &blocks[..tree.end(fork)])
                    .collect();
                prop_assert_eq!(forks, shared);
            }
        }
    }
}
