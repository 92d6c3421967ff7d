//! Several pools behind one listener: the route says which one a request is for.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::config::Config;
use crate::discovered::{Discovered, burst, homes, listed};
use crate::fleet::LONG_MS;
use crate::http1::{Answer, post, request};
use crate::prompts::{TEXT, sample};
use crate::verdict::{assert_held, outcome};

/// A path of the second pool, and one of a cluster that has no hosts.
const SECOND: &str = "/second/v1/completions";
const NOBODY: &str = "/nobody/v1/completions";

/// A cluster like that of the replicas, with these hosts.
fn cluster(name: &str, hosts: &[String]) -> Value {
    let host = |address: &String| {
        let (ip, port) = address.rsplit_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        let address = json!({"address": ip, "port_value": port});
        json!({"endpoint": {"address": {"socket_address": address}}})
    };
    let hosts: Vec<Value> = hosts.iter().map(host).collect();
    let policy = |name: &str, config: Value| {
        json!({"policies": [{"typed_extension_config": {
            "name": format!("envoy.load_balancing_policies.{name}"),
            "typed_config": config,
        }}]})
    };
    let kind = "type.googleapis.com/envoy.extensions.load_balancing_policies";
    let least = json!({"@type": format!("{kind}.least_request.v3.LeastRequest")});
    let by_header = json!({
        "@type": format!("{kind}.override_host.v3.OverrideHost"),
        "override_host_sources": [{"header": "x-gateway-destination-endpoint"}],
        "fallback_policy": policy("least_request", least),
    });
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_balancing_policy": policy("override_host", by_header),
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
    })
}

/// Two of four replicas are the cluster `replicas`, and the others the cluster `second`: by the
/// path, or by a header with the model's name.
async fn two_pools(fields: &[(&str, Value)]) -> (Discovered, [Vec<String>; 2]) {
    let route = |condition: Value, cluster: &str| {
        let mut condition = condition;
        let by = condition.as_object_mut().unwrap();
        by.entry("prefix").or_insert(json!("/"));
        json!({"match": condition, "route": {"cluster": cluster, "timeout": "0s"}})
    };
    let model = json!([{"name": "x-model", "string_match": {"exact": "second"}}]);
    let routes = [
        route(json!({"prefix": "/second/"}), "second"),
        route(json!({"headers": model}), "second"),
        route(json!({"prefix": "/nobody/"}), "nobody"),
    ];
    let mut pools = [Vec::new(), Vec::new()];
    let change = |config: Config| {
        let hosts = config.hosts();
        pools = [hosts[..2].to_vec(), hosts[2..].to_vec()];
        config
            .plugin(LONG_MS, fields)
            .with_hosts(&hosts[..2])
            .cluster(&cluster("second", &hosts[2..]))
            .cluster(&cluster("nobody", &[]))
            .routes(&routes)
    };
    let started = Discovered::start("*", change).await;
    // And the admin itself, to which no route leads.
    started.known(5).await;
    (started, pools)
}

fn samples(path: &str, name: &str, seeds: std::ops::Range<usize>) -> Vec<(String, Vec<u8>)> {
    let body = seeds.map(|seed| sample(TEXT, name, seed));
    body.map(|body| (body.clone(), post(path, &body))).collect()
}

#[tokio::test]
async fn one_prompt_in_two_pools_is_placed_in_each_by_itself() {
    let (started, pools) = two_pools(&[]).await;
    // The same prompts for both: by the path, and by the model's header.
    let mut requests = burst(TEXT, "shared", 4);
    requests.extend(burst(SECOND, "shared", 4));
    let answers = started.fleet.burst(&requests).await;
    for (answers, pool) in answers.chunks(16).zip(&pools) {
        let homes = homes(answers, 4, pool);
        for replica in pool {
            assert_eq!(homes.iter().filter(|home| *home == replica).count(), 2);
        }
    }

    let body = |seed| sample(TEXT, "by header", seed);
    let model = [("x-model", "second")];
    let mut requests: Vec<Vec<u8>> = (0..3).map(|seed| post(TEXT, body(seed))).collect();
    requests.extend((3..8).map(|seed| request("POST", TEXT, &model, body(seed))));
    let answers = started.fleet.burst(&requests).await;
    for (place, answer) in answers.iter().enumerate() {
        let (pool, group) = if place < 3 { (0, 3) } else { (1, 5) };
        let mut candidates = pools[pool].clone();
        candidates.sort();
        assert_eq!(outcome(answer), format!("assigned;group={group}"));
        assert_eq!(listed(answer), candidates);
        assert!(candidates.contains(&answer.served_by().to_owned()));
    }
    assert_eq!(started.faults(), [""; 0]);
}

