//! What must hold for every batch that comes after others.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod oracle;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use burst_prefix_cache::placement::{
    BalanceBy, Before, Candidates, HeldPrefix, Placement, Replica, Request, Rules, place,
    place_after,
};
use oracle::any::{chained, rules};
use proptest::prelude::*;

/// A batch that owns what it is made of.
#[derive(Clone, Debug)]
struct Batch {
    rules: Rules,
    /// Name, running requests, load.
    replicas: Vec<(String, i64, u64)>,
    requests: Vec<Asked>,
    place_all: bool,
    expected: u64,
    /// Blocks, and places in `replicas`.
    held: Vec<(Vec<u64>, Vec<u32>)>,
    /// Whether what is held says that it is chained.
    held_chained: bool,
}

#[derive(Clone, Debug)]
struct Asked {
    blocks: Vec<u64>,
    /// Places in `replicas`, unless all will do.
    candidates: Option<Vec<u32>>,
    weight: u32,
    group: Option<u64>,
    chained: bool,
}

impl Batch {
    fn replicas(&self) -> Vec<Replica<'_>> {
        self.replicas
            .iter()
            .map(|&(ref name, running, load)| Replica {
                name,
                running,
                load,
            })
            .collect()
    }

    fn requests(&self) -> Vec<Request<'_>> {
        self.requests
            .iter()
            .map(|asked| Request {
                blocks: &asked.blocks,
                candidates: match &asked.candidates {
                    Some(list) => Candidates::Only(list),
                    None => Candidates::All,
                },
                weight: asked.weight,
                group: asked.group,
                chained: asked.chained,
            })
            .collect()
    }

    /// What `work` makes of it.
    fn with<T>(
        &self,
        work: impl Fn(&Rules, &[Replica<'_>], &[Request<'_>], &Before<'_>) -> T,
    ) -> T {
        let held: Vec<HeldPrefix<'_>> = self
            .held
            .iter()
            .map(|(blocks, replicas)| HeldPrefix {
                blocks,
                replicas,
                chained: self.held_chained,
            })
            .collect();
        let before = Before {
            place_all: self.place_all,
            expected: self.expected,
            held: &held,
        };
        work(&self.rules, &self.replicas(), &self.requests(), &before)
    }

    fn place(&self) -> Placement {
        self.with(place_after)
    }

    /// The same batch, of which everything says that it is chained.
    fn said_to_be_chained(&self) -> Self {
        let mut batch = self.clone();
        batch.held_chained = true;
        for asked in &mut batch.requests {
            asked.chained = true;
        }
        batch
    }

    fn names(&self, placement: &Placement) -> Vec<Option<String>> {
        (0..placement.len())
            .map(|i| Some(self.replicas[placement.assigned(i)?].0.clone()))
            .collect()
    }

    fn loads_before(&self) -> BTreeMap<String, u64> {
        let mut loads = BTreeMap::new();
        for (name, _, load) in &self.replicas {
            let known: &mut u64 = loads.entry(name.clone()).or_default();
            *known = (*known).max(*load);
        }
        loads
    }

    /// The same batch with its replicas listed in another order.
    fn reordered(&self, order: &[usize]) -> Self {
        let mut new_place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            new_place[old] = new as u32;
        }
        let mut batch = self.clone();
        batch.replicas = order.iter().map(|&i| self.replicas[i].clone()).collect();
        let candidates = batch
            .requests
            .iter_mut()
            .filter_map(|r| r.candidates.as_mut());
        let holders = batch.held.iter_mut().map(|(_, holders)| holders);
        for place in candidates.chain(holders).flatten() {
            *place = new_place.get(*place as usize).copied().unwrap_or(*place);
        }
        batch
    }
}

/// Chains that branch, some longer than a word of bits.
fn chain() -> impl Strategy<Value = Vec<u64>> {
    let chain = |path: Vec<u64>| {
        let chain = |hash: &mut u64, step: u64| {
            *hash = chained(*hash, step);
            Some(*hash)
        };
        path.into_iter().scan(7, chain).collect()
    };
    prop_oneof![
        4 => prop::collection::vec(0u64..2, 0..6).prop_map(chain),
        1 => (60usize..140, 0u64..2).prop_map(move |(length, end)| {
            chain(std::iter::repeat_n(1, length).chain([end]).collect())
        }),
    ]
}

