//! Why the requests of a batch go where they go.

use super::intern::NONE;
use super::{Before, Placement, Replica, Request, Rules, solve};

/// Which part of rule 6 chose a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It holds the longest prefix of the unit, and its load was below the fair share.
    Prefix,
    /// Others hold enough of the prefix, but none of them was below the fair share: so this is
    /// the least loaded.
    FairShare,
    /// It was the least loaded of those with room for more of the unit.
    LeastLoaded,
    /// All were full, and it was the least loaded of all.
    Overflow,
}

/// A placement and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What [`place`](super::place) answers.
    pub placement: Placement,
    /// The units that were placed, in the order in which they were.
    pub units: Vec<PlacedUnit>,
}

/// Requests that are one unit, and where they went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedUnit {
    /// Its requests, by their place in the batch, in order of arrival.
    pub members: Vec<usize>,
    /// How many blocks it has.
    pub blocks: usize,
    /// Where they went: the first run takes the first members, and so on.
    pub runs: Vec<PlacedRun>,
}

/// Members of one unit that went to one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRun {
    /// The replica, by its place in the replica list (the first of its name).
    pub replica: usize,
    /// How many members.
    pub members: u32,
    /// What chose it.
    pub why: Why,
}

/// Like [`place`](super::place), with the reasons.
pub fn explain(rules: &Rules, replicas: &[Replica<'_>], requests: &[Request<'_>]) -> Explanation {
    let solution = solve(rules, replicas, requests, &Before::default());
    let mut members = vec![Vec::new(); solution.units.len()];
    for (place, &number) in solution.units.unit_of().iter().enumerate() {
        if number != NONE
            && let Some(members) = members.get_mut(number as usize)
        {
            members.push(place);
        }
    }
    let mut runs = solution.runs.runs.iter();
    let mut start = 0;
    let units = solution
        .runs
        .ends
        .iter()
        .filter_map(|&(number, end)| {
            let unit = solution.units.get(number)?;
            let its_runs = runs.by_ref().take((end - start) as usize);
            start = end;
            Some(PlacedUnit {
                members: std::mem::take(members.get_mut(number as usize)?),
                blocks: unit.blocks.len(),
                runs: its_runs
                    .filter_map(|run| {
                        Some(PlacedRun {
                            replica: solution.roster.index(run.rank)? as usize,
                            members: run.members,
                            why: run.why,
                        })
                    })
                    .collect(),
            })
        })
        .collect();
    Explanation {
        units,
        placement: solution.placement(),
    }
}
