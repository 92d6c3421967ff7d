//! What is read of an answer.

use burst_prefix_cache::replicas::{Clusters, Failure, admin};
use serde_json::{Value, json};

use crate::{read, told};

/// What Envoy 1.40 answered, with requests running on three hosts: clusters with active health
/// checks and outlier detection, with endpoints from a file, without hosts, of a pipe and of a
/// name.
const REAL: &[u8] = include_bytes!("clusters-1.40.json");

#[test]
fn a_real_answer_gives_the_hosts_that_can_be_used() {
    let pools = admin::read(REAL, &Clusters::Routed).unwrap();
    assert_eq!(
        told(&pools),
        [
            ("admin", vec![("127.0.0.1:19901", 0)]),
            // One has failed its health check, one was ejected, one is degraded, one has excluded
            // itself, and one is not there.
            ("checked", vec![("127.0.0.1:18801", 0)]),
            ("empty", vec![]),
            ("names", vec![("[::1]:18801", 0)]),
            ("pipes", vec![]),
            // The others drain, are unhealthy or degraded, or are there for when these are not.
            ("pool", vec![("127.0.0.1:18801", 0), ("[::1]:18806", 0)]),
        ]
    );
    assert_eq!(pools.usable(), 5);
}

#[test]
fn only_the_wanted_cluster_is_kept() {
    let pools = admin::read(REAL, &Clusters::Named("names".to_owned())).unwrap();
    assert_eq!(told(&pools), [("names", vec![("[::1]:18801", 0)])]);
    let pools = admin::read(REAL, &Clusters::Named("nobody".to_owned())).unwrap();
    assert_eq!(told(&pools), []);
    assert!(pools.get("nobody").is_none());
}

/// The real answer, in which of a cluster's hosts only some are left.
fn real(cluster: &str, kept: &[usize]) -> Vec<(String, u32)> {
    let mut answer: Value = serde_json::from_slice(REAL).unwrap();
    let clusters = answer["cluster_statuses"].as_array_mut().unwrap();
    clusters.retain(|status| status["name"] == cluster);
    let hosts = clusters[0]["host_statuses"].as_array_mut().unwrap();
    *hosts = kept.iter().map(|host| hosts[*host].clone()).collect();
    let pools = read(&answer).unwrap();
    let replicas = pools.get(cluster).unwrap().replicas.iter();
    replicas.map(|r| (r.name.clone(), r.running)).collect()
}

#[test]
fn degraded_hosts_and_later_priorities_are_used_where_no_better_ones_are() {
    let one = |name: &str, running| vec![(name.to_owned(), running)];
    // Without the healthy one, the degraded one; its gauge is a decimal string.
    assert_eq!(real("checked", &[1, 2, 3, 4]), one("127.0.0.1:18804", 2));
    assert_eq!(real("checked", &[1, 2, 4, 5]), []);
    // Healthy ones of any priority come before degraded ones.
    assert_eq!(real("pool", &[1, 2, 3, 4, 6]), one("127.0.0.5:18806", 0));
    assert_eq!(real("pool", &[1, 2, 3, 4]), one("127.0.0.3:18806", 0));
    assert_eq!(real("pool", &[1, 2, 4]), []);
}

/// A good host, but for some of its fields.
fn host(other: Value) -> Value {
    let mut host = json!({
        "address": {"socket_address": {"address": "10.0.0.1", "port_value": 8000}},
        "stats": [{"name": "cx_total", "value": "9"}, {"type": "GAUGE", "name": "rq_active", "value": "3"}],
        "health_status": {"eds_health_status": "HEALTHY"},
        "weight": 1,
    });
    let Value::Object(other) = other else {
        panic!("{other}");
    };
    host.as_object_mut().unwrap().extend(other);
    host
}

fn of(hosts: Value) -> Vec<(String, u32)> {
    let answer = json!({"cluster_statuses": [{"host_statuses": hosts, "name": "a"}]});
    let pools = read(&answer).unwrap_or_else(|failure| panic!("{answer}: {failure}"));
    let replicas = pools.get("a").unwrap().replicas.iter();
    replicas.map(|r| (r.name.clone(), r.running)).collect()
}

#[test]
fn each_reason_not_to_use_a_host_is_seen() {
    let health = |field: &str, value: Value| json!({"health_status": {field: value}});
    for other in [
        health("failed_active_health_check", json!(true)),
        health("failed_outlier_check", json!(true)),
        health("pending_dynamic_removal", json!(true)),
        health("pending_active_hc", json!(true)),
        health("excluded_via_immediate_hc_fail", json!(true)),
        health("active_hc_timeout", json!(true)),
        health("eds_health_status", json!("UNHEALTHY")),
        health("eds_health_status", json!("DRAINING")),
        health("eds_health_status", json!("TIMEOUT")),
        json!({"weight": 0}),
        json!({"weight": "0"}),
    ] {
        assert_eq!(of(json!([host(other.clone())])), [], "{other}");
    }
    let mut weightless = host(json!({}));
    weightless.as_object_mut().unwrap().remove("weight");
    assert_eq!(of(json!([weightless])), []);
    for other in [
        health("eds_health_status", json!("UNKNOWN")),
        health("eds_health_status", json!("WHATEVER_COMES")),
        health("failed_active_health_check", json!(false)),
        json!({"health_status": {}}),
        json!({"priority": 7, "locality": null, "what": ["ever"]}),
    ] {
        assert_eq!(of(json!([host(other.clone())])).len(), 1, "{other}");
    }
}

