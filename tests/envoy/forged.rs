//! What clients and replicas bring along under the names of the filter's headers.

use std::collections::BTreeSet;

use serde_json::json;

use crate::discovered::burst;
use crate::fleet::Fleet;
use crate::http1::{Answer, chunked, head};
use crate::http2::{Client, whole, with_these};
use crate::prompts::{CHAT, TEXT, sample};
use crate::verdict::outcome;
use crate::wire::Wire;

const OURS: [&str; 4] = [
    "x-gateway-destination-endpoint",
    "x-prefix-cache-match-info",
    "x-prefix-cache-score",
    "x-burst-prefix-cache",
];

/// Method and path of what the filter has nothing to do with.
const OTHERS: [(&str, &str); 11] = [
    ("GET", "/health"),
    ("GET", TEXT),
    ("HEAD", TEXT),
    ("PUT", TEXT),
    ("PATCH", CHAT),
    ("DELETE", CHAT),
    ("OPTIONS", CHAT),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/completionsX"),
    ("POST", "/"),
    ("POST", "/metrics"),
];

/// All four names, each twice; in odd case where the protocol has case.
fn forged(replica: &str) -> Vec<(String, String)> {
    let value = |name: &str| match name {
        "x-gateway-destination-endpoint" => replica.to_owned(),
        _ => format!("forged-{name}"),
    };
    let odd = |name: &str| -> String {
        let letters = name.chars().enumerate();
        let odd = letters.map(|(at, c)| match at % 2 {
            0 => c.to_ascii_uppercase(),
            _ => c,
        });
        odd.collect()
    };
    let pairs = OURS.iter().flat_map(|name| {
        let value = value(name);
        [((*name).to_owned(), value.clone()), (odd(name), value)]
    });
    pairs.collect()
}

fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    let pairs = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    pairs.collect()
}

/// Of what the replica got, byte by byte, nothing was forged: each name stands there once at most.
fn assert_clean(answer: &Answer, asked: &str) {
    let raw = answer.text().to_lowercase();
    assert!(!raw.contains("forged"), "{asked}: {raw}");
    for name in OURS {
        let lines = raw
            .lines()
            .filter(|line| line.starts_with(&format!("{name}:")));
        assert!(lines.count() <= 1, "{asked}: {name} in {raw}");
    }
}

/// The lines of a header in what the replica got.
fn got(answer: &Answer, name: &str) -> Vec<String> {
    let raw = answer.text().to_lowercase();
    let lines = raw
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{name}: ")));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn forged_headers_over_http_2_reach_no_replica_and_do_not_steer() {
    let (fleet, wires) = Wire::fleet(|config| config.plugin(20, &[])).await;
    let client = Client::open(fleet.envoy.address).await;
    let forged = forged(&wires[3].address);
    let forged = borrowed(&forged);
    for (method, path) in OTHERS {
        let mut served = BTreeSet::new();
        for _ in 0..16 {
            let body = if method == "POST" {
                r#"{"prompt":"x"}"#
            } else {
                ""
            };
            let answer = client
                .clone()
                .send(method, path, &forged, whole(body))
                .await;
            let asked = format!("{method} {path}");
            assert_eq!(answer.status, 200, "{asked}");
            assert_eq!(answer.decision(), "skipped;reason=path", "{asked}");
            assert_eq!(answer.seen(OURS[0]), None, "{asked}");
            assert_clean(&answer, &asked);
            served.insert(answer.served_by().to_owned());
        }
        assert!(served.len() > 1, "{method} {path}: all to {served:?}");
    }
    // And what is held.
    let body = sample(CHAT, "one", 0);
    let answer = client
        .clone()
        .send("POST", CHAT, &forged, whole(&body))
        .await;
    assert_eq!(outcome(&answer), "alone");
    assert_clean(&answer, "held");
    assert_eq!(got(&answer, OURS[0]), [""; 0]);
    assert_eq!(got(&answer, OURS[3]).len(), 1);
}

#[tokio::test]
async fn forged_trailers_reach_no_replica() {
    let (fleet, wires) = Wire::fleet(|config| config.plugin(200, &[]).with_trailers()).await;
    let client = Client::open(fleet.envoy.address).await;
    let mut names: Vec<&String> = wires.iter().map(|wire| &wire.address).collect();
    names.sort();
    // A window of one group goes to the first.
    let mut trailers = forged(names[3]);
    trailers.push(("x-checksum".to_owned(), "7".to_owned()));
    let trailers = borrowed(&trailers);
    let body = sample(TEXT, "one", 0);
    for path in [TEXT, "/v1/embeddings"] {
        let over_http2 = client.clone().post(path, with_these(&body, &trailers));
        let over_http1 = async {
            let head = head("POST", path, &[("transfer-encoding", "chunked")]);
            let mut request = format!("{head}\r\n").into_bytes();
            request.extend(chunked(body.as_bytes(), 100));
            for (name, value) in &trailers {
                request.extend(format!("{name}: {value}\r\n").into_bytes());
            }
            request.extend(b"\r\n");
            fleet.envoy.ask(&request).await
        };
        let (second, first) = tokio::join!(over_http2, over_http1);
        for answer in [&first, &second] {
            assert_eq!(answer.status, 200);
            // Trailers do come through.
            assert_eq!(got(answer, "x-checksum"), ["7"], "{}", answer.text());
            assert_clean(answer, path);
            assert_eq!(got(answer, OURS[3]).len(), 1);
        }
        if path == TEXT {
            assert_eq!(outcome(&first), "assigned;group=2");
            assert_eq!(first.served_by(), names[0]);
            assert_eq!(second.served_by(), names[0]);
        }
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

/// A burst that is answered with headers named like the filter's own.
async fn answered_with_ours(debug: bool) -> (Fleet, Vec<Answer>) {
    let fields = [("debugResponseHeaders", json!(debug))];
    let (fleet, wires) = Wire::fleet(|config| config.plugin(500, &fields)).await;
    for wire in &wires {
        wire.say(
            200,
            "x-burst-prefix-cache: its own\r\nX-Burst-Prefix-Cache: its own\r\n\
             x-gateway-destination-endpoint-served: its own\r\n\
             x-gateway-destination-endpoint: its own\r\n",
        );
    }
    let answers = fleet.burst(&burst(TEXT, "group", 4)).await;
    (fleet, answers)
}

fn values<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let named = answer.headers.iter().filter(|(known, _)| known == name);
    named.map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn a_replicas_headers_of_these_names_change_nothing() {
    for debug in [false, true] {
        let (fleet, answers) = answered_with_ours(debug).await;
        for answer in &answers {
            assert_eq!(outcome(answer), "assigned;group=4");
            assert_eq!(answer.seen(OURS[0]), Some(answer.served_by()));
            let told = values(answer, "x-burst-prefix-cache");
            let served = values(answer, "x-gateway-destination-endpoint-served");
            if debug {
                // The filter's are what is asked for, and stand for themselves.
                assert_eq!(told, [answer.decision()]);
                assert_eq!(served, [answer.served_by()]);
            } else {
                assert_eq!(told, ["its own"; 2]);
                assert_eq!(served, ["its own"]);
            }
        }
        let not_served = "placed_not_served_requests_total";
        assert_eq!(fleet.envoy.value(not_served).await, None);
        assert_eq!(fleet.envoy.faults(), [""; 0]);
    }
}
