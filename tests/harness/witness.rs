//! What the schedule has seen: a trace of the last events, all that the filter told, and what was
//! wrong with it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

/// Stands in every prompt, and must stand nowhere else.
pub(crate) const SECRET: &str = "0SECRET0";

/// A metric of all VMs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: u32,
    /// The sum of what was added or recorded.
    pub(crate) sum: u64,
    pub(crate) times: u64,
}

/// What the schedule has seen.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    lines: VecDeque<(u64, String)>,
    pub(crate) log: Vec<(u32, String)>,
    pub(crate) metrics: BTreeMap<String, Metric>,
    pub(crate) wrong: Vec<String>,
    /// How often the filter refused a configuration.
    pub(crate) refused: usize,
    /// The requests that joined each window, in order; by the name of its cell and its id.
    pub(crate) windows: BTreeMap<(String, u64), Vec<usize>>,
    /// The most requests that one callback resumed.
    pub(crate) most_resumed: usize,
}

impl Witness {
    pub(crate) fn trace(&mut self, now: u64, line: String) {
        /// What a reader can take in.
        const LAST: usize = 120;
        if self.lines.len() == LAST {
            self.lines.pop_front();
        }
        self.lines.push_back((now, line));
    }

    /// The last events, a line each.
    pub(crate) fn told(&self) -> String {
        let mut told = String::new();
        for (now, line) in &self.lines {
            let _ = writeln!(told, "{:>12.6} ms  {line}", *now as f64 / 1e6);
        }
        told
    }

    /// Something must never happen, and did.
    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Looks for prompts where none may be.
    pub(crate) fn no_prompt(&mut self, place: &str, bytes: &[u8]) {
        let secret = SECRET.as_bytes();
        if bytes.windows(secret.len()).any(|window| window == secret) {
            self.wrong(format!("a prompt stands in {place}"));
        }
    }

    /// A request took a seat in this window; who is in it.
    pub(crate) fn joined(&mut self, cell: &str, window: u64, request: usize) -> &[usize] {
        let window = self.windows.entry((cell.to_owned(), window)).or_default();
        window.push(request);
        window
    }

    pub(crate) fn count(&self, metric: &str) -> u64 {
        self.metrics.get(metric).map_or(0, |metric| metric.sum)
    }
}
