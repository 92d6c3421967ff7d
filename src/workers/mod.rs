//! The workers of one Envoy: who there is, and what they share.
//!
//! Every worker thread of Envoy runs the filter in a VM of its own. What crosses them is asked of
//! [`Shared`] alone; a worker is known to the others by its [`WorkerId`].

mod shared;
mod slots;

pub use shared::{BUCKETS, Cell, Change, LANES, Moment, Refused, Shared, Slot, Stored};
pub(crate) use shared::{update, update_bytes};
pub use slots::WorkerId;
pub(crate) use slots::{Membership, leased};
