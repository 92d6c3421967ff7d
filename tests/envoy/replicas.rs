//! What becomes of requests whose replica is not there.

use serde_json::json;

use crate::discovered::{burst, homes};
use crate::fleet::{Fleet, LONG_MS, QUICK, keep_silent};
use crate::http1::post;
use crate::prompts::{TEXT, sample};
use crate::verdict::outcome;

const NOT_SERVED: &str = "placed_not_served_requests_total";

#[tokio::test]
async fn a_replica_that_refuses_connections_costs_no_request() {
    let mut fleet = Fleet::start(LONG_MS, &[]).await;
    let names = fleet.names();
    // Killed when dropped; Envoy and the filter still know it.
    drop(fleet.replicas.remove(0));
    let _silent = keep_silent(&names[0]).await;
    let requests: Vec<Vec<u8>> = (0..64)
        .map(|place| {
            post(
                TEXT,
                sample(TEXT, &format!("group-{}", place % 8), place / 8),
            )
        })
        .collect();
    let mut lost: u64 = 0;
    for answer in fleet.burst(&requests).await {
        assert_eq!(answer.status, 200, "{answer:?}");
        let endpoint = answer.seen("x-gateway-destination-endpoint").unwrap();
        if endpoint == names[0] {
            lost += 1;
            assert_ne!(answer.served_by(), endpoint);
        } else {
            assert_eq!(answer.served_by(), endpoint);
        }
    }
    assert_eq!(lost, 2 * 8, "two groups were placed on it");
    assert_eq!(fleet.envoy.value(NOT_SERVED).await, Some(lost));
}

#[tokio::test]
async fn what_is_placed_on_a_host_that_the_cluster_lacks_is_served_elsewhere_and_counted() {
    const LACKS: &str = "10.9.9.9:8000";
    let fleet = Fleet::with(&QUICK, &[], |config| {
        let mut names = config.hosts();
        names.insert(0, LACKS.to_owned());
        let source = json!({"static": names});
        config.replicas(&source).plugin(1000, &[])
    })
    .await;
    let answers = fleet.burst(&burst(TEXT, "group", 5)).await;
    let mut lost = 0;
    for answer in &answers {
        assert_eq!(answer.status, 200, "{answer:?}");
        let endpoint = answer.seen("x-gateway-destination-endpoint").unwrap();
        if endpoint == LACKS {
            lost += 1;
        } else {
            assert_eq!(answer.served_by(), endpoint);
        }
    }
    assert_eq!(lost, 4, "one group was placed on it");
    assert_eq!(fleet.envoy.value(NOT_SERVED).await, Some(lost));
    let page = fleet.envoy.page("/stats/prometheus").await;
    let shown = "\nburst_prefix_cache_placed_not_served_requests_total{} 4\n";
    assert!(page.contains(shown), "{page}");
}

#[tokio::test]
async fn what_is_served_where_it_was_placed_is_not_counted() {
    let fleet = Fleet::start(1000, &[]).await;
    let answers = fleet.burst(&burst(TEXT, "group", 8)).await;
    homes(&answers, 8, &fleet.names());
    // Nor what was placed nowhere.
    let alone = fleet.envoy.ask(&post(TEXT, sample(TEXT, "alone", 0))).await;
    assert_eq!(outcome(&alone), "alone");
    assert_eq!(fleet.envoy.value(NOT_SERVED).await, None);
}
