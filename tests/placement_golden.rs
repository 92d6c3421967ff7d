//! The reference's own answers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::num::NonZeroU32;

use burst_prefix_cache::placement::{BalanceBy, Replica, Request, Rules, place};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    case: String,
    k: i64,
    min_colocate_blocks: u32,
    by_tokens: bool,
    replicas: Vec<NamedReplica>,
    requests: Vec<Vec<Vec<String>>>,
    assigned: Vec<Option<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedReplica {
    name: String,
    running: i64,
}

impl Case {
    fn answer(&self) -> Vec<Option<String>> {
        let rules = Rules {
            max_per_replica: (self.k != -1)
                .then(|| NonZeroU32::new(self.k.try_into().unwrap()).unwrap()),
            min_colocate_blocks: self.min_colocate_blocks,
            balance_by: if self.by_tokens {
                BalanceBy::Tokens
            } else {
                BalanceBy::Requests
            },
        };
        let replicas: Vec<Replica<'_>> = self
            .replicas
            .iter()
            .map(|replica| Replica {
                running: replica.running,
                ..Replica::new(&replica.name)
            })
            .collect();
        let blocks: Vec<Vec<u64>> = self
            .requests
            .iter()
            .map(|prompts| prompts.concat())
            .map(|blocks| blocks.iter().map(|block| block.parse().unwrap()).collect())
            .collect();
        let requests: Vec<Request<'_>> = blocks.iter().map(|blocks| Request::new(blocks)).collect();
        let placement = place(&rules, &replicas, &requests);
        (0..placement.len())
            .map(|i| placement.assigned(i))
            .map(|replica| replica.map(|i| replicas[i].name.to_owned()))
            .collect()
    }
}

fn check(vectors: &str, count: usize) {
    let cases: Vec<Case> = vectors
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cases.len(), count);
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| case.answer() != case.assigned)
        .map(|case| {
            format!(
                "{}: {:?} instead of {:?}",
                case.case,
                case.answer(),
                case.assigned
            )
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_named_cases_are_placed_as_the_reference_places_them() {
    check(include_str!("vectors/placement_edge.jsonl"), 74);
}

#[test]
fn the_random_batches_are_placed_as_the_reference_places_them() {
    check(include_str!("vectors/placement_random.jsonl"), 1000);
}
