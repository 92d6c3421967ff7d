//! What must hold for every batch.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod oracle;

use std::collections::{BTreeMap, HashMap};

use burst_prefix_cache::placement::{
    BalanceBy, Before, Candidates, Placement, Replica, Request, Rules, explain, place,
};
use oracle::any::{chained, rules};
use proptest::prelude::*;

/// A batch that owns what it is made of.
#[derive(Clone, Debug)]
struct Batch {
    rules: Rules,
    replicas: Vec<(String, i64)>,
    /// Blocks and, unless all replicas will do, places in `replicas`.
    requests: Vec<(Vec<u64>, Option<Vec<u32>>)>,
}

impl Batch {
    fn replicas(&self) -> Vec<Replica<'_>> {
        self.replicas
            .iter()
            .map(|(name, running)| Replica {
                running: *running,
                ..Replica::new(name)
            })
            .collect()
    }

    fn requests(&self) -> Vec<Request<'_>> {
        self.requests
            .iter()
            .map(|(blocks, candidates)| Request {
                candidates: match candidates {
                    Some(list) => Candidates::Only(list),
                    None => Candidates::All,
                },
                ..Request::new(blocks)
            })
            .collect()
    }

    fn place(&self) -> Placement {
        place(&self.rules, &self.replicas(), &self.requests())
    }

    fn names(&self, placement: &Placement) -> Vec<Option<String>> {
        (0..placement.len())
            .map(|i| Some(self.replicas[placement.assigned(i)?].0.clone()))
            .collect()
    }

    /// The same batch with its replicas listed in another order.
    fn reordered(&self, order: &[usize]) -> Self {
        let mut new_place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            new_place[old] = new as u32;
        }
        let mut batch = self.clone();
        batch.replicas = order.iter().map(|&i| self.replicas[i].clone()).collect();
        for place in batch.requests.iter_mut().flat_map(|r| &mut r.1).flatten() {
            *place = new_place.get(*place as usize).copied().unwrap_or(*place);
        }
        batch
    }

    /// Whether request `i` may go to the replica of this name.
    fn allows(&self, i: usize, name: &str) -> bool {
        match &self.requests[i].1 {
            None => self.replicas.iter().any(|(replica, _)| replica == name),
            Some(list) => list
                .iter()
                .filter_map(|&place| self.replicas.get(place as usize))
                .any(|(replica, _)| replica == name),
        }
    }

    /// The requests of each unit: blocks, and candidates by name.
    fn units(&self) -> HashMap<(&[u64], Vec<&str>), Vec<usize>> {
        let mut names: Vec<&str> = self.replicas.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names.dedup();
        let mut units: HashMap<_, Vec<usize>> = HashMap::new();
        for (i, (blocks, _)) in self.requests.iter().enumerate() {
            let allowed: Vec<&str> = names
                .iter()
                .copied()
                .filter(|name| self.allows(i, name))
                .collect();
            if !blocks.is_empty() && !allowed.is_empty() {
                units.entry((&**blocks, allowed)).or_default().push(i);
            }
        }
        units
    }
}

/// Chains that branch, arbitrary hashes that repeat, and nothing.
fn blocks() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        4 => prop::collection::vec(0u64..2, 0..6).prop_map(|path| {
            let chain = |hash: &mut u64, step: u64| {
                *hash = chained(*hash, step);
                Some(*hash)
            };
            path.into_iter().scan(7, chain).collect()
        }),
        3 => prop::collection::vec(0u64..5, 0..7),
        1 => prop::collection::vec(any::<u64>(), 0..4),
    ]
}

/// Candidate lists with repetitions and places outside the list.
fn candidates() -> impl Strategy<Value = Option<Vec<u32>>> {
    prop_oneof![
        3 => Just(None),
        2 => prop::collection::vec(0u32..6, 0..6).prop_map(Some),
    ]
}

