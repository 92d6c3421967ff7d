//! The bounds of the window: many requests, too many, and clients that leave.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::post;
use crate::prompts::{TEXT, sample, text};

#[tokio::test]
async fn a_thousand_requests_in_one_window_are_all_answered() {
    let fleet = Fleet::start(2 * LONG_MS, &[]).await;
    let bodies: Vec<String> = (0..1000)
        .map(|place| sample(TEXT, &format!("group-{}", place % 125), place / 125))
        .collect();
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post(TEXT, body)).collect();
    let answers = fleet.burst(&requests).await;
    for (answer, body) in answers.iter().zip(&bodies) {
        assert_eq!(answer.status, 200, "{answer:?}");
        let together = answer.decision().starts_with("assigned;group=8;wait=");
        assert!(together, "{answer:?}");
        let endpoint = answer.seen("x-gateway-destination-endpoint");
        assert_eq!(endpoint, Some(answer.served_by()));
        answer.assert_arrived(body.as_bytes());
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
    assert_eq!(fleet.envoy.stat("vm_reload").await, 0);
}

#[tokio::test]
async fn max_batch_size_counts_over_all_workers() {
    let fleet = Arc::new(Fleet::start(LONG_MS, &[("maxBatchSize", json!(10))]).await);
    let (answered, mut answers) = mpsc::unbounded_channel();
    for seed in 0..30 {
        let (fleet, answered) = (Arc::clone(&fleet), answered.clone());
        tokio::spawn(async move {
            let request = post(TEXT, sample(TEXT, "one", seed));
            let answer = fleet.envoy.ask(&request).await;
            answered.send(answer).unwrap();
        });
    }
    let mut decisions = Vec::new();
    for _ in 0..30 {
        let answer = answers.recv().await.unwrap();
        assert_eq!(answer.status, 200);
        let decision = answer.decision();
        let token = decision
            .split_once(";wait=")
            .map_or(decision, |(token, _)| token);
        decisions.push(token.to_owned());
    }
    // The full window's rest is answered before anything that was held.
    let mut expected = vec!["batch-full"; 20];
    expected.extend(["assigned;group=10"; 10]);
    assert_eq!(decisions, expected);
}

#[tokio::test]
async fn clients_that_leave_are_neither_counted_nor_placed() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let mut connections = Vec::new();
    for seed in 0..8 {
        let mut connection = fleet.envoy.connect().await;
        connection
            .write(post(TEXT, sample(TEXT, "one", seed)))
            .await;
        connections.push(connection);
    }
    let active = "http.llm.downstream_rq_active";
    fleet.envoy.await_stat(active, 8).await;
    // The bodies came with the headers; a moment, should one have come behind.
    sleep(Duration::from_millis(200)).await;
    connections.truncate(4);
    fleet.envoy.await_stat(active, 4).await;
    for connection in connections {
        let answer = connection.answer().await;
        assert_eq!(answer.status, 200);
        let decision = answer.decision();
        assert!(decision.starts_with("assigned;group=4;wait="), "{decision}");
    }
    let left = "burst_prefix_cache.left_requests_total";
    assert_eq!(fleet.envoy.stat(left).await, 4);
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn clients_that_leave_make_room_in_a_full_window() {
    let fleet = Fleet::start(2 * LONG_MS, &[("maxBatchSize", json!(8))]).await;
    let hold = async |seeds: std::ops::Range<usize>| {
        let mut connections = Vec::new();
        for seed in seeds {
            let mut connection = fleet.envoy.connect().await;
            let request = post(TEXT, sample(TEXT, "one", seed));
            connection.write(request).await;
            connections.push(connection);
        }
        connections
    };
    let active = "http.llm.downstream_rq_active";
    let all = hold(0..8).await;
    fleet.envoy.await_stat(active, 8).await;
    sleep(Duration::from_millis(200)).await;
    // Whoever leaves, and be it all of them: the window stays open for those who come.
    drop(all);
    fleet.envoy.await_stat(active, 0).await;
    for connection in hold(8..16).await {
        let answer = connection.answer().await;
        let decision = answer.decision();
        assert!(decision.starts_with("assigned;group=8;wait="), "{decision}");
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_cold_burst_prefills_each_prompt_once() {
    // Tokens of a prompt: ten of the replica's blocks and one, which is always computed.
    const TOKENS: usize = 161;
    let options = [
        "--prefill-us-per-token",
        "100",
        "--decode-us-per-token",
        "0",
    ];
    let fleet = Fleet::with(&options, &[], |config| config.plugin(LONG_MS, &[])).await;
    let requests: Vec<Vec<u8>> = (0..64)
        .map(|place| {
            let prompt = text(&format!("group-{}", place % 8), TOKENS);
            let body = json!({"prompt": prompt, "seed": place, "max_tokens": 1});
            post(TEXT, body.to_string())
        })
        .collect();
    for answer in fleet.burst(&requests).await {
        assert_eq!(answer.status, 200);
    }
    let sum = |name: &str| -> f64 {
        let replicas = fleet.replicas.iter();
        replicas.map(|replica| replica.metric(name)).sum()
    };
    let queries = sum("vllm:prefix_cache_queries_total{}");
    let hits = sum("vllm:prefix_cache_hits_total{}");
    assert_eq!(queries, 64.0 * 161.0);
    let computed = queries - hits;
    assert_eq!(computed, 8.0 * (161.0 + 7.0), "tokens that were prefilled");
}
