//! Bursts of prompt-sharing requests over all workers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::{Answer, post};
use crate::prompts::{CHAT, TEXT, blocks, sample};

/// Enough for a burst to come together on a slow machine, and not much for 20 rounds.
const WINDOW_MS: u32 = 500;

/// The headers that the replica must have got, to the letter.
fn assert_told(answer: &Answer, names: &[String], endpoint: Option<&str>, total: usize) {
    let list = |parameters: &dyn Fn(bool) -> String| {
        let member = |name: &String| {
            let parameters = parameters(endpoint == Some(name.as_str()));
            format!("\"{name}\";{parameters}")
        };
        let members: Vec<String> = names.iter().map(member).collect();
        members.join(", ")
    };
    let info = list(&|matched| {
        let blocks = if matched { total } else { 0 };
        format!("match={blocks};total={total};block=64")
    });
    let score = list(&|matched| format!("score={}", if matched { "1.0" } else { "0.0" }));
    assert_eq!(answer.seen("x-gateway-destination-endpoint"), endpoint);
    let seen = answer.seen("x-prefix-cache-match-info");
    assert_eq!(seen, Some(info.as_str()));
    let seen = answer.seen("x-prefix-cache-score");
    assert_eq!(seen, Some(score.as_str()));
}

/// That the status is this token with its parameters, and a wait in whole milliseconds that is no
/// hang.
fn assert_waited(answer: &Answer, decision: &str, window_ms: u32) {
    let wait = answer.decision().strip_prefix(decision);
    let wait = wait.and_then(|rest| rest.strip_prefix(";wait="));
    let wait = wait.unwrap_or_else(|| panic!("{decision} expected: {answer:?}"));
    let wait: u32 = wait.parse().unwrap();
    assert!(wait < window_ms + 10_000, "waited {wait} ms");
}

#[tokio::test]
async fn each_group_of_a_burst_lands_on_one_replica_20_times_of_20() {
    let fleet = Fleet::start(WINDOW_MS, &[]).await;
    let names = fleet.names();
    for round in 0..20 {
        let path = if round % 2 == 0 { TEXT } else { CHAT };
        let mut bodies = Vec::new();
        for seed in 0..8 {
            for group in 0..8 {
                bodies.push(sample(path, &format!("{round}-{group}"), seed));
            }
            bodies.push(sample(path, &format!("{round}-alone-{seed}"), seed));
        }
        let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post(path, body)).collect();
        let answers = fleet.burst(&requests).await;

        let mut served: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for (place, (answer, body)) in answers.iter().zip(&bodies).enumerate() {
            assert_eq!(answer.status, 200);
            answer.assert_arrived(body.as_bytes());
            let total = blocks(path, body);
            let group = place % 9;
            if group == 8 {
                assert_waited(answer, "alone", WINDOW_MS);
                assert_told(answer, &names, None, total);
            } else {
                assert_waited(answer, "assigned;group=8", WINDOW_MS);
                assert_told(answer, &names, Some(answer.served_by()), total);
                served.entry(group).or_default().insert(answer.served_by());
            }
        }
        let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
        for (group, replicas) in &served {
            assert_eq!(replicas.len(), 1, "round {round}: group {group}");
            for replica in replicas {
                *groups.entry(replica).or_default() += 1;
            }
        }
        let counts: Vec<usize> = groups.into_values().collect();
        assert_eq!(counts, [2, 2, 2, 2], "round {round}: groups of a replica");
    }
    // It is no feat where all connections happened to be on one worker.
    for worker in 0..4 {
        let name = format!(".worker_{worker}.downstream_cx_total");
        assert!(fleet.envoy.stat(&name).await > 0, "{name}");
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn max_per_replica_spreads_a_group() {
    let fleet = Fleet::start(LONG_MS, &[("maxPerReplica", json!(2))]).await;
    let requests: Vec<Vec<u8>> = (0..8)
        .map(|seed| post(TEXT, sample(TEXT, "one", seed)))
        .collect();
    let answers = fleet.burst(&requests).await;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in &answers {
        assert_waited(answer, "assigned;group=8", LONG_MS);
        let endpoint = answer.seen("x-gateway-destination-endpoint");
        assert_eq!(endpoint, Some(answer.served_by()));
        *counts.entry(answer.served_by()).or_default() += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2, 2, 2, 2]);
}
