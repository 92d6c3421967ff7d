//! What crosses the workers: a clock, cells with compare-and-swap, and a queue a worker.
//!
//! The pure rooms ask their surroundings for nothing else. In Envoy these are shared data and
//! shared queues; in a test they are a map and a few lists.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A moment of the process' one monotonic clock, in nanoseconds; it is the same for all workers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `later` after this one.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long this moment comes after `earlier`; zero where it comes before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Number of a worker's queue, from 0; a worker that is gone leaves its slot to another.
pub type Slot = u16;

/// Windows that are open at one time, at most. Pools have them by their names' hashes: two that
/// share one fill it together, so there are many more than pools.
pub const LANES: u16 = 4096;
/// Parts of the memory of placed units.
pub const BUCKETS: u16 = 4096;

/// The shared cells: a fixed set, since a cell can never be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cell {
    /// The current window of a lane, below [`LANES`].
    Window(u16),
    /// Who listens on which queue.
    Slots,
    /// Who asks for the replicas, and which version of them is known.
    Poll,
    /// The replicas, as they were last heard of.
    Replicas,
    /// What the worker with this slot has in flight.
    Load(Slot),
    /// A part of the memory of placed units, below [`BUCKETS`].
    Memory(u16),
}

/// A cell as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stored {
    /// The value; none where the cell was never written.
    pub value: Option<Vec<u8>>,
    /// What a write must show so that nobody came between; none where the cell was never
    /// written.
    pub version: Option<u32>,
}

/// A write, a registration or a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// What workers share. No call blocks, and no call enters the worker again.
pub trait Shared {
    /// Reads a cell.
    fn read(&mut self, cell: Cell) -> Stored;

    /// Writes a cell that still has the version `seen`.
    ///
    /// # Errors
    /// Somebody wrote it since, or the host did not take it.
    fn write(&mut self, cell: Cell, value: &[u8], seen: Option<u32>) -> Result<(), Refused>;

    /// Takes the queue `slot` for this worker: from now on its messages are announced here, and
    /// [`Shared::receive`] reads it.
    ///
    /// # Errors
    /// The host did not give it.
    fn listen(&mut self, slot: Slot) -> Result<(), Refused>;

    /// Puts a message on the queue of a worker, this one's own included.
    ///
    /// # Errors
    /// There is no such queue.
    fn send(&mut self, slot: Slot, message: &[u8]) -> Result<(), Refused>;

    /// The next message on this worker's queue.
    fn receive(&mut self) -> Option<Vec<u8>>;
}

/// What to do with what is shared after a look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<T, R> {
    /// Write this, and answer.
    Write(T, R),
    /// Leave it as it is, and answer.
    Keep(R),
}

/// How often a refused write is tried again before the worker goes on without: contention of a
/// few workers misses about once in a thousand, so this many refusals are no contention.
const ATTEMPTS: u32 = 64;

/// Reads a cell, changes it and writes it back, again when somebody came between.
///
/// # Errors
/// The write was refused [`ATTEMPTS`] times.
pub(crate) fn update<T, R>(
    shared: &mut dyn Shared,
    cell: Cell,
    mut change: impl FnMut(Option<T>) -> Change<T, R>,
) -> Result<R, Refused>
where
    T: Serialize + DeserializeOwned,
{
    update_bytes(shared, cell, |bytes| {
        // What cannot be read was not written by this version: it counts as never written.
        let value = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        match change(value) {
            Change::Keep(answer) => Change::Keep(Ok(answer)),
            Change::Write(value, answer) => match postcard::to_allocvec(&value) {
                Ok(bytes) => Change::Write(bytes, Ok(answer)),
                Err(_) => Change::Keep(Err(Refused)),
            },
        }
    })?
}

/// The same for a cell whose value is read and written otherwise.
///
/// # Errors
/// The write was refused [`ATTEMPTS`] times.
pub(crate) fn update_bytes<R>(
    shared: &mut dyn Shared,
    cell: Cell,
    mut change: impl FnMut(Option<Vec<u8>>) -> Change<Vec<u8>, R>,
) -> Result<R, Refused> {
    for _ in 0..ATTEMPTS {
        let stored = shared.read(cell);
        match change(stored.value) {
            Change::Keep(answer) => return Ok(answer),
            Change::Write(bytes, answer) => {
                if shared.write(cell, &bytes, stored.version).is_ok() {
                    return Ok(answer);
                }
            }
        }
    }
    Err(Refused)
}
