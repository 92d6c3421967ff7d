//! Units that are remembered, requests that nobody holds, and the load that is carried over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use burst_prefix_cache::window::{Arrival, Decision, Settings};
use burst_prefix_cache::workers::Moment;
use fastrand::Rng;

use crate::sim::{Fate, Faults, Request, Sim};
use crate::{START, burst, names, play, schedules, settings};

const LONG: Duration = Duration::from_secs(3600);

fn remembering(window_ms: u64) -> Settings {
    Settings {
        memory: LONG,
        ..settings(window_ms, None)
    }
}

fn unheld() -> Settings {
    Settings {
        hold: false,
        ..remembering(100)
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What was decided for a request, and the replica that it goes to.
fn outcome(sim: &Sim, request: usize) -> (Decision, Option<String>) {
    match &sim.fates.borrow()[request][..] {
        [
            Fate::Released {
                decision, replica, ..
            },
        ] => (*decision, replica.clone()),
        [Fate::Passed(Arrival::Decided(decision, listed))] => {
            let index = decision.replica();
            let name = index.map(|index| listed.names[index as usize].clone());
            (*decision, name)
        }
        other => panic!("request {request}: {other:?}"),
    }
}

/// Requests and the replicas of each unit, by how many of it each has.
fn replicas_of_units(sim: &Sim, requests: &[Request]) -> BTreeMap<Vec<u64>, BTreeMap<String, u32>> {
    let mut units: BTreeMap<Vec<u64>, BTreeMap<String, u32>> = BTreeMap::new();
    for (number, request) in requests.iter().enumerate() {
        let replica = outcome(sim, number).1.expect("all are placed");
        let unit = units.entry(request.asks.blocks.clone()).or_default();
        *unit.entry(replica).or_default() += 1;
    }
    units
}

/// Groups of eight whose members come in any order within `spread`, over all workers.
fn step(rng: &mut Rng, groups: u64, workers: usize, spread: Duration) -> Vec<Request> {
    let spread = u64::try_from(spread.as_nanos()).unwrap();
    let request = |number: u64| {
        let at = START.plus(Duration::from_nanos(rng.u64(..=spread)));
        let group = number % groups;
        Request::new(rng.usize(..workers), at, vec![group, group + 1_000])
    };
    (0..groups * 8).map(request).collect()
}

fn calm(rng: &mut Rng) -> Faults {
    Faults {
        late_messages: Duration::from_micros(rng.u64(..500)),
        late_ticks: millis(4),
        ..Faults::default()
    }
}

#[test]
fn siblings_that_nobody_holds_follow_the_first_of_them() {
    schedules(|rng| {
        let workers = rng.usize(1..=8);
        let requests = burst(rng, 64, 1, workers, Duration::from_micros(200));
        let faults = calm(rng);
        let sim = play(&unheld(), workers, &requests, &[], faults, rng);
        let mut firsts = 0;
        let mut places = BTreeSet::new();
        for number in 0..requests.len() {
            let (decision, replica) = outcome(&sim, number);
            places.insert(replica.unwrap());
            match decision {
                Decision::Assigned { group: 1, .. } => firsts += 1,
                Decision::Remembered { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((firsts, places.len()), (1, 1));
    });
}

#[test]
fn units_stay_together_whatever_windows_their_members_fall_into() {
    schedules(|rng| {
        let workers = rng.usize(1..=8);
        let settings = Settings {
            quiet: [None, Some(millis(rng.u64(1..20)))][rng.usize(..2)],
            seal: rng.bool(),
            max_batch: NonZeroU32::new(rng.u32(1..40)),
            ..remembering(rng.u64(1..100))
        };
        let sealed = settings.seal;
        let requests = step(rng, 32, workers, millis(860));
        let faults = calm(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        let mut places: HashMap<&[u64], BTreeSet<String>> = HashMap::new();
        for (number, request) in requests.iter().enumerate() {
            if let [Fate::Passed(Arrival::BatchFull(_))] = sim.fates.borrow()[number][..] {
                assert!(!sealed, "a full window turns nobody away");
                continue;
            }
            let place = outcome(&sim, number).1.expect("all are placed");
            places
                .entry(&request.asks.blocks)
                .or_default()
                .insert(place);
        }
        for (unit, places) in places {
            assert_eq!(places.len(), 1, "{unit:?}");
        }
    });
}

#[test]
fn a_replica_has_no_more_of_a_unit_than_it_may_over_the_units_whole_life() {
    schedules(|rng| {
        let most = rng.u32(1..6);
        let mut settings = if rng.bool() {
            unheld()
        } else {
            remembering(40)
        };
        settings.rules.max_per_replica = NonZeroU32::new(most);
        let workers = rng.usize(1..=8);
        let requests: Vec<Request> = burst(rng, 120, 6, workers, millis(200))
            .into_iter()
            .map(|mut request| {
                request.asks.weight = 1;
                request
            })
            .collect();
        let faults = calm(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        for (unit, replicas) in replicas_of_units(&sim, &requests) {
            let above = replicas.values().filter(|count| **count > most).count();
            let below = names().len() - replicas.values().filter(|c| **c >= most).count();
            // Members that a window placed before it learnt of another's are counted afterwards.
            assert!(above == 0 || below == 0, "{unit:?}: {replicas:?}");
        }
    });
}

#[test]
fn a_spread_step_is_balanced_however_long_its_requests_last() {
    schedules(|rng| {
        let settings = if rng.bool() {
            unheld()
        } else {
            remembering(50)
        };
        let lasts = [0, 20, 200, 2_000][rng.usize(..4)];
        let mut requests = step(rng, 32, 4, millis(860));
        for request in &mut requests {
            request.lasts = millis(lasts);
        }
        let faults = calm(rng);
        let sim = play(&settings, 4, &requests, &[], faults, rng);
        let mut loads: BTreeMap<String, u32> = BTreeMap::new();
        for number in 0..requests.len() {
            *loads.entry(outcome(&sim, number).1.unwrap()).or_default() += 1;
        }
        let most = loads.values().max().copied().unwrap_or_default();
        let share = requests.len() as f64 / 4.0;
        assert!(
            f64::from(most) <= 1.3 * share,
            "{loads:?}, lasting {lasts} ms"
        );
    });
}

#[test]
fn what_a_unit_begins_with_draws_later_units_to_it_below_the_fair_share() {
    schedules(|rng| {
        let mut settings = if rng.bool() {
            unheld()
        } else {
            remembering(20)
        };
        settings.rules.min_colocate_blocks = 2;
        let workers = rng.usize(1..=4);
        // A first group of four, which is placed when the others come; and as many elsewhere.
        let mut requests = Vec::new();
        for (prompt, count) in [(1, 4), (7, 4), (8, 4), (9, 4)] {
            for _ in 0..count {
                let worker = rng.usize(..workers);
                requests.push(Request::new(worker, START, vec![prompt, prompt, prompt]));
            }
        }
        let late = START.plus(millis(200));
        requests.push(Request::new(rng.usize(..workers), late, vec![1, 1, 5]));
        let faults = calm(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        let (first, last) = (outcome(&sim, 0), outcome(&sim, requests.len() - 1));
        assert_eq!(first.1, last.1);
        assert!(
            matches!(last.0, Decision::Remembered { group: 1, .. }),
            "{last:?}"
        );
    });
}

#[test]
fn the_load_of_a_worker_that_died_is_forgotten() {
    schedules(|rng| {
        let settings = Settings {
            // What was placed lately has faded when the last request comes.
            memory: millis(400),
            ..unheld()
        };
        let died = rng.bool();
        let mut requests: Vec<Request> = (0..20).map(|_| Request::new(0, START, vec![1])).collect();
        // One on each of the others, and one that comes much later.
        for (prompt, ms) in [(2, 100), (3, 200), (4, 300), (5, 5_000)] {
            requests.push(Request::new(1, START.plus(millis(ms)), vec![prompt]));
        }
        for request in &mut requests {
            request.lasts = Duration::from_secs(20);
        }
        let deaths: &[(Moment, usize)] = &[(START.plus(millis(1_000)), 0)];
        let deaths = if died { deaths } else { &[] };
        let sim = Sim::new(
            &settings,
            2,
            requests,
            deaths,
            Faults::default(),
            rng.u64(..),
        );
        sim.run();
        let first = replica_of_first(&sim);
        for number in 20..24 {
            let replica = outcome(&sim, number).1.unwrap();
            let twenty_there = number < 23 || !died;
            assert_eq!(replica != first, twenty_there, "request {number}");
        }
    });
}

fn replica_of_first(sim: &Sim) -> String {
    match &sim.fates.borrow()[0][0] {
        Fate::Passed(Arrival::Decided(decision, listed)) => {
            listed.names[decision.replica().unwrap() as usize].clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_runs_out_of_time_follows_its_unit_if_that_was_placed() {
    schedules(|rng| {
        let settings = remembering(rng.u64(5..100));
        let workers = rng.usize(1..=6);
        let requests = burst(rng, 40, 3, workers, settings.window * 2);
        let faults = Faults {
            late_messages: millis(rng.u64(..100)),
            late_ticks: millis(4),
            lose_one_in: 3,
            ..Faults::default()
        };
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        let mut placed: HashMap<&[u64], Moment> = HashMap::new();
        let mut late: Vec<(&[u64], Moment)> = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            let unit = request.asks.blocks.as_slice();
            let (decision, at) = match &sim.fates.borrow()[number][..] {
                [Fate::Released { decision, at, .. }] => (*decision, *at),
                _ => (outcome(&sim, number).0, request.at),
            };
            match decision {
                Decision::TimedOut => late.push((unit, at)),
                _ => {
                    let first = placed.entry(unit).or_insert(at);
                    *first = at.min(*first);
                }
            }
        }
        for (unit, at) in late {
            let first = placed.get(unit).copied().unwrap_or(at);
            // Callbacks may run up to so much before their time.
            let soon = first.plus(millis(2));
            assert!(
                at <= soon,
                "{unit:?} was placed at {first:?}, and {at:?} is lost"
            );
        }
    });
}
