//! Counting: metrics are defined when first used, and their ids kept.

use std::collections::HashMap;

use super::host::{self, Metric};
use crate::match_info::Status;
use crate::metrics;

/// The metrics of one VM.
#[derive(Debug, Default)]
pub(super) struct Stats {
    requests: HashMap<(&'static str, Option<&'static str>), u32>,
    unreadable: HashMap<&'static str, u32>,
    others: HashMap<&'static str, u32>,
}

impl Stats {
    /// Counts a request that came to an outcome.
    pub(super) fn outcome(&mut self, status: Status) {
        let key = (status.token(), status.reason());
        let id = match self.requests.get(&key) {
            Some(id) => *id,
            None => {
                let Ok(id) = host::define_metric(Metric::Counter, &metrics::requests(status))
                else {
                    return;
                };
                self.requests.insert(key, id);
                id
            }
        };
        host::increment(id, 1);
    }

    /// Counts a body that could not be read, by its cause.
    pub(super) fn unreadable(&mut self, cause: &'static str) {
        let id = match self.unreadable.get(cause) {
            Some(id) => *id,
            None => {
                let Ok(id) = host::define_metric(Metric::Counter, &metrics::unreadable(cause))
                else {
                    return;
                };
                self.unreadable.insert(cause, id);
                id
            }
        };
        host::increment(id, 1);
    }

    /// Adds to a counter.
    pub(super) fn count(&mut self, name: &'static str, by: u64) {
        if let (Some(id), Ok(by)) = (self.metric(Metric::Counter, name), i64::try_from(by)) {
            host::increment(id, by);
        }
    }

    /// Records a value in a histogram.
    pub(super) fn record(&mut self, name: &'static str, value: u64) {
        if let Some(id) = self.metric(Metric::Histogram, name) {
            host::record(id, value);
        }
    }

    fn metric(&mut self, kind: Metric, name: &'static str) -> Option<u32> {
        if let Some(id) = self.others.get(name) {
            return Some(*id);
        }
        let id = host::define_metric(kind, name).ok()?;
        self.others.insert(name, id);
        Some(id)
    }
}