/// Chains, and arbitrary hashes that repeat.
fn blocks() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![5 => chain(), 3 => prop::collection::vec(0u64..5, 0..7)]
}

fn places() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..6, 0..6)
}

fn asked(blocks: impl Strategy<Value = Vec<u64>>) -> impl Strategy<Value = Asked> {
    let candidates = prop_oneof![3 => Just(None), 1 => places().prop_map(Some)];
    let group = prop_oneof![2 => Just(None), 1 => (0u64..3).prop_map(Some)];
    let weight = prop_oneof![4 => Just(1u32), 1 => 0u32..4];
    (blocks, candidates, weight, group).prop_map(|(blocks, candidates, weight, group)| Asked {
        blocks,
        candidates,
        weight,
        group,
        chained: false,
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    batch_of(blocks)
}

fn batch_of<T: Strategy<Value = Vec<u64>> + 'static>(
    blocks: fn() -> T,
) -> impl Strategy<Value = Batch> {
    (
        rules(),
        // Names may repeat.
        prop::collection::vec(("[a-d][0-2]?", -1i64..3, 0u64..12), 0..8),
        prop::collection::vec((asked(blocks()), 1usize..5), 0..12),
        any::<bool>(),
        prop::collection::vec((blocks(), places()), 0..6),
    )
        .prop_map(|(rules, replicas, requests, place_all, held)| Batch {
            rules,
            replicas,
            requests: requests
                .into_iter()
                .flat_map(|(asked, copies)| std::iter::repeat_n(asked, copies))
                .collect(),
            place_all,
            expected: 0,
            held,
            held_chained: false,
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_batch_is_placed_as_the_rules_say_and_charged_what_it_loads(batch in batch()) {
        let placement = batch.place();
        let answer = batch.with(oracle::place);
        let names = batch.names(&placement);
        prop_assert_eq!(&names, &answer.assigned);
        let mut loads = batch.loads_before();
        for (i, name) in names.iter().enumerate() {
            match name {
                Some(name) => *loads.get_mut(name).unwrap() += placement.charge(i),
                None => prop_assert_eq!(placement.charge(i), 0),
            }
        }
        prop_assert_eq!(loads, answer.loads);
    }

    #[test]
    fn chains_are_placed_as_the_rules_say_and_charged_what_they_load(
        batch in batch_of(chain),
        expected in 1u64..6,
    ) {
        let mut chained = batch.said_to_be_chained();
        let placement = chained.place();
        prop_assert_eq!(&placement, &batch.place());
        prop_assert_eq!(chained.names(&placement), batch.with(oracle::place).assigned);
        // Which the oracle doesn't know.
        chained.expected = expected;
        prop_assert_eq!(chained.place(), Batch { expected, ..batch }.place());
    }

    #[test]
    fn what_is_chained_only_in_part_is_placed_as_what_is_not(
        batch in batch(),
        not in any::<prop::sample::Index>(),
    ) {
        let mut part = batch.said_to_be_chained();
        if !part.requests.is_empty() {
            let asked = not.index(part.requests.len());
            part.requests[asked].chained = false;
            prop_assert_eq!(part.place(), batch.place());
        }
    }

    #[test]
    fn hashes_that_are_said_to_be_chained_and_are_not_do_no_harm(batch in batch()) {
        let (ours, theirs) = (batch.said_to_be_chained().place(), batch.place());
        prop_assert_eq!(ours.len(), theirs.len());
        for i in 0..ours.len() {
            prop_assert_eq!(ours.group(i), theirs.group(i));
            prop_assert_eq!(ours.assigned(i).is_some(), theirs.assigned(i).is_some());
        }
        for (name, asked) in batch.names(&ours).iter().zip(&batch.requests) {
            if let (Some(name), Some(list)) = (name, &asked.candidates) {
                let mut allowed = list.iter().filter_map(|&i| batch.replicas.get(i as usize));
                prop_assert!(allowed.any(|(allowed, ..)| allowed == name));
            }
        }
        if batch.rules.balance_by == BalanceBy::Requests {
            for (i, asked) in batch.requests.iter().enumerate() {
                if ours.assigned(i).is_some() {
                    prop_assert_eq!(ours.charge(i), u64::from(asked.weight.max(1)));
                }
            }
        }
    }

    #[test]
    fn nothing_before_is_placement_alone(mut batch in batch()) {
        batch.place_all = false;
        batch.held.clear();
        let alone = batch.with(|rules, replicas, requests, _| place(rules, replicas, requests));
        prop_assert_eq!(alone, batch.place());
    }

    #[test]
    fn the_order_of_the_replica_list_is_irrelevant(
        (batch, order) in batch().prop_flat_map(|batch| {
            let order: Vec<usize> = (0..batch.replicas.len()).collect();
            (Just(batch), Just(order).prop_shuffle())
        })
    ) {
        let other = batch.reordered(&order);
        let (ours, theirs) = (batch.place(), other.place());
        prop_assert_eq!(batch.names(&ours), other.names(&theirs));
        for i in 0..ours.len() {
            prop_assert_eq!(ours.charge(i), theirs.charge(i));
        }
    }

    #[test]
    fn the_order_of_what_is_held_is_irrelevant(
        (batch, held) in batch().prop_flat_map(|batch| {
            let held = Just(batch.held.clone()).prop_shuffle();
            (Just(batch), held)
        })
    ) {
        let other = Batch { held, ..batch.clone() };
        prop_assert_eq!(batch.place(), other.place());
    }

    #[test]
    fn the_same_batch_gets_the_same_answer(batch in batch()) {
        prop_assert_eq!(batch.place(), batch.place());
    }

    #[test]
    fn a_request_goes_only_where_it_may(batch in batch()) {
        for (name, asked) in batch.names(&batch.place()).iter().zip(&batch.requests) {
            if let (Some(name), Some(list)) = (name, &asked.candidates) {
                let mut allowed = list.iter().filter_map(|&i| batch.replicas.get(i as usize));
                prop_assert!(allowed.any(|(allowed, ..)| allowed == name));
            }
        }
    }

    #[test]
    fn with_place_all_whatever_is_in_a_unit_is_placed(mut batch in batch()) {
        batch.place_all = true;
        let placement = batch.place();
        for i in 0..placement.len() {
            prop_assert_eq!(placement.assigned(i).is_some(), placement.group(i) > 0);
        }
    }

    #[test]
    fn of_one_unit_no_replica_is_above_the_maximum_while_another_has_room(mut batch in batch()) {
        let Some(k) = batch.rules.max_per_replica else {
            return Ok(());
        };
        for asked in &mut batch.requests {
            (asked.candidates, asked.weight) = (None, 1);
        }
        let mut units: BTreeMap<_, BTreeMap<String, u32>> = BTreeMap::new();
        for (name, asked) in batch.names(&batch.place()).into_iter().zip(&batch.requests) {
            if let Some(name) = name {
                let blocks = asked.group.is_none().then_some(&asked.blocks);
                *units.entry((asked.group, blocks)).or_default().entry(name).or_default() += 1;
            }
        }
        for counts in units.values() {
            if counts.values().any(|&n| n > k.get()) {
                prop_assert_eq!(counts.len(), batch.loads_before().len());
                prop_assert!(counts.values().all(|&n| n >= k.get()), "{counts:?}");
            }
        }
    }

    #[test]
    fn without_prefixes_the_same_load_more_everywhere_changes_nothing(
        mut batch in batch(),
        more in 0u64..100,
    ) {
        batch.rules.min_colocate_blocks = 0;
        batch.rules.balance_by = BalanceBy::Requests;
        let placement = batch.place();
        for (_, _, load) in &mut batch.replicas {
            *load += more;
        }
        prop_assert_eq!(batch.place(), placement);
    }
}

#[test]
fn the_highest_loads_there_are_do_no_harm() {
    let full = Replica {
        load: u64::MAX,
        ..Replica::new("full")
    };
    let replicas = [
        full,
        Replica {
            load: 3,
            ..Replica::new("idle")
        },
        Replica {
            name: "third",
            ..full
        },
    ];
    let requests = [Request::new(&[1, 2]); 5];
    for balance_by in [BalanceBy::Requests, BalanceBy::Tokens] {
        for k in [0, 1] {
            let rules = Rules {
                max_per_replica: NonZeroU32::new(k),
                min_colocate_blocks: 1,
                balance_by,
            };
            let placement = place(&rules, &replicas, &requests);
            assert_eq!(placement.assigned(0), Some(1));
        }
    }
}
