//! The rows of the bench, and what the reference takes for them.

use burst_prefix_cache::placement::BalanceBy::{self, Requests, Tokens};
use serde::Serialize;

use super::work::{Batch, Body, Task};

/// One row.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) section: Section,
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) task: Task,
    /// How long the reference takes in its own benchmark, on two shared cores: the fastest and the
    /// slowest run, in milliseconds.
    pub(crate) reference_ms: Option<(f64, f64)>,
}

/// Rows that are judged alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    /// Batches, mostly of the reference's own benchmark.
    Place,
    /// Pairs: 1,000 requests, and 100,000 of the same kind.
    Scale,
    Hash,
    Read,
}

impl Section {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Scale => "scale",
            Self::Hash => "hash",
            Self::Read => "read",
        }
    }

    /// Whether the size of its rows is in bytes, not in requests.
    pub(crate) fn is_in_bytes(self) -> bool {
        matches!(self, Self::Hash | Self::Read)
    }
}

/// All rows, in the order of the report. A row is known to the guest by its place.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = batches();
    for kind in kinds() {
        for (name, times) in [("1,000 ", 1), ("100,000 ", 100)] {
            let mut row = kind.clone();
            row.name.insert_str(0, name);
            if let Task::Place(batch) = &mut row.task {
                batch.groups *= times;
            }
            rows.push(row);
        }
    }
    for (name, tokens, reference) in [
        ("2,048 tokens", 2_048, Some((0.0037, 0.0044))),
        ("16,384 tokens", 16_384, None),
        ("131,072 tokens", 131_072, None),
    ] {
        rows.push(Row {
            section: Section::Hash,
            name: name.to_owned(),
            task: Task::Hash(tokens * 4),
            reference_ms: reference,
        });
    }
    for (kind, body) in [
        ("chat", Body::Chat),
        ("completions, text", Body::Completions),
        ("completions, token ids", Body::Ids),
    ] {
        for (size, bytes) in [("1 KB", 1 << 10), ("32 KB", 32 << 10), ("1 MB", 1 << 20)] {
            rows.push(Row {
                section: Section::Read,
                name: format!("{kind}, {size}"),
                task: Task::Read(body, bytes),
                reference_ms: None,
            });
        }
    }
    rows
}

#[rustfmt::skip]
fn batches() -> Vec<Row> {
    let place = |name, reference, batch| row(Section::Place, name, reference, batch);
    vec![
        place("125 groups of 8, 2k tokens, 8 replicas", Some((6.4, 8.8)),
              batch(125, 8, 2_048, 0, 8, 0, 0, Requests)),
        place("125 groups of 8, 2k tokens, 512 shared, m = 1, tokens", Some((6.9, 8.1)),
              batch(125, 8, 2_048, 512, 8, 0, 1, Tokens)),
        place("1000 singles, 2k tokens, 512 shared, m = 1", Some((33.0, 38.0)),
              batch(1_000, 1, 2_048, 512, 8, 0, 1, Requests)),
        place("125 groups of 8, 24k tokens, m = 1, tokens", Some((90.0, 128.0)),
              batch(125, 8, 24_000, 512, 8, 0, 1, Tokens)),
        place("125 groups of 8, 2k tokens, 64 replicas, k = 1, m = 1, tokens", Some((44.0, 49.0)),
              batch(125, 8, 2_048, 512, 64, 1, 1, Tokens)),
        place("256 groups of 8, 12.9k tokens, 8 replicas, m = 1, tokens", Some((104.0, 118.0)),
              batch(256, 8, 12_900, 512, 8, 0, 1, Tokens)),
        place("1250 groups of 8, 2k tokens, 8 replicas", Some((68.0, 115.0)),
              batch(1_250, 8, 2_048, 0, 8, 0, 0, Requests)),
        place("one group of 4000, k = 1, 8 replicas", Some((24.0, 24.0)),
              batch(1, 4_000, 2_048, 0, 8, 1, 0, Requests)),
        place("one group of 4000, k = 1, 128 replicas", Some((283.0, 283.0)),
              batch(1, 4_000, 2_048, 0, 128, 1, 0, Requests)),
        place("one group of 4000, k = 1, 1024 replicas", None,
              batch(1, 4_000, 2_048, 0, 1_024, 1, 0, Requests)),
        place("125 groups of 8, 2k tokens, 1024 replicas, k = 1, m = 1, tokens", None,
              batch(125, 8, 2_048, 512, 1_024, 1, 1, Tokens)),
    ]
}

/// 1,000 requests of each kind.
#[rustfmt::skip]
fn kinds() -> Vec<Row> {
    let scale = |name, batch| row(Section::Scale, name, None, batch);
    vec![
        scale("in groups of 8, 8 replicas, m = 1, tokens",
              batch(125, 8, 2_048, 512, 8, 0, 1, Tokens)),
        scale("singles, 8 replicas, m = 1",
              batch(1_000, 1, 2_048, 512, 8, 0, 1, Requests)),
        scale("in groups of 8, 1024 replicas",
              batch(125, 8, 2_048, 0, 1_024, 0, 0, Requests)),
        scale("in groups of 8, 1024 replicas, m = 1, tokens",
              batch(125, 8, 2_048, 512, 1_024, 0, 1, Tokens)),
        scale("in groups of 8, 1024 replicas, k = 1, m = 1",
              batch(125, 8, 2_048, 512, 1_024, 1, 1, Requests)),
        scale("singles, 1024 replicas, m = 1",
              batch(1_000, 1, 2_048, 512, 1_024, 0, 1, Requests)),
    ]
}

fn row(section: Section, name: &str, reference_ms: Option<(f64, f64)>, batch: Batch) -> Row {
    Row {
        section,
        name: name.to_owned(),
        task: Task::Place(batch),
        reference_ms,
    }
}

#[expect(clippy::too_many_arguments, reason = "they are the columns of a table")]
fn batch(
    groups: usize,
    members: usize,
    tokens: usize,
    shared: usize,
    replicas: usize,
    k: u32,
    m: u32,
    balance_by: BalanceBy,
) -> Batch {
    Batch {
        groups,
        members,
        tokens,
        shared,
        replicas,
        k,
        m,
        balance_by,
    }
}
