//! In which ways a body comes, and that it goes on as it came.

use serde_json::json;

use crate::harness::{Client, MILLI, Part};
use crate::{config, header, held, play, prompt, status};

/// Each way of ending a body, together with one whose body came in one piece.
#[test]
fn a_body_is_whole_however_it_ends() {
    let whole = Client::completion(1, 1_000, &prompt('a'));
    let body = whole.body().unwrap();
    let data = |bytes: &[u8], end| Part::Data {
        bytes: bytes.to_vec(),
        end,
    };
    let (first, second) = body.split_at(20);
    let ways = [
        // One frame.
        vec![data(&body, true)],
        // Several frames, as of HTTP/2.
        vec![data(first, false), data(second, true)],
        // HTTP/1: the end comes by itself.
        vec![data(&body, false), data(b"", true)],
        // An empty frame at first.
        vec![data(b"", false), data(&body, true)],
        // With trailers the body never says that it ends.
        vec![data(&body, false), Part::Trailers],
        vec![data(first, false), data(second, false), Part::Trailers],
    ];
    for way in ways {
        let told = format!("{way:?}");
        let mut client = whole.clone();
        client.thread = 0;
        client.parts.truncate(1);
        for (millis, part) in (1_001..).zip(way) {
            client.parts.push_back((millis * MILLI, part));
        }
        let proxy = play(config(json!({})), vec![client, whole.clone()]);
        let world = proxy.world();
        assert_eq!(status(&world, 0), "assigned;group=2", "{told}");
        assert_eq!(status(&world, 1), "assigned;group=2", "{told}");
    }
}

#[test]
fn a_clients_own_copies_of_the_filters_headers_are_removed_from_trailers() {
    for path in ["/v1/completions", "/v1/models"] {
        let mut client = Client::post(0, 1_000, path, b"{}");
        client.parts.truncate(1);
        let body = Part::Data {
            bytes: b"{}".to_vec(),
            end: false,
        };
        client.parts.push_back((1_001 * MILLI, body));
        client.parts.push_back((1_002 * MILLI, Part::Trailers));
        let proxy = play(config(json!({})), vec![client]);
        let trailers = proxy.world().exchanges[0].trailing.0.clone();
        assert_eq!(trailers, [("x-checksum".to_owned(), b"1".to_vec())]);
    }
}

#[test]
fn trailers_without_a_body_are_no_body() {
    let mut client = Client::completion(0, 1_000, "");
    client.parts.truncate(1);
    client.parts.push_back((1_001 * MILLI, Part::Trailers));
    let proxy = play(config(json!({})), vec![client]);
    assert_eq!(status(&proxy.world(), 0), "skipped;reason=no-body");
}

#[test]
fn a_body_that_grows_too_large_goes_on_as_soon_as_it_does() {
    let body = vec![b'x'; 3_000];
    let client = Client::post(0, 1_000, "/v1/completions", &body).in_pieces(&[1_000, 1_200, 1_400]);
    let proxy = play(config(json!({"maxBodyBytes": 1_500})), vec![client]);
    let world = proxy.world();
    assert_eq!(status(&world, 0), "skipped;reason=too-large");
    // With the second piece; the rest follows unstopped, and unchanged as `play` checks.
    let went_on = world.exchanges[0].upstream.as_ref().unwrap().at;
    assert_eq!(went_on / MILLI, 1_200);
}

#[test]
fn a_body_of_just_the_limit_is_held() {
    let client = Client::completion(0, 1_000, &prompt('a'));
    let size = client.body().unwrap().len();
    for (limit, expected) in [(size, "alone"), (size - 1, "skipped;reason=too-large")] {
        let client = client.clone().with("content-length", size.to_string());
        let proxy = play(config(json!({"maxBodyBytes": limit})), vec![client]);
        assert_eq!(status(&proxy.world(), 0), expected, "{limit}");
    }
}

#[test]
fn a_request_waits_from_the_end_of_its_body() {
    let client = Client::completion(0, 1_000, &prompt('a')).in_pieces(&[1_000, 1_300, 1_600]);
    let proxy = play(config(json!({})), vec![client]);
    let world = proxy.world();
    assert_eq!(held(&world, 0), 100);
    let status = header(&world, 0, crate::STATUS);
    assert_eq!(status.as_deref(), Some("alone;wait=100"));
}

#[test]
fn a_length_that_is_none_is_not_believed() {
    for length in ["-1", "1e9", "99999999999999999999999", "x"] {
        let client = Client::completion(0, 1_000, &prompt('a')).with("content-length", length);
        let proxy = play(config(json!({})), vec![client]);
        assert_eq!(status(&proxy.world(), 0), "alone", "{length}");
    }
}
