//! The built filter under a simulated proxy: what it does with one request, and what holds for
//! many of them over many workers, whatever goes wrong.
//!
//! `make build` builds the filter; `FILTER_WASM` names another. How to run more schedules and
//! to replay one stands in `wasm/schedules.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod harness;

#[path = "wasm/bodies.rs"]
mod bodies;
#[path = "wasm/bounds.rs"]
mod bounds;
#[path = "wasm/candidates.rs"]
mod candidates;
#[path = "wasm/configuration.rs"]
mod configuration;
#[path = "wasm/knob.rs"]
mod knob;
#[path = "wasm/mishaps.rs"]
mod mishaps;
#[path = "wasm/outcomes.rs"]
mod outcomes;
#[path = "wasm/replicas.rs"]
mod replicas;
#[path = "wasm/schedules.rs"]
mod schedules;

use harness::{Client, Proxy, SECRET, World};
use serde_json::{Value, json};

const ENDPOINT: &str = "x-gateway-destination-endpoint";
const MATCH_INFO: &str = "x-prefix-cache-match-info";
const SCORE: &str = "x-prefix-cache-score";
const STATUS: &str = "x-burst-prefix-cache";

/// A configuration with two replicas, blocks of 16 bytes and a window of 100 ms.
fn config(more: Value) -> Vec<u8> {
    let mut config = json!({
        "windowDurationMs": 100,
        "blockSizeTokens": 4,
        "replicas": {"static": ["10.0.0.1:8000", "10.0.0.2:8000"]},
    });
    let Value::Object(more) = more else {
        panic!("fields, not {more}");
    };
    config.as_object_mut().unwrap().extend(more);
    config.to_string().into_bytes()
}

/// A prompt of four blocks, which nobody else sends.
fn prompt(name: char) -> String {
    format!("{SECRET}{}", name.to_string().repeat(56))
}

/// Runs the clients' requests to their end, on as many threads as they name.
fn play(config: Vec<u8>, clients: Vec<Client>) -> Proxy {
    let threads = clients.iter().map(|client| client.thread + 1).max();
    let mut proxy = Proxy::new(1, threads.unwrap_or(1), vec![config], clients);
    proxy.run();
    check(&proxy.world());
    proxy
}

/// Nothing went wrong, and every whole body reached a replica as it was.
fn check(world: &World) {
    let told = world.witness.told();
    let wrong = &world.witness.wrong;
    assert!(wrong.is_empty(), "{told}{wrong:?}");
    for (number, exchange) in world.exchanges.iter().enumerate() {
        if exchange.fate.is_none() {
            let upstream = exchange.upstream.as_ref();
            let body = upstream.filter(|upstream| upstream.ended);
            let body = body.map(|upstream| &upstream.body);
            assert_eq!(body, exchange.sent.as_ref(), "request {number}\n{told}");
        }
        assert!(exchange.resumes <= 1, "request {number}\n{told}");
    }
}

/// A header as the replica got it.
fn header(world: &World, request: usize, name: &str) -> Option<String> {
    let upstream = world.exchanges[request].upstream.as_ref();
    let told = || panic!("request {request} waits\n{}", world.witness.told());
    upstream.unwrap_or_else(told).headers.text(name)
}

/// The status header, without the time that the request waited.
fn status(world: &World, request: usize) -> String {
    let status = header(world, request, STATUS).unwrap_or_default();
    match status.split_once(";wait=") {
        Some((status, _)) => status.to_owned(),
        None => status,
    }
}

/// How long a complete request was held, in milliseconds.
fn held(world: &World, request: usize) -> u64 {
    let exchange = &world.exchanges[request];
    let upstream = exchange.upstream.as_ref().unwrap();
    let waited = upstream.at - exchange.complete_at.unwrap();
    waited / harness::MILLI
}
