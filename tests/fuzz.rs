//! Any bytes, wherever bytes come in: the configuration, a request's body, method and path, and
//! what workers tell each other. Nothing panics, hangs or overflows a small stack.
//!
//! It runs on stable Rust as part of the tests; `FUZZ_TIMES=100 cargo test --test fuzz` tries a
//! hundred times as many. What once failed is kept beside the tests, in `*.regressions`, and is
//! tried first.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "fuzz/adversarial.rs"]
mod adversarial;
#[path = "fuzz/bodies.rs"]
mod bodies;
#[path = "fuzz/clusters.rs"]
mod clusters;
#[path = "fuzz/configuration.rs"]
mod configuration;
#[path = "fuzz/messages.rs"]
mod messages;
#[path = "fuzz/mutate.rs"]
mod mutate;

use std::thread;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::FileFailurePersistence;

/// So many cases, or more where that is asked for.
fn cases(count: u32) -> ProptestConfig {
    let times = std::env::var("FUZZ_TIMES").ok();
    let times: u32 = times.and_then(|times| times.parse().ok()).unwrap_or(1);
    ProptestConfig {
        cases: count.saturating_mul(times),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// Acts on a stack of so many KiB. A VM's stack is 1 MiB, and a debug build needs more of it.
fn on_a_stack_of(kib: usize, act: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(kib << 10);
    thread.spawn(act).unwrap().join().unwrap();
}
