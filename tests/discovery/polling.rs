//! Who asks, when, and what the others find.

use std::rc::Rc;
use std::time::Duration;

use burst_prefix_cache::replicas::{
    Admin, Clusters, Directory, Failure, Poller, Pools, Source, admin,
};
use burst_prefix_cache::workers::{Cell, Moment};
use fastrand::Rng;
use serde_json::json;

use crate::cells::Cells;

const REFRESH: Duration = Duration::from_millis(1000);

fn source() -> Admin {
    Admin {
        admin_cluster: "admin".to_owned(),
        clusters: Clusters::Routed,
        refresh: REFRESH,
    }
}

fn at(millis: u64) -> Moment {
    Moment(1_000_000_000).plus(Duration::from_millis(millis))
}

/// A list of so many replicas in the pool `a`.
fn list(replicas: usize) -> Pools {
    let host = |number: usize| {
        let address = format!("10.0.0.{number}");
        json!({"address": {"socket_address": {"address": address, "port_value": 80}}, "weight": 1})
    };
    let hosts: Vec<_> = (1..=replicas).map(host).collect();
    let answer = json!({"cluster_statuses": [{"name": "a", "host_statuses": hosts}]});
    admin::read(answer.to_string().as_bytes(), &Clusters::Routed).unwrap()
}

/// How many replicas a worker without a past finds in the pool `a`.
fn found(cells: &mut Cells) -> usize {
    let mut directory = Directory::new(&Source::Admin(source()));
    directory.pool("a", cells).replicas.len()
}

#[test]
fn the_first_worker_that_wakes_asks_and_the_others_sleep_until_the_next_time() {
    let cells = &mut Cells::default();
    let [mut one, mut other] = [Poller::new(&source()), Poller::new(&source())];
    assert_eq!(one.wake_at(), Moment::default(), "at once");
    assert_eq!(one.age(at(0)), None);
    assert!(one.claim(at(0), cells));
    assert!(!other.claim(at(1), cells));
    assert_eq!((one.wake_at(), other.wake_at()), (at(1000), at(1000)));
    assert!(!one.answered(at(30), &Ok(list(2)), cells));
    assert!(other.claim(at(1000), cells));
    assert!(!one.claim(at(1000), cells));
    assert!(!other.answered(at(1010), &Ok(list(3)), cells));
    assert_eq!(found(cells), 3);
    // Who was late knows of it at its next look.
    assert_eq!((one.usable(), other.usable()), (Some(2), Some(3)));
    assert_eq!(one.wake_at(), at(2000));
}

#[test]
fn nobody_asks_while_an_answer_is_still_to_come() {
    let cells = &mut Cells::default();
    let [mut one, mut other] = [Poller::new(&source()), Poller::new(&source())];
    assert!(one.claim(at(0), cells));
    for millis in (100..2000).step_by(100) {
        assert!(!other.claim(at(millis), cells), "{millis}");
        assert!(!one.claim(at(millis), cells), "{millis}");
        assert!(other.wake_at() > at(millis));
    }
    one.answered(at(1990), &Ok(list(1)), cells);
    assert!(other.claim(at(1991), cells), "it is overdue");
}

#[test]
fn a_worker_that_dies_in_flight_holds_nobody_up_for_long() {
    let cells = &mut Cells::default();
    let mut dead = Poller::new(&source());
    let mut other = Poller::new(&source());
    assert!(dead.claim(at(0), cells));
    assert!(!other.claim(at(1500), cells));
    assert_eq!(other.wake_at(), at(2000), "when the claim runs out");
    assert!(other.claim(at(2000), cells));
    // Should it live after all: it does not come between.
    assert!(!dead.answered(at(2001), &Ok(list(9)), cells));
    assert_eq!(found(cells), 0);
    other.answered(at(2005), &Ok(list(2)), cells);
    assert!(!dead.answered(at(2010), &Ok(list(9)), cells));
    assert_eq!(found(cells), 2);
}

