//! Books of several workers on simulated cells.

use std::collections::HashMap;
use std::time::Duration;

use super::{Book, Placed, STALE, Total, replica_hash};
use crate::workers::{Cell, Membership, Moment, Refused, Shared, Slot, Stored, WorkerId};

#[derive(Default)]
struct Cells(HashMap<Cell, (Vec<u8>, u32)>);

impl Shared for Cells {
    fn read(&mut self, cell: Cell) -> Stored {
        let stored = self.0.get(&cell).cloned();
        Stored {
            version: stored.as_ref().map(|(_, version)| *version),
            value: stored.map(|(value, _)| value),
        }
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        let version = self.0.get(&cell).map(|(_, version)| *version);
        if version != seen {
            return Err(Refused);
        }
        let next = version.map_or(1, |version| version + 1);
        self.0.insert(cell, (value.to_vec(), next));
        Ok(())
    }

    fn listen(&mut self, _: Slot) -> Result<(), Refused> {
        Ok(())
    }

    fn send(&mut self, _: Slot, _: &[u8]) -> Result<(), Refused> {
        Ok(())
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        None
    }
}

const START: Moment = Moment(1_000_000_000);

fn at(ms: u64) -> Moment {
    START.plus(Duration::from_millis(ms))
}

/// Two workers of one Envoy.
struct Pair {
    cells: Cells,
    ids: [WorkerId; 2],
    books: [Book; 2],
}

impl Pair {
    fn new(half_life_ms: Option<u64>) -> Self {
        let mut cells = Cells::default();
        let ids = [0, 1].map(|_| Membership::default().renewed(START, &mut cells).unwrap());
        let books = [0, 1].map(|_| Book::new(half_life_ms.map(Duration::from_millis)));
        Self { cells, ids, books }
    }

    fn publish(&mut self, worker: usize, now: Moment) {
        self.books[worker].publish(now, self.ids[worker], &mut self.cells);
    }

    /// Requests in flight on a replica, and its load, as a worker sees them.
    fn seen(&mut self, worker: usize, now: Moment, replica: &str) -> (u32, u64) {
        let me = Some(self.ids[worker]);
        let total = Total::read(now, &mut self.books[worker], me, &mut self.cells);
        let hash = replica_hash(replica);
        (total.of(hash).requests, total.load(hash))
    }
}

#[test]
fn what_one_worker_has_in_flight_all_know_until_it_is_over() {
    let mut pair = Pair::new(None);
    pair.books[0].begin(7, replica_hash("p"), 3);
    pair.books[0].begin(8, replica_hash("p"), 2);
    pair.books[0].begin(8, replica_hash("q"), 2);
    pair.publish(0, at(0));
    for worker in [0, 1] {
        assert_eq!(pair.seen(worker, at(1), "p"), (1, 3));
        assert_eq!(pair.seen(worker, at(1), "q"), (1, 2));
    }
    pair.books[0].end(7);
    pair.books[0].end(7);
    pair.books[0].end(99);
    pair.publish(0, at(2));
    assert_eq!(pair.seen(1, at(3), "p"), (0, 0));
    assert_eq!(pair.books[0].in_flight(), 1);
}

#[test]
fn what_is_on_its_way_counts_once_at_every_step() {
    let mut pair = Pair::new(None);
    let [_, other] = pair.ids;
    let loads = [(replica_hash("p"), 1), (replica_hash("p"), 1)];
    let number = pair.books[0].send(at(0), other, loads.into_iter());
    pair.publish(0, at(0));
    for worker in [0, 1] {
        assert_eq!(pair.seen(worker, at(0), "p"), (2, 2), "on its way");
    }
    let sender = pair.ids[0].incarnation;
    pair.books[1].hear(sender, number);
    pair.books[1].begin(1, replica_hash("p"), 1);
    pair.books[1].begin(2, replica_hash("p"), 1);
    assert_eq!(pair.seen(1, at(1), "p"), (2, 2), "heard, and not yet told");
    pair.publish(1, at(1));
    for worker in [0, 1] {
        assert_eq!(pair.seen(worker, at(1), "p"), (2, 2), "arrived");
    }
    pair.books[1].end(1);
    pair.books[1].end(2);
    pair.publish(1, at(2));
    assert_eq!(pair.seen(0, at(2), "p"), (0, 0), "over");
}

