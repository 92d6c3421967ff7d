//! Requests that are not held: other methods, other paths, and what clients bring along.

use std::time::{Duration, Instant};

use crate::fleet::Fleet;
use crate::http1::{Answer, post, request};
use crate::prompts::{CHAT, TEXT, sample};

/// The longest there is.
const WINDOW_MS: u32 = 10_000;

/// Method, path, body, and the status that the replica answers.
const OTHERS: &[(&str, &str, &str, u16)] = &[
    ("GET", "/health", "", 200),
    ("GET", "/v1/models", "", 200),
    ("GET", "/metrics", "", 200),
    ("HEAD", "/health", "", 200),
    ("GET", TEXT, "", 405),
    ("GET", CHAT, "", 405),
    ("GET", CHAT, r#"{"messages":[{"content":"hello"}]}"#, 405),
    ("PUT", TEXT, r#"{"prompt":"hello"}"#, 405),
    ("PATCH", TEXT, r#"{"prompt":"hello"}"#, 405),
    ("DELETE", CHAT, "", 405),
    ("OPTIONS", CHAT, "", 405),
    ("POST", "/v1/embeddings", r#"{"input":"hello"}"#, 404),
    ("POST", "/tokenize", r#"{"prompt":"hello"}"#, 404),
    ("POST", "/", r#"{"prompt":"hello"}"#, 404),
    ("POST", "/v1/completionsX", r#"{"prompt":"hello"}"#, 404),
    ("POST", "/health", r#"{"prompt":"hello"}"#, 405),
];

#[tokio::test]
async fn other_methods_and_paths_are_never_held() {
    let fleet = Fleet::start(WINDOW_MS, &[]).await;
    let begin = Instant::now();
    for (method, path, body, status) in OTHERS {
        let answer = fleet.envoy.ask(&request(method, path, &[], body)).await;
        assert_eq!(answer.status, *status, "{method} {path}");
        assert_eq!(answer.decision(), "skipped;reason=path", "{method} {path}");
        assert_eq!(answer.seen("x-gateway-destination-endpoint"), None);
    }
    // All of them together took less than one that was held.
    assert!(begin.elapsed() < Duration::from_millis(u64::from(WINDOW_MS)));
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

/// A client that wants to steer, or to pretend.
fn forged(replica: &str) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    for name in [
        "x-gateway-destination-endpoint",
        "X-Gateway-Destination-ENDPOINT",
    ] {
        headers.push((name, replica.to_owned()));
    }
    for name in ["x-prefix-cache-match-info", "X-PREFIX-CACHE-MATCH-INFO"] {
        headers.push((name, format!("\"{replica}\";match=9;total=9;block=64")));
    }
    for name in ["x-prefix-cache-score", "X-Prefix-Cache-Score"] {
        headers.push((name, format!("\"{replica}\";score=0.5")));
    }
    for name in ["x-burst-prefix-cache", "X-BURST-prefix-Cache"] {
        headers.push((name, "assigned;group=77;wait=1".to_owned()));
    }
    headers
}

fn assert_clean(answer: &Answer, asked: &str) {
    // An answer's headers are asked for as those that stand there at most once.
    assert!(!answer.decision().is_empty(), "{asked}: {answer:?}");
    assert!(!answer.decision().contains("77"), "{asked}: {answer:?}");
    assert_eq!(
        answer.seen("x-gateway-destination-endpoint"),
        None,
        "{asked}"
    );
    let info = answer.seen("x-prefix-cache-match-info").unwrap_or_default();
    assert!(!info.contains("match=9"), "{asked}: {info}");
    let score = answer.seen("x-prefix-cache-score").unwrap_or_default();
    assert!(!score.contains("score=0.5"), "{asked}: {score}");
}

#[tokio::test]
async fn a_clients_copies_of_the_headers_are_removed_from_every_request() {
    let fleet = Fleet::start(20, &[]).await;
    let forged = forged(&fleet.names()[3]);
    let forged: Vec<(&str, &str)> = forged.iter().map(|(n, v)| (*n, v.as_str())).collect();
    for (method, path, body, status) in OTHERS {
        let answer = fleet.envoy.ask(&request(method, path, &forged, body)).await;
        assert_eq!(answer.status, *status, "{method} {path}");
        assert_clean(&answer, &format!("{method} {path}"));
        assert_eq!(answer.seen("x-prefix-cache-match-info"), None);
        assert_eq!(answer.seen("x-prefix-cache-score"), None);
    }
    let held = sample(CHAT, "one", 0);
    for (path, body) in [(CHAT, held.as_str()), (CHAT, "{"), (TEXT, ""), (TEXT, "[]")] {
        let answer = fleet.envoy.ask(&request("POST", path, &forged, body)).await;
        assert_clean(&answer, body);
    }
}

#[tokio::test]
async fn a_forged_endpoint_does_not_steer() {
    let fleet = Fleet::start(20, &[]).await;
    let forged = forged(&fleet.names()[3]);
    let forged: Vec<(&str, &str)> = forged.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let mut steered = 0;
    for _ in 0..40 {
        let answer = fleet
            .envoy
            .ask(&request("GET", "/health", &forged, ""))
            .await;
        steered += u32::from(answer.served_by() == fleet.names()[3]);
    }
    assert!(steered < 40, "all went where the client said");
}

#[tokio::test]
async fn a_query_does_not_make_it_another_path() {
    let fleet = Fleet::start(20, &[]).await;
    let path = format!("{TEXT}?x=1");
    let answer = fleet.envoy.ask(&post(&path, sample(TEXT, "one", 0))).await;
    assert_eq!(answer.status, 200);
    assert!(answer.decision().starts_with("alone;wait="), "{answer:?}");
}
