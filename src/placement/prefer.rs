//! Which replica a unit's prefix speaks for: **rule 6**, the first run.

use super::bits;
use super::holders::Holders;
use super::loads::Loads;
use super::roster::CandidateSets;

/// What the prefix says about a unit's first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByPrefix {
    /// The rank of the longest match among the candidates below the fair share.
    Chosen(u32),
    /// Some candidates match long enough, but none of them is below the fair share.
    AllAboveFairShare,
    /// No candidate matches long enough.
    NoMatch,
}

/// Chooses the replica with the longest match.
pub(super) struct Preference {
    /// The shortest match that counts, in blocks; 0 = none does.
    min_blocks: u32,
    /// Scratch: the match of each replica.
    matches: Vec<u32>,
}

impl Preference {
    pub(super) fn new(min_colocate_blocks: u32) -> Self {
        Self {
            min_blocks: min_colocate_blocks,
            matches: Vec::new(),
        }
    }

    /// **Rule 6**, over the last walk: among the candidates whose load is below the fair share
    /// and who hold at least `minColocateBlocks` blocks of it, the one that holds most, and of
    /// several the least loaded.
    pub(super) fn choose(
        &mut self,
        holders: &Holders<'_>,
        loads: &mut Loads,
        sets: &CandidateSets<'_>,
        candidates: u32,
    ) -> ByPrefix {
        let walked: u32 = holders.stretches().map(|(_, blocks)| blocks).sum();
        if self.min_blocks == 0 || walked < self.min_blocks {
            ByPrefix::NoMatch
        } else if holders.is_nested() {
            self.choose_nested(holders, loads, sets, candidates, walked)
        } else {
            self.choose_any(holders, loads, sets, candidates)
        }
    }

    /// Where each stretch's holders hold all before it, the longest match is with the holders of
    /// the last stretch, then with those of the one before, and so on.
    fn choose_nested(
        &self,
        holders: &Holders<'_>,
        loads: &mut Loads,
        sets: &CandidateSets<'_>,
        number: u32,
        walked: u32,
    ) -> ByPrefix {
        let candidates = sets.get(number);
        let mut verdict = ByPrefix::NoMatch;
        let mut matched = walked;
        for (holders, blocks) in holders.stretches().rev() {
            if matched < self.min_blocks {
                break;
            }
            matched -= blocks;
            if !bits::intersects(holders, candidates) {
                continue;
            }
            verdict = ByPrefix::AllAboveFairShare;
            if let Some(rank) = loads.least_below_fair_share(holders, sets, number) {
                return ByPrefix::Chosen(rank);
            }
        }
        verdict
    }

    /// The general case: counts what each replica holds.
    fn choose_any(
        &mut self,
        holders: &Holders<'_>,
        loads: &Loads,
        sets: &CandidateSets<'_>,
        number: u32,
    ) -> ByPrefix {
        let candidates = sets.get(number);
        self.matches.clear();
        self.matches.resize(candidates.len() * 64, 0);
        for (holders, blocks) in holders.stretches() {
            let both = holders.iter().zip(candidates).map(|(a, b)| a & b);
            for rank in bits::ranks(both) {
                if let Some(matched) = self.matches.get_mut(rank as usize) {
                    *matched += blocks;
                }
            }
        }
        let mut verdict = ByPrefix::NoMatch;
        let mut best = (self.min_blocks, u64::MAX);
        for (rank, &matched) in (0u32..).zip(&self.matches) {
            if matched < self.min_blocks {
                continue;
            }
            if !bits::contains(loads.below_fair_share(), rank) {
                if verdict == ByPrefix::NoMatch {
                    verdict = ByPrefix::AllAboveFairShare;
                }
                continue;
            }
            // Ranks ascend, so of equals the first stays.
            let load = loads.of(rank);
            let (longest, least) = best;
            if matched > longest || matched == longest && load < least {
                best = (matched, load);
                verdict = ByPrefix::Chosen(rank);
            }
        }
        verdict
    }
}
