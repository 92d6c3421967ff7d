//! One window with thousands of requests, each over a connection of its own.

use std::collections::BTreeSet;

use serde_json::json;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::post;
use crate::prompts::{TEXT, sample};
use crate::verdict::{assert_held, outcome};

/// For thousands to come in, on a slow machine.
const WINDOW_MS: u32 = 3 * LONG_MS;

#[tokio::test]
async fn four_thousand_requests_in_one_window_are_all_answered() {
    let fleet = Fleet::start(WINDOW_MS, &[("maxBatchSize", json!(-1))]).await;
    let group = |place: usize| format!("group-{}", place % 500);
    let bodies: Vec<String> = (0..4000)
        .map(|place| sample(TEXT, &group(place), place / 500))
        .collect();
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post(TEXT, body)).collect();
    let answers = fleet.burst(&requests).await;
    let mut homes = BTreeSet::new();
    for (place, (answer, body)) in answers.iter().zip(&bodies).enumerate() {
        assert_held(&fleet.envoy, answer, body, WINDOW_MS);
        assert_eq!(outcome(answer), "assigned;group=8", "{answer:?}");
        homes.insert((group(place), answer.served_by()));
    }
    assert_eq!(homes.len(), 500);
    assert_eq!(fleet.envoy.faults(), [""; 0]);
    assert_eq!(fleet.envoy.stat("vm_reload").await, 0);
}
