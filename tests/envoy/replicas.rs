//! What becomes of requests whose replica is not there.

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::post;
use crate::prompts::{TEXT, sample};

#[tokio::test]
async fn a_replica_that_refuses_connections_costs_no_request() {
    let mut fleet = Fleet::start(LONG_MS, &[]).await;
    let names = fleet.names();
    // Killed when dropped; Envoy and the filter still know it.
    drop(fleet.replicas.remove(0));
    let requests: Vec<Vec<u8>> = (0..64)
        .map(|place| {
            post(
                TEXT,
                sample(TEXT, &format!("group-{}", place % 8), place / 8),
            )
        })
        .collect();
    let mut lost = 0;
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
}
