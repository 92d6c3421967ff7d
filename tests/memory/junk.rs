//! Any bytes in the cells: shared data outlives a VM, and nobody knows who wrote it.

use std::time::Duration;

use burst_prefix_cache::memory::{Key, Memory, Unit};
use burst_prefix_cache::workers::{Cell, Moment};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::fabric::{Fabric, key, put, unit};

const LIFE: Duration = Duration::from_nanos(1000);

fn at(nanos: u64) -> Moment {
    Moment(1_000_000 + nanos)
}

/// A bucket with five units.
fn bucket() -> Vec<u8> {
    let mut fabric = Fabric::default();
    for number in 0..5 {
        let unit = unit(1, number);
        put(Memory::new(LIFE), at(0), key(0, number), &unit, &mut fabric);
    }
    fabric.cells[&Cell::Memory(0)].0.clone()
}

/// Whatever stands in the cell, units can be read and written, and what is written is there.
fn check(value: &[u8], now: Moment, at: Key) -> Option<Unit> {
    let memory = Memory::new(LIFE);
    let mut fabric = Fabric::default();
    fabric.put(Cell::Memory(0), value);
    let known = memory.get(now, at, &mut fabric);
    if let Some(known) = &known {
        // Nothing is made up from less than it takes.
        assert!(30 + 12 * known.holders.len() < value.len());
    }
    put(memory, now, at, &unit(7, 2), &mut fabric);
    assert_eq!(memory.get(now, at, &mut fabric), Some(unit(7, 2)));
    assert!(fabric.bytes() <= 8192);
    known
}

#[test]
fn a_bucket_that_is_cut_or_goes_on_counts_as_empty() {
    let whole = bucket();
    assert_eq!(check(&whole, at(1), key(0, 4)), Some(unit(1, 4)));
    for length in 0..whole.len() {
        // Where a unit ends a shorter bucket does.
        let known = check(&whole[..length], at(1), key(0, 4));
        assert!(
            known.is_none() || [79, 145, 199, 241].contains(&length),
            "{length}"
        );
    }
    for more in [&[0][..], &[0xFF; 29], &[0xFF; 100]] {
        assert_eq!(check(&[&whole, more].concat(), at(1), key(0, 4)), None);
    }
}

#[test]
fn a_bucket_of_another_format_counts_as_empty() {
    let mut value = bucket();
    value[0] ^= 2;
    assert_eq!(check(&value, at(1), key(0, 4)), None);
}

#[test]
fn a_bucket_longer_than_any_counts_as_empty() {
    let unit = bucket()[1..79].to_vec();
    let long = |units| [&[1][..], &unit.repeat(units)].concat();
    assert!(check(&long(157), at(1), key(0, 4)).is_some());
    assert_eq!(check(&long(158), at(1), key(0, 4)), None);
    assert_eq!(check(&long(100_000), at(1), key(0, 4)), None);
}

#[test]
fn a_unit_from_the_future_does_not_live_for_ever() {
    // A little ahead it lives: the clocks of workers are not read at once.
    assert!(check(&bucket(), Moment(at(0).0 - 999), key(0, 4)).is_some());
    assert_eq!(check(&bucket(), Moment(at(0).0 - 1000), key(0, 4)), None);
    assert_eq!(check(&bucket(), Moment(0), key(0, 4)), None);
    assert_eq!(check(&bucket(), Moment(u64::MAX), key(0, 4)), None);
    let mut value = bucket();
    value[17..25].copy_from_slice(&[0xFF; 8]);
    assert_eq!(check(&value, at(0), key(0, 4)), None);
}

proptest! {
    #[test]
    fn any_bytes_do(value in prop::collection::vec(any::<u8>(), 0..200), now: u64, number in 0..5_u64) {
        check(&value, Moment(now), key(0, number));
        check(&[&[1], &value[..]].concat(), Moment(now), key(0, number));
    }

    #[test]
    fn nearly_a_bucket_does(
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
        cut: Index,
        ahead in -2000..2000_i64,
        number in 0..5_u64,
    ) {
        let mut value = bucket();
        for (place, byte) in changes {
            let place = place.index(value.len());
            value[place] = byte;
        }
        let now = Moment(at(0).0.saturating_add_signed(ahead));
        check(&value, now, key(0, number));
        value.truncate(cut.index(value.len()));
        check(&value, now, key(0, number));
    }
}
