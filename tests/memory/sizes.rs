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
    let mut fabric = Fabric::default();
    // Units on few replicas, where their number counts, then on many, where their bytes do.
    for (replicas, count, most) in [(1, 1_000_000, 8_300_000), (60, 60_000, 33_600_000)] {
        for number in 0..count {
            let now = Moment(1_000_000_000 + number);
            put(memory, now, key(number), &unit(8, replicas), &mut fabric);
        }
        let bytes = fabric.bytes();
        println!("{count} units on {replicas} replicas: {bytes} B");
        assert!(bytes <= most, "{bytes} B");
        assert!(fabric.cells.len() <= usize::from(BUCKETS));
        let is_bucket = |cell: &Cell| matches!(cell, Cell::Memory(bucket) if *bucket < BUCKETS);
        assert!(fabric.cells.keys().all(is_bucket));
        // The last ones are there.
        let now = Moment(1_000_000_000 + count);
        let last = (count - 10_000..count)
            .filter(|number| memory.get(now, key(*number), &mut fabric).is_none());
        assert_eq!(last.count(), 0);
    }
}
