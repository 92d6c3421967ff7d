//! How much the memory takes, and how much it holds.

use std::time::Duration;

use burst_prefix_cache::memory::{Key, Memory};
use burst_prefix_cache::workers::{BUCKETS, Cell, Moment};

use crate::fabric::{Fabric, put, unit};

const LIFE: Duration = Duration::from_secs(600);

fn key(number: u64) -> Key {
    Key::unit("pool", None, &[number, 7, number << 7])
}

#[test]
fn a_hundred_thousand_units_fit() {
    let memory = Memory::new(LIFE);
    let now = Moment(1_000_000_000);
    let mut fabric = Fabric::default();
    for number in 0..100_000 {
        put(memory, now, key(number), &unit(8, 1), &mut fabric);
    }
    let lost = (0..100_000).filter(|number| memory.get(now, key(*number), &mut fabric).is_none());
    assert_eq!(lost.count(), 0);
    let bytes = fabric.bytes();
    println!("100,000 units on one replica: {bytes} B");
    assert_eq!(bytes, 100_000 * 42 + usize::from(BUCKETS));
}

#[test]
fn a_million_units_take_no_more_than_the_bounds() {
    let memory = Memory::new(LIFE);
    // Units on few replicas, where their number counts; on many, where their bytes do; on most.
    for (replicas, count, most) in [
        (1, 1_000_000, 8_300_000),
        (60, 100_000, 33_600_000),
        (1024, 20_000, 50_500_000),
    ] {
        let mut fabric = Fabric::default();
        // Buckets know nothing of each other, so every eighth stands for all.
        let tried = |number: &u64| key(*number).0.is_multiple_of(8);
        for number in (0..count).filter(tried) {
            let now = Moment(1_000_000_000 + number);
            put(memory, now, key(number), &unit(8, replicas), &mut fabric);
        }
        let bytes = fabric.bytes() * 8;
        println!("{count} units on {replicas} replicas: {bytes} B");
        assert!(bytes <= most, "{bytes} B");
        assert!(fabric.cells.len() <= usize::from(BUCKETS) / 8);
        let is_bucket = |cell: &Cell| matches!(cell, Cell::Memory(bucket) if *bucket < BUCKETS);
        assert!(fabric.cells.keys().all(is_bucket));
        // The last ones are there.
        let now = Moment(1_000_000_000 + count);
        let mut last = (count - 100..count).filter(tried);
        assert!(last.all(|number| memory.get(now, key(number), &mut fabric).is_some()));
    }
}
