//! Rollout steps whose requests do not come all at once, over several workers: each replica gets
//! its share of each of them, although nobody knows how many siblings will follow a request.
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
const WORKERS: usize = 4;
/// How long a step's requests keep coming, and when the next step begins.
const OVER: Duration = Duration::from_millis(860);
const NEXT: Duration = Duration::from_millis(1_100);

/// Steps, one after the other.
#[derive(Debug, Clone, Copy)]
struct Run {
    replicas: usize,
    groups: usize,
    samples: usize,
    steps: usize,
    hold: bool,
    by: BalanceBy,
    /// Leading blocks that all prompts share, and that draw them together.
    shared: u32,
    lasts: Duration,
}

impl Run {
    fn settings(self) -> Settings {
        let name = |i| format!("10.0.0.{i}:8000");
        Settings {
            window: Duration::from_millis(50),
            quiet: None,
            max_batch: None,
            seal: false,
            hold: self.hold,
            memory: Duration::from_secs(10),
            rules: Rules {
                max_per_replica: None,
                min_colocate_blocks: self.shared,
                balance_by: self.by,
            },
            source: Source::Static((1..=self.replicas).map(name).collect()),
        }
    }

    /// The samples of all problems of all steps, each at a moment of its own.
    fn requests(self, rng: &mut Rng) -> Vec<Request> {
        let of_step = self.groups * self.samples;
        (0..self.steps * of_step)
            .map(|place| {
                let (step, problem) = (place / of_step, self.problem(place) as u64);
                let begins = START.plus(NEXT * u32::try_from(step).unwrap());
                let at = begins.plus(OVER.mul_f64(rng.f64()));
                // As much again of its own.
                let own = (1..=self.shared.max(2)).map(|i| problem + 100_000 * u64::from(i));
                let mut blocks: Vec<u64> = (1..=self.shared.into()).collect();
                blocks.extend(own);
                let mut request = Request::new(rng.usize(..WORKERS), at, blocks);
                request.asks.chained = true;
                request.lasts = self.lasts;
                request
            })
            .collect()
    }

    fn problem(self, place: usize) -> usize {
        let of_step = self.groups * self.samples;
        place / of_step * self.groups + place % self.groups
    }

    /// The busiest replica's requests of each step, as a multiple of its share.
    fn busiest(self, seed: u64) -> Vec<f64> {
        let requests = self.requests(&mut Rng::with_seed(seed));
        let faults = Faults {
            late_messages: Duration::from_micros(200),
            ..Faults::default()
        };
        let sim = Sim::new(&self.settings(), WORKERS, requests, &[], faults, seed);
        sim.run();
        let mut homes: HashMap<usize, String> = HashMap::new();
        let mut counts: Vec<BTreeMap<String, usize>> = vec![BTreeMap::new(); self.steps];
        let of_step = self.groups * self.samples;
        for (place, fates) in sim.fates.borrow().iter().enumerate() {
            let replica = match &fates[..] {
                [Fate::Released { replica, .. }] => replica.clone().unwrap(),
                [Fate::Passed(Arrival::Decided(decision, listed))] => {
                    listed.names[decision.replica().unwrap() as usize].clone()
                }
                other => panic!("{other:?}"),
            };
            let home = homes.entry(self.problem(place)).or_insert(replica.clone());
            assert_eq!(*home, replica, "seed {seed}: a problem was torn apart");
            *counts[place / of_step].entry(replica).or_default() += 1;
        }
        let share = |counts: &BTreeMap<String, usize>| {
            let most = *counts.values().max().unwrap();
            (most * self.replicas) as f64 / of_step as f64
        };
        counts.iter().map(share).collect()
    }

    /// Shares come in whole groups. Where a replica has four of them, one too many is 1.25; two too
    /// many may be where nobody is held, since workers may begin one at the same moment, and by
    /// tokens, of which a group brings the same however many of it are there.
    fn assert_shared_out(self, seeds: u64) {
        let of_replica = self.groups / self.replicas;
        let is_even = self.hold && self.by == BalanceBy::Requests;
        let most = if of_replica > 4 || is_even { 1.3 } else { 1.5 };
        for seed in 0..seeds {
            let shares = self.busiest(seed);
            let worst = shares.iter().copied().fold(0.0, f64::max);
            assert!(worst <= most, "{self:?}, seed {seed}: {shares:?}");
        }
    }
}

const RUN: Run = Run {
    replicas: 4,
    groups: 32,
    samples: 8,
    steps: 1,
    hold: true,
    by: BalanceBy::Requests,
    shared: 0,
    lasts: Duration::ZERO,
};

#[test]
fn each_replica_gets_its_share_of_a_step_that_trickles_in() {
    for hold in [true, false] {
        for lasts_ms in [1, 350, 5000] {
            let lasts = Duration::from_millis(lasts_ms);
            let run = Run { hold, lasts, ..RUN };
            run.assert_shared_out(50);
        }
    }
}

#[test]
fn each_replica_gets_its_share_of_one_step_after_the_other() {
    for (groups, samples, replicas) in [(32, 8, 4), (32, 8, 8), (32, 16, 4), (16, 32, 4)] {
        for hold in [true, false] {
            for lasts_ms in [1, 20, 500, 3000] {
                let run = Run {
                    replicas,
                    groups,
                    samples,
                    steps: 6,
                    hold,
                    lasts: Duration::from_millis(lasts_ms),
                    ..RUN
                };
                run.assert_shared_out(5);
            }
        }
    }
}

#[test]
fn a_prompt_that_all_share_piles_nothing_up() {
    for by in [BalanceBy::Requests, BalanceBy::Tokens] {
        for replicas in [4, 8] {
            for hold in [true, false] {
                for lasts_ms in [0, 20, 500] {
                    let run = Run {
                        replicas,
                        steps: 3,
                        hold,
                        by,
                        shared: 8,
                        lasts: Duration::from_millis(lasts_ms),
                        ..RUN
                    };
                    run.assert_shared_out(6);
                }
            }
        }
    }
}
