//! The window protocol over several workers, in seeded schedules.
//!
//! `WINDOW_SEED=n cargo test --test window` replays the schedule that a failure names;
//! `WINDOW_SCHEDULES=n` sets how many new ones each test runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "window/closing.rs"]
mod closing;
#[path = "window/memory.rs"]
mod memory;
#[path = "window/sim.rs"]
mod sim;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use burst_prefix_cache::placement::{self, BalanceBy, Replica, Rules};
use burst_prefix_cache::replicas::Source;
use burst_prefix_cache::window::{Arrival, Decision, Settings};
use burst_prefix_cache::workers::Moment;
use fastrand::Rng;
use sim::{Fate, Faults, Request, Sim};

const START: Moment = Moment(1_000_000_000);
/// What the project promises beyond the window's length.
const PROMISE: Duration = Duration::from_millis(300);

fn settings(window_ms: u64, max_batch: Option<u32>) -> Settings {
    Settings {
        window: Duration::from_millis(window_ms),
        quiet: None,
        max_batch: max_batch.and_then(NonZeroU32::new),
        seal: false,
        hold: true,
        memory: Duration::ZERO,
        rules: Rules {
            max_per_replica: None,
            min_colocate_blocks: 0,
            balance_by: BalanceBy::Requests,
        },
        source: Source::Static(names()),
    }
}

fn names() -> Vec<String> {
    (1..=4).map(|i| format!("10.0.0.{i}:8000")).collect()
}

/// `count` requests with up to `prompts` different prompts, over `workers`, within `spread`.
fn burst(
    rng: &mut Rng,
    count: usize,
    prompts: u64,
    workers: usize,
    spread: Duration,
) -> Vec<Request> {
    let spread = u64::try_from(spread.as_nanos()).unwrap();
    (0..count)
        .map(|number| {
            let prompt = rng.u64(..prompts);
            let at = START.plus(Duration::from_nanos(rng.u64(..=spread)));
            let blocks = vec![prompt, prompt + 1_000];
            let mut request = Request::new(rng.usize(..workers), at, blocks);
            request.asks.weight = u32::try_from(number % 3 + 1).unwrap();
            request.lasts = Duration::from_millis(rng.u64(..300));
            request
        })
        .collect()
}

/// Runs a schedule for each of many new seeds, or for the one that is to be replayed. A failure
/// names its seed.
fn schedules(test: impl Fn(&mut Rng)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("WINDOW_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("WINDOW_SCHEDULES").unwrap_or(400))
            .map(|_| fastrand::u64(..))
            .collect(),
    };
    for seed in seeds {
        let run = AssertUnwindSafe(|| test(&mut Rng::with_seed(seed)));
        if let Err(failure) = catch_unwind(run) {
            eprintln!("replay with WINDOW_SEED={seed}");
            resume_unwind(failure);
        }
    }
}

/// Each request has one fate, and none waited longer than was promised.
fn check_each_once_and_in_time(sim: &Sim, requests: &[Request], settings: &Settings) {
    let tell = || {
        let trace = sim.trace.borrow();
        trace[trace.len().saturating_sub(60)..].join("\n")
    };
    assert_eq!(sim.waiting(), 0, "somebody waits for ever\n{}", tell());
    assert_eq!(sim.in_flight(), 0, "a load stays for ever\n{}", tell());
    for (number, request) in requests.iter().enumerate() {
        let fates = &sim.fates.borrow()[number];
        assert_eq!(fates.len(), 1, "request {number}: {fates:?}\n{}", tell());
        if let Fate::Released { at, .. } = fates[0] {
            let waited = at.since(request.at);
            assert!(
                waited <= settings.window + PROMISE,
                "request {number} waited {waited:?}\n{}",
                tell()
            );
        }
    }
}

/// Runs a schedule to its end. Whatever went wrong in it, each request had its one fate in time.
fn play(
    settings: &Settings,
    workers: usize,
    requests: &[Request],
    deaths: &[(Moment, usize)],
    faults: Faults,
    rng: &mut Rng,
) -> Sim {
    let seed = rng.u64(..);
    let sim = Sim::new(settings, workers, requests.to_vec(), deaths, faults, seed);
    sim.run();
    check_each_once_and_in_time(&sim, requests, settings);
    sim
}

/// Siblings that one window assigned sit together: an answer counts for its own window only.
fn check_siblings_of_a_window_sit_together(sim: &Sim, requests: &[Request]) {
    let mut replicas = HashMap::new();
    for (number, fates) in sim.fates.borrow().iter().enumerate() {
        for fate in fates {
            if let Fate::Released {
                replica: Some(replica),
                window,
                ..
            } = fate
            {
                let unit = (*window, requests[number].asks.blocks.clone());
                let first = replicas.entry(unit).or_insert(replica.clone());
                assert_eq!(first, replica, "request {number} of window {window}");
            }
        }
    }
}

