//! Configurations that Envoy must refuse when it loads them, and the setting that it lacks.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::fleet::{Fleet, LONG_MS};
use crate::http1::{head, post};
use crate::prompts::{TEXT, sample};

/// Fields with a value that they do not take, and what the log says of it.
fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({"windowDurationMs": 0}),
            "windowDurationMs: 0 is refused; it takes a whole number from 1 to 10000",
        ),
        (
            json!({"maxPerReplica": 0}),
            "maxPerReplica: 0 is refused; it takes -1 for no bound, or a whole number from 1",
        ),
        (
            json!({"balanceBy": "luck"}),
            "balanceBy: \"luck\" is refused; it takes requests or tokens",
        ),
        (
            json!({"replicas": {"static": ["replica-1"]}}),
            "replicas.static[0]: \"replica-1\" is refused; it takes an address",
        ),
        (
            json!({"replicas": {"envoyAdmin": {"adminCluster": "a", "cluster": "*", "refreshMs": 99}}}),
            "replicas.envoyAdmin.refreshMs: 99 is refused; it takes a whole number from 100 to 60000",
        ),
        (
            json!({"windowDurationMS": 100}),
            "windowDurationMS: unknown field; known are windowDurationMs",
        ),
        (
            json!({"hold": "none"}),
            "hold: none is refused; it needs groupMemoryMs above 0",
        ),
    ]
}

/// What is planned is refused as well, rather than ignored.
fn not_available() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({"mode": "shadow"}),
            "mode: \"shadow\" is not available yet; it takes route",
        ),
        (
            json!({"balanceBy": "work"}),
            "balanceBy: \"work\" is not available yet; it takes requests or tokens",
        ),
    ]
}

fn replicas() -> Vec<String> {
    (1..=4).map(|host| format!("127.0.0.1:{host}")).collect()
}

async fn assert_refused(form: &str, config: Config, told: &str) {
    let (status, log) = Envoy::refuse(config.text()).await;
    assert!(!status.success(), "{form}, {told}: {status}\n{log}");
    let mut lines = log.lines();
    let named = lines.any(|line| line.contains("configuration refused: ") && line.contains(told));
    assert!(named, "{form}, {told}:\n{log}");
}

#[tokio::test]
async fn a_bad_configuration_is_refused_with_its_field_value_and_range() {
    let mut rows = refused();
    rows.extend(not_available());
    for (bad, told) in rows {
        let mut fields = Map::new();
        fields.insert("replicas".into(), json!({"static": replicas()}));
        fields.extend(bad.as_object().unwrap().clone());
        let text = Value::from(fields.clone()).to_string();
        let shipped = || Config::shipped(&replicas());
        tokio::join!(
            assert_refused("StringValue", shipped().plugin_text(&text), told),
            assert_refused("Struct", shipped().plugin_struct(&fields), told),
        );
    }
}

#[tokio::test]
async fn what_is_no_configuration_at_all_is_refused() {
    for (text, told) in [
        ("{", "the configuration must be a JSON object"),
        ("[]", "the configuration must be a JSON object"),
        ("{}", "replicas: missing; it takes {\"static\": "),
    ] {
        let config = Config::shipped(&replicas()).plugin_text(text);
        assert_refused("StringValue", config, told).await;
    }
}

#[tokio::test]
async fn a_configuration_in_json_text_works_as_the_struct_does() {
    let fleet = Fleet::with(&[], &[], |config| {
        // Names without hosts: what is placed on them goes where the fallback says.
        let plugin = json!({"windowDurationMs": 1000, "replicas": {"static": replicas()}});
        config.plugin_text(&plugin.to_string())
    })
    .await;
    let requests: Vec<Vec<u8>> = (0..4)
        .map(|seed| post(TEXT, sample(TEXT, "one", seed)))
        .collect();
    for answer in fleet.burst(&requests).await {
        assert_eq!(answer.status, 200);
        let together = answer.decision().starts_with("assigned;group=4;wait=");
        assert!(together, "{answer:?}");
        let endpoint = answer.seen("x-gateway-destination-endpoint");
        assert_eq!(endpoint, Some("127.0.0.1:1"));
    }
}

#[tokio::test]
async fn without_the_header_stop_setting_requests_pass_and_the_log_says_what_to_add() {
    let fleet = Fleet::with(&[], &[], |config| config.plugin(100, &[]).without_knob()).await;
    let bodies: Vec<String> = (0..8).map(|seed| sample(TEXT, "one", seed)).collect();
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post(TEXT, body)).collect();
    for (answer, body) in fleet.burst(&requests).await.iter().zip(&bodies) {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.decision(), "skipped;reason=header-stop");
        answer.assert_arrived(body.as_bytes());
    }
    let advice = "Add `allow_on_headers_stop_iteration: true` to the filter's";
    let faults = fleet.envoy.faults();
    assert!(!faults.is_empty(), "{}", fleet.envoy.log());
    for fault in faults {
        assert!(fault.contains(advice), "{fault}");
    }
    let counted = fleet
        .envoy
        .stat("burst_prefix_cache.knob_missing_requests_total");
    assert_eq!(counted.await, 8);
}

#[tokio::test]
async fn a_slow_upload_is_not_taken_for_a_missing_setting() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let body = sample(TEXT, "slow", 0);
    let length = body.len().to_string();
    let head = head("POST", TEXT, &[("content-length", &length)]);
    let (first, last) = body.as_bytes().split_at(body.len() / 2);
    let mut connection = fleet.envoy.connect().await;
    connection.write(format!("{head}\r\n")).await;
    // The filter looks after a second, and after another one.
    sleep(Duration::from_millis(2500)).await;
    connection.write(first).await;
    sleep(Duration::from_millis(1500)).await;
    connection.write(last).await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200);
    assert!(answer.decision().starts_with("alone;wait="), "{answer:?}");
    answer.assert_arrived(body.as_bytes());
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