fn batch_of(
    name: impl Strategy<Value = String> + 'static,
    replicas: std::ops::Range<usize>,
) -> impl Strategy<Value = Batch> {
    (
        rules(),
        prop::collection::vec((name, -1i64..3), replicas),
        prop::collection::vec((blocks(), candidates()), 0..24),
        prop::collection::vec((0usize..24, 1usize..8), 0..4),
    )
        .prop_map(|(rules, replicas, mut requests, copies)| {
            for (i, copies) in copies {
                if let Some(request) = requests.get(i).cloned() {
                    requests.extend(std::iter::repeat_n(request, copies));
                }
            }
            Batch {
                rules,
                replicas,
                requests,
            }
        })
}

/// Names may repeat.
fn any_batch() -> impl Strategy<Value = Batch> {
    batch_of("[a-d][0-2]?", 0..8)
}

/// More replicas than fit one word of a bit set.
fn wide_batch() -> impl Strategy<Value = Batch> {
    batch_of("[a-z][0-9]", 60..140)
}

/// Many requests that share prefixes, with many different candidate sets.
fn large_batch() -> impl Strategy<Value = Batch> {
    let replica = ("[a-z][0-9]", -1i64..2);
    let blocks = (0u64..3, prop::collection::vec(0u64..3, 0..6), 0usize..100).prop_map(
        |(root, path, long)| {
            let mut hash = root;
            let long = if long < 5 { 70 + long } else { 0 };
            std::iter::once(root)
                .chain(path)
                .chain(std::iter::repeat_n(9, long))
                .map(|step| {
                    hash = chained(hash, step);
                    hash
                })
                .collect()
        },
    );
    let candidates = prop_oneof![
        Just(None),
        prop::collection::vec(0u32..100, 1..60).prop_map(Some),
    ];
    (
        rules(),
        prop::collection::vec(replica, 20..100),
        prop::collection::vec((blocks, candidates, 1usize..6), 100..300),
    )
        .prop_map(|(rules, replicas, requests)| Batch {
            rules,
            replicas,
            requests: requests
                .into_iter()
                .flat_map(|(blocks, candidates, copies)| {
                    std::iter::repeat_n((blocks, candidates), copies)
                })
                .collect(),
        })
}

fn agrees_with_the_oracle(batch: &Batch) {
    agrees_with_the_oracle_on(batch, &batch.requests());
}

