//! Answers of many hosts, and of more than are taken.

use burst_prefix_cache::replicas::{Clusters, Failure, admin};
use serde_json::{Value, json};

use crate::read;

/// A cluster as Envoy tells it.
fn cluster(name: &str, hosts: usize) -> Value {
    let host = |number: usize| {
        let stat = |name: &str, value: usize| json!({"type": "GAUGE", "name": name, "value": value.to_string()});
        json!({
            "address": {"socket_address": {
                "address": format!("10.1.{}.{}", number / 256, number % 256),
                "port_value": 8000,
            }},
            "stats": [stat("cx_active", 3), stat("rq_active", number), stat("rq_total", 9)],
            "health_status": {"eds_health_status": "HEALTHY"},
            "weight": 1,
            "locality": {},
        })
    };
    let hosts: Vec<Value> = (0..hosts).map(host).collect();
    json!({"name": name, "host_statuses": hosts})
}

fn of(clusters: Vec<Value>) -> Value {
    json!({"cluster_statuses": clusters})
}

#[test]
fn a_pool_of_1024_hosts_is_read() {
    let answer = of(vec![cluster("a", 1024)]);
    let text = serde_json::to_vec_pretty(&answer).unwrap();
    let pools = admin::read(&text, &Clusters::Routed).unwrap();
    let pool = pools.get("a").unwrap();
    assert_eq!(pool.replicas.len(), 1024);
    assert!(pool.replicas.is_sorted_by(|a, b| a.name < b.name));
    for replica in &pool.replicas {
        let last: Vec<u32> = replica.name[5..replica.name.len() - 5]
            .split('.')
            .map(|part| part.parse().unwrap())
            .collect();
        assert_eq!(replica.running, last[0] * 256 + last[1]);
    }
}

#[test]
fn an_answer_above_a_limit_is_refused_with_what_was_found_and_the_limit() {
    let many = |count: usize, hosts: usize| {
        let clusters = (0..count).map(|number| cluster(&number.to_string(), hosts));
        of(clusters.collect())
    };
    for (good, bad, told) in [
        (
            many(1, 1024),
            many(1, 1025),
            "1025 replicas in a cluster; at most 1024",
        ),
        (many(4, 1024), many(5, 1000), "5000 replicas; at most 4096"),
        (many(256, 0), many(257, 0), "257 clusters; at most 256"),
        (
            of(vec![cluster(&"x".repeat(256), 1)]),
            of(vec![cluster(&"x".repeat(257), 1)]),
            "257 bytes in a cluster's name; at most 256",
        ),
    ] {
        read(&good).unwrap_or_else(|failure| panic!("{told}: {failure}"));
        let failure = read(&bad).unwrap_err();
        assert!(failure.to_string().contains(told), "{failure}");
        assert_eq!(failure.cause().word(), "limit");
        // Who wants one cluster is not troubled by the others.
        let text = bad.to_string();
        admin::read(text.as_bytes(), &Clusters::Named("nobody".to_owned())).unwrap();
    }
}

#[test]
fn an_answer_of_more_than_16_mib_is_not_read() {
    let mut text = of(vec![cluster("a", 1)]).to_string().into_bytes();
    text.resize(admin::MOST_BYTES, b' ');
    admin::read(&text, &Clusters::Routed).unwrap();
    text.push(b' ');
    let failure = admin::read(&text, &Clusters::Routed).unwrap_err();
    assert!(matches!(
        failure,
        Failure::TooLarge {
            found: 16_777_217,
            ..
        }
    ));
    assert!(
        failure
            .to_string()
            .contains("16777217 bytes; at most 16777216")
    );
    assert_eq!(failure.cause().word(), "size");
}

#[test]
fn what_is_said_of_an_answer_that_cannot_be_read_is_short_whatever_stands_in_it() {
    let long = "é".repeat(100_000);
    for answer in [
        json!({"cluster_statuses": long}),
        json!({"cluster_statuses": [{"name": [long]}]}),
        json!({"cluster_statuses": [{"name": "a", "host_statuses": long}]}),
    ] {
        let failure = read(&answer).unwrap_err().to_string();
        assert!(failure.len() < 300, "{} bytes", failure.len());
        assert!(failure.contains("the answer cannot be read: "), "{failure}");
    }
}
