//! Half of a burst's clients leave while they are held: the others are placed as if those had
//! never been there.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::{Answer, post};
use crate::http2::{Client, whole};
use crate::prompts::{CHAT, TEXT, sample};
use crate::verdict::{assert_held, outcome};

const ACTIVE: &str = "http.llm.downstream_rq_active";
const CLIENTS: u64 = 100;
const GROUPS: usize = 10;

/// A hundred requests in ten groups of ten.
fn bodies(path: &str) -> Vec<String> {
    (0..100)
        .map(|place| sample(path, &format!("group-{}", place % GROUPS), place))
        .collect()
}

/// Of two neighbours in a group one leaves.
fn leaves(place: usize) -> bool {
    (place / GROUPS).is_multiple_of(2)
}

/// Waits until all are held: the bodies come with the headers, or a moment behind.
async fn all_held(fleet: &Fleet) {
    fleet.envoy.await_stat(ACTIVE, CLIENTS).await;
    sleep(Duration::from_millis(200)).await;
}

/// The living of each group are on one replica, and count themselves only.
async fn check(fleet: &Fleet, bodies: &[String], answers: &[(usize, Answer)]) {
    assert_eq!(answers.len(), 50);
    let mut homes = BTreeSet::new();
    for (place, answer) in answers {
        assert_held(&fleet.envoy, answer, &bodies[*place], LONG_MS);
        assert_eq!(outcome(answer), "assigned;group=5", "{answer:?}");
        homes.insert((place % GROUPS, answer.served_by()));
    }
    assert_eq!(homes.len(), GROUPS, "{homes:?}");
    let left = "burst_prefix_cache.left_requests_total";
    assert_eq!(fleet.envoy.stat(left).await, 50);
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn fifty_of_a_hundred_clients_are_killed() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let bodies = bodies(TEXT);
    let mut connections = Vec::new();
    for (place, body) in bodies.iter().enumerate() {
        let mut connection = fleet.envoy.connect().await;
        connection.write(post(TEXT, body)).await;
        connections.push((place, connection));
    }
    all_held(&fleet).await;
    connections.retain(|(place, _)| !leaves(*place));
    fleet.envoy.await_stat(ACTIVE, 50).await;
    let mut answers = Vec::new();
    for (place, connection) in connections {
        answers.push((place, connection.answer().await));
    }
    check(&fleet, &bodies, &answers).await;
}

#[tokio::test]
async fn fifty_of_a_hundred_streams_of_one_connection_are_reset() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let bodies = bodies(CHAT);
    let client = Client::open(fleet.envoy.address).await;
    let mut streams = Vec::new();
    for (place, body) in bodies.iter().enumerate() {
        let answer = client.clone().post(CHAT, whole(body));
        streams.push((place, tokio::spawn(answer)));
    }
    all_held(&fleet).await;
    for (place, stream) in &streams {
        if leaves(*place) {
            // Dropped with its answer outstanding, which sends a RST_STREAM.
            stream.abort();
        }
    }
    fleet.envoy.await_stat(ACTIVE, 50).await;
    let resets = "http.llm.downstream_rq_rx_reset";
    assert_eq!(fleet.envoy.stat(resets).await, 50);
    let mut answers = Vec::new();
    for (place, stream) in streams {
        if !leaves(place) {
            answers.push((place, stream.await.unwrap()));
        }
    }
    check(&fleet, &bodies, &answers).await;
}
