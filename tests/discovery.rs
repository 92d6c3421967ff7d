//! The replicas as Envoy's admin tells them: what is read of its answer, who asks for it, and what
//! all workers find.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "discovery/answers.rs"]
mod answers;
#[path = "discovery/cells.rs"]
mod cells;
#[path = "discovery/limits.rs"]
mod limits;
#[path = "discovery/polling.rs"]
mod polling;

use burst_prefix_cache::replicas::{Clusters, Failure, Pools, admin};
use serde_json::Value;

/// The pools as `cluster` → `name` and running requests.
fn told(pools: &Pools) -> Vec<(&str, Vec<(&str, u32)>)> {
    let pools = pools.iter().map(|(cluster, pool)| {
        let replicas = pool.replicas.iter();
        let replicas = replicas.map(|replica| (replica.name.as_str(), replica.running));
        (cluster, replicas.collect())
    });
    pools.collect()
}

fn read(answer: &Value) -> Result<Pools, Failure> {
    admin::read(answer.to_string().as_bytes(), &Clusters::Routed)
}
