//! Nobody is held: the first of a unit claims its replica for all that come in the same instant.

use std::collections::BTreeMap;

use serde_json::json;

use crate::fleet::Fleet;
use crate::http1::{Answer, post};
use crate::prompts::{TEXT, sample};
use crate::verdict::{outcome, wait_ms};
use crate::workers::connect_each;

const SIBLINGS: usize = 64;

/// Siblings that come in the same instant, a quarter of them over each worker: the requests of
/// each replica.
async fn siblings(fleet: &Fleet, name: &str) -> Vec<usize> {
    let workers = connect_each(&fleet.envoy, SIBLINGS / 4).await;
    let bodies: Vec<String> = (0..SIBLINGS).map(|seed| sample(TEXT, name, seed)).collect();
    let mut waiting = Vec::new();
    for (mut connection, body) in workers.into_iter().flatten().zip(&bodies) {
        connection.write(post(TEXT, body)).await;
        waiting.push(tokio::spawn(connection.answer()));
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut numbers = Vec::new();
    for (answer, body) in waiting.into_iter().zip(&bodies) {
        let answer: Answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.assert_arrived(body.as_bytes());
        assert_eq!(wait_ms(&answer), Some(0), "{answer:?}");
        let (token, number) = outcome(&answer).split_once(";group=").unwrap();
        let number: usize = number.parse().unwrap();
        let expected = if number == 1 {
            "assigned"
        } else {
            "remembered"
        };
        assert_eq!(token, expected, "{answer:?}");
        numbers.push(number);
        *counts.entry(answer.served_by().to_owned()).or_default() += 1;
    }
    // Each was counted once, and in its turn.
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=SIBLINGS).collect::<Vec<_>>());
    assert_eq!(fleet.envoy.faults(), [""; 0]);
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable();
    counts
}

#[tokio::test]
async fn siblings_of_the_same_instant_go_to_one_replica() {
    let fields = [("hold", json!("none")), ("groupMemoryMs", json!(60_000))];
    let fleet = Fleet::start(100, &fields).await;
    for round in 0..5 {
        let counts = siblings(&fleet, &format!("round-{round}")).await;
        assert_eq!(counts, [SIBLINGS], "round {round}");
    }
}

#[tokio::test]
async fn siblings_of_the_same_instant_fill_one_replica_after_the_other() {
    for (most, expected) in [
        (16, [16, 16, 16, 16]),
        (20, [4, 20, 20, 20]),
        // There is room for 40: the rest goes where the least is.
        (10, [16, 16, 16, 16]),
    ] {
        let fields = [
            ("hold", json!("none")),
            ("groupMemoryMs", json!(60_000)),
            ("maxPerReplica", json!(most)),
        ];
        let fleet = Fleet::start(100, &fields).await;
        let counts = siblings(&fleet, "one").await;
        if most == 10 {
            assert_eq!(counts.len(), 4, "{counts:?}");
            assert!(counts[0] >= most, "{counts:?}");
        } else {
            assert_eq!(counts, expected, "{most} on each replica");
        }
    }
}