/// The requests of each window that was placed, in the order in which they joined.
fn windows(sim: &Sim) -> Vec<Vec<usize>> {
    let fates = sim.fates.borrow();
    let mut windows: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for number in sim.joined.borrow().iter() {
        for fate in &fates[*number] {
            if let Fate::Released { window, .. } = fate {
                windows.entry(*window).or_default().push(*number);
            }
        }
    }
    windows.into_values().collect()
}

fn decisions(sim: &Sim) -> HashMap<usize, Decision> {
    let fates = sim.fates.borrow();
    let released = fates.iter().enumerate().filter_map(|(number, fate)| {
        fate.iter().find_map(|fate| match fate {
            Fate::Released { decision, .. } => Some((number, *decision)),
            _ => None,
        })
    });
    released.collect()
}

/// What placement alone says of these requests, in this order.
fn placed(settings: &Settings, requests: &[Request], order: &[usize]) -> HashMap<usize, Decision> {
    let names = names();
    let replicas: Vec<Replica<'_>> = names.iter().map(|name| Replica::new(name)).collect();
    let batch: Vec<placement::Request<'_>> = order
        .iter()
        .map(|number| placement::Request {
            weight: requests[*number].asks.weight,
            ..placement::Request::new(&requests[*number].asks.blocks)
        })
        .collect();
    let placement = placement::place(&settings.rules, &replicas, &batch);
    let decision = |index| match placement.assigned(index) {
        Some(replica) => Decision::Assigned {
            replica: u32::try_from(replica).unwrap(),
            group: placement.group(index),
        },
        None => Decision::Alone,
    };
    let numbers = order.iter().copied().enumerate();
    numbers
        .map(|(index, number)| (number, decision(index)))
        .collect()
}

/// Whether decisions are the expected ones but for the names of the replicas: of equally loaded
/// ones the one with the fewest requests in flight comes first, and placement alone knows of none.
fn assert_same_but_for_names(
    decisions: &HashMap<usize, Decision>,
    expected: &HashMap<usize, Decision>,
    window: &[usize],
) {
    let mut there = HashMap::new();
    let mut back = HashMap::new();
    for number in window {
        let told = || format!("request {number} in {window:?}: {decisions:?} {expected:?}");
        match (decisions[number], expected[number]) {
            (
                Decision::Assigned { replica, group },
                Decision::Assigned {
                    replica: other,
                    group: of_other,
                },
            ) => {
                assert_eq!(group, of_other, "{}", told());
                assert_eq!(*there.entry(replica).or_insert(other), other, "{}", told());
                assert_eq!(*back.entry(other).or_insert(replica), replica, "{}", told());
            }
            (decision, other) => assert_eq!(decision, other, "{}", told()),
        }
    }
}

#[test]
fn each_window_is_one_joint_assignment_over_all_workers() {
    schedules(|rng| {
        let settings = settings(rng.u64(5..200), None);
        let (workers, count) = (rng.usize(1..=8), rng.usize(1..200));
        let spread = settings.window * rng.u32(0..4) / 2;
        let requests = burst(rng, count, 12, workers, spread);
        let faults = Faults {
            late_messages: Duration::from_millis(rng.u64(0..8)),
            late_ticks: Duration::from_millis(4),
            ..Faults::default()
        };
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        let windows = windows(&sim);
        let most = spread.as_nanos() / settings.window.as_nanos() + 1;
        assert!(windows.len() as u128 <= most, "{windows:?}");
        let decisions = decisions(&sim);
        let mut members = 0;
        for window in &windows {
            let expected = placed(&settings, &requests, window);
            assert_same_but_for_names(&decisions, &expected, window);
            members += window.len();
        }
        assert_eq!((members, decisions.len()), (count, count));
    });
}

#[test]
fn the_batch_size_counts_over_all_workers() {
    schedules(|rng| {
        let most = rng.u32(1..40);
        let settings = settings(100, Some(most));
        let (workers, count) = (rng.usize(1..=8), rng.usize(1..120));
        let mut requests = burst(rng, count, 5, workers, settings.window / 2);
        // Some leave, and make room for others.
        let leavers = rng.usize(..=count / 2);
        for request in requests.iter_mut().take(leavers) {
            request.leaves = Some(START.plus(settings.window / 2 + Duration::from_millis(5)));
        }
        let late = burst(rng, 60, 5, workers, settings.window / 4);
        requests.extend(late.into_iter().map(|request| Request {
            at: request.at.plus(settings.window * 2 / 3),
            ..request
        }));
        let sim = play(&settings, workers, &requests, &[], Faults::default(), rng);
        let fates = sim.fates.borrow();
        let full = |fate: &Fate| matches!(fate, Fate::Passed(Arrival::BatchFull(_)));
        let early = fates[..count].iter().filter(|f| !full(&f[0])).count();
        let left = fates.iter().filter(|f| f[0] == Fate::Left).count();
        assert_eq!(early, count.min(most as usize));
        let held = decisions(&sim).len();
        assert_eq!(held, (early - left + 60).min(most as usize));
    });
}

