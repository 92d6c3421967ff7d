//! What a caller that remembers knows when it places a batch.

use super::roster::Roster;

/// What is so before the batch. The default is what the published rules know: nothing.
///
/// The loads before are in [`Replica::load`](super::Replica::load).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before<'a> {
    /// Rule 2 without its condition: every unit of one is placed too, so that the caller learns
    /// where all requests go.
    pub place_all: bool,
    /// The samples that a unit is expected to have in the end, where more of it may come later: by
    /// requests, its first run counts at least as much in the loads and in the fair share (up to
    /// what a replica takes of one unit). 0 = all of it is here.
    pub expected: u64,
    /// What replicas hold already.
    pub held: &'a [HeldPrefix<'a>],
}

/// Blocks that replicas hold before the batch, as if a unit with these blocks had been placed on
/// them earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPrefix<'a> {
    /// The block hashes, from the start of the prompt.
    pub blocks: &'a [u64],
    /// Who holds them, by places in the replica list, in any order. Places outside the list don't
    /// count, and a prefix that nobody holds doesn't either.
    pub replicas: &'a [u32],
    /// As [`Request::chained`](super::Request::chained).
    pub chained: bool,
}

/// What is known of before and after, for runs.
#[derive(Clone, Copy)]
pub(super) struct Coming<'r, 'a> {
    /// What a unit's first run counts at least, by requests.
    pub(super) expected: u64,
    pub(super) held: HeldBefore<'r, 'a>,
}

/// The prefixes held before, each with the ranks of its holders.
#[derive(Clone, Copy)]
pub(super) struct HeldBefore<'r, 'a> {
    prefixes: &'a [HeldPrefix<'a>],
    roster: &'r Roster,
}

impl<'r, 'a> HeldBefore<'r, 'a> {
    pub(super) fn new(before: &Before<'a>, roster: &'r Roster) -> Self {
        Self {
            prefixes: before.held,
            roster,
        }
    }

    /// Those that anybody holds.
    pub(super) fn prefixes(
        self,
    ) -> impl DoubleEndedIterator<Item = &'a HeldPrefix<'a>> + Clone + use<'r, 'a> {
        let is_held = move |prefix: &&HeldPrefix<'_>| self.ranks(prefix).next().is_some();
        self.prefixes.iter().filter(is_held)
    }

    /// The ranks of the replicas that hold this one, some perhaps repeated.
    pub(super) fn ranks(self, prefix: &HeldPrefix<'a>) -> impl Iterator<Item = u32> + use<'r, 'a> {
        self.roster.ranks(prefix.replicas)
    }
}