#[test]
fn addresses_are_in_the_form_in_which_envoy_names_its_hosts() {
    let socket = |address: &str, port: Value| {
        json!([host(
            json!({"address": {"socket_address": {"address": address, "port_value": port}}})
        )])
    };
    for (hosts, name) in [
        (socket("10.0.0.1", json!(80)), Some("10.0.0.1:80")),
        (socket("10.0.0.1", json!("80")), Some("10.0.0.1:80")),
        (socket("::1", json!(65535)), Some("[::1]:65535")),
        (socket("2001:DB8::0:1", json!(1)), Some("[2001:db8::1]:1")),
        (socket("10.0.0.1", json!(0)), None),
        (socket("10.0.0.1", json!(65536)), None),
        (socket("10.0.0.1", json!(-1)), None),
        (socket("pod-1", json!(80)), None),
        (socket("10.0.0.1:80", json!(80)), None),
        (socket("", json!(80)), None),
        (
            json!([host(json!({"address": {"pipe": {"path": "/x"}}}))]),
            None,
        ),
        (
            json!([host(
                json!({"address": {"envoy_internal_address": {"server_listener_name": "x"}}})
            )]),
            None,
        ),
    ] {
        let names = of(hosts.clone());
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, Vec::from_iter(name), "{hosts}");
    }
}

#[test]
fn running_requests_are_numbers_in_any_form_and_clamped() {
    for (stat, running) in [
        (json!({"name": "rq_active"}), 0),
        (json!({"name": "rq_active", "value": "7"}), 7),
        (json!({"name": "rq_active", "value": 7}), 7),
        (json!({"name": "rq_active", "value": 7.0}), 7),
        (json!({"name": "rq_active", "value": -7}), 0),
        (json!({"name": "rq_active", "value": "-7"}), 0),
        (json!({"name": "rq_active", "value": 1e30}), u32::MAX),
        (
            json!({"name": "rq_active", "value": "99999999999999999999"}),
            u32::MAX,
        ),
        (json!({"value": "5"}), 0),
    ] {
        let hosts = of(json!([host(json!({"stats": [stat]}))]));
        assert_eq!(hosts, [("10.0.0.1:8000".to_owned(), running)], "{stat}");
    }
    for stats in [json!([]), json!([{"name": "x"}])] {
        assert_eq!(of(json!([host(json!({"stats": stats}))]))[0].1, 0);
    }
}

#[test]
fn an_odd_host_costs_none_but_itself() {
    let good = || {
        let address = json!({"socket_address": {"address": "10.0.0.2", "port_value": 8000}});
        host(json!({"address": address}))
    };
    for odd in [
        json!(null),
        json!(1),
        json!([]),
        json!({}),
        host(json!({"address": null})),
        host(json!({"address": {"socket_address": 1}})),
        host(json!({"address": {"socket_address": {"address": 1, "port_value": 80}}})),
        host(json!({"stats": {}})),
        host(json!({"stats": [1]})),
        host(json!({"stats": [{"name": "rq_active", "value": "many"}]})),
        host(json!({"stats": [{"name": "rq_active", "value": "NaN"}]})),
        host(json!({"stats": [{"name": "rq_active", "value": {}}]})),
        host(json!({"health_status": 1})),
        host(json!({"health_status": {"failed_outlier_check": "yes"}})),
        host(json!({"weight": []})),
        host(json!({"priority": true})),
    ] {
        let names = of(json!([odd.clone(), good()]));
        assert_eq!(names, [("10.0.0.2:8000".to_owned(), 3)], "{odd}");
    }
}

#[test]
fn two_hosts_of_one_address_are_one_replica() {
    let out = json!({"health_status": {"failed_outlier_check": true}, "stats": []});
    let busy = |running: u32| json!({"stats": [{"name": "rq_active", "value": running}]});
    let twice = |a: &Value, b: &Value| of(json!([host(a.clone()), host(b.clone())]));
    let one = |running| [("10.0.0.1:8000".to_owned(), running)];
    assert_eq!(twice(&busy(2), &busy(5)), one(5));
    assert_eq!(twice(&busy(5), &busy(2)), one(5));
    assert_eq!(twice(&out, &busy(2)), one(2));
    assert_eq!(twice(&busy(2), &out), one(2));
    assert_eq!(twice(&out, &out), []);
}

#[test]
fn what_is_no_list_of_clusters_is_refused() {
    for answer in [
        "",
        "null",
        "[]",
        "{}",
        "clusters::default_priority::max_connections::1024",
        r#"{"cluster_statuses":null}"#,
        r#"{"cluster_statuses":{}}"#,
        r#"{"cluster_statuses":[1]}"#,
        r#"{"cluster_statuses":[{}]}"#,
        r#"{"cluster_statuses":[{"name":1}]}"#,
        r#"{"cluster_statuses":[{"name":"a","host_statuses":1}]}"#,
        r#"{"cluster_statuses":[{"name":"a"}"#,
        r#"{"cluster_statuses":[{"name":"a"}]} and more"#,
        r#"{"cluster_statuses":[]"#,
    ] {
        let failure = admin::read(answer.as_bytes(), &Clusters::Routed).unwrap_err();
        assert!(matches!(failure, Failure::Unreadable(_)), "{answer}");
        assert_eq!(failure.cause().word(), "json");
    }
    let failure = admin::read(b"\xff\xfe", &Clusters::Routed).unwrap_err();
    assert_eq!(failure.cause().word(), "json");
}
