//! Envoy's admin tells the filter the replicas.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::admin::{Admin, Reply};
use crate::config::Config;
use crate::discovered::{REFRESH_MS, REPLICAS};
use crate::fleet::{Fleet, QUICK};
use crate::http1::request;
use crate::prompts::TEXT;
use crate::watched::{NODE, Watched, endpoints};

const AGE: &str = "burst_prefix_cache.replicas_age_ms";

/// A fleet that asks its admin, through a relay.
async fn fleet(cluster_name: &str, change: impl FnOnce(Config) -> Config) -> (Fleet, Admin) {
    let admin = Admin::start(Reply::Broken).await;
    let change = |config: Config| change(config.asking(admin.address, cluster_name, REFRESH_MS));
    let fleet = Fleet::with(&QUICK, &NODE, change).await;
    admin.set(Reply::Of(fleet.envoy.admin), Duration::ZERO);
    (fleet, admin)
}

/// What an admin says of so many hosts of the cluster `replicas`.
fn clusters(hosts: usize) -> Vec<u8> {
    let host = |number: usize| {
        let address = json!({"address": format!("10.0.0.{number}"), "port_value": 8000});
        json!({"address": {"socket_address": address}, "weight": 1})
    };
    let hosts: Vec<Value> = (1..=hosts).map(host).collect();
    let status = json!({"name": "replicas", "host_statuses": hosts});
    json!({"cluster_statuses": [status]})
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn the_hosts_of_the_cluster_are_known_soon() {
    let (fleet, admin) = fleet("replicas", |config| config).await;
    fleet.envoy.await_value(REPLICAS, |known| known == 4).await;
    let before = admin.asked();
    while admin.asked() < before + 5 {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(fleet.envoy.value(REPLICAS).await, Some(4));
    let page = fleet.envoy.page("/stats/prometheus").await;
    assert!(
        page.contains("\nburst_prefix_cache_replicas{} 4\n"),
        "{page}"
    );
}

#[tokio::test]
async fn all_clusters_are_known_where_the_route_names_one() {
    let (fleet, _admin) = fleet("*", |config| config).await;
    // The replicas, and the admin itself.
    fleet.envoy.await_value(REPLICAS, |known| known == 5).await;
}

#[tokio::test]
async fn hosts_that_come_go_and_fall_ill_are_known_so() {
    let [a, b, c, d] = [1, 2, 3, 4].map(|host| format!("127.0.1.{host}:8000"));
    let (one, two, three) = ((&*a, "HEALTHY"), (&*b, "HEALTHY"), (&*c, "HEALTHY"));
    let file = Watched::create("endpoints", &endpoints("pool", &[one, two]));
    let source = json!({
        "resource_api_version": "V3",
        "path_config_source": {"path": file.path()},
    });
    let pool = json!({
        "name": "pool",
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
    });
    let (fleet, _admin) = fleet("pool", |config| config.cluster(&pool)).await;
    for (hosts, usable) in [
        (vec![one, two], 2),
        (vec![one, two, three], 3),
        (vec![(&a, "DRAINING"), two, three, (&d, "DEGRADED")], 2),
        (vec![(&a, "UNHEALTHY"), (&d, "DEGRADED")], 1),
        (vec![], 0),
        (vec![one, two, three, (&d, "HEALTHY")], 4),
    ] {
        file.put(&endpoints("pool", &hosts));
        let known = fleet.envoy.await_value(REPLICAS, |known| known == usable);
        known.await;
    }
}

#[tokio::test]
async fn an_admin_that_fails_is_counted_by_cause_and_leaves_the_last_good_list() {
    let (fleet, admin) = fleet("replicas", |config| config).await;
    let envoy = &fleet.envoy;
    envoy.await_value(REPLICAS, |known| known == 4).await;
    let huge = vec![b' '; (16 << 20) + 1];
    for (reply, cause) in [
        (Reply::Answer(503, Vec::new()), "status"),
        (Reply::Answer(200, Vec::new()), "json"),
        (Reply::Answer(200, b"<html>".to_vec()), "json"),
        (Reply::Broken, "status"),
        (Reply::Answer(200, clusters(255).repeat(2)), "json"),
        (Reply::Answer(200, huge), "size"),
        (Reply::Silence, "timeout"),
    ] {
        admin.set(reply, Duration::ZERO);
        let counter = format!("poll.cause.{cause}.failures_total");
        let before = envoy.value(&counter).await.unwrap_or(0);
        let counted = envoy.await_value(&counter, |count| count >= before + 2);
        counted.await;
        envoy.await_value(AGE, |age| age > 2 * REFRESH_MS).await;
        assert_eq!(envoy.value(REPLICAS).await, Some(4), "{cause}");
        // A good list again, in between.
        admin.set(Reply::Of(envoy.admin), Duration::ZERO);
        envoy.await_value(AGE, |age| age < REFRESH_MS).await;
    }
    let page = envoy.page("/stats/prometheus").await;
    let shown = r#"burst_prefix_cache_poll_failures_total{cause="timeout"} "#;
    assert!(page.contains(shown), "{page}");
    for fault in envoy.faults() {
        let told = fault.contains("the replicas stay as they were last known");
        assert!(told, "{fault}");
    }
}

#[tokio::test]
async fn slow_answers_are_asked_for_one_at_a_time() {
    let (fleet, admin) = fleet("replicas", |config| config).await;
    fleet.envoy.await_value(REPLICAS, |known| known == 4).await;
    admin.set(
        Reply::Answer(200, clusters(7)),
        Duration::from_millis(2 * REFRESH_MS),
    );
    fleet.envoy.await_value(REPLICAS, |known| known == 7).await;
    let before = admin.asked();
    while admin.asked() < before + 5 {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(admin.most(), 1);
}

#[tokio::test]
async fn a_cluster_that_does_not_exist_is_named_in_the_log_once() {
    let fleet = Fleet::with(&QUICK, &[], |config| {
        let source = json!({"adminCluster": "nowhere", "cluster": "*", "refreshMs": 100});
        config.replicas(&json!({"envoyAdmin": source}))
    })
    .await;
    let counter = "poll.cause.cluster.failures_total";
    fleet.envoy.await_value(counter, |count| count >= 5).await;
    let faults = fleet.envoy.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("no cluster \"nowhere\""), "{faults:?}");
    assert_eq!(fleet.envoy.value(REPLICAS).await, Some(0));
}

#[tokio::test]
async fn the_others_go_on_asking_when_a_vm_has_died() {
    let (fleet, admin) = fleet("replicas", Config::trapping).await;
    fleet.envoy.await_value(REPLICAS, |known| known == 4).await;
    // Several, so that some worker's VM dies and perhaps all workers' do.
    for _ in 0..8 {
        let headers = [("x-test-trap", "1")];
        let request = request("POST", TEXT, &headers, "{}");
        assert_eq!(fleet.envoy.ask(&request).await.status, 503);
    }
    admin.set(Reply::Answer(200, clusters(7)), Duration::ZERO);
    fleet.envoy.await_value(REPLICAS, |known| known == 7).await;
    let before = admin.asked();
    while admin.asked() < before + 5 {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(fleet.envoy.value(REPLICAS).await, Some(7));
}