fn agrees_with_the_oracle_on(batch: &Batch, requests: &[Request<'_>]) {
    let placement = place(&batch.rules, &batch.replicas(), requests);
    let nothing = Before::default();
    let answer = oracle::place(&batch.rules, &batch.replicas(), requests, &nothing);
    let names = batch.names(&placement);
    assert_eq!(names, answer.assigned);
    let mut loads: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, charge) in names.iter().zip((0..).map(|i| placement.charge(i))) {
        match name {
            Some(name) => *loads.entry(name).or_default() += charge,
            None => assert_eq!(charge, 0),
        }
    }
    for (name, load) in &answer.loads {
        assert_eq!(loads.get(&**name).copied().unwrap_or(0), *load);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        // A failing batch becomes a named regression instead.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_batch_is_placed_as_the_rules_say(batch in any_batch()) {
        agrees_with_the_oracle(&batch);
    }

    #[test]
    fn a_batch_over_many_replicas_is_placed_as_the_rules_say(batch in wide_batch()) {
        agrees_with_the_oracle(&batch);
    }

    #[test]
    fn requests_for_several_samples_weigh_as_the_rules_say(
        batch in any_batch(),
        weights in prop::collection::vec(prop_oneof![Just(1u32), 0..5u32, Just(u32::MAX)], 60),
    ) {
        let mut requests = batch.requests();
        for (request, weight) in requests.iter_mut().zip(weights) {
            request.weight = weight;
        }
        agrees_with_the_oracle_on(&batch, &requests);
    }

    #[test]
    fn the_order_of_the_replica_list_is_irrelevant(
        (batch, order) in any_batch().prop_flat_map(|batch| {
            let order: Vec<usize> = (0..batch.replicas.len()).collect();
            (Just(batch), Just(order).prop_shuffle())
        })
    ) {
        let other = batch.reordered(&order);
        prop_assert_eq!(batch.names(&batch.place()), other.names(&other.place()));
    }

    #[test]
    fn the_same_batch_gets_the_same_answer(batch in any_batch()) {
        prop_assert_eq!(batch.place(), batch.place());
    }

    #[test]
    fn every_member_of_a_group_is_placed_and_a_single_only_on_overlap(batch in any_batch()) {
        let placement = batch.place();
        prop_assert_eq!(placement.len(), batch.requests.len());
        for members in batch.units().values() {
            for &i in members {
                prop_assert_eq!(placement.group(i) as usize, members.len());
                if members.len() >= 2 {
                    prop_assert!(placement.assigned(i).is_some());
                } else if batch.rules.min_colocate_blocks == 0 {
                    prop_assert!(placement.assigned(i).is_none());
                }
            }
        }
    }

    #[test]
    fn a_request_goes_only_where_it_may(batch in any_batch()) {
        let placement = batch.place();
        for (i, name) in batch.names(&placement).iter().enumerate() {
            if let Some(name) = name {
                prop_assert!(batch.allows(i, name));
            }
        }
    }

    #[test]
    fn a_request_without_blocks_or_candidates_is_not_placed(batch in any_batch()) {
        let placement = batch.place();
        for (i, (blocks, _)) in batch.requests.iter().enumerate() {
            let nowhere = !batch.replicas.iter().any(|(name, _)| batch.allows(i, name));
            if blocks.is_empty() || nowhere {
                prop_assert_eq!(placement.assigned(i), None);
                prop_assert_eq!(placement.group(i), 0);
            }
        }
    }

    #[test]
    fn no_replica_is_above_the_maximum_while_another_has_room(batch in any_batch()) {
        let Some(k) = batch.rules.max_per_replica else {
            return Ok(());
        };
        let k = k.get() as usize;
        let names = batch.names(&batch.place());
        for ((_, candidates), members) in batch.units() {
            let mut count: BTreeMap<&str, usize> = candidates.iter().map(|&c| (c, 0)).collect();
            for name in members.iter().filter_map(|&i| names[i].as_deref()) {
                *count.get_mut(name).unwrap() += 1;
            }
            if count.values().any(|&n| n > k) {
                prop_assert!(count.values().all(|&n| n >= k), "{count:?}");
            }
        }
    }

    #[test]
    fn an_explanation_accounts_for_every_placed_request_once(batch in any_batch()) {
        let explanation = explain(&batch.rules, &batch.replicas(), &batch.requests());
        prop_assert_eq!(&explanation.placement, &batch.place());
        let mut assigned = vec![None; batch.requests.len()];
        for unit in &explanation.units {
            let replicas = unit
                .runs
                .iter()
                .flat_map(|run| std::iter::repeat_n(run.replica, run.members as usize));
            let replicas: Vec<usize> = replicas.collect();
            prop_assert_eq!(replicas.len(), unit.members.len());
            for (&member, replica) in unit.members.iter().zip(replicas) {
                prop_assert_eq!(assigned[member].replace(replica), None);
                prop_assert_eq!(batch.requests[member].0.len(), unit.blocks);
            }
        }
        for (i, replica) in assigned.into_iter().enumerate() {
            prop_assert_eq!(explanation.placement.assigned(i), replica);
        }
    }
}

// Regressions: batches that were once placed wrongly.

#[test]
fn regression_without_replicas_nobody_is_in_a_unit() {
    let request = Request::new(&[1]);
    let rules = Rules {
        max_per_replica: None,
        min_colocate_blocks: 0,
        balance_by: BalanceBy::Requests,
    };
    let explanation = explain(&rules, &[], &[request, request]);
    assert_eq!(explanation.placement.group(0), 0);
    assert!(explanation.units.is_empty());
}

proptest! {
    // The oracle is slow.
    #![proptest_config(ProptestConfig {
        cases: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_large_batch_is_placed_as_the_rules_say(batch in large_batch()) {
        agrees_with_the_oracle(&batch);
        // All of its blocks are chained.
        let mut requests = batch.requests();
        for request in &mut requests {
            request.chained = true;
        }
        agrees_with_the_oracle_on(&batch, &requests);
    }
}
