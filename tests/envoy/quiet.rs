//! Windows that close when nobody comes any more.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::http1::post;
use crate::prompts::{TEXT, sample};
use crate::verdict::{assert_held, outcome, wait_ms};

/// The longest there is.
const WINDOW_MS: u32 = 10_000;

#[tokio::test]
async fn a_lone_request_waits_for_the_quiet_and_not_for_the_window() {
    let fleet = Fleet::start(WINDOW_MS, &[("quietPeriodMs", json!(100))]).await;
    for seed in 0..5 {
        let body = sample(TEXT, "one", seed);
        let answer = fleet.envoy.ask(&post(TEXT, &body)).await;
        assert_held(&fleet.envoy, &answer, &body, 100);
        assert_eq!(outcome(&answer), "alone");
        assert!(wait_ms(&answer).unwrap() >= 100, "{answer:?}");
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_burst_whose_requests_keep_coming_is_not_cut() {
    const QUIET_MS: u32 = 1500;
    let fleet = Fleet::start(WINDOW_MS, &[("quietPeriodMs", json!(QUIET_MS))]).await;
    let mut waiting = Vec::new();
    for seed in 0..12 {
        if seed > 0 {
            sleep(Duration::from_millis(200)).await;
        }
        let body = sample(TEXT, "one", seed);
        let mut connection = fleet.envoy.connect().await;
        connection.write(post(TEXT, &body)).await;
        waiting.push((body, tokio::spawn(connection.answer())));
    }
    let mut waits = Vec::new();
    for (body, answer) in waiting {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.assert_arrived(body.as_bytes());
        assert_eq!(outcome(&answer), "assigned;group=12", "{answer:?}");
        waits.push(wait_ms(&answer).unwrap());
    }
    // The first waited for all of them and the quiet, the last for the quiet alone.
    assert!(waits[0] >= 11 * 200 + u64::from(QUIET_MS) - 50, "{waits:?}");
    assert!(waits[11] >= u64::from(QUIET_MS) - 50, "{waits:?}");
    assert!(waits[11] < waits[0], "{waits:?}");
    assert!(waits[0] < u64::from(WINDOW_MS) * 9 / 10, "{waits:?}");
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn requests_that_never_cease_wait_for_the_window_and_no_longer() {
    const SHORT_MS: u32 = 1500;
    let fleet = Fleet::start(SHORT_MS, &[("quietPeriodMs", json!(1000))]).await;
    let mut waiting = Vec::new();
    for seed in 0..40 {
        let body = sample(TEXT, "one", seed);
        let mut connection = fleet.envoy.connect().await;
        connection.write(post(TEXT, &body)).await;
        waiting.push((body, tokio::spawn(connection.answer())));
        sleep(Duration::from_millis(100)).await;
    }
    for (body, answer) in waiting {
        assert_held(&fleet.envoy, &answer.await.unwrap(), &body, SHORT_MS);
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
