//! The shipped configuration from its start on, and requests that come before any list.

use std::collections::BTreeSet;

use serde_json::json;

use crate::config::Config;
use crate::discovered::{Discovered, REPLICAS, burst, free_port, homes, listed};
use crate::envoy::Envoy;
use crate::fleet::{Fleet, LONG_MS, QUICK, addresses};
use crate::http1::Answer;
use crate::prompts::TEXT;
use crate::replica::Replica;
use crate::verdict::outcome;

/// It is served by some replica, and nothing is said of a match.
fn assert_passed(answer: &Answer) {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.decision(), "no-replicas;wait=0", "{answer:?}");
    assert_eq!(listed(answer), [""; 0], "{answer:?}");
    assert_eq!(answer.seen("x-prefix-cache-score"), None);
    assert_eq!(answer.seen("x-gateway-destination-endpoint"), None);
    assert!(!answer.served_by().is_empty());
}

/// With a port for the admin that is not the shipped one's, and a longer window.
#[tokio::test]
async fn the_shipped_configuration_serves_from_the_first_request_on() {
    let replicas: Vec<Replica> = (0..4).map(|_| Replica::start(&QUICK)).collect();
    let config = Config::with_admin(free_port(), &addresses(&replicas)).plugin(1000, &[]);
    let envoy = Envoy::start(config.text(), &[]).await;
    let fleet = Fleet { envoy, replicas };
    // Right after the start.
    for answer in fleet.burst(&burst(TEXT, "early", 4)).await {
        assert_eq!(answer.status, 200, "{answer:?}");
        match outcome(&answer) {
            "no-replicas" => assert_passed(&answer),
            held => assert!(held.starts_with("assigned;group="), "{answer:?}"),
        }
    }
    fleet.envoy.await_value(REPLICAS, |known| known == 4).await;
    let answers = fleet.burst(&burst(TEXT, "later", 4)).await;
    let homes: BTreeSet<String> = homes(&answers, 4, &fleet.names()).into_iter().collect();
    assert_eq!(homes.len(), 4, "one group each");
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn before_the_first_list_requests_pass_at_once_and_are_served() {
    // So long that what is held is not answered before the test is over.
    let change = |config: Config| config.plugin(10_000, &[("maxBatchSize", json!(4))]);
    let started = Discovered::unanswered("replicas", &QUICK, change).await;
    let answers = started.fleet.burst(&burst(TEXT, "early", 4)).await;
    answers.iter().for_each(assert_passed);
    assert_eq!(started.fleet.envoy.value("wait_ms").await, None);
    let windows = "burst_prefix_cache.windows_total";
    assert_eq!(started.fleet.envoy.value(windows).await, None);
    let counted = "outcome.no-replicas.requests_total";
    assert_eq!(started.fleet.envoy.value(counted).await, Some(16));
}

#[tokio::test]
async fn bursts_land_on_the_hosts_that_the_admin_tells() {
    let started = Discovered::start("replicas", |config| config.plugin(LONG_MS, &[])).await;
    started.known(4).await;
    for (name, groups) in [("one", 8), ("two", 4)] {
        let homes = started.homes(name, groups, &started.fleet.names()).await;
        for replica in started.fleet.names() {
            let here = homes.iter().filter(|home| **home == replica).count();
            assert_eq!(here, groups / 4, "{homes:?}");
        }
    }
    assert_eq!(started.faults(), [""; 0]);
}
