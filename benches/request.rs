//! How long reading a body takes, to the hashes of its blocks.
//!
//! ```text
//! cargo bench --bench request
//! ```
//!
//! Next to each row stands the time that `serde_json::Value` takes to parse the same body, without
//! any hash. Reading takes linear time, but what no longer fits the processor's caches takes longer.

use std::hint::black_box;
use std::time::Duration;

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{Api, read};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIZES: [(&str, usize); 4] = [
    ("1 KB", 1 << 10),
    ("32 KB", 32 << 10),
    ("1 MB", 1 << 20),
    ("16 MB", 16 << 20),
];

/// A name, the API, and a body of some size.
type Kind = (&'static str, Api, fn(usize) -> String);

/// What a body is mostly made of.
const KINDS: [Kind; 6] = [
    // One long message with a line end each 80 bytes.
    ("chat, text", Api::ChatCompletions, |size| {
        let line = r"A line of text as people write it, neither short nor long, with its end.\n";
        chat(&format!(
            r#"{{"role":"user","content":"{}"}}"#,
            fill(size, "", |_| line.to_owned())
        ))
    }),
    // One long message with an escape each ten bytes.
    ("chat, escapes", Api::ChatCompletions, |size| {
        chat(&format!(
            r#"{{"role":"user","content":"{}"}}"#,
            fill(size, "", |_| r"some te\n".to_owned())
        ))
    }),
    ("chat, short messages", Api::ChatCompletions, |size| {
        chat(&fill(size, ",", |i| {
            format!(r#"{{"role":"user","content":"message number {i:05} with a few words"}}"#)
        }))
    }),
    ("chat, tools", Api::ChatCompletions, |size| {
        let tools = fill(size, ",", |i| {
            format!(
                r#"{{"type":"function","function":{{"name":"f{i}","parameters":{{"type":"object","properties":{{"command":{{"type":"string","description":"The command to be run"}}}}}}}}}}"#
            )
        });
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}],"tools":[{tools}]}}"#)
    }),
    ("completions, text", Api::Completions, |size| {
        let words = "words and more words without any escape among them ";
        format!(
            r#"{{"model":"m","prompt":"{}"}}"#,
            fill(size, "", |_| words.to_owned())
        )
    }),
    ("completions, ids", Api::Completions, |size| {
        let ids = fill(size, ",", |i| (i * 7919 % 128_000).to_string());
        format!(r#"{{"model":"m","prompt":[{ids}]}}"#)
    }),
];

fn chat(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":[{messages}],"temperature":0.7}}"#)
}

/// Pieces up to this size.
fn fill(size: usize, separator: &str, piece: impl Fn(usize) -> String) -> String {
    let mut text = piece(0);
    for i in 1.. {
        if text.len() >= size {
            break;
        }
        text.push_str(separator);
        text.push_str(&piece(i));
    }
    text
}

fn bench(criterion: &mut Criterion) {
    for (kind, api, body) in KINDS {
        let mut group = criterion.benchmark_group(kind);
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        for (name, size) in SIZES {
            let body = body(size);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(name, |bencher| {
                bencher.iter(|| read(api, black_box(body.as_bytes()), Layout::default()));
            });
            group.bench_function(format!("{name}, serde_json::Value"), |bencher| {
                bencher.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&body)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
