//! What `/stats/prometheus` shows of the filter.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::fleet::{Fleet, LONG_MS};
use crate::http1::{post, request};
use crate::prompts::{TEXT, sample};

/// Envoy shows histograms after its flush, every 5 s.
const PATIENCE: Duration = Duration::from_secs(60);

const SHOWN: &[&str] = &[
    r#"burst_prefix_cache_requests_total{outcome="assigned"} 4"#,
    r#"burst_prefix_cache_requests_total{outcome="alone"} 1"#,
    r#"burst_prefix_cache_requests_total{outcome="no-prefix"} 1"#,
    r#"burst_prefix_cache_requests_total{outcome="skipped",reason="unreadable"} 2"#,
    r#"burst_prefix_cache_requests_total{outcome="skipped",reason="encoding"} 1"#,
    r#"burst_prefix_cache_requests_total{outcome="skipped",reason="path"} 1"#,
    r#"burst_prefix_cache_unreadable_requests_total{cause="json"} 1"#,
    r#"burst_prefix_cache_unreadable_requests_total{cause="type"} 1"#,
    "burst_prefix_cache_windows_total{} 1",
    "burst_prefix_cache_wait_ms_count{} 5",
    "burst_prefix_cache_window_requests_count{} 1",
];

#[tokio::test]
async fn the_metrics_have_the_labels_of_the_shipped_configuration() {
    let fleet = Fleet::start(LONG_MS, &[]).await;
    let gzip = [("content-encoding", "gzip")];
    let mut requests = vec![
        post(TEXT, sample(TEXT, "two", 0)),
        post(TEXT, r#"{"prompt":""}"#),
        post(TEXT, "{"),
        post(TEXT, "[]"),
        request("POST", TEXT, &gzip, "x"),
        request("GET", "/health", &[], ""),
    ];
    requests.extend((0..4).map(|seed| post(TEXT, sample(TEXT, "one", seed))));
    fleet.burst(&requests).await;

    let begin = Instant::now();
    loop {
        let page = fleet.envoy.page("/stats/prometheus").await;
        let missing = SHOWN
            .iter()
            .filter(|line| !page.lines().any(|l| l == **line));
        let missing: Vec<_> = missing.collect();
        if missing.is_empty() {
            return;
        }
        let ours: Vec<&str> = page
            .lines()
            .filter(|line| line.contains("burst_"))
            .collect();
        assert!(begin.elapsed() < PATIENCE, "no {missing:?} in {ours:#?}");
        sleep(Duration::from_millis(200)).await;
    }
}