#[test]
fn what_never_arrives_is_forgotten() {
    let mut pair = Pair::new(None);
    let [_, other] = pair.ids;
    pair.books[0].send(at(0), other, [(replica_hash("p"), 1)].into_iter());
    pair.publish(0, at(0));
    assert_eq!(pair.seen(0, at(299), "p"), (1, 1));
    assert_eq!(pair.seen(0, at(300), "p"), (0, 0));
}

#[test]
fn the_sheet_of_a_dead_worker_is_left_out_and_that_of_a_living_one_renewed() {
    let mut pair = Pair::new(None);
    pair.books[0].begin(1, replica_hash("p"), 1);
    pair.publish(0, at(0));
    let stale = START.plus(STALE);
    assert_eq!(pair.seen(1, stale, "p"), (1, 1));
    let later = stale.plus(Duration::from_millis(1));
    assert_eq!(pair.seen(1, later, "p"), (0, 0));
    let beat = pair.books[0].wake_at().unwrap();
    assert!(beat < stale);
    pair.publish(0, beat);
    assert_eq!(pair.seen(1, later, "p"), (1, 1));
}

#[test]
fn what_was_placed_lately_fades() {
    let mut pair = Pair::new(Some(1_000));
    let placed = Placed {
        charge: 60,
        begins: true,
        place: 1,
        reserves: 20,
    };
    pair.books[0].placed(at(0), replica_hash("p"), placed);
    pair.publish(0, at(0));
    for (ms, load) in [(0, 80), (1_000, 40), (2_000, 20), (60_000, 0)] {
        for worker in [0, 1] {
            assert_eq!(pair.seen(worker, at(ms), "p"), (0, load), "after {ms} ms");
        }
    }
}

#[test]
fn what_is_reserved_for_stragglers_is_given_back_by_whoever_sees_them() {
    let mut pair = Pair::new(Some(1_000_000));
    let p = replica_hash("p");
    let one = |begins, reserves| Placed {
        charge: 1,
        begins,
        place: 1,
        reserves,
    };
    pair.books[0].placed(at(0), p, one(true, 7));
    pair.publish(0, at(0));
    for _ in 0..7 {
        assert_eq!(pair.seen(1, at(0), "p"), (0, 8));
        pair.books[1].placed(at(0), p, one(false, -1));
        pair.publish(1, at(0));
    }
    assert_eq!(pair.seen(0, at(0), "p"), (0, 8), "all are there");
    // In flight they are no more than they were.
    for stream in 0..8 {
        pair.books[1].begin(stream, p, 1);
    }
    assert_eq!(pair.seen(1, at(0), "p"), (8, 8));
}

#[test]
fn a_unit_is_expected_to_have_what_units_had_lately() {
    let mut pair = Pair::new(Some(1_000));
    let p = replica_hash("p");
    let expected = |pair: &mut Pair| {
        let me = Some(pair.ids[0]);
        Total::read(at(0), &mut pair.books[0], me, &mut pair.cells).expected()
    };
    assert_eq!(
        expected(&mut pair),
        8,
        "as usual, as long as nothing is known"
    );
    for number in 0..100 * 32 {
        let placed = Placed {
            charge: 1,
            begins: number % 32 == 0,
            place: number % 32 + 1,
            reserves: 0,
        };
        pair.books[0].placed(at(0), p, placed);
    }
    assert_eq!(expected(&mut pair), 33, "by their places");
    for _ in 0..1_000_000 {
        let placed = Placed {
            charge: 1,
            begins: true,
            place: 1,
            reserves: 0,
        };
        pair.books[0].placed(at(0), p, placed);
    }
    assert_eq!(expected(&mut pair), 1);
}
