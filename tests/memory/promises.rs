//! What the memory promises, one by one.

use std::collections::{HashSet, VecDeque};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use burst_prefix_cache::memory::{Change, Holder, Key, Memory, Unit, replica_hash};
use burst_prefix_cache::workers::{Cell, Moment, Refused, Shared, Slot, Stored};

use crate::fabric::{Between, Fabric, Port, follow_or_claim, key, put, unit};

const LIFE: Duration = Duration::from_millis(100);
const START: Moment = Moment(1_000_000_000);

fn at(millis: u64) -> Moment {
    START.plus(Duration::from_millis(millis))
}

fn memory() -> Memory {
    Memory::new(LIFE)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_of_different_things_differ_and_of_equal_things_are_equal() {
    let (ab, a_b) = (names(&["ab"]), names(&["a", "b"]));
    let keys = || {
        [
            Key::unit("p", None, &[1, 2]),
            Key::unit("q", None, &[1, 2]),
            Key::unit("", None, &[1, 2]),
            Key::unit("p", None, &[2, 1]),
            Key::unit("p", None, &[1]),
            Key::unit("p", None, &[]),
            Key::unit("p", Some(&[]), &[1, 2]),
            Key::unit("p", Some(&[]), &[2]),
            Key::unit("p", Some(&ab), &[1, 2]),
            Key::unit("p", Some(&a_b), &[1, 2]),
            Key::unit("p", Some(&a_b[..1]), &[1, 2]),
            Key::group("p", None, 1),
            Key::group("q", None, 1),
            Key::group("p", None, 2),
            Key::group("p", Some(&a_b), 1),
            Key::unit("p", Some(&a_b), &[1]),
            Key::prefix("p", &[1, 2]),
            Key::prefix("q", &[1, 2]),
            Key::prefix("p", &[1]),
        ]
    };
    assert_eq!(keys(), keys());
    let distinct: HashSet<Key> = keys().into_iter().collect();
    assert_eq!(distinct.len(), keys().len());
}

#[test]
fn a_replica_is_known_by_its_name() {
    assert_eq!(replica_hash("10.0.0.1:80"), replica_hash("10.0.0.1:80"));
    assert_ne!(replica_hash("10.0.0.1:80"), replica_hash("10.0.0.2:80"));
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let mut fabric = Fabric::default();
    let extremes = Unit {
        members: u32::MAX,
        holders: [(0, 0), (u64::MAX, u32::MAX), (7, 1)]
            .map(|(replica, weight)| Holder { replica, weight })
            .to_vec(),
    };
    for (number, unit) in [unit(0, 0), unit(1, 1), unit(8, 40), extremes]
        .into_iter()
        .enumerate()
    {
        let key = key(9, number as u64);
        assert_eq!(memory().get(at(0), key, &mut fabric), None);
        put(memory(), at(0), key, &unit, &mut fabric);
        assert_eq!(memory().get(at(0), key, &mut fabric), Some(unit));
    }
}

#[test]
fn a_unit_lives_for_the_memorys_life_after_its_last_write() {
    let mut fabric = Fabric::default();
    let key = key(0, 1);
    let unit = unit(2, 1);
    put(memory(), at(0), key, &unit, &mut fabric);
    // Reading does not renew it.
    assert_eq!(memory().get(at(99), key, &mut fabric), Some(unit.clone()));
    assert_eq!(memory().get(at(100), key, &mut fabric), None);
    put(memory(), at(99), key, &unit, &mut fabric);
    let kept = memory().change(at(198), key, &mut fabric, |known| {
        Change::Keep(known.cloned())
    });
    assert_eq!(kept, Ok(Some(unit)));
    assert_eq!(memory().get(at(199), key, &mut fabric), None);
}

#[test]
fn a_life_of_zero_remembers_nothing_and_a_long_one_for_ever() {
    let mut fabric = Fabric::default();
    for (life, lives) in [(Duration::ZERO, false), (Duration::MAX, true)] {
        let memory = Memory::new(life);
        put(memory, at(0), key(0, 1), &unit(1, 1), &mut fabric);
        assert_eq!(memory.get(at(0), key(0, 1), &mut fabric).is_some(), lives);
    }
}

#[test]
fn keeping_writes_nothing() {
    let mut fabric = Fabric::default();
    let answer = memory().change(at(0), key(0, 1), &mut fabric, |_| Change::Keep(7));
    assert_eq!(answer, Ok(7));
    let changes = [(key(0, 1), ()), (key(1, 1), ())];
    let kept = memory().change_many(at(0), &changes, &mut fabric, |(), _| Change::Keep(()));
    assert_eq!(kept, Ok(()));
    assert!(fabric.cells.is_empty());
}

#[test]
fn the_expired_go_when_their_bucket_is_written() {
    let mut fabric = Fabric::default();
    for number in 0..40 {
        put(memory(), at(0), key(3, number), &unit(1, 4), &mut fabric);
    }
    put(memory(), at(60), key(3, 40), &unit(1, 4), &mut fabric);
    put(memory(), at(110), key(3, 41), &unit(1, 4), &mut fabric);
    assert_eq!(fabric.bytes(), 1 + 2 * (30 + 4 * 12));
}

#[test]
fn the_least_recently_written_go_when_there_are_too_many() {
    let mut fabric = Fabric::default();
    for number in 0..48 {
        put(
            memory(),
            at(number),
            key(3, number),
            &unit(1, 1),
            &mut fabric,
        );
    }
    put(memory(), at(50), key(3, 0), &unit(2, 1), &mut fabric);
    put(memory(), at(51), key(3, 48), &unit(1, 1), &mut fabric);
    let mut live = |number| memory().get(at(51), key(3, number), &mut fabric).is_some();
    let gone: Vec<u64> = (0..49).filter(|number| !live(*number)).collect();
    assert_eq!(gone, [1]);
}

#[test]
fn the_least_recently_written_go_when_they_are_too_long() {
    let mut fabric = Fabric::default();
    // 1230 bytes each: 8 KiB hold 6.
    for number in 0..7 {
        put(memory(), at(0), key(3, number), &unit(1, 100), &mut fabric);
    }
    let mut live = |number| memory().get(at(0), key(3, number), &mut fabric).is_some();
    let gone: Vec<u64> = (0..7).filter(|number| !live(*number)).collect();
    assert_eq!(gone, [0]);
}

#[test]
fn a_unit_on_1024_replicas_is_kept_whole_and_alone() {
    let mut fabric = Fabric::default();
    let wide = unit(2000, 1024);
    put(memory(), at(0), key(3, 0), &unit(1, 1), &mut fabric);
    put(memory(), at(0), key(3, 1), &wide, &mut fabric);
    assert_eq!(memory().get(at(0), key(3, 1), &mut fabric), Some(wide));
    assert_eq!(memory().get(at(0), key(3, 0), &mut fabric), None);
    // More than that are cut.
    for replicas in [1025, 70_000] {
        put(memory(), at(0), key(3, 1), &unit(9, replicas), &mut fabric);
        let kept = memory().get(at(0), key(3, 1), &mut fabric);
        assert_eq!(kept, Some(unit(9, 1024)));
    }
    assert_eq!(fabric.bytes(), 12_319);
}

#[test]
fn who_is_refused_is_asked_again_with_what_another_wrote() {
    let mut fabric = Fabric::default();
    let key = key(5, 5);
    let other = |shared: &mut dyn Shared| {
        assert_eq!(follow_or_claim(memory(), at(0), key, 2, shared), Ok(2));
    };
    let mut port = Port {
        fabric: &mut fabric,
        between: VecDeque::from([Between::Refuse, Between::Act(Box::new(other))]),
    };
    assert_eq!(follow_or_claim(memory(), at(0), key, 1, &mut port), Ok(2));
    let holders = vec![Holder {
        replica: 2,
        weight: 2,
    }];
    let unit = Unit {
        members: 2,
        holders,
    };
    assert_eq!(memory().get(at(0), key, &mut fabric), Some(unit));
}

#[test]
fn a_host_that_takes_nothing_is_given_up() {
    let mut fabric = Fabric::default();
    let mut port = Port {
        fabric: &mut fabric,
        between: (0..1000).map(|_| Between::Refuse).collect(),
    };
    let claimed = follow_or_claim(memory(), at(0), key(0, 0), 1, &mut port);
    assert_eq!(claimed, Err(Refused));
    assert_eq!(port.between.len(), 1000 - 64);
    // Not 64 times for each of many buckets.
    let changes: Vec<(Key, ())> = (0..100).map(|bucket| (key(bucket, 0), ())).collect();
    let changed = memory().change_many(at(0), &changes, &mut port, |(), _| {
        Change::Write(unit(1, 1), ())
    });
    assert_eq!(changed, Err(Refused));
    assert_eq!(port.between.len(), 1000 - 2 * 64);
    assert!(fabric.cells.is_empty());
}

#[test]
fn many_changes_read_and_write_each_bucket_once() {
    let mut fabric = Fabric::default();
    // Each key twice, in an order that goes through all buckets again and again.
    let changes: Vec<(Key, u32)> = (0..300)
        .map(|i| (key(i % 10, u64::from(i / 20)), u32::from(i)))
        .collect();
    let changed = memory().change_many(at(0), &changes, &mut fabric, |i, known| {
        let members = known.map_or(0, |unit| unit.members);
        // Those of one key come in their order.
        assert!(members == 0 || members <= *i);
        Change::Write(unit(i + 1, 1), ())
    });
    assert_eq!(changed, Ok(()));
    assert_eq!((fabric.reads, fabric.writes), (10, 10));
    for (key, _) in &changes {
        let last = changes.iter().rfind(|(other, _)| other == key).unwrap().1;
        let known = memory().get(at(0), *key, &mut fabric);
        assert_eq!(known, Some(unit(last + 1, 1)));
    }
}

#[test]
fn many_changes_of_a_bucket_start_again_when_another_came_between() {
    let mut fabric = Fabric::default();
    let key = |number| key(5, number);
    let other = |shared: &mut dyn Shared| put(memory(), at(0), key(1), &unit(10, 1), shared);
    let mut port = Port {
        fabric: &mut fabric,
        between: VecDeque::from([Between::Act(Box::new(other))]),
    };
    let changes = [(key(0), ()), (key(1), ()), (key(2), ())];
    let changed = memory().change_many(at(0), &changes, &mut port, |(), known| {
        Change::Write(unit(known.map_or(0, |unit| unit.members) + 1, 1), ())
    });
    assert_eq!(changed, Ok(()));
    let members = |number| {
        memory()
            .get(at(0), key(number), &mut fabric)
            .unwrap()
            .members
    };
    assert_eq!([0, 1, 2].map(members), [1, 11, 1]);
}

/// Cells that threads share.
struct Locked<'a>(&'a Mutex<Fabric>);

