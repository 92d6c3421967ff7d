//! What runs on a replica already counts where a later window is placed.

use serde_json::json;

use crate::config::Config;
use crate::discovered::{Discovered, REFRESH_MS};
use crate::fleet::Fleet;
use crate::http1::{Connection, post, request};
use crate::prompts::{TEXT, text};

/// So slow that nothing ends while the test lasts.
const SLOW: [&str; 4] = [
    "--prefill-us-per-token",
    "0",
    "--decode-us-per-token",
    "100000",
];
const ENDPOINT: &str = "x-gateway-destination-endpoint";
const RUNNING: &str = "vllm:num_requests_running{}";

fn endless(name: &str, seed: usize) -> String {
    let prompt = text(name, 300);
    json!({"prompt": prompt, "seed": seed, "stream": true, "max_tokens": 100_000}).to_string()
}

/// Sends a group of so many to its window, each over a connection of its own. When all have begun
/// to be answered: where, and their connections.
async fn group(fleet: &Fleet, name: &str, size: usize) -> (String, Vec<Connection>) {
    let mut connections = Vec::new();
    for seed in 0..size {
        let mut connection = fleet.envoy.connect().await;
        connection.write(post(TEXT, endless(name, seed))).await;
        connections.push(connection);
    }
    let mut homes = Vec::new();
    for connection in &mut connections {
        homes.push(served_by(connection).await);
    }
    homes.dedup();
    assert_eq!(homes.len(), 1, "{homes:?}");
    (homes.remove(0), connections)
}

/// Reads the head of an answer.
async fn served_by(connection: &mut Connection) -> String {
    let mut served = String::new();
    loop {
        let line = connection.line().await;
        if line.is_empty() {
            return served;
        }
        if let Some(name) = line.strip_prefix("x-served-by: ") {
            name.clone_into(&mut served);
        }
    }
}

/// Each group goes to the first replica, by its name, on which nothing runs; groups of four, whose
/// members come over all workers.
async fn assert_spread(fleet: &Fleet, names: &[String]) -> Vec<Connection> {
    let mut running = Vec::new();
    for (number, expected) in names.iter().enumerate() {
        let (home, connections) = group(fleet, &format!("group-{number}"), 4).await;
        assert_eq!(home, *expected, "group {number}");
        running.extend(connections);
    }
    running
}

#[tokio::test]
async fn a_window_avoids_the_replicas_that_are_busy_with_those_before() {
    let fleet = Fleet::with(&SLOW, &[], |config| config.plugin(500, &[])).await;
    let mut names = fleet.names();
    names.sort();
    let running = assert_spread(&fleet, &names).await;
    let gauge = "burst_prefix_cache.in_flight_requests";
    fleet
        .envoy
        .await_value(gauge, |in_flight| in_flight == 16)
        .await;

    // Where all are equally busy, the first one is the first again; it has eight then.
    let (home, more) = group(&fleet, "fifth", 4).await;
    assert_eq!(home, names[0]);
    let (home, yet_more) = group(&fleet, "sixth", 4).await;
    assert_eq!(home, names[1]);

    // When they have left, nothing is left of them.
    drop((running, more, yet_more));
    fleet
        .envoy
        .await_value(gauge, |in_flight| in_flight == 0)
        .await;
    let (home, _running) = group(&fleet, "seventh", 4).await;
    assert_eq!(home, names[0]);
}

#[tokio::test]
async fn a_window_avoids_the_hosts_that_are_busy_with_what_the_filter_never_saw() {
    let change = |config: Config| config.plugin(500, &[]).and_plain();
    let started = Discovered::unanswered("replicas", &SLOW, change).await;
    started.answer();
    started.known(4).await;
    let fleet = &started.fleet;
    let mut names = fleet.names();
    names.sort();
    // Past the filter, and so to where the client says.
    let plain = fleet.envoy.listener("plain").await;
    let mut running = Vec::new();
    for name in &names[..2] {
        let headers = [(ENDPOINT, name.as_str())];
        let mut connection = Connection::open(plain).await;
        let body = endless(name, 0);
        connection
            .write(request("POST", TEXT, &headers, body))
            .await;
        assert_eq!(served_by(&mut connection).await, *name);
        running.push(connection);
    }
    started.refreshed().await;
    let (home, third) = group(fleet, "one", 4).await;
    assert_eq!(home, names[2], "refreshed every {REFRESH_MS} ms");
    // What Envoy counts and what the filter counts are not added up: both know of these four.
    started.refreshed().await;
    let (home, fourth) = group(fleet, "two", 4).await;
    assert_eq!(home, names[3]);
    // One runs on each of the first two, four on the others.
    started.refreshed().await;
    let (home, _fifth) = group(fleet, "three", 2).await;
    assert_eq!(home, names[0]);

    drop((running, third, fourth));
    for replica in &fleet.replicas {
        let most = if replica.address == names[0] {
            2.0
        } else {
            0.0
        };
        replica.await_metric(RUNNING, most);
    }
    started.refreshed().await;
    let (home, _sixth) = group(fleet, "four", 2).await;
    assert_eq!(home, names[1]);
}
