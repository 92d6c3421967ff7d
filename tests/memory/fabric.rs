//! Cells in memory, and what a test does to those who use them.

use std::collections::{HashMap, VecDeque};

use burst_prefix_cache::memory::{Change, Holder, Key, Memory, Unit};
use burst_prefix_cache::workers::{Cell, Moment, Refused, Shared, Slot, Stored};

/// The shared cells.
#[derive(Default)]
pub(crate) struct Fabric {
    pub(crate) cells: HashMap<Cell, (Vec<u8>, u32)>,
    pub(crate) reads: usize,
    pub(crate) writes: usize,
    version: u32,
}

impl Fabric {
    /// Writes a cell, whoever looked at it.
    pub(crate) fn put(&mut self, cell: Cell, value: &[u8]) {
        self.version += 1;
        self.cells.insert(cell, (value.to_vec(), self.version));
    }

    /// The bytes of all cells.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.values().map(|(value, _)| value.len()).sum()
    }
}

impl Shared for Fabric {
    fn read(&mut self, cell: Cell) -> Stored {
        self.reads += 1;
        let stored = self.cells.get(&cell);
        stored.map_or_else(Stored::default, |(value, version)| Stored {
            value: Some(value.clone()),
            version: Some(*version),
        })
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        if self.cells.get(&cell).map(|(_, version)| *version) != seen {
            return Err(Refused);
        }
        self.writes += 1;
        self.put(cell, value);
        Ok(())
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

/// What another worker does.
type Act<'a> = Box<dyn FnOnce(&mut dyn Shared) + 'a>;

/// What comes between a worker's read and its write.
pub(crate) enum Between<'a> {
    /// Another worker.
    Act(Act<'a>),
    /// The host does not take the write.
    Refuse,
}

/// What one worker sees of the cells: before each of its writes one thing comes between, as long
/// as there are any.
pub(crate) struct Port<'f, 'a> {
    pub(crate) fabric: &'f mut Fabric,
    pub(crate) between: VecDeque<Between<'a>>,
}

impl Shared for Port<'_, '_> {
    fn read(&mut self, cell: Cell) -> Stored {
        self.fabric.read(cell)
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        match self.between.pop_front() {
            Some(Between::Act(act)) => act(self.fabric),
            Some(Between::Refuse) => return Err(Refused),
            None => (),
        }
        self.fabric.write(cell, value, seen)
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

/// A key in this bucket.
pub(crate) fn key(bucket: u16, number: u64) -> Key {
    Key(u128::from(number) << 12 | u128::from(bucket))
}

/// A unit of so many members on this many replicas.
pub(crate) fn unit(members: u32, replicas: u64) -> Unit {
    let holder = |replica| Holder { replica, weight: 1 };
    Unit {
        members,
        holders: (0..replicas).map(holder).collect(),
    }
}

/// Writes a unit, whatever is known of it.
pub(crate) fn put(memory: Memory, now: Moment, key: Key, unit: &Unit, shared: &mut dyn Shared) {
    let written = memory.change(now, key, shared, |_| Change::Write(unit.clone(), ()));
    assert_eq!(written, Ok(()));
}

/// Follows the first holder of a unit, or claims it for `replica`; answers where it went.
pub(crate) fn follow_or_claim(
    memory: Memory,
    now: Moment,
    key: Key,
    replica: u64,
    shared: &mut dyn Shared,
) -> Result<u64, Refused> {
    memory.change(now, key, shared, |known| {
        let mut unit = known.cloned().unwrap_or_default();
        unit.members = unit.members.saturating_add(1);
        if unit.holders.is_empty() {
            unit.holders.push(Holder { replica, weight: 0 });
        }
        let first = &mut unit.holders[0];
        first.weight += 1;
        let answer = first.replica;
        Change::Write(unit, answer)
    })
}