impl Shared for Locked<'_> {
    fn read(&mut self, cell: Cell) -> Stored {
        let stored = self.0.lock().unwrap().read(cell);
        // So that others come between.
        thread::yield_now();
        stored
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        self.0.lock().unwrap().write(cell, value, seen)
    }

    fn listen(&mut self, _: Slot) -> Result<(), Refused> {
        Err(Refused)
    }

    fn send(&mut self, _: Slot, _: &[u8]) -> Result<(), Refused> {
        Err(Refused)
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn siblings_that_claim_at_the_same_time_find_one_holder() {
    const WORKERS: u64 = 8;
    const KEYS: u64 = 500;
    let fabric = Mutex::new(Fabric::default());
    let start = Barrier::new(8);
    let claim_all = |worker: u64| {
        start.wait();
        let mut shared = Locked(&fabric);
        let claim = |number| {
            // Neighbours share a bucket.
            let key = key((number / 8) as u16, number);
            follow_or_claim(memory(), at(0), key, worker, &mut shared).unwrap()
        };
        (0..KEYS).map(claim).collect::<Vec<u64>>()
    };
    let answers: Vec<Vec<u64>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| scope.spawn(move || claim_all(worker)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    assert!(answers.iter().all(|answer| answer == &answers[0]));
    for number in 0..KEYS {
        let known = memory().get(
            at(0),
            key((number / 8) as u16, number),
            &mut Locked(&fabric),
        );
        let holders = known.unwrap().holders;
        assert_eq!((holders.len(), holders[0].weight), (1, WORKERS as u32));
    }
}
