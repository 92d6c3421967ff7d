//! Bodies of held requests, which must reach the replica to the last byte.

use std::time::Duration;

use tokio::time::sleep;

use crate::envoy::Envoy;
use crate::fleet::{Fleet, LONG_MS};
use crate::http1::{Answer, chunked, head, post};
use crate::http2::{Client, whole, with_trailers};
use crate::prompts::{CHAT, TEXT, sample, sized};

/// The largest body that is held by default.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Ways to send a body.
#[derive(Debug, Clone, Copy)]
enum Way {
    ContentLength,
    Chunked,
    Pieces,
    Trailers,
    Expect,
    Http2,
    Http2Trailers,
}

const WAYS: [Way; 7] = [
    Way::ContentLength,
    Way::Chunked,
    Way::Pieces,
    Way::Trailers,
    Way::Expect,
    Way::Http2,
    Way::Http2Trailers,
];

async fn send(envoy: &Envoy, way: Way, body: &str) -> Answer {
    let bytes = body.as_bytes();
    let json = ("content-type", "application/json");
    let length = body.len().to_string();
    let length = ("content-length", length.as_str());
    let in_chunks = [json, ("transfer-encoding", "chunked")];
    let mut connection = envoy.connect().await;
    match way {
        Way::ContentLength => connection.write(post(TEXT, body)).await,
        Way::Chunked => {
            let head = head("POST", TEXT, &in_chunks);
            connection.write(format!("{head}\r\n")).await;
            connection.write(chunked(bytes, 10_000)).await;
            connection.write("\r\n").await;
        }
        Way::Pieces => {
            let head = head("POST", TEXT, &[json, length]);
            connection.write(format!("{head}\r\n")).await;
            for piece in bytes.chunks(bytes.len().div_ceil(8)) {
                sleep(Duration::from_millis(30)).await;
                connection.write(piece).await;
            }
        }
        Way::Trailers => {
            let head = head(
                "POST",
                TEXT,
                &[in_chunks[0], in_chunks[1], ("te", "trailers")],
            );
            connection.write(format!("{head}\r\n")).await;
            connection.write(chunked(bytes, 10_000)).await;
            connection.write("x-checksum: 1\r\n\r\n").await;
        }
        Way::Expect => {
            let head = head("POST", TEXT, &[json, length, ("expect", "100-continue")]);
            connection.write(format!("{head}\r\n")).await;
            assert_eq!(connection.line().await, "HTTP/1.1 100 Continue");
            while !connection.line().await.is_empty() {}
            connection.write(bytes).await;
        }
        Way::Http2 | Way::Http2Trailers => {
            let client = Client::open(envoy.address).await;
            let body = match way {
                Way::Http2 => whole(body),
                _ => with_trailers(body),
            };
            return client.post(TEXT, body).await;
        }
    }
    connection.answer().await
}

#[tokio::test]
async fn a_held_body_arrives_to_the_last_byte_however_it_was_sent() {
    let fleet = Fleet::start(20, &[]).await;
    for way in WAYS {
        for bytes in [300, 100_000, MAX_BODY_BYTES - 1, MAX_BODY_BYTES] {
            let body = sized(&format!("{way:?}-{bytes}"), bytes);
            let answer = send(&fleet.envoy, way, &body).await;
            let told = format!("{way:?}, {bytes} bytes: {:?}", answer.headers);
            assert_eq!(answer.status, 200, "{told}");
            assert!(answer.decision().starts_with("alone;wait="), "{told}");
            answer.assert_arrived(body.as_bytes());
        }
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_hundred_streams_of_one_connection_are_held_together() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let client = Client::open(fleet.envoy.address).await;
    let bodies: Vec<String> = (0..100).map(|seed| sample(CHAT, "one", seed)).collect();
    let streams: Vec<_> = bodies
        .iter()
        .map(|body| tokio::spawn(client.clone().post(CHAT, whole(body))))
        .collect();
    for (stream, body) in streams.into_iter().zip(&bodies) {
        let answer = stream.await.unwrap();
        assert_eq!(answer.status, 200);
        let together = answer.decision().starts_with("assigned;group=100;wait=");
        assert!(together, "{answer:?}");
        let endpoint = answer.seen("x-gateway-destination-endpoint");
        assert_eq!(endpoint, Some(answer.served_by()));
        answer.assert_arrived(body.as_bytes());
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
