//! What becomes of a request, and which headers say so.

use serde_json::json;

use crate::harness::{Client, MILLI, Part};
use crate::{ENDPOINT, MATCH_INFO, SCORE, STATUS, config, header, held, play, prompt, status};

#[test]
fn requests_with_one_prompt_go_to_one_replica_whatever_their_worker() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(1, 1_020, &prompt('a')),
    ];
    let proxy = play(config(json!({})), clients);
    let world = proxy.world();
    for request in 0..2 {
        assert_eq!(status(&world, request), "assigned;group=2");
        for (name, value) in [
            (ENDPOINT, "10.0.0.1:8000"),
            (
                MATCH_INFO,
                r#""10.0.0.1:8000";match=4;total=4;block=4, "10.0.0.2:8000";match=0;total=4;block=4"#,
            ),
            (
                SCORE,
                r#""10.0.0.1:8000";score=1.0, "10.0.0.2:8000";score=0.0"#,
            ),
        ] {
            let told = header(&world, request, name);
            assert_eq!(told.as_deref(), Some(value), "{name} of {request}");
        }
    }
    // Both leave with the window that the first one opened.
    assert_eq!((held(&world, 0), held(&world, 1)), (100, 80));
    let status = header(&world, 1, STATUS);
    assert_eq!(status.as_deref(), Some("assigned;group=2;wait=80"));
}

#[test]
fn a_request_that_overlaps_nothing_is_steered_nowhere() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(0, 1_000, &prompt('b')),
    ];
    let proxy = play(config(json!({})), clients);
    let world = proxy.world();
    for request in 0..2 {
        assert_eq!(status(&world, request), "alone");
        assert_eq!(header(&world, request, ENDPOINT), None);
        let scores = header(&world, request, SCORE).unwrap();
        assert_eq!(scores.matches("score=0.0").count(), 2, "{scores}");
    }
}

