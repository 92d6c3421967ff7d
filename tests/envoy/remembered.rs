//! Stragglers: requests of a unit that was placed before they came.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::http1::{Answer, post};
use crate::prompts::{TEXT, sample, text};
use crate::verdict::{outcome, wait_ms};

const MEMORY_MS: u32 = 3000;
/// Two of these are longer than the memory, one is not.
const PAUSE: Duration = Duration::from_millis(2000);
/// A slow machine may make a pause longer than the memory; then it is tried again.
const ATTEMPTS: usize = 5;

async fn burst(fleet: &Fleet, name: &str, count: usize) -> Vec<Answer> {
    let requests: Vec<Vec<u8>> = (0..count)
        .map(|seed| post(TEXT, sample(TEXT, name, seed)))
        .collect();
    fleet.burst(&requests).await
}

/// One more sibling, which must not be held.
async fn straggler(fleet: &Fleet, name: &str) -> Answer {
    let request = post(TEXT, sample(TEXT, name, 99));
    let answer = fleet.envoy.ask(&request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

#[tokio::test]
async fn stragglers_follow_their_group_at_once_as_long_as_it_is_used() {
    let fields = [("groupMemoryMs", json!(MEMORY_MS))];
    let fleet = Fleet::start(200, &fields).await;
    // Something else, so that the group's replica is not the one that is taken without a reason.
    burst(&fleet, "other", 3).await;
    for attempt in 0..ATTEMPTS {
        let name = format!("attempt-{attempt}");
        let mut used = Instant::now();
        let answers = burst(&fleet, &name, 4).await;
        let home = answers[0].served_by().to_owned();
        for answer in &answers {
            // A window may have closed in the middle of it.
            assert_eq!(answer.served_by(), home, "{answer:?}");
        }
        let mut in_time = true;
        for pause in [Duration::ZERO, PAUSE, PAUSE] {
            sleep(pause).await;
            let before = used;
            used = Instant::now();
            let answer = straggler(&fleet, &name).await;
            if before.elapsed() >= Duration::from_millis(u64::from(MEMORY_MS)) {
                in_time = false;
                break;
            }
            assert!(outcome(&answer).starts_with("remembered;"), "{answer:?}");
            assert_eq!(wait_ms(&answer), Some(0), "{answer:?}");
            assert_eq!(answer.served_by(), home);
            let endpoint = answer.seen("x-gateway-destination-endpoint");
            assert_eq!(endpoint, Some(home.as_str()));
        }
        if !in_time {
            continue;
        }
        let answer = straggler(&fleet, &name).await;
        assert_eq!(outcome(&answer), "remembered;group=8", "the eighth in all");
        sleep(Duration::from_millis(u64::from(MEMORY_MS) + 100)).await;
        let answer = straggler(&fleet, &name).await;
        assert_eq!(outcome(&answer), "assigned;group=1", "{answer:?}");
        assert!(wait_ms(&answer).unwrap() >= 200, "{answer:?}");
        assert_eq!(fleet.envoy.faults(), [""; 0]);
        return;
    }
    panic!("no pause was short enough");
}

/// A prompt of `common` and different blocks.
fn prompt(common: &str, rest: &str) -> Vec<u8> {
    let prompt = [text(common, 4 * 64), text(rest, 2 * 64)].concat();
    post(TEXT, json!({"prompt": prompt, "max_tokens": 1}).to_string())
}

#[tokio::test]
async fn a_prompt_that_begins_like_a_remembered_one_follows_it() {
    for hold in ["window", "none"] {
        let fields = |blocks: u32| {
            [
                ("hold", json!(hold)),
                ("groupMemoryMs", json!(60_000)),
                ("minColocateBlocks", json!(blocks)),
            ]
        };
        let fleet = Fleet::start(200, &fields(4)).await;
        let first = fleet.envoy.ask(&prompt("common", "first")).await;
        assert_eq!(outcome(&first), "assigned;group=1", "{first:?}");
        let other = burst(&fleet, "other", 16).await;
        assert_ne!(other[0].served_by(), first.served_by());
        let second = fleet.envoy.ask(&prompt("common", "second")).await;
        let third = fleet.envoy.ask(&prompt("common", "third")).await;
        for answer in [&second, &third] {
            assert_eq!(outcome(answer), "remembered;group=1", "{answer:?}");
            assert_eq!(wait_ms(answer), Some(0), "{answer:?}");
        }
        assert_eq!(second.served_by(), first.served_by(), "{hold}");
        // With what is expected of two units it has its fair share, and two replicas have nothing.
        let busy = [first.served_by(), other[0].served_by()];
        assert!(!busy.contains(&third.served_by()), "{hold}: {third:?}");
        let answer = fleet.envoy.ask(&prompt("uncommon", "second")).await;
        assert_eq!(outcome(&answer), "assigned;group=1", "{answer:?}");
        assert_ne!(answer.served_by(), first.served_by());

        // More blocks than they have in common.
        let fleet = Fleet::start(200, &fields(5)).await;
        fleet.envoy.ask(&prompt("common", "first")).await;
        burst(&fleet, "other", 16).await;
        let answer = fleet.envoy.ask(&prompt("common", "second")).await;
        assert_eq!(outcome(&answer), "assigned;group=1", "{answer:?}");
        assert_eq!(fleet.envoy.faults(), [""; 0]);
    }
}
