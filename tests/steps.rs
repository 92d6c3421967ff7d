//! Rollout steps whose requests do not come all at once, over several workers: each replica gets
//! its share of them, although nobody knows how many siblings will follow a request.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "shared with the tests of the window")]
#[path = "window/sim.rs"]
mod sim;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use burst_prefix_cache::placement::{BalanceBy, Rules};
use burst_prefix_cache::replicas::Source;
use burst_prefix_cache::window::{Arrival, Settings};
use burst_prefix_cache::workers::Moment;
use fastrand::Rng;
use sim::{Fate, Faults, Request, Sim};

const START: Moment = Moment(1_000_000_000);
const STEPS: u64 = 150;
const GROUPS: usize = 32;
const SAMPLES: usize = 8;
const REPLICAS: usize = 4;
const WORKERS: usize = 4;
/// How long a step's requests keep coming.
const OVER: Duration = Duration::from_millis(860);

fn settings(hold: bool) -> Settings {
    Settings {
        window: Duration::from_millis(50),
        quiet: None,
        max_batch: None,
        seal: false,
        hold,
        memory: Duration::from_secs(60),
        rules: Rules {
            max_per_replica: None,
            min_colocate_blocks: 0,
            balance_by: BalanceBy::Requests,
        },
        source: Source::Static((1..=REPLICAS).map(|i| format!("10.0.0.{i}:8000")).collect()),
    }
}

/// The samples of all problems, each at a moment of its own.
fn step(rng: &mut Rng, lasts: Duration) -> Vec<Request> {
    (0..GROUPS * SAMPLES)
        .map(|place| {
            let problem = (place % GROUPS) as u64;
            let at = START.plus(OVER.mul_f64(rng.f64()));
            let blocks = vec![problem, problem + 1000];
            let mut request = Request::new(rng.usize(..WORKERS), at, blocks);
            request.lasts = lasts;
            request
        })
        .collect()
}

/// The busiest replica's requests of a step, as a multiple of its share.
fn busiest(settings: &Settings, lasts: Duration, seed: u64) -> f64 {
    let requests = step(&mut Rng::with_seed(seed), lasts);
    let faults = Faults::default();
    let sim = Sim::new(settings, WORKERS, requests, &[], faults, seed);
    sim.run();
    let mut homes: HashMap<usize, String> = HashMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (place, fates) in sim.fates.borrow().iter().enumerate() {
        let replica = match &fates[..] {
            [Fate::Released { replica, .. }] => replica.clone().unwrap(),
            [Fate::Passed(Arrival::Decided(decision, listed))] => {
                listed.names[decision.replica().unwrap() as usize].clone()
            }
            other => panic!("{other:?}"),
        };
        let home = homes.entry(place % GROUPS).or_insert(replica.clone());
        assert_eq!(*home, replica, "seed {seed}: a problem was torn apart");
        *counts.entry(replica).or_default() += 1;
    }
    let most = *counts.values().max().unwrap();
    (most * REPLICAS) as f64 / (GROUPS * SAMPLES) as f64
}

#[test]
fn each_replica_gets_its_share_of_a_step_that_trickles_in() {
    for hold in [true, false] {
        for lasts_ms in [1, 350, 5000] {
            let lasts = Duration::from_millis(lasts_ms);
            let of_step = |seed| busiest(&settings(hold), lasts, seed);
            let shares: Vec<f64> = (0..STEPS).map(of_step).collect();
            let most = shares.iter().copied().fold(0.0, f64::max);
            assert!(
                most <= 1.2,
                "hold {hold}, {lasts_ms} ms: {most} x the share"
            );
        }
    }
}
