//! Memory stays flat, however many different prompts have come through.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::prompts::TEXT;
use crate::responder;
use crate::verdict::assert_held;

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

/// Sends all requests, each with another prompt, and tells Envoy's memory after the first
/// `warm_up` and after the last.
async fn run(warm_up: usize, all: usize) -> (u64, u64) {
    let config = Config::shipped(&responder::start());
    let config = config.plugin(WINDOW_MS, &[("blockSizeTokens", json!(4))]);
    let envoy = Rc::new(Envoy::start(config.text(), &[]).await);
    let next = Rc::new(Cell::new(0));
    let tasks = LocalSet::new();
    for _ in 0..CLIENTS {
        let (envoy, next) = (Rc::clone(&envoy), Rc::clone(&next));
        tasks.spawn_local(async move {
            let mut connection = envoy.connect().await;
            while next.get() < all {
                let number = next.replace(next.get() + 1);
                let (body, bytes) = request(number);
                let answer = connection.exchange(&bytes).await;
                assert_held(&answer, &body, WINDOW_MS);
            }
        });
    }
    let begin = Instant::now();
    let watched = tasks.run_until(async {
        let mut told = 0;
        let mut warm = None;
        while next.get() < all {
            sleep(Duration::from_millis(20)).await;
            let (sent, resident) = (next.get(), envoy.resident_bytes());
            if sent >= warm_up {
                warm.get_or_insert(resident);
            }
            if sent / (all / 10) > told {
                told = sent / (all / 10);
                let seconds = begin.elapsed().as_secs_f64();
                eprintln!(
                    "{sent} requests, {:.0} a second, {} MiB",
                    sent as f64 / seconds,
                    resident >> 20
                );
            }
        }
        warm.unwrap()
    });
    let warm = watched.await;
    tasks.await;
    let after = envoy.resident_bytes();
    let placed = envoy.stat("burst_prefix_cache.outcome.alone").await;
    assert_eq!(
        placed, all as u64,
        "each was placed, and overlapped nothing"
    );
    assert_eq!(envoy.faults(), [""; 0]);
    (warm, after)
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
