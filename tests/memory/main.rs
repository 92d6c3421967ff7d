//! The memory of placed units, on cells that several workers share.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fabric;
mod junk;
mod laws;
mod promises;
mod sizes;
