//! Counting: metrics are defined when first used, and their ids kept.

use std::collections::HashMap;

use super::host::{self, Metric};
use crate::match_info::Status;
use crate::metrics;
use crate::replicas::Cause;

/// What a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// Requests of an outcome, by its token and reason.
    Outcome(&'static str, Option<&'static str>),
    /// Bodies that could not be read, by the cause.
    Unreadable(&'static str),
    /// Questions to Envoy's admin that brought no list, by the cause.
    Poll(Cause),
    /// A metric without labels, by its name.
    Plain(&'static str),
}

/// The metrics of one VM.
#[derive(Debug, Default)]
pub(super) struct Stats(HashMap<Key, u32>);

impl Stats {
    /// Counts a request that came to an outcome.
    pub(super) fn outcome(&mut self, status: Status) {
        let key = Key::Outcome(status.token(), status.reason());
        if let Some(id) = self.id(key, Metric::Counter, || metrics::requests(status)) {
            host::increment(id, 1);
        }
    }

    /// Counts a body that could not be read, by its cause.
    pub(super) fn unreadable(&mut self, cause: &'static str) {
        let key = Key::Unreadable(cause);
        if let Some(id) = self.id(key, Metric::Counter, || metrics::unreadable(cause)) {
            host::increment(id, 1);
        }
    }

    /// Adds to a counter.
    pub(super) fn count(&mut self, name: &'static str, by: u64) {
        let id = self.id(Key::Plain(name), Metric::Counter, || name.to_owned());
        if let (Some(id), Ok(by)) = (id, i64::try_from(by)) {
            host::increment(id, by);
        }
    }

    /// Records a value in a histogram.
    pub(super) fn record(&mut self, name: &'static str, value: u64) {
        if let Some(id) = self.id(Key::Plain(name), Metric::Histogram, || name.to_owned()) {
            host::record(id, value);
        }
    }

    /// Sets a gauge.
    pub(super) fn set(&mut self, name: &'static str, value: u64) {
        if let Some(id) = self.id(Key::Plain(name), Metric::Gauge, || name.to_owned()) {
            host::record(id, value);
        }
    }

    /// Counts a question to Envoy's admin that brought no list, by the cause.
    pub(super) fn poll_failed(&mut self, cause: Cause) {
        let key = Key::Poll(cause);
        if let Some(id) = self.id(key, Metric::Counter, || metrics::poll_failures(cause)) {
            host::increment(id, 1);
        }
    }

    fn id(&mut self, key: Key, kind: Metric, name: impl FnOnce() -> String) -> Option<u32> {
        if let Some(id) = self.0.get(&key) {
            return Some(*id);
        }
        let id = host::define_metric(kind, &name()).ok()?;
        self.0.insert(key, id);
        Some(id)
    }
}
