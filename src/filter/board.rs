//! The workers' shared state, in Envoy's shared data and shared queues.

use std::collections::HashMap;

use super::host;
use crate::workers::{Cell, Refused, Shared, Slot, Stored};

/// Version of what stands in the cells and queues. Shared data outlives a VM, so that a new build
/// of the filter may find what an old one wrote: it must not read it.
const PROTOCOL: u32 = 2;

/// A compare-and-swap number that the host has never given out: it counts up from 1.
const NEVER: u32 = u32::MAX;

/// Shared data and queues of all workers with the same configuration.
#[derive(Debug)]
pub(super) struct Board {
    prefix: String,
    /// The token of each worker's queue. A queue keeps its token for ever.
    queues: HashMap<Slot, u32>,
    own: Option<u32>,
}

impl Board {
    /// The board of the configuration with this fingerprint.
    pub(super) fn new(fingerprint: u128) -> Self {
        Self {
            prefix: format!("burst-prefix-cache/{PROTOCOL}/{fingerprint:032x}/"),
            queues: HashMap::new(),
            own: None,
        }
    }

    fn cell(&self, cell: Cell) -> String {
        let prefix = &self.prefix;
        match cell {
            Cell::Window(lane) => format!("{prefix}window-{lane}"),
            Cell::Slots => format!("{prefix}slots"),
            Cell::Poll => format!("{prefix}poll"),
            Cell::Replicas => format!("{prefix}replicas"),
            Cell::Load(slot) => format!("{prefix}load-{slot}"),
            Cell::Memory(bucket) => format!("{prefix}memory-{bucket}"),
        }
    }

    fn queue(&self, slot: Slot) -> String {
        format!("{}queue-{slot}", self.prefix)
    }
}

impl Shared for Board {
    fn read(&mut self, cell: Cell) -> Stored {
        match host::shared_data(&self.cell(cell)) {
            Some((value, version)) => Stored {
                value: Some(value),
                version: Some(version),
            },
            None => Stored::default(),
        }
    }

    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused> {
        // 0 would write whatever came between.
        let cas = seen.filter(|version| *version != 0).unwrap_or(NEVER);
        Ok(host::set_shared_data(&self.cell(cell), value, cas)?)
    }

    fn listen(&mut self, slot: Slot) -> Result<(), Refused> {
        self.own = None;
        self.own = Some(host::register_queue(&self.queue(slot))?);
        Ok(())
    }

    fn send(&mut self, slot: Slot, message: &[u8]) -> Result<(), Refused> {
        let token = match self.queues.get(&slot) {
            Some(token) => *token,
            None => {
                let token = host::resolve_queue(&self.queue(slot))?;
                self.queues.insert(slot, token);
                token
            }
        };
        Ok(host::enqueue(token, message)?)
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        host::dequeue(self.own?)
    }
}