#[test]
fn a_bad_answer_leaves_the_last_good_list_which_grows_older() {
    let cells = &mut Cells::default();
    let mut poller = Poller::new(&source());
    assert!(poller.claim(at(0), cells));
    poller.answered(at(10), &Ok(list(2)), cells);
    let status = |status| Err(Failure::Status(status));
    let mut millis = 1000;
    for (answer, news) in [
        (Err(Failure::Timeout), true),
        (Err(Failure::Timeout), false),
        (status(503), true),
        (status(500), false),
        (Err(Failure::Unreadable("x".to_owned())), true),
    ] {
        assert!(poller.claim(at(millis), cells));
        assert_eq!(poller.answered(at(millis + 5), &answer, cells), news);
        let age = Duration::from_millis(millis + 5 - 10);
        assert_eq!(poller.age(at(millis + 5)), Some(age));
        assert_eq!((poller.usable(), found(cells)), (Some(2), 2));
        millis += 1000;
    }
    assert!(poller.claim(at(millis), cells));
    poller.answered(at(millis + 5), &Ok(list(1)), cells);
    assert_eq!(poller.age(at(millis + 6)), Some(Duration::from_millis(1)));
    assert_eq!(found(cells), 1);
}

#[test]
fn before_the_first_list_the_age_is_the_time_since_it_was_asked_for() {
    let cells = &mut Cells::default();
    let mut poller = Poller::new(&source());
    assert!(poller.claim(at(0), cells));
    poller.answered(at(5), &Err(Failure::Call), cells);
    assert!(poller.claim(at(1000), cells));
    assert_eq!(poller.age(at(1200)), Some(Duration::from_millis(1200)));
    assert_eq!((poller.usable(), found(cells)), (Some(0), 0));
}

#[test]
fn the_time_of_a_call_follows_the_refresh_within_bounds() {
    for (refresh, timeout) in [(100, 1000), (1000, 1000), (3000, 3000), (60_000, 5000)] {
        let poller = Poller::new(&Admin {
            refresh: Duration::from_millis(refresh),
            ..source()
        });
        assert_eq!(poller.timeout(), Duration::from_millis(timeout));
    }
}

#[test]
fn the_large_cell_is_only_read_where_it_changed() {
    let cells = &mut Cells::default();
    let mut poller = Poller::new(&source());
    let mut directory = Directory::new(&Source::Admin(source()));
    assert!(directory.pool("a", cells).replicas.is_empty());
    assert_eq!(cells.reads_of(Cell::Replicas), 0);
    poller.claim(at(0), cells);
    poller.answered(at(1), &Ok(list(2)), cells);
    let reads = cells.reads_of(Cell::Replicas);
    let pool = directory.pool("a", cells);
    assert_eq!(pool.replicas.len(), 2);
    assert!(Rc::ptr_eq(&pool, &directory.pool("a", cells)));
    assert!(directory.pool("b", cells).replicas.is_empty());
    assert_eq!(cells.reads_of(Cell::Replicas), reads + 1);
    poller.claim(at(1000), cells);
    poller.answered(at(1001), &Ok(list(5)), cells);
    assert_eq!(directory.pool("a", cells).replicas.len(), 5);
    assert_eq!(pool.replicas.len(), 2, "whoever holds a pool keeps it");
}

#[test]
fn a_list_of_the_configuration_is_what_it_is_and_asks_no_cell() {
    let cells = &mut Cells::default();
    let names = ["10.0.0.2:80", "10.0.0.1:80"];
    let listed = Source::Static(names.map(str::to_owned).to_vec());
    let mut directory = Directory::new(&listed);
    let pool = directory.pool(listed.pool_name(Some("routed")), cells);
    let told: Vec<(&str, u32)> = pool
        .replicas
        .iter()
        .map(|replica| (replica.name.as_str(), replica.running))
        .collect();
    assert_eq!(told, names.map(|name| (name, 0)));
    assert!(cells.reads.is_empty());
}