#[tokio::test]
async fn a_request_whose_route_names_a_cluster_without_hosts_is_not_held() {
    let (started, _) = two_pools(&[]).await;
    let answers = started.fleet.burst(&burst(NOBODY, "none", 4)).await;
    for answer in &answers {
        // Envoy's own answer: the filter held none of them, and made none of its own.
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.text().contains("no healthy upstream"), "{answer:?}");
    }
    let envoy = &started.fleet.envoy;
    let counted = envoy.value("outcome.no-replicas.requests_total").await;
    assert_eq!(counted, Some(16));
    assert_eq!(envoy.value("windows_total").await, None);
    let placed = "placed_not_served_requests_total";
    assert_eq!(envoy.value(placed).await, None);
}

#[tokio::test]
async fn the_window_of_one_pool_is_not_filled_by_the_other() {
    let (started, _) = two_pools(&[("maxBatchSize", json!(6))]).await;
    let mut requests = samples(TEXT, "one", 0..6);
    requests.extend(samples(SECOND, "one", 0..6));
    requests.extend(samples(TEXT, "late", 0..2));
    let sent: Vec<Vec<u8>> = requests
        .iter()
        .map(|(_, request)| request.clone())
        .collect();
    let answers = started.fleet.burst(&sent).await;
    let (mut second, mut full) = (0, 0);
    for (place, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, 200);
        let is_full = answer.decision() == "batch-full";
        match place {
            6..12 => {
                assert_eq!(outcome(answer), "assigned;group=6", "{answer:?}");
                second += 1;
            }
            _ => full += usize::from(is_full),
        }
    }
    assert_eq!(
        (second, full),
        (6, 2),
        "eight for six places in the first pool"
    );
}

#[tokio::test]
async fn the_window_of_one_pool_does_not_wait_for_the_other() {
    let fields = [("maxBatchSize", json!(4)), ("onBatchFull", json!("seal"))];
    let (started, _) = two_pools(&fields).await;
    // The second pool's stays open; the first one's is full, and full again.
    let mut requests = samples(SECOND, "one", 0..3);
    requests.extend(samples(TEXT, "one", 0..4));
    requests.extend(samples(TEXT, "two", 0..4));
    let sent: Vec<Vec<u8>> = requests
        .iter()
        .map(|(_, request)| request.clone())
        .collect();
    let answers = started.fleet.burst(&sent).await;
    for (place, (answer, (body, _))) in answers.iter().zip(&requests).enumerate() {
        let waited = wait_ms(answer);
        if place < 3 {
            assert_held(&started.fleet.envoy, answer, body, LONG_MS);
            assert_eq!(outcome(answer), "assigned;group=3", "{answer:?}");
        } else {
            assert!(waited < u64::from(LONG_MS), "sealed: {answer:?}");
        }
    }
    let last = answers[..3].iter().map(wait_ms).max();
    assert!(last >= Some(u64::from(LONG_MS)), "its whole time: {last:?}");
    let homes: BTreeSet<&str> = answers[3..].iter().map(Answer::served_by).collect();
    assert!(homes.len() <= 2, "{homes:?}");
}

fn wait_ms(answer: &Answer) -> u64 {
    let (_, wait) = answer.decision().split_once(";wait=").unwrap();
    wait.parse().unwrap()
}
