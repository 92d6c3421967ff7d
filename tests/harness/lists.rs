//! Replicas that the admin tells, in lists that change; and which of them were current when.

use burst_prefix_cache::replicas::Clusters;
use burst_prefix_cache::replicas::admin::read;
use fastrand::Rng;
use serde_json::{Value, json};

use super::admin::{Answer, Reply};
use super::exchange::{Exchange, Headers};
use super::world::{MILLI, World};

/// The clusters that routes name. Of the last one no list knows.
pub(crate) const ROUTES: [&str; 3] = ["a", "b", "nobody"];

/// After an answer has come the list may be written so much later.
const WRITTEN: u64 = 5 * MILLI;

/// `replicas` of a configuration: one of the pools, or the one that each route names.
pub(crate) fn source(rng: &mut Rng) -> Value {
    let cluster = ["*", "*", "a"][rng.usize(..3)];
    json!({"envoyAdmin": {"adminCluster": "admin", "cluster": cluster, "refreshMs": 100}})
}

/// What the admin answers, one time after the other.
pub(crate) fn replies(rng: &mut Rng) -> Vec<Reply> {
    let changes = [0, 1, 3][rng.usize(..3)];
    let mut clusters = clusters(rng);
    let first = rng.u32(..2);
    let replies = (0..rng.usize(1..40)).map(|number| {
        if rng.u32(..4) < changes {
            clusters = self::clusters(rng);
        }
        match rng.u32(..12) + 12 * first * u32::from(number == 0) {
            0 => Reply::Answer(503, Vec::new(), rng.u64(..50)),
            1 => Reply::Broken(rng.u64(..50)),
            2 => Reply::Refused,
            3 => Reply::Answer(200, b"{".to_vec(), rng.u64(..50)),
            _ => Reply::Answer(200, clusters.clone(), rng.u64(..50)),
        }
    });
    replies.collect()
}

fn clusters(rng: &mut Rng) -> Vec<u8> {
    let pool = |name: &str, network: u8, rng: &mut Rng| {
        let count = match rng.u32(..12) {
            0 => 0,
            1..4 => rng.u8(1..3),
            _ => rng.u8(3..9),
        };
        let hosts: Vec<Value> = (0..count).map(|_| host(network, rng)).collect();
        json!({"name": name, "host_statuses": hosts})
    };
    let pools = [pool("a", 1, rng), pool("b", 2, rng), pool("others", 3, rng)];
    json!({"cluster_statuses": pools}).to_string().into_bytes()
}

/// One of some, in one health or another.
fn host(network: u8, rng: &mut Rng) -> Value {
    let address = format!("10.0.{network}.{}", rng.u8(1..8));
    let health = ["DRAINING", "DEGRADED", "HEALTHY"][rng.usize(..12).min(2)];
    json!({
        "address": {"socket_address": {"address": address, "port_value": 8000}},
        "stats": [{"name": "rq_active", "value": rng.u32(..4).to_string()}],
        "health_status": {"eds_health_status": health},
        "weight": rng.u32(..16).min(1),
    })
}

impl World {
    /// An answer is told to the filter.
    pub(crate) fn note(&mut self, answer: &Answer) {
        let status = |headers: &Headers| headers.text(":status");
        if answer.headers.as_ref().and_then(status).as_deref() != Some("200") {
            return;
        }
        if let Ok(pools) = read(&answer.body, &Clusters::Routed) {
            self.admin.told.push((self.now, pools));
        }
    }

    /// Whether a list of a pool was current at some moment while a complete request waited, or
    /// when it went on.
    pub(crate) fn was_current(&self, pool: &str, exchange: &Exchange, names: &[String]) -> bool {
        let to = exchange.upstream.as_ref().map_or(0, |upstream| upstream.at);
        let from = exchange.complete_at.map_or(to, |at| at.min(to));
        let told = &self.admin.told;
        let until = |next: usize| told.get(next).map_or(u64::MAX, |(at, _)| at + WRITTEN);
        let before_any = names.is_empty() && from <= until(0);
        before_any
            || told.iter().enumerate().any(|(number, (at, pools))| {
                let pool = pools.get(pool).map(|pool| pool.replicas.as_slice());
                let known = pool.unwrap_or_default().iter().map(|replica| &replica.name);
                *at <= to && from <= until(number + 1) && known.eq(names)
            })
    }
}