/// Requests that go on at once, and what their status says.
#[test]
fn what_is_not_held_goes_on_at_once_and_says_why() {
    let post = |path: &str, body: &str| Client::post(0, 1_000, path, body.as_bytes());
    let completion = || Client::completion(0, 1_000, &prompt('a'));
    let chat = "/v1/chat/completions";
    let without_body = |part: Part| {
        let mut client = completion();
        client.parts = [(1_000 * MILLI, part)].into();
        client
    };
    let mut get = completion();
    get.headers.replace(":method", b"GET".to_vec());
    let cases = [
        ("skipped;reason=path", post("/v1/models", "{}")),
        ("skipped;reason=path", get),
        ("skipped;reason=path", post("", "{}")),
        (
            "skipped;reason=encoding",
            completion().with("content-encoding", "gzip"),
        ),
        (
            "skipped;reason=encoding",
            completion().with("content-encoding", vec![0xff]),
        ),
        (
            "skipped;reason=upgrade",
            completion().with("upgrade", "websocket"),
        ),
        (
            "skipped;reason=too-large",
            completion().with("content-length", "1048577"),
        ),
        (
            "skipped;reason=no-body",
            without_body(Part::Headers { end: true }),
        ),
        ("skipped;reason=no-body", post(chat, "")),
        ("skipped;reason=unreadable", post(chat, "{")),
        ("skipped;reason=unreadable", post(chat, "[]")),
        ("no-prefix", post("/v1/completions", r#"{"prompt":""}"#)),
    ];
    for (expected, client) in cases {
        let headers = format!("{:?}", client.headers);
        let proxy = play(config(json!({})), vec![client]);
        let world = proxy.world();
        let told = header(&world, 0, STATUS);
        assert_eq!(told.as_deref(), Some(expected), "{headers}");
        assert_eq!(held(&world, 0), 0, "{headers}");
        assert_eq!(header(&world, 0, ENDPOINT), None);
        // Whatever goes to one of the APIs is told what it matches: nothing.
        let nothing =
            r#""10.0.0.1:8000";match=0;total=0;block=4, "10.0.0.2:8000";match=0;total=0;block=4"#;
        let nothing = (expected != "skipped;reason=path").then_some(nothing);
        let info = header(&world, 0, MATCH_INFO);
        assert_eq!(info.as_deref(), nothing, "{headers}");
        let outcome = expected.replace(";reason=", ".reason.");
        let metric = format!("burst_prefix_cache.outcome.{outcome}.requests_total");
        assert_eq!(world.witness.count(&metric), 1, "{metric}");
    }
}

#[test]
fn an_identity_encoding_is_none() {
    let client = Client::completion(0, 1_000, &prompt('a')).with("content-encoding", "Identity");
    let proxy = play(config(json!({})), vec![client]);
    assert_eq!(status(&proxy.world(), 0), "alone");
}

#[test]
fn who_comes_to_a_full_window_goes_on_at_once() {
    let clients = (0..4)
        .map(|number| Client::completion(number, 1_000 + number as u64, &prompt('a')))
        .collect();
    let proxy = play(config(json!({"maxBatchSize": 3})), clients);
    let world = proxy.world();
    for request in 0..3 {
        assert_eq!(status(&world, request), "assigned;group=3");
    }
    assert_eq!(header(&world, 3, STATUS).as_deref(), Some("batch-full"));
    assert_eq!(held(&world, 3), 0);
    let metric = "burst_prefix_cache.outcome.batch-full.requests_total";
    assert_eq!(world.witness.count(metric), 1);
}

#[test]
fn who_leaves_makes_room_in_a_full_window() {
    let client = |thread, millis| Client::completion(thread, millis, &prompt('a'));
    let mut leaver = client(1, 1_001);
    leaver.leaves = Some(1_010 * MILLI);
    let clients = vec![client(0, 1_000), leaver, client(2, 1_005), client(2, 1_020)];
    let proxy = play(config(json!({"maxBatchSize": 2})), clients);
    let world = proxy.world();
    assert_eq!(status(&world, 0), "assigned;group=2");
    assert_eq!(status(&world, 2), "batch-full");
    assert_eq!(status(&world, 3), "assigned;group=2");
    assert_eq!(
        world
            .witness
            .count("burst_prefix_cache.left_requests_total"),
        1
    );
}

#[test]
fn a_clients_own_copies_of_the_filters_headers_are_removed_from_every_request() {
    let forged = |mut client: Client| {
        for name in [ENDPOINT, MATCH_INFO, SCORE, STATUS] {
            client = client.with(name, "forged").with(name, vec![0xff]);
        }
        client
    };
    let cases = [
        forged(Client::completion(0, 1_000, &prompt('a'))),
        forged(Client::post(0, 1_000, "/", b"")),
        forged(Client::post(0, 1_000, "/v1/completions", b"{")),
    ];
    for client in cases {
        let proxy = play(config(json!({})), vec![client]);
        let world = proxy.world();
        let headers = &world.exchanges[0].upstream.as_ref().unwrap().headers.0;
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let statuses = names.iter().filter(|name| **name == STATUS).count();
        assert_eq!(statuses, 1, "{names:?}");
        let forged = headers.iter().any(|(_, v)| v == b"forged" || v == &[0xff]);
        assert!(!forged, "{headers:?}");
    }
}

#[test]
fn the_response_tells_the_decision_where_that_is_wanted() {
    for wanted in [true, false] {
        let clients = vec![
            Client::completion(0, 1_000, &prompt('a')),
            Client::completion(1, 1_000, &prompt('a')),
            Client::post(0, 1_000, "/", b"x"),
        ];
        let config = config(json!({"debugResponseHeaders": wanted}));
        let proxy = play(config, clients);
        let world = proxy.world();
        for (request, served) in [(0, "10.0.0.1:8000"), (2, "10.9.9.9:80")] {
            let response = world.exchanges[request].response.as_ref().unwrap();
            let told = response.text(STATUS);
            let expected = header(&world, request, STATUS);
            assert_eq!(told, expected.filter(|_| wanted), "{request}");
            let told = response.text("x-gateway-destination-endpoint-served");
            assert_eq!(told.as_deref(), wanted.then_some(served), "{request}");
        }
    }
}

#[test]
fn windows_and_waits_are_counted() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(1, 1_050, &prompt('a')),
        Client::completion(1, 1_500, &prompt('a')),
    ];
    let proxy = play(config(json!({})), clients);
    let world = proxy.world();
    let metrics = &world.witness.metrics;
    for (name, sum, times) in [
        ("outcome.assigned.requests_total", 2, 2),
        ("outcome.alone.requests_total", 1, 1),
        ("windows_total", 2, 2),
        ("window_requests", 3, 2),
    ] {
        let metric = &metrics[&format!("burst_prefix_cache.{name}")];
        assert_eq!((metric.sum, metric.times), (sum, times), "{name}");
    }
    let waits = &metrics["burst_prefix_cache.wait_ms"];
    assert_eq!(waits.times, 3);
    assert!((250..=254).contains(&waits.sum), "{}", waits.sum);
}
