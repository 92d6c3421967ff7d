//! The memory against a simple model, with several workers that come between each other.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use burst_prefix_cache::memory::{Change, Key, Memory, Unit};
use burst_prefix_cache::workers::{Moment, Shared};
use proptest::prelude::*;

use crate::fabric::{Between, Fabric, Port, key, unit};

const LIFE: u64 = 1000;
const START: u64 = 1_000_000;

/// What a worker does with a unit.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Looks.
    Get,
    /// Changes it, but keeps it as it is.
    Keep,
    /// Adds a member, and places the unit on so many replicas.
    Write(u64),
}

/// An act, and what comes between its read and its writes, one after the other.
#[derive(Debug, Clone)]
struct Step {
    later: u64,
    at: Key,
    act: Act,
    between: Vec<Option<(Key, Act)>>,
}

/// A window's changes.
type Window = Vec<(Key, Act)>;

/// Units by their last write, the latest first, each with when that was.
#[derive(Default)]
struct Model(HashMap<u128, Vec<(Key, Unit, u64)>>);

impl Model {
    fn bucket(&mut self, key: Key) -> &mut Vec<(Key, Unit, u64)> {
        self.0.entry(key.0 % 4096).or_default()
    }

    fn get(&mut self, now: u64, key: Key) -> Option<Unit> {
        let bucket = self.bucket(key);
        let (_, unit, used_at) = bucket.iter().find(|(other, ..)| *other == key)?;
        (now - used_at < LIFE).then(|| unit.clone())
    }

    /// Makes an act; answers what it saw.
    fn act(&mut self, now: u64, key: Key, act: Act) -> Option<Unit> {
        let known = self.get(now, key);
        if let Act::Write(replicas) = act {
            let unit = next(known.as_ref(), replicas);
            let bucket = self.bucket(key);
            bucket.retain(|(other, _, used_at)| *other != key && now - used_at < LIFE);
            bucket.insert(0, (key, unit, now));
            let mut bytes = 1;
            let fits = |(_, unit, _): &&(Key, Unit, u64)| {
                bytes += 30 + 12 * unit.holders.len();
                bytes <= 8192
            };
            let fitting = bucket.iter().take(48).take_while(fits).count();
            bucket.truncate(fitting.max(1));
        }
        known
    }
}

fn next(known: Option<&Unit>, replicas: u64) -> Unit {
    unit(known.map_or(0, |unit| unit.members) + 1, replicas)
}

fn change<R>(act: Act, known: Option<&Unit>, answer: R) -> Change<Unit, R> {
    match act {
        Act::Write(replicas) => Change::Write(next(known, replicas), answer),
        Act::Get | Act::Keep => Change::Keep(answer),
    }
}

/// Makes an act; answers what it saw.
fn make(now: u64, key: Key, act: Act, shared: &mut dyn Shared) -> Option<Unit> {
    let memory = Memory::new(Duration::from_nanos(LIFE));
    if let Act::Get = act {
        return memory.get(Moment(now), key, shared);
    }
    let changed = memory.change(Moment(now), key, shared, |known| {
        change(act, known, known.cloned())
    });
    changed.unwrap()
}

/// Keys of two buckets, few enough to meet again and more than fit.
fn any_key() -> impl Strategy<Value = Key> {
    (0..2_u16, prop_oneof![0..6_u64, 0..80_u64]).prop_map(|(bucket, number)| key(bucket, number))
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => Just(Act::Get),
        1 => Just(Act::Keep),
        8 => (0..4_u64).prop_map(Act::Write),
        1 => (0..300_u64).prop_map(Act::Write),
        1 => (600..1025_u64).prop_map(Act::Write),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let later = prop_oneof![3 => Just(0), 6 => 0..20_u64, 1 => 0..1500_u64];
    let between = prop::option::weighted(0.8, (any_key(), any_act()));
    let between = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(between, 1..4),
    ];
    (later, any_key(), any_act(), between).prop_map(|(later, at, act, between)| Step {
        later,
        at,
        act,
        between,
    })
}

proptest! {
    #[test]
    fn changes_of_several_workers_are_as_if_one_came_after_the_other(
        steps in prop::collection::vec(any_step(), 0..300),
    ) {
        let mut fabric = Fabric::default();
        let mut model = Model::default();
        let mut now = START;
        for Step { later, at, act, between } in steps {
            now += later;
            // What came between, in the order in which it was done.
            let done = RefCell::new(Vec::new());
            let between = between.into_iter().map(|other| match other {
                None => Between::Refuse,
                Some((key, act)) => {
                    let done = &done;
                    Between::Act(Box::new(move |shared: &mut dyn Shared| {
                        let saw = make(now, key, act, shared);
                        done.borrow_mut().push((key, act, saw));
                    }))
                }
            });
            let between: VecDeque<Between<'_>> = between.collect();
            let saw = make(now, at, act, &mut Port { fabric: &mut fabric, between });
            for (key, act, saw) in done.take() {
                prop_assert_eq!(saw, model.act(now, key, act));
            }
            prop_assert_eq!(saw, model.act(now, at, act));
        }
        for bucket in 0..2 {
            for number in 0..80 {
                let key = key(bucket, number);
                prop_assert_eq!(make(now, key, Act::Get, &mut fabric), model.get(now, key));
            }
        }
    }

    #[test]
    fn many_changes_are_as_if_one_came_after_the_other(
        windows in prop::collection::vec(
            (0..400_u64, prop::collection::vec((any_key(), any_act()), 0..120), 0..3_usize),
            0..6,
        ),
    ) {
        let memory = Memory::new(Duration::from_nanos(LIFE));
        let mut fabric = Fabric::default();
        let mut model = Model::default();
        let mut now = START;
        for (later, window, refusals) in windows {
            now += later;
            let window: Window = window;
            // What each change saw last: it may be asked again.
            let changes: Vec<(Key, usize)> =
                window.iter().enumerate().map(|(i, (key, _))| (*key, i)).collect();
            let mut saw = vec![None; window.len()];
            let between = (0..refusals).map(|_| Between::Refuse).collect();
            let mut port = Port { fabric: &mut fabric, between };
            let changed = memory.change_many(Moment(now), &changes, &mut port, |i, known| {
                saw[*i] = known.cloned();
                change(window[*i].1, known, ())
            });
            prop_assert_eq!(changed, Ok(()));
            for ((key, act), saw) in window.iter().zip(saw) {
                prop_assert_eq!(saw, model.act(now, *key, *act));
            }
        }
    }
}
