//! When windows close earlier than their time, and who meets in them.

use std::num::NonZeroU32;
use std::time::Duration;

use burst_prefix_cache::window::{Arrival, Decision, Settings};
use fastrand::Rng;

use crate::sim::{Fate, Faults, Request, Sim};
use crate::{START, burst, names, play, schedules, settings};

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How long a request was held, and what was decided.
fn held(sim: &Sim, requests: &[Request], number: usize) -> (Duration, Decision) {
    match &sim.fates.borrow()[number][..] {
        [Fate::Released { at, decision, .. }] => (at.since(requests[number].at), *decision),
        other => panic!("request {number}: {other:?}"),
    }
}

fn at(worker: usize, ms: u64, blocks: Vec<u64>) -> Request {
    Request::new(worker, START.plus(millis(ms)), blocks)
}

fn sized(size: u32, mut request: Request) -> Request {
    request.asks.group_size = NonZeroU32::new(size);
    request
}

fn punctual(rng: &mut Rng) -> Faults {
    Faults {
        late_messages: Duration::from_micros(rng.u64(..300)),
        late_ticks: millis(1),
        ..Faults::default()
    }
}

#[test]
fn a_window_closes_when_nobody_has_joined_for_the_quiet_period() {
    schedules(|rng| {
        let settings = Settings {
            quiet: Some(millis(10)),
            ..settings(500, None)
        };
        let workers = rng.usize(1..=4);
        // One every five milliseconds, and then nobody.
        let requests: Vec<Request> = (0..20)
            .map(|number| at(rng.usize(..workers), 5 * number, vec![number % 2]))
            .collect();
        let faults = punctual(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        for number in 0..20 {
            let (waited, decision) = held(&sim, &requests, number);
            let until = millis(5 * (19 - number as u64) + 10);
            assert!(waited >= until, "{number}: {waited:?}");
            assert!(waited <= until + millis(8), "{number}: {waited:?}");
            assert!(matches!(decision, Decision::Assigned { group: 10, .. }));
        }
    });
}

#[test]
fn a_window_closes_when_all_groups_of_its_clients_are_there() {
    schedules(|rng| {
        let settings = settings(1_000, None);
        let workers = rng.usize(1..=4);
        let count = rng.usize(1..=8);
        let lacking = rng.bool();
        let mut requests = Vec::new();
        if lacking {
            requests.push(sized(2, at(0, 0, vec![9])));
        }
        for _ in 0..count {
            for group in 0..3 {
                let ms = rng.u64(5..40);
                let size = u32::try_from(count).unwrap();
                requests.push(sized(size, at(rng.usize(..workers), ms, vec![group])));
            }
        }
        let faults = punctual(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        for number in 0..requests.len() {
            let (waited, decision) = held(&sim, &requests, number);
            // A window may be complete before all have come; the others have one of their own.
            if lacking {
                assert!(waited >= millis(900), "{waited:?}: {decision:?}");
            }
        }
        let last = (0..requests.len()).max_by_key(|number| requests[*number].at);
        if let Some(last) = last.filter(|_| !lacking) {
            let (waited, decision) = held(&sim, &requests, last);
            assert!(waited <= millis(5), "{waited:?}: {decision:?}");
        }
    });
}

#[test]
fn a_full_window_is_sealed_and_the_next_one_opens() {
    schedules(|rng| {
        let most = rng.u32(1..20);
        let settings = Settings {
            seal: true,
            ..settings(100, Some(most))
        };
        let (workers, count) = (rng.usize(1..=8), rng.usize(1..150));
        let requests = burst(rng, count, 5, workers, millis(40));
        let faults = Faults {
            late_messages: millis(rng.u64(..8)),
            late_ticks: millis(4),
            ..Faults::default()
        };
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        let windows = crate::windows(&sim);
        assert_eq!(windows.iter().map(Vec::len).sum::<usize>(), count);
        let full = windows.iter().filter(|w| w.len() == most as usize).count();
        assert_eq!(full, count / most as usize, "{windows:?}");
        let decisions = crate::decisions(&sim);
        for window in &windows {
            let expected = crate::placed(&settings, &requests, window);
            crate::assert_same_but_for_names(&decisions, &expected, window);
        }
    });
}

#[test]
fn requests_of_different_pools_never_meet() {
    schedules(|rng| {
        let settings = settings(100, None);
        let workers = rng.usize(1..=4);
        let pools = ["", "a", "b", "c"];
        // The same prompts in all of them.
        let mut requests = burst(rng, 80, 3, workers, millis(30));
        let mut expected = std::collections::HashMap::<(usize, Vec<u64>), u32>::new();
        for (number, request) in requests.iter_mut().enumerate() {
            request.asks.pool = pools[number % 4].to_owned();
            let unit = (number % 4, request.asks.blocks.clone());
            *expected.entry(unit).or_default() += 1;
        }
        let faults = punctual(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        for (number, request) in requests.iter().enumerate() {
            let members = expected[&(number % 4, request.asks.blocks.clone())];
            match held(&sim, &requests, number).1 {
                Decision::Assigned { group, .. } => assert_eq!(group, members),
                Decision::Alone => assert_eq!(members, 1),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_request_goes_only_where_it_may_and_at_once_where_it_may_go_nowhere() {
    schedules(|rng| {
        let mut settings = settings(50, None);
        if rng.bool() {
            settings.memory = Duration::from_secs(60);
            settings.hold = rng.bool();
        }
        let workers = rng.usize(1..=4);
        let mut requests = burst(rng, 60, 4, workers, millis(100));
        for (number, request) in requests.iter_mut().enumerate() {
            request.asks.subset = match number % 4 {
                0 => None,
                1 => Some(vec!["10.0.0.9:1".to_owned()]),
                2 => Some(names()[2..].to_vec()),
                _ => Some(vec![names()[1].clone(), "10.0.0.9:1".to_owned()]),
            };
        }
        let faults = punctual(rng);
        let sim = play(&settings, workers, &requests, &[], faults, rng);
        for (number, request) in requests.iter().enumerate() {
            let fates = sim.fates.borrow();
            let (decision, replica) = match &fates[number][0] {
                Fate::Released {
                    decision, replica, ..
                } => (*decision, replica.clone()),
                Fate::Passed(Arrival::Decided(decision, listed)) => {
                    let index = decision.replica();
                    (*decision, index.map(|i| listed.names[i as usize].clone()))
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(decision == Decision::NoReplicas, number % 4 == 1);
            if let (Some(replica), Some(subset)) = (replica, &request.asks.subset) {
                assert!(subset.contains(&replica), "{replica} is none of {subset:?}");
            }
        }
    });
}
