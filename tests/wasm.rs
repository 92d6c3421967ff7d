//! The built filter under a simulated proxy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod harness;

use harness::{Client, Headers, Kind, MILLI, Part, Proxy, SECRET, Schedule, wrongs};

#[test]
fn one_request() {
    let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, SECRET.repeat(100));
    let client = Client {
        thread: 0,
        headers: Headers::new([(":method", "POST"), (":path", "/v1/completions")]),
        parts: [
            (1_000 * MILLI, Part::Headers { end: false }),
            (
                1_001 * MILLI,
                Part::Data {
                    bytes: body.into_bytes(),
                    end: true,
                },
            ),
        ]
        .into(),
        leaves: None,
    };
    let config = br#"{"replicas":{"static":["10.0.0.1:8000"]}}"#;
    let mut proxy = Proxy::new(1, 1, vec![config.to_vec()], vec![client]);
    proxy.run_until(2_000 * MILLI);
    let world = proxy.world();
    let told = world.witness.told();
    assert!(
        world.witness.wrong.is_empty(),
        "{:?}\n{told}",
        world.witness.wrong
    );
    let upstream = world.exchanges[0].upstream.as_ref().unwrap();
    let status = upstream.headers.text("x-burst-prefix-cache");
    assert_eq!(status.unwrap(), "alone;wait=100");
    let ticks = told.matches("Tick").count();
    assert!(ticks <= 3, "nothing waits, and it ticks on\n{told}");
}

/// Runs a schedule and checks it; what is wrong, and the trace.
fn run(kind: Kind, seed: u64) -> Result<(), String> {
    let schedule = Schedule::new(kind, seed);
    let mut proxy = schedule.proxy();
    proxy.run();
    let world = proxy.world();
    let wrongs = wrongs(&schedule, &world);
    if wrongs.is_empty() {
        return Ok(());
    }
    let told = world.witness.told();
    let wrongs = wrongs.join("\n");
    Err(format!(
        "{kind:?} {seed}:\n{told}{wrongs}\n{}",
        schedule.configs.join("\n")
    ))
}

fn schedules(kind: Kind) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("WASM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("WASM_SCHEDULES").unwrap_or(50))
            .map(|_| fastrand::u64(..))
            .collect(),
    };
    for seed in seeds {
        if let Err(wrong) = run(kind, seed) {
            panic!("{wrong}\nreplay with WASM_SEED={seed}");
        }
    }
}

#[test]
fn calm() {
    schedules(Kind::Calm);
}
#[test]
fn leaving() {
    schedules(Kind::Leaving);
}
#[test]
fn deaths() {
    schedules(Kind::Deaths);
}
#[test]
fn updates() {
    schedules(Kind::Updates);
}
#[test]
fn late() {
    schedules(Kind::Late);
}
#[test]
fn rough() {
    schedules(Kind::Rough);
}
