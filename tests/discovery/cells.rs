//! The shared cells, in memory.

use std::collections::HashMap;

use burst_prefix_cache::workers::{Cell, Refused, Shared, Slot, Stored};

/// Cells, and how often each was read.
#[derive(Default)]
pub(crate) struct Cells {
    cells: HashMap<Cell, (Vec<u8>, u32)>,
    pub(crate) reads: HashMap<Cell, usize>,
    /// Writes of this cell are refused.
    pub(crate) refused: Option<Cell>,
    last: u32,
}

impl Cells {
    /// Writes whatever comes to mind, whatever is there.
    pub(crate) fn spoil(&mut self, cell: Cell, value: &[u8]) {
        self.last += 1;
        self.cells.insert(cell, (value.to_vec(), self.last));
    }

    pub(crate) fn reads_of(&self, cell: Cell) -> usize {
        self.reads.get(&cell).copied().unwrap_or_default()
    }
}

impl Shared for Cells {
    fn read(&mut self, cell: Cell) -> Stored {
        *self.reads.entry(cell).or_default() += 1;
        match self.cells.get(&cell) {
            Some((value, version)) => Stored {
                value: Some(value.clone()),
                version: Some(*version),
            },
            None => Stored::default(),
        }
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        let version = self.cells.get(&cell).map(|(_, version)| *version);
        if version != seen || self.refused == Some(cell) {
            return Err(Refused);
        }
        self.spoil(cell, value);
        Ok(())
    }

    fn listen(&mut self, _slot: Slot) -> Result<(), Refused> {
        panic!("nobody needs a queue")
    }

    fn send(&mut self, _slot: Slot, _message: &[u8]) -> Result<(), Refused> {
        panic!("nobody sends")
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        panic!("nobody receives")
    }
}
