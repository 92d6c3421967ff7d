//! Hosts that come and go while Envoy runs.

use crate::config::Config;
use crate::discovered::{Discovered, burst};
use crate::prompts::TEXT;
use crate::watched::{Watched, endpoints};

const WINDOW_MS: u32 = 1000;

/// A fleet whose hosts stand in a file, where there is none of them yet.
async fn fleet(name: &str) -> (Discovered, Watched) {
    let file = Watched::create(name, &endpoints("replicas", &[]));
    let change = |config: Config| config.plugin(WINDOW_MS, &[]).hosts_from(&file.path());
    (Discovered::start("replicas", change).await, file)
}

/// These hosts of the fleet are there now, with this health; the filter has heard of it.
async fn put(started: &Discovered, file: &Watched, hosts: &[(usize, &str)], usable: u64) {
    let names = started.fleet.names();
    let hosts: Vec<(&str, &str)> = hosts
        .iter()
        .map(|(host, health)| (names[*host].as_str(), *health))
        .collect();
    file.put(&endpoints("replicas", &hosts));
    started.known(usable).await;
    // The count may have been the same before.
    started.refreshed().await;
}

/// Where the groups of a burst go: just these hosts, two groups each.
async fn assert_homes(started: &Discovered, name: &str, hosts: &[usize]) {
    let names = started.fleet.names();
    let names: Vec<String> = hosts.iter().map(|host| names[*host].clone()).collect();
    let homes = started.homes(name, 2 * names.len(), &names).await;
    for replica in &names {
        let here = homes.iter().filter(|home| *home == replica).count();
        assert_eq!(here, 2, "{replica}: {homes:?}");
    }
}

#[tokio::test]
async fn hosts_that_are_added_get_groups_and_hosts_that_are_removed_get_none() {
    let (started, file) = fleet("added-and-removed").await;
    let healthy = |host| (host, "HEALTHY");
    for (name, hosts) in [
        ("two", &[0, 1][..]),
        ("all", &[0, 1, 2, 3]),
        ("others", &[2, 3]),
        ("one", &[1]),
    ] {
        let told: Vec<_> = hosts.iter().copied().map(healthy).collect();
        put(&started, &file, &told, told.len() as u64).await;
        assert_homes(&started, name, hosts).await;
    }
    assert_eq!(started.faults(), [""; 0]);
}

#[tokio::test]
async fn hosts_that_drain_or_are_unhealthy_are_no_candidates() {
    let (started, file) = fleet("draining").await;
    let [a, b, c] = [0, 1, 2].map(|host| (host, "HEALTHY"));
    for (name, hosts, usable) in [
        ("draining", [a, b, c, (3, "DRAINING")], &[0, 1, 2][..]),
        (
            "unhealthy",
            [a, (1, "UNHEALTHY"), c, (3, "TIMEOUT")],
            &[0, 2],
        ),
        (
            "degraded",
            [a, b, (2, "DEGRADED"), (3, "DRAINING")],
            &[0, 1],
        ),
        (
            "only degraded",
            [
                (0, "DRAINING"),
                (1, "DEGRADED"),
                (2, "DEGRADED"),
                (3, "TIMEOUT"),
            ],
            &[1, 2],
        ),
        ("well", [a, b, c, (3, "HEALTHY")], &[0, 1, 2, 3]),
    ] {
        put(&started, &file, &hosts, usable.len() as u64).await;
        assert_homes(&started, name, usable).await;
    }
    assert_eq!(started.faults(), [""; 0]);
}

#[tokio::test]
async fn where_all_hosts_drain_requests_pass_at_once() {
    let (started, file) = fleet("all-drain").await;
    put(&started, &file, &[(0, "HEALTHY"), (1, "HEALTHY")], 2).await;
    put(&started, &file, &[(0, "DRAINING"), (1, "DRAINING")], 0).await;
    let answers = started.fleet.burst(&burst(TEXT, "none", 2)).await;
    // Envoy itself may have nobody for them either.
    for answer in &answers {
        assert!(matches!(answer.status, 200 | 503), "{answer:?}");
    }
    assert_eq!(started.fleet.envoy.value("windows_total").await, None);
    let counted = "outcome.no-replicas.requests_total";
    assert_eq!(started.fleet.envoy.value(counted).await, Some(8));
}

#[tokio::test]
async fn hosts_that_vanish_while_a_window_is_open_are_no_candidates_when_it_is_placed() {
    let file = Watched::create("vanish", &endpoints("replicas", &[]));
    let change = |config: Config| config.plugin(8000, &[]).hosts_from(&file.path());
    let started = Discovered::start("replicas", change).await;
    put(
        &started,
        &file,
        &[0, 1, 2, 3].map(|host| (host, "HEALTHY")),
        4,
    )
    .await;
    let requests = burst(TEXT, "one", 4);
    let waiting = started.fleet.burst(&requests);
    let meanwhile = async {
        let active = "http.llm.downstream_rq_active";
        started.fleet.envoy.await_stat(active, 16).await;
        put(&started, &file, &[(2, "HEALTHY"), (3, "HEALTHY")], 2).await;
    };
    let (answers, ()) = tokio::join!(waiting, meanwhile);
    let names = started.fleet.names();
    let homes = crate::discovered::homes(&answers, 4, &names[2..]);
    for replica in &names[2..] {
        assert_eq!(homes.iter().filter(|home| *home == replica).count(), 2);
    }
}
