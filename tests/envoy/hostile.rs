//! An admin that answers with what no Envoy would: none of it gets into a header, and what is
//! beyond the limits leaves the last good list.

use std::time::Duration;

use serde_json::{Value, json};

use crate::admin::Reply;
use crate::discovered::{Discovered, REPLICAS, burst, homes};
use crate::prompts::TEXT;

/// A host with this address and port, and so many running requests.
fn host(address: &str, port: Value, running: Value) -> Value {
    json!({
        "address": {"socket_address": {"address": address, "port_value": port}},
        "stats": [{"name": "rq_active", "value": running}],
        "weight": 1,
    })
}

fn clusters(clusters: &[(&str, &[Value])]) -> Vec<u8> {
    let cluster = |(name, hosts): &(&str, &[Value])| json!({"name": name, "host_statuses": hosts});
    let clusters: Vec<Value> = clusters.iter().map(cluster).collect();
    json!({"cluster_statuses": clusters})
        .to_string()
        .into_bytes()
}

/// The hosts of the fleet, as they are.
fn good(names: &[String]) -> Vec<Value> {
    let of = |name: &String| {
        let (ip, port) = name.rsplit_once(':').unwrap();
        host(ip, json!(port.parse::<u16>().unwrap()), json!("0"))
    };
    names.iter().map(of).collect()
}

/// Addresses and ports that are none.
fn bad() -> Vec<Value> {
    let addresses = [
        "10.0.0.1\r\nx-evil: 1",
        "10.0.0.1\n",
        "10.0.0.1\"",
        "\";evil=1, \"10.0.0.1",
        "10.0.0.1:80, evil",
        "evil",
        "[::1]",
        "fe80::1%evil",
        "10.0.0.1\u{0}",
        "10.0.0.256",
        " 10.0.0.1",
        "",
    ];
    let port = json!(8000);
    let mut hosts: Vec<Value> = addresses
        .iter()
        .map(|address| host(address, port.clone(), json!("0")))
        .collect();
    for port in [
        json!(0),
        json!(65_536),
        json!(-1),
        json!("x"),
        json!(null),
        json!([]),
    ] {
        hosts.push(host("10.0.0.1", port, json!("0")));
    }
    for running in [json!("evil"), json!({}), json!("NaN")] {
        hosts.push(host("10.0.0.1", json!(8000), running));
    }
    hosts
}

#[tokio::test]
async fn addresses_that_are_none_are_left_out_and_reach_no_header() {
    for cluster in ["replicas", "*"] {
        let (started, wires) =
            Discovered::of_wires(cluster, |config| config.plugin(500, &[])).await;
        let names: Vec<String> = wires.iter().map(|wire| wire.address.clone()).collect();
        let mut hosts = bad();
        hosts.extend(good(&names));
        hosts.extend(bad());
        let evil = "evil\r\nx-evil: 1\"";
        let answer = clusters(&[(evil, &good(&names)), ("replicas", &hosts), ("", &bad())]);
        started
            .admin
            .set(Reply::Answer(200, answer), Duration::ZERO);
        started.refreshed().await;
        started.known(if cluster == "*" { 8 } else { 4 }).await;
        let answers = started.fleet.burst(&burst(TEXT, "group", 8)).await;
        homes(&answers, 8, &names);
        for answer in &answers {
            assert!(!answer.text().contains("evil"), "{}", answer.text());
        }
        assert_eq!(started.faults(), [""; 0]);
    }
}

#[tokio::test]
async fn absurd_counts_only_say_that_a_replica_is_busy() {
    let (started, wires) = Discovered::of_wires("replicas", |config| config.plugin(500, &[])).await;
    let mut names: Vec<String> = wires.iter().map(|wire| wire.address.clone()).collect();
    names.sort();
    let counts = [
        json!("18446744073709551615"),
        json!(1e308),
        json!("1e999"),
        json!(-5),
    ];
    let mut hosts = good(&names);
    for (host, count) in hosts.iter_mut().zip(counts) {
        host["stats"][0]["value"] = count;
    }
    let answer = clusters(&[("replicas", &hosts)]);
    started
        .admin
        .set(Reply::Answer(200, answer), Duration::ZERO);
    started.refreshed().await;
    started.known(4).await;
    let one = started.homes("one", 1, &names).await;
    assert_eq!(one, [names[3].clone()], "less than none");
    // Groups are spread all the same.
    let homes = started.homes("four", 4, &names).await;
    for name in &names {
        assert!(homes.contains(name), "{homes:?}");
    }
    assert_eq!(started.faults(), [""; 0]);
}

#[tokio::test]
async fn an_answer_beyond_the_limits_leaves_the_last_good_list() {
    let (started, wires) = Discovered::of_wires("*", |config| config.plugin(200, &[])).await;
    // The admin's own cluster counts, too.
    started.known(5).await;
    let names: Vec<String> = wires.iter().map(|wire| wire.address.clone()).collect();
    let many = |count: usize| -> Vec<Value> {
        let address = |number| format!("10.{}.{}.1", number / 250, number % 250);
        let hosts = (0..count).map(|number| host(&address(number), json!(80), json!("0")));
        hosts.collect()
    };
    let longest = "evil".repeat(4000);
    let all: Vec<String> = (0..300).map(|number| format!("evil-{number}")).collect();
    let all: Vec<(&str, &[Value])> = all.iter().map(|name| (name.as_str(), &[][..])).collect();
    let thousand = many(1000);
    let five: Vec<(&str, &[Value])> = ["a", "b", "c", "d", "e"].map(|n| (n, &thousand[..])).into();
    for (number, (answer, cause)) in [
        (clusters(&[("replicas", &many(5000))]), "limit"),
        (clusters(&[(&longest, &many(1))]), "limit"),
        (clusters(&all), "limit"),
        (clusters(&five), "limit"),
        (
            json!({"cluster_statuses": longest}).to_string().into(),
            "json",
        ),
        (
            json!({"cluster_statuses": [{"name": [longest]}]})
                .to_string()
                .into(),
            "json",
        ),
        (
            json!({longest.clone(): 1, "cluster_statuses": 1})
                .to_string()
                .into(),
            "json",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let counter = format!("poll.cause.{cause}.failures_total");
        let envoy = &started.fleet.envoy;
        let before = envoy.value(&counter).await.unwrap_or(0);
        started
            .admin
            .set(Reply::Answer(200, answer), Duration::ZERO);
        envoy
            .await_value(&counter, |count| count >= before + 2)
            .await;
        assert_eq!(envoy.value(REPLICAS).await, Some(5), "{cause} {number}");
        let name = format!("answer {number}");
        started.homes(&name, 4, &names).await;
        // So that the next failure of this cause is told, too.
        started.answer();
        let age = "burst_prefix_cache.replicas_age_ms";
        envoy.await_value(age, |age| age < 150).await;
    }
    // What is told of them is told in a line that can be read.
    for line in started.fleet.envoy.faults() {
        assert!(line.len() < 1000, "{} bytes: {}", line.len(), &line[..500]);
    }
}