#[test]
fn cells_that_cannot_be_read_count_as_never_written() {
    for junk in [&b""[..], b"x", &[0xff; 40]] {
        let cells = &mut Cells::default();
        cells.spoil(Cell::Poll, junk);
        cells.spoil(Cell::Replicas, junk);
        assert_eq!(found(cells), 0);
        let mut poller = Poller::new(&source());
        assert!(poller.claim(at(0), cells));
        poller.answered(at(1), &Ok(list(2)), cells);
        assert_eq!(found(cells), 2);
        cells.spoil(Cell::Replicas, junk);
        assert_eq!(found(cells), 0);
    }
}

#[test]
fn a_host_that_takes_no_write_is_asked_again() {
    let cells = &mut Cells::default();
    let mut poller = Poller::new(&source());
    cells.refused = Some(Cell::Poll);
    assert!(!poller.claim(at(0), cells));
    assert_eq!(poller.wake_at(), at(1000));
    cells.refused = Some(Cell::Replicas);
    assert!(poller.claim(at(1000), cells));
    poller.answered(at(1001), &Ok(list(2)), cells);
    assert_eq!(found(cells), 0);
    cells.refused = None;
    assert!(poller.claim(at(2000), cells));
    poller.answered(at(2001), &Ok(list(2)), cells);
    assert_eq!(found(cells), 2);
}

/// A worker of a schedule.
struct Worker {
    poller: Poller,
    /// When the answer to its question comes; none where it never does.
    answer_at: Option<Moment>,
    dead: bool,
}

/// Seeded schedules of workers whose ticks are late, whose answers are slow, bad or missing, and
/// that die.
#[test]
fn in_any_schedule_one_question_is_in_flight_and_the_list_stays_fresh_while_a_worker_lives() {
    for seed in 0..100 {
        let rng = &mut Rng::with_seed(seed);
        let cells = &mut Cells::default();
        let count = rng.usize(2..6);
        let mut workers: Vec<Worker> = (0..count)
            .map(|_| Worker {
                poller: Poller::new(&source()),
                answer_at: None,
                dead: false,
            })
            .collect();
        let mut in_flight: Vec<(usize, Moment)> = Vec::new();
        let mut last_good = at(0);
        let mut expected = 0;
        for millis in 0..60_000 {
            let now = at(millis);
            // A call ends at its time, whoever made it.
            in_flight.retain(|(_, ends)| *ends > now);
            for number in 0..count {
                let worker = &mut workers[number];
                if worker.dead {
                    continue;
                }
                if worker.answer_at.is_some_and(|answer_at| answer_at <= now) {
                    worker.answer_at = None;
                    let late = now.since(last_good);
                    assert!(late < Duration::from_secs(30), "seed {seed}: {late:?}");
                    if rng.u32(..4) == 0 {
                        worker.poller.answered(now, &Err(Failure::Timeout), cells);
                    } else {
                        expected = rng.usize(1..20);
                        worker.poller.answered(now, &Ok(list(expected)), cells);
                        last_good = now;
                    }
                    assert_eq!(found(cells), expected, "seed {seed}");
                }
                let due = worker.poller.wake_at() <= now;
                if due && rng.u32(..4) == 0 && worker.poller.claim(now, cells) {
                    assert_eq!(in_flight, [], "seed {seed} at {millis}");
                    let takes = [rng.u64(1..50), rng.u64(1..=1000)][rng.usize(..2)];
                    let ends = now.plus(Duration::from_millis(takes));
                    in_flight.push((number, ends));
                    workers[number].answer_at = Some(ends);
                    if rng.u32(..10) == 0 && workers.iter().filter(|w| !w.dead).count() > 1 {
                        workers[number].dead = true;
                    }
                }
            }
        }
    }
}