#[test]
fn who_has_left_is_neither_counted_nor_placed() {
    schedules(|rng| {
        let settings = settings(100, None);
        let (workers, count) = (rng.usize(1..=6), rng.usize(1..100));
        let mut requests = burst(rng, count, 4, workers, Duration::from_millis(30));
        for request in &mut requests {
            // Before the window ends, and not so late that the message may come behind it.
            let stays = Duration::from_nanos(rng.u64(..50_000_000));
            request.leaves = rng.bool().then(|| request.at.plus(stays));
        }
        let faults = Faults {
            late_messages: Duration::from_micros(200),
            ..Faults::default()
        };
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        let joined = sim.joined.borrow();
        let stayed: Vec<usize> = joined
            .iter()
            .copied()
            .filter(|number| requests[*number].leaves.is_none())
            .collect();
        let decisions = decisions(&sim);
        assert_eq!(decisions.len(), stayed.len());
        let expected = placed(&settings, &requests, &stayed);
        assert_same_but_for_names(&decisions, &expected, &stayed);
    });
}

#[test]
fn survivors_of_dead_workers_are_released_in_time() {
    schedules(|rng| {
        let settings = settings(rng.u64(5..300), None);
        let (workers, count) = (rng.usize(2..=8), rng.usize(1..200));
        let spread = settings.window * rng.u32(1..4);
        let requests = burst(rng, count, 8, workers, spread);
        let deaths: Vec<(Moment, usize)> = (0..rng.usize(1..workers))
            .map(|worker| {
                let at = u64::try_from((spread + settings.window).as_nanos()).unwrap();
                (START.plus(Duration::from_nanos(rng.u64(..at))), worker)
            })
            .collect();
        let faults = Faults {
            late_messages: Duration::from_millis(1),
            late_ticks: Duration::from_millis(8),
            ..Faults::default()
        };
        let sim = play(&settings, workers, &requests, &deaths, faults, rng);
        check_siblings_of_a_window_sit_together(&sim, &requests);
    });
}

#[test]
fn siblings_whose_owner_died_still_meet() {
    schedules(|rng| {
        let settings = settings(100, None);
        // The first request, alone on worker 0, makes it the owner, and it dies.
        let mut requests = burst(rng, 1, 1, 1, Duration::ZERO);
        let mut others = burst(rng, 24, 1, 3, Duration::from_millis(40));
        for request in &mut others {
            request.worker += 1;
            request.at = request.at.plus(Duration::from_millis(1));
        }
        requests.extend(others);
        let died = START.plus(Duration::from_nanos(rng.u64(60_000_000..110_000_000)));
        let faults = Faults {
            late_messages: Duration::from_micros(200),
            late_ticks: Duration::from_millis(4),
            ..Faults::default()
        };
        let sim = play(&settings, 4, &requests, &[(died, 0)], faults, rng);
        let decisions = decisions(&sim);
        let replicas: Vec<Decision> = (1..25).map(|number| decisions[&number]).collect();
        assert!(
            replicas.iter().all(|decision| *decision == replicas[0]
                && matches!(decision, Decision::Assigned { .. })),
            "{replicas:?}"
        );
    });
}

#[test]
fn refused_writes_lost_messages_and_late_ticks_hang_nobody() {
    schedules(|rng| {
        let settings = settings(rng.u64(5..200), [None, Some(20)][rng.usize(..2)]);
        let (workers, count) = (rng.usize(1..=8), rng.usize(1..150));
        let requests = burst(rng, count, 6, workers, settings.window * 3);
        let faults = Faults {
            refuse_one_in: rng.u32(1..10),
            late_messages: Duration::from_millis(rng.u64(..150)),
            late_ticks: Duration::from_millis(rng.u64(..40)),
            lose_one_in: rng.u32(..6),
        };
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        check_siblings_of_a_window_sit_together(&sim, &requests);
    });
}

#[test]
fn a_full_window_is_placed_whole_where_its_owner_gets_to_its_messages_late() {
    let millis = Duration::from_millis;
    let settings = Settings {
        seal: true,
        ..settings(1000, Some(8))
    };
    // Worker 0 opens the window and fills it, and has its hands full for a while.
    let mut requests = vec![Request::new(0, START, vec![1])];
    for number in 0..6 {
        let worker = 1 + number % 3;
        requests.push(Request::new(worker, START.plus(millis(1)), vec![1]));
    }
    requests.push(Request::new(0, START.plus(millis(2)), vec![1]));
    let busy = 20..150;
    requests.extend(busy.map(|ms| Request::new(0, START.plus(millis(ms)), vec![ms])));
    let faults = Faults {
        late_messages: millis(200),
        late_ticks: millis(200),
        ..Faults::default()
    };
    schedules(|rng| {
        let seed = rng.u64(..);
        let sim = Sim::new(&settings, 4, requests.clone(), &[], faults, seed);
        sim.run();
        for fates in &sim.fates.borrow()[..8] {
            let together = matches!(
                fates[..],
                [Fate::Released {
                    decision: Decision::Assigned { group: 8, .. },
                    ..
                }]
            );
            assert!(together, "{fates:?}");
        }
    });
}
