//! How long placing a batch takes, hashing not included.
//!
//! ```text
//! cargo bench --bench placement
//! ```
//!
//! The first rows are those of the reference's own benchmark; the name of each ends in the
//! milliseconds that the reference takes on two shared cores. The `scale` rows must take linear
//! time: at most twice the time a request for 100 times the requests.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use burst_prefix_cache::placement::{BalanceBy, Candidates, Replica, Request, Rules, place};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Tokens in a block.
const BLOCK: usize = 64;

struct Row {
    name: &'static str,
    groups: usize,
    members: usize,
    tokens: usize,
    /// Tokens that all groups begin with.
    shared: usize,
    replicas: usize,
    /// 0 = no bound.
    k: u32,
    m: u32,
    balance_by: BalanceBy,
}

#[rustfmt::skip]
const ROWS: [Row; 9] = [
    row("125x8 2k (6.4)",                    125, 8,  2_048,   0,   8, 0, 0, BalanceBy::Requests),
    row("125x8 2k m=1 tokens (6.9)",         125, 8,  2_048, 512,   8, 0, 1, BalanceBy::Tokens),
    row("1000 singles m=1 (33)",            1000, 1,  2_048, 512,   8, 0, 1, BalanceBy::Requests),
    row("125x8 24k m=1 tokens (90)",         125, 8, 24_000, 512,   8, 0, 1, BalanceBy::Tokens),
    row("125x8 2k 64 replicas k=1 m=1 tokens (44)",
                                             125, 8,  2_048, 512,  64, 1, 1, BalanceBy::Tokens),
    row("256x8 12.9k m=1 tokens (104)",      256, 8, 12_900, 512,   8, 0, 1, BalanceBy::Tokens),
    row("1250x8 2k (68)",                   1250, 8,  2_048,   0,   8, 0, 0, BalanceBy::Requests),
    row("one group of 4000 k=1 8 replicas (24)",
                                            1, 4000,  2_048,   0,   8, 1, 0, BalanceBy::Requests),
    row("one group of 4000 k=1 128 replicas (283)",
                                            1, 4000,  2_048,   0, 128, 1, 0, BalanceBy::Requests),
];

#[rustfmt::skip]
const SCALE: [Row; 8] = [
    row("1k groups m=0",              125, 8, 2_048,   0, 1024, 0, 0, BalanceBy::Requests),
    row("100k groups m=0",         12_500, 8, 2_048,   0, 1024, 0, 0, BalanceBy::Requests),
    row("1k groups m=1 tokens",       125, 8, 2_048, 512, 1024, 0, 1, BalanceBy::Tokens),
    row("100k groups m=1 tokens",  12_500, 8, 2_048, 512, 1024, 0, 1, BalanceBy::Tokens),
    row("1k groups k=1 m=1",          125, 8, 2_048, 512, 1024, 1, 1, BalanceBy::Requests),
    row("100k groups k=1 m=1",     12_500, 8, 2_048, 512, 1024, 1, 1, BalanceBy::Requests),
    row("1k singles m=1",            1000, 1, 2_048, 512, 1024, 0, 1, BalanceBy::Requests),
    row("100k singles m=1",       100_000, 1, 2_048, 512, 1024, 0, 1, BalanceBy::Requests),
];

#[expect(clippy::too_many_arguments, reason = "they are the columns of a table")]
const fn row(
    name: &'static str,
    groups: usize,
    members: usize,
    tokens: usize,
    shared: usize,
    replicas: usize,
    k: u32,
    m: u32,
    balance_by: BalanceBy,
) -> Row {
    Row {
        name,
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

impl Row {
    /// The blocks of each request. Groups arrive interleaved, which is the worst for caches.
    fn blocks(&self) -> Vec<Vec<u64>> {
        let chain = |group: usize| -> Vec<u64> {
            let mut hash = 7u64;
            (0..self.tokens.div_ceil(BLOCK))
                .map(|i| {
                    let group = if i * BLOCK < self.shared { 0 } else { group };
                    hash = (hash ^ group as u64 ^ i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    hash ^= hash >> 29;
                    hash
                })
                .collect()
        };
        (0..self.members)
            .flat_map(|_| (0..self.groups).map(chain))
            .collect()
    }

    fn bench(&self, c: &mut Criterion, section: &str) {
        let rules = Rules {
            max_per_replica: NonZeroU32::new(self.k),
            min_colocate_blocks: self.m,
            balance_by: self.balance_by,
        };
        let names: Vec<String> = (0..self.replicas)
            .map(|i| format!("10.0.{}.{}:8000", i / 256, i % 256))
            .collect();
        let replicas: Vec<Replica<'_>> = names
            .iter()
            .map(|name| Replica { name, running: 0 })
            .collect();
        let blocks = self.blocks();
        let requests: Vec<Request<'_>> = blocks
            .iter()
            .map(|blocks| Request {
                blocks,
                candidates: Candidates::All,
                weight: 1,
            })
            .collect();
        c.benchmark_group(section)
            .throughput(Throughput::Elements(requests.len() as u64))
            .bench_function(self.name, |b| {
                b.iter(|| place(&rules, black_box(&replicas), black_box(&requests)));
            });
    }
}

fn reference(c: &mut Criterion) {
    for row in &ROWS {
        row.bench(c, "reference");
    }
}

fn scale(c: &mut Criterion) {
    for row in &SCALE {
        row.bench(c, "scale");
    }
}

criterion_group! {
    name = placement;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = reference, scale
}
criterion_main!(placement);
