//! Seeded schedules over many workers.
//!
//! Each test runs new ones every time. `WASM_SCHEDULES=n` sets how many, and
//! `WASM_SEED=n cargo test --features wasm-engine --test wasm KIND` replays the one that a failure names.
//! `make simulate` runs very many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::harness::{Kind, Schedule, wrongs};

/// Schedules that failed once.
const REGRESSIONS: [(Kind, u64); 0] = [];

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
fn pools() {
    schedules(Kind::Pools);
}

#[test]
fn rough() {
    schedules(Kind::Rough);
}

#[test]
fn those_that_failed_once() {
    for (kind, seed) in REGRESSIONS {
        run(kind, seed).unwrap();
    }
}

#[test]
fn one_seed_is_one_schedule() {
    for kind in Kind::ALL {
        let told = || {
            let proxy = Schedule::new(kind, 7).run();
            let world = proxy.world();
            (world.witness.told(), world.now)
        };
        assert_eq!(told(), told(), "{kind:?}");
    }
}

/// Very many, of all kinds, on all processors.
#[test]
#[ignore = "takes long; `make simulate` runs it"]
fn simulate() {
    let count = number("WASM_SCHEDULES").unwrap_or(100_000);
    let count = usize::try_from(count).unwrap();
    let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut rng = fastrand::Rng::new();
                loop {
                    let number = done.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let kind = Kind::ALL[number % Kind::ALL.len()];
                    if let Err(wrong) = run(kind, rng.u64(..)) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        eprintln!("\n{wrong}");
                    }
                    if number % 100 == 99 {
                        let seconds = began.elapsed().as_secs_f64();
                        let rate = (number + 1) as f64 / seconds;
                        let failed = failed.load(Ordering::Relaxed);
                        eprint!(
                            "\r{} of {count} schedules, {rate:.0} a second, {failed} failed ",
                            number + 1
                        );
                    }
                }
            });
        }
    });
    eprintln!();
    assert_eq!(failed.into_inner(), 0, "schedules failed");
}

fn number(name: &str) -> Option<u64> {
    let number = std::env::var(name).ok()?;
    Some(number.parse().expect("a number"))
}

fn schedules(kind: Kind) {
    let seeds: Vec<u64> = match number("WASM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("WASM_SCHEDULES").unwrap_or(334))
            .map(|_| fastrand::u64(..))
            .collect(),
    };
    for seed in seeds {
        if let Err(wrong) = run(kind, seed) {
            panic!("{wrong}");
        }
    }
}

/// Runs a schedule and checks it; what is wrong, and what happened last.
fn run(kind: Kind, seed: u64) -> Result<(), String> {
    let schedule = Schedule::new(kind, seed);
    let proxy = schedule.run();
    let world = proxy.world();
    let wrongs = wrongs(&schedule, &world);
    if wrongs.is_empty() {
        return Ok(());
    }
    let kind = format!("{kind:?}").to_lowercase();
    Err(format!(
        "{}{}\n{:?}\n{}\nreplay with: WASM_SEED={seed} cargo test --features wasm-engine --test wasm {kind}",
        world.witness.told(),
        schedule.configs.join("\n"),
        schedule.faults,
        wrongs.join("\n"),
    ))
}
