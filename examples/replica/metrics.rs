//! The counters that `/metrics` shows, under vLLM's names.
//!
//! As in vLLM a sequence counts as a request of its own: `n: 8` asks the cache eight times.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// vLLM's buckets for the time to the first token, in seconds.
const TTFT_BUCKETS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Tokens that the prefix cache was asked for, and those it had.
    pub(crate) cache_queries: AtomicU64,
    pub(crate) cache_hits: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) generation_tokens: AtomicU64,
    /// Ended since they had all their tokens.
    pub(crate) finished: AtomicU64,
    /// Ended since their client had gone.
    pub(crate) aborted: AtomicU64,
    ttft: Histogram,
}

#[derive(Debug, Default)]
struct Histogram {
    /// Not cumulative; the last is what exceeds every bucket.
    counts: [AtomicU64; TTFT_BUCKETS.len() + 1],
    sum_us: AtomicU64,
}

impl Metrics {
    pub(crate) fn first_token_after(&self, time: Duration) {
        let bucket = TTFT_BUCKETS.partition_point(|most| *most < time.as_secs_f64());
        if let Some(count) = self.ttft.counts.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.ttft.sum_us.fetch_add(us, Relaxed);
    }

    /// In Prometheus' text format.
    pub(crate) fn render(&self, model: &str, cache_usage: f64) -> String {
        let model = model
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let mut page = Page {
            text: String::new(),
            label: format!("model_name=\"{model}\""),
        };
        let get = |counter: &AtomicU64| counter.load(Relaxed);

        let name = "vllm:num_requests_running";
        page.head(name, "gauge", "Sequences that run.");
        page.line(name, "", get(&self.running));
        let name = "vllm:num_requests_waiting";
        page.head(name, "gauge", "Sequences that wait for their prefill.");
        page.line(name, "", get(&self.waiting));
        let name = "vllm:kv_cache_usage_perc";
        page.head(name, "gauge", "Blocks in use by running sequences, 0 to 1.");
        page.line(name, "", cache_usage);
        let name = "vllm:prefix_cache_queries_total";
        page.head(name, "counter", "Tokens the prefix cache was asked for.");
        page.line(name, "", get(&self.cache_queries));
        let name = "vllm:prefix_cache_hits_total";
        page.head(name, "counter", "Tokens the prefix cache had.");
        page.line(name, "", get(&self.cache_hits));
        let name = "vllm:prompt_tokens_total";
        page.head(name, "counter", "Prompt tokens, cached or prefilled.");
        page.line(name, "", get(&self.prompt_tokens));
        let name = "vllm:generation_tokens_total";
        page.head(name, "counter", "Generated tokens.");
        page.line(name, "", get(&self.generation_tokens));
        let name = "vllm:request_success_total";
        page.head(name, "counter", "Sequences that ended.");
        page.line(name, "finished_reason=\"length\"", get(&self.finished));
        page.line(name, "finished_reason=\"abort\"", get(&self.aborted));
        page.ttft(&self.ttft);
        page.text
    }
}

struct Page {
    text: String,
    label: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, more: &str, value: impl std::fmt::Display) {
        let comma = if more.is_empty() { "" } else { "," };
        let _ = writeln!(self.text, "{name}{{{}{comma}{more}}} {value}", self.label);
    }

    fn ttft(&mut self, histogram: &Histogram) {
        const NAME: &str = "vllm:time_to_first_token_seconds";
        self.head(NAME, "histogram", "From arrival to the first token.");
        let mut total = 0;
        let bounds = TTFT_BUCKETS.iter().map(|bound| format!("{bound:?}"));
        for (count, bound) in histogram
            .counts
            .iter()
            .zip(bounds.chain(["+Inf".to_owned()]))
        {
            total += count.load(Relaxed);
            self.line(&format!("{NAME}_bucket"), &format!("le=\"{bound}\""), total);
        }
        self.line(&format!("{NAME}_count"), "", total);
        let sum = histogram.sum_us.load(Relaxed) as f64 / 1e6;
        self.line(&format!("{NAME}_sum"), "", sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let metrics = Metrics::default();
        metrics.first_token_after(Duration::from_millis(5));
        metrics.first_token_after(Duration::from_secs(3000));
        let page = metrics.render("m\"x", 0.5);
        for line in [
            r#"vllm:time_to_first_token_seconds_bucket{model_name="m\"x",le="0.001"} 0"#,
            r#"vllm:time_to_first_token_seconds_bucket{model_name="m\"x",le="0.005"} 1"#,
            r#"vllm:time_to_first_token_seconds_bucket{model_name="m\"x",le="2560.0"} 1"#,
            r#"vllm:time_to_first_token_seconds_bucket{model_name="m\"x",le="+Inf"} 2"#,
            r#"vllm:time_to_first_token_seconds_count{model_name="m\"x"} 2"#,
            r#"vllm:time_to_first_token_seconds_sum{model_name="m\"x"} 3000.005"#,
            r#"vllm:kv_cache_usage_perc{model_name="m\"x"} 0.5"#,
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
