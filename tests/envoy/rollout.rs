//! A rollout step of real prompts: 32 problems, 8 samples each, shuffled.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::post;
use crate::prompts::CHAT;

#[tokio::test]
async fn samples_of_each_real_problem_land_together() {
    let bodies: Vec<&str> = include_str!("../prompts/rl_humaneval_chat_seeded_32x8.jsonl")
        .lines()
        .collect();
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post(CHAT, body)).collect();
    let answers = fleet.burst(&requests).await;

    let mut served: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (answer, body) in answers.iter().zip(&bodies) {
        assert_eq!(answer.status, 200);
        answer.assert_arrived(body.as_bytes());
        let decision = answer.decision();
        assert!(decision.starts_with("assigned;group=8;"), "{decision}");
        let body: Value = serde_json::from_str(body).unwrap();
        let problem = body["messages"].to_string();
        served
            .entry(problem)
            .or_default()
            .insert(answer.served_by());
    }
    assert_eq!(served.len(), 32);
    let mut problems: BTreeMap<&str, usize> = BTreeMap::new();
    for replicas in served.values() {
        assert_eq!(replicas.len(), 1, "{replicas:?}");
        *problems.entry(replicas.first().unwrap()).or_default() += 1;
    }
    let counts: Vec<usize> = problems.into_values().collect();
    assert_eq!(counts, [8, 8, 8, 8], "problems of a replica");
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
