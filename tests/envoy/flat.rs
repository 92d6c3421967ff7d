//! Memory stays flat, however many different prompts have come through.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::http1::Connection;
use crate::prompts::TEXT;
use crate::responder;
use crate::verdict::{is_late, outcome};

/// Clients, each with a connection of its own that it keeps.
const CLIENTS: usize = 256;
const WINDOW_MS: u32 = 5;
/// What may come on top of what Envoy has after it has warmed up.
const MOST_GROWTH: u64 = 16 << 20;

/// A small completion that no other has the prompt of: a few blocks of four tokens.
fn request(number: usize) -> (String, Vec<u8>) {
    let body = json!({"prompt": format!("{number:08} what has never been asked before")});
    let body = body.to_string();
    let length = body.len();
    let head = format!("POST {TEXT} HTTP/1.1\r\nhost: llm\r\ncontent-length: {length}\r\n\r\n");
    let bytes = [head.as_bytes(), body.as_bytes()].concat();
    (body, bytes)
}

/// What the clients have done together.
#[derive(Default)]
struct Progress {
    sent: Cell<usize>,
    /// Placed and in time.
    well: Cell<usize>,
}

/// Sends all requests, each with another prompt, and tells Envoy's memory after the first
/// `warm_up` and after the last.
async fn run(warm_up: usize, all: usize) -> (u64, u64) {
    let config = Config::shipped(&responder::start());
    let config = config.plugin(WINDOW_MS, &[("blockSizeTokens", json!(4))]);
    let envoy = Envoy::start(config.text(), &[]).await;
    let address = envoy.address;
    let progress = Rc::new(Progress::default());
    let (local, mut clients) = (LocalSet::new(), JoinSet::new());
    for _ in 0..CLIENTS {
        let progress = Rc::clone(&progress);
        clients.spawn_local_on(client(address, progress, all), &local);
    }
    let watched = local.run_until(async {
        tokio::join!(
            async { while let Some(()) = clients.join_next().await.map(Result::unwrap) {} },
            watch(&envoy, &progress, warm_up, all),
        )
    });
    let ((), warm) = watched.await;
    let after = envoy.resident_bytes();
    // A worker that the machine does not let run for a while is late, or loses its window.
    let well = progress.well.get();
    println!("{well} of {all} were placed and in time");
    assert!(well >= all / 100 * 99, "{well} were placed in time");
    assert_eq!(envoy.faults(), [""; 0]);
    (warm, after)
}

/// Sends one request after the other, as long as there are some left.
async fn client(address: SocketAddr, progress: Rc<Progress>, all: usize) {
    let mut connection = Connection::open(address).await;
    while progress.sent.get() < all {
        let number = progress.sent.replace(progress.sent.get() + 1);
        let (body, bytes) = request(number);
        let answer = connection.exchange(&bytes).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.assert_arrived(body.as_bytes());
        match outcome(&answer) {
            "alone" if is_late(&answer, WINDOW_MS) => {}
            "alone" => progress.well.set(progress.well.get() + 1),
            other => assert_eq!(other, "timed-out"),
        }
    }
}

/// Tells how it goes, and in the end Envoy's memory after the first `warm_up`.
async fn watch(envoy: &Envoy, progress: &Progress, warm_up: usize, all: usize) -> u64 {
    let begin = Instant::now();
    let (mut told, mut warm) = (0, None);
    loop {
        sleep(Duration::from_millis(20)).await;
        let (sent, resident) = (progress.sent.get(), envoy.resident_bytes());
        if sent >= warm_up {
            warm.get_or_insert(resident);
        }
        if sent / (all / 10) > told {
            told = sent / (all / 10);
            let rate = sent as f64 / begin.elapsed().as_secs_f64();
            let mebibytes = resident >> 20;
            println!("{sent} requests, {rate:.0} a second, Envoy has {mebibytes} MiB");
        }
        if sent == all {
            return warm.unwrap();
        }
    }
}

#[tokio::test]
async fn memory_is_flat_over_distinct_prompts() {
    let (warm, after) = run(20_000, 100_000).await;
    assert!(after <= warm + MOST_GROWTH, "from {warm} to {after}");
}

#[tokio::test]
#[ignore = "minutes long: `make soak`"]
async fn memory_is_flat_over_a_million_distinct_prompts() {
    let (warm, after) = run(100_000, 1_000_000).await;
    assert!(after <= warm + MOST_GROWTH, "from {warm} to {after}");
}
