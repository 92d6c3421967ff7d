//! Clients that take their time to send: nobody waits for them, and they are answered when they
//! have come to their end.

use tokio::task::JoinHandle;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::{Answer, chunked, head, post};
use crate::http2::{Client, in_pieces, whole, with_trailers};
use crate::prompts::{TEXT, sample};
use crate::verdict::{assert_held, outcome};

/// What is sent in a moment, over both protocols; the streams share their connection with `slow`.
async fn quick(fleet: &Fleet, client: &Client) -> Vec<(String, JoinHandle<Answer>)> {
    let mut waiting = Vec::new();
    for seed in 0..10 {
        let body = sample(TEXT, "one", seed);
        let answer = if seed % 2 == 0 {
            tokio::spawn(client.clone().post(TEXT, whole(&body)))
        } else {
            let mut connection = fleet.envoy.connect().await;
            connection.write(post(TEXT, &body)).await;
            tokio::spawn(connection.answer())
        };
        waiting.push((body, answer));
    }
    waiting
}

async fn check(fleet: &Fleet, waiting: Vec<(String, JoinHandle<Answer>)>, expected: &str) {
    for (body, answer) in waiting {
        let answer = answer.await.unwrap();
        assert_held(&fleet.envoy, &answer, &body, LONG_MS);
        assert_eq!(outcome(&answer), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_end_delays_nobody() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let client = Client::open(fleet.envoy.address).await;
    let bodies: Vec<String> = (10..13).map(|seed| sample(TEXT, "one", seed)).collect();
    let half = bodies[0].len() / 2;

    // By its length, in chunks, and as a stream: half of each.
    let length = bodies[0].len().to_string();
    let mut by_length = fleet.envoy.connect().await;
    let begin = head("POST", TEXT, &[("content-length", &length)]);
    by_length.write(format!("{begin}\r\n")).await;
    by_length.write(&bodies[0][..half]).await;
    let mut in_chunks = fleet.envoy.connect().await;
    let begin = head("POST", TEXT, &[("transfer-encoding", "chunked")]);
    in_chunks.write(format!("{begin}\r\n")).await;
    let chunks = chunked(bodies[1].as_bytes(), half);
    in_chunks.write(&chunks[..half]).await;
    let (pieces, body) = in_pieces();
    let stream = tokio::spawn(client.clone().post(TEXT, body));
    let (first, last) = bodies[2].split_at(half);
    pieces.send(first.to_owned().into()).unwrap();
    let active = "http.llm.downstream_rq_active";
    fleet.envoy.await_stat(active, 3).await;

    // A window comes and goes, and another one.
    for _ in 0..2 {
        let quick = quick(&fleet, &client).await;
        check(&fleet, quick, "assigned;group=10").await;
        assert_eq!(fleet.envoy.stat(active).await, 3);
    }

    by_length.write(&bodies[0][half..]).await;
    in_chunks.write(&chunks[half..]).await;
    in_chunks.write("\r\n").await;
    pieces.send(last.to_owned().into()).unwrap();
    drop(pieces);
    let answers = [
        tokio::spawn(by_length.answer()),
        tokio::spawn(in_chunks.answer()),
        stream,
    ];
    let slow = bodies.into_iter().zip(answers).collect();
    check(&fleet, slow, "assigned;group=3").await;
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn bodies_that_end_with_trailers_are_held_together_with_others() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let client = Client::open(fleet.envoy.address).await;
    let mut waiting = quick(&fleet, &client).await;
    for seed in 10..20 {
        let body = sample(TEXT, "one", seed);
        let answer = client.clone().post(TEXT, with_trailers(&body));
        waiting.push((body, tokio::spawn(answer)));
    }
    check(&fleet, waiting, "assigned;group=20").await;
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
