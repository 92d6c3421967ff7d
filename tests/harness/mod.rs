//! A proxy-wasm host for many VMs of the built filter, in virtual time and in a seeded order.
//!
//! Envoy's part is played as it was observed: which callbacks it calls when, what crosses its
//! workers, what it does with a request that is stopped, resumed or left. Each VM is a `wasmtime`
//! store whose calls run on a stack of their own, so that a host call can stop in the middle of a
//! callback and let other workers go on. Nothing is left to chance but by the seed.

mod abi;
mod admin;
mod call;
mod checks;
mod engine;
mod exchange;
mod fabric;
mod lists;
mod proxy;
mod schedule;
mod status;
mod streams;
mod thread;
mod wasi;
mod witness;
mod world;

pub(crate) use admin::Reply;
pub(crate) use checks::wrongs;
pub(crate) use exchange::{Client, Fate, Part};
pub(crate) use proxy::Proxy;
pub(crate) use schedule::{Kind, Schedule};
pub(crate) use witness::SECRET;
pub(crate) use world::{Event, MILLI, World};
