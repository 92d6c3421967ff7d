//! The rules of placement once more, as plainly as can be and without a thought for speed.
//!
//! Where the published rules say nothing: candidates are sets of names, requests with different
//! ones are never one unit, those with none are in no unit, and list entries with one name are
//! one replica, as busy as the busiest. What is so before the batch is as `placement` says.

pub(crate) mod any;

use std::collections::{BTreeMap, BTreeSet};

use burst_prefix_cache::placement::{BalanceBy, Before, Candidates, Replica, Request, Rules};

type Names<'a> = BTreeSet<&'a str>;

struct Unit<'a> {
    blocks: &'a [u64],
    group: Option<u64>,
    candidates: Names<'a>,
    members: Vec<usize>,
}

pub(crate) struct Answer {
    /// The name of the replica of each request.
    pub(crate) assigned: Vec<Option<String>>,
    /// The load of each replica after the batch.
    pub(crate) loads: BTreeMap<String, u64>,
}

pub(crate) fn place(
    rules: &Rules,
    replicas: &[Replica<'_>],
    requests: &[Request<'_>],
    before: &Before<'_>,
) -> Answer {
    let mut running: BTreeMap<&str, i64> = BTreeMap::new();
    let mut load: BTreeMap<&str, usize> = BTreeMap::new();
    for replica in replicas {
        let known = running.entry(replica.name).or_insert(replica.running);
        *known = replica.running.max(*known);
        let known = load.entry(replica.name).or_default();
        *known = (replica.load as usize).max(*known);
    }
    let at = |places: &[u32]| -> Names<'_> {
        let replicas = places.iter().filter_map(|&i| replicas.get(i as usize));
        replicas.map(|replica| replica.name).collect()
    };
    let mut held: BTreeMap<u64, Names<'_>> = BTreeMap::new();
    for prefix in before.held {
        let holders = at(prefix.replicas);
        for &block in prefix.blocks.iter().filter(|_| !holders.is_empty()) {
            held.entry(block).or_default().extend(&holders);
        }
    }
    let k = rules
        .max_per_replica
        .map_or(usize::MAX, |k| k.get() as usize);
    let m = rules.min_colocate_blocks as usize;

    // Rule 1.
    let mut units: Vec<Unit<'_>> = Vec::new();
    for (i, request) in requests.iter().enumerate() {
        let candidates: Names<'_> = match request.candidates {
            Candidates::All => running.keys().copied().collect(),
            Candidates::Only(list) => at(list),
        };
        if request.blocks.is_empty() || candidates.is_empty() {
            continue;
        }
        let same = |unit: &&mut Unit<'_>| {
            unit.candidates == candidates
                && unit.group == request.group
                && (unit.group.is_some() || unit.blocks == request.blocks)
        };
        match units.iter_mut().find(same) {
            Some(unit) => unit.members.push(i),
            None => units.push(Unit {
                blocks: request.blocks,
                group: request.group,
                candidates,
                members: vec![i],
            }),
        }
    }

    // Rule 2.
    let overlaps = |unit: &Unit<'_>| {
        let like = |blocks: &[u64]| blocks.len() >= m && blocks[..m] == unit.blocks[..m];
        let others = units.iter().filter(|other| like(other.blocks));
        others.map(|other| other.members.len()).sum::<usize>() >= 2
            || before
                .held
                .iter()
                .any(|prefix| like(prefix.blocks) && !at(prefix.replicas).is_empty())
    };
    let (mut groups, mut singles) = (Vec::new(), Vec::new());
    for unit in &units {
        if unit.members.len() >= 2 {
            groups.push(unit);
        } else if before.place_all || m > 0 && unit.blocks.len() >= m && overlaps(unit) {
            singles.push(unit);
        }
    }

    // Rule 3.
    groups.sort_by_key(|unit| std::cmp::Reverse(unit.blocks.len()));
    singles.sort_by_key(|unit| std::cmp::Reverse(unit.blocks.len()));
    let placed: Vec<&Unit<'_>> = groups.into_iter().chain(singles).collect();

    let weight = |&i: &usize| requests[i].weight.max(1) as usize;

    // Rule 4.
    let total_before: usize = load.values().sum();
    let total: usize = placed
        .iter()
        .map(|unit| match rules.balance_by {
            BalanceBy::Requests => unit.members.iter().map(weight).sum(),
            BalanceBy::Tokens => unit.blocks.len(),
        })
        .sum();
    let fair_share = (total_before + total).div_ceil(running.len().max(1));

    let mut assigned = vec![None; requests.len()];
    for unit in placed {
        // Rule 5.
        let mut matched: BTreeMap<&str, usize> = BTreeMap::new();
        for block in unit.blocks {
            let Some(holders) = held.get(block) else {
                break;
            };
            for name in holders {
                *matched.entry(name).or_default() += 1;
            }
        }
        let matched = |name: &str| matched.get(name).copied().unwrap_or(0);

        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        let mut left = unit.members.as_slice();
        while !left.is_empty() {
            // Rule 9.
            let busy = |name: &&str| (load[*name], running[*name]);
            let has = |name: &str| taken.get(name).copied().unwrap_or(0);
            // Rule 6.
            let everyone = || unit.candidates.iter().copied();
            // A run leaves room only where it takes the last member, or where the next is too heavy.
            let with_room = || everyone().filter(|name| has(name) == 0);
            let mut chosen = None;
            if m > 0 && taken.is_empty() {
                chosen = with_room()
                    .filter(|name| load[name] < fair_share && matched(name) >= m)
                    .min_by_key(|name| (std::cmp::Reverse(matched(name)), busy(name)));
            }
            let name = chosen
                .or_else(|| with_room().min_by_key(busy))
                .or_else(|| everyone().min_by_key(busy))
                .unwrap();
            // Rule 7.
            let fits =
                |&n: &usize| has(name) == 0 && left[..n].iter().map(weight).sum::<usize>() <= k;
            let run = (1..=left.len()).rev().find(fits).unwrap_or(1);
            let run_weight: usize = left[..run].iter().map(weight).sum();
            // Rule 8.
            *load.get_mut(name).unwrap() += match rules.balance_by {
                BalanceBy::Requests => run_weight,
                BalanceBy::Tokens if has(name) > 0 => 0,
                BalanceBy::Tokens => unit.blocks.len().saturating_sub(matched(name)),
            };
            *taken.entry(name).or_default() += run;
            let (now, later) = left.split_at(run);
            for &member in now {
                assigned[member] = Some(name.to_owned());
            }
            left = later;
        }
        for &block in unit.blocks {
            held.entry(block).or_default().extend(taken.keys());
        }
    }
    let loads = load.into_iter();
    Answer {
        assigned,
        loads: loads
            .map(|(name, load)| (name.to_owned(), load as u64))
            .collect(),
    }
}
