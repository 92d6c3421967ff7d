//! What the filter has in flight, over all workers.
//!
//! Each worker keeps a [`Book`] of the requests that it sent to a replica and has not seen end,
//! and publishes its sums as a *sheet* in a cell that only it writes. So nothing is counted up
//! and down in common, and nothing can drift: without requests in flight every sheet is empty,
//! and the sheet of a worker that died is left out as soon as it is not renewed.
//!
//! Two things stand in a sheet beside the sums. What the owner of a window placed for another
//! worker is in nobody's book until that worker hears of it: the owner's sheet lists it as *on
//! its way*, by a number that the other's sheet confirms. And what was placed *lately* fades: it
//! tells replicas apart whose requests are over as soon as they begin, and it reserves room for
//! the stragglers of a unit that has begun, which will follow it wherever it is.

mod book;
mod sheet;
#[cfg(test)]
mod tests;
mod total;

pub use book::{Book, Placed};
pub use sheet::{BEAT, STALE};
pub use total::{Carried, Total};

/// A replica, as sheets and the memory name it: the [`replica_hash`] of its name.
pub type ReplicaHash = u64;

pub use crate::memory::replica_hash;
