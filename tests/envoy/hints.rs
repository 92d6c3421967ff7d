//! What clients say of their groups: how large they are, and what they are called.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::http1::{Answer, head, request};
use crate::prompts::{TEXT, sample};
use crate::responder;
use crate::verdict::{assert_held, outcome, wait_ms};

const SIZE: &str = "x-burst-group-size";
const ID: &str = "x-burst-group-id";
/// So long that what waited for its end cannot be mistaken for what did not.
const WINDOW_MS: u32 = 6000;
/// Less than half of it, and much for a slow machine.
const SOON_MS: u32 = 2500;

const IGNORED: &str = "burst_prefix_cache.ignored_hints_total";

async fn start(window_ms: u32) -> Envoy {
    let config = Config::shipped(&responder::start()).plugin(window_ms, &[]);
    Envoy::start(config.text(), &[]).await
}

/// A request, and its body.
type Hinted = (Vec<u8>, String);

/// Sends all at once, each over a connection of its own; what comes after the first `lead` is not
/// sent before those are held.
async fn burst_after(envoy: &Envoy, lead: usize, requests: &[Hinted]) -> Vec<Answer> {
    let mut waiting = Vec::new();
    for (place, (bytes, _)) in requests.iter().enumerate() {
        if lead > 0 && place == lead {
            let active = "http.llm.downstream_rq_active";
            envoy.await_stat(active, lead as u64).await;
            // The bodies came with the headers; a moment, should one have come behind.
            sleep(Duration::from_millis(200)).await;
        }
        let mut connection = envoy.connect().await;
        connection.write(bytes).await;
        waiting.push(tokio::spawn(connection.answer()));
    }
    let mut answers = Vec::new();
    for (answer, (_, body)) in waiting.into_iter().zip(requests) {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.assert_arrived(body.as_bytes());
        for name in [SIZE, ID] {
            assert_eq!(answer.seen(name), None, "the replica got it");
        }
        answers.push(answer);
    }
    answers
}

async fn burst(envoy: &Envoy, requests: &[Hinted]) -> Vec<Answer> {
    burst_after(envoy, 0, requests).await
}

/// A sample of a prompt, with these hints.
fn hinted(name: &str, seed: usize, hints: &[(&str, &[u8])]) -> Hinted {
    let body = sample(TEXT, name, seed);
    let mut bytes = head("POST", TEXT, &[]).into_bytes();
    for (name, value) in hints {
        bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    (bytes, body)
}

/// The count of ignored hints; there is none before the first.
async fn ignored(envoy: &Envoy) -> u64 {
    let page = envoy.page(&format!("/stats?filter={IGNORED}")).await;
    let values = page.lines().filter_map(|line| line.split_once(": "));
    values.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn a_window_closes_when_all_its_groups_are_complete() {
    let envoy = start(WINDOW_MS).await;
    let mut requests = Vec::new();
    for seed in 0..8 {
        requests.push(hinted("eight", seed, &[(SIZE, b"8")]));
    }
    for seed in 0..4 {
        requests.push(hinted("four", seed, &[(SIZE, b"4")]));
    }
    let answers = burst(&envoy, &requests).await;
    for (place, (answer, (_, body))) in answers.iter().zip(&requests).enumerate() {
        assert_held(&envoy, answer, body, SOON_MS);
        let group = if place < 8 { 8 } else { 4 };
        assert_eq!(outcome(answer), format!("assigned;group={group}"));
    }
    assert_eq!(ignored(&envoy).await, 0);
    assert_eq!(envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_group_with_a_member_missing_waits_and_so_does_its_window() {
    let envoy = start(WINDOW_MS).await;
    let mut requests = Vec::new();
    for seed in 0..7 {
        requests.push(hinted("eight", seed, &[(SIZE, b"8")]));
    }
    for seed in 0..2 {
        requests.push(hinted("two", seed, &[(SIZE, b"2")]));
    }
    let answers = burst_after(&envoy, 7, &requests).await;
    for (answer, (_, body)) in answers.iter().zip(&requests) {
        assert_held(&envoy, answer, body, WINDOW_MS);
        let wait = wait_ms(answer).unwrap();
        assert!(wait > u64::from(SOON_MS), "{answer:?}");
    }
    assert_eq!(outcome(&answers[0]), "assigned;group=7");
    assert_eq!(envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn sizes_that_make_no_sense_are_ignored_and_counted() {
    let envoy = start(WINDOW_MS).await;
    let sizes: &[&[(&str, &[u8])]] = &[
        &[(SIZE, b"0")],
        &[(SIZE, b"-1")],
        &[(SIZE, b"+1")],
        &[(SIZE, b"1.0")],
        &[(SIZE, b"1;x")],
        &[(SIZE, b"eight")],
        &[(SIZE, b"18446744073709551616")],
        &[(SIZE, b"4294967297")],
        &[(SIZE, b"")],
        &[(SIZE, b"\xd9\xa1")],
        &[(SIZE, b"1"), (SIZE, b"1")],
        &[("X-Burst-Group-SIZE", b"1"), (SIZE, b"")],
    ];
    let mut requests: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(place, hints)| hinted(&format!("prompt-{place}"), 0, hints))
        .collect();
    // A sensible one does not close the window of those whose sizes nobody knows.
    requests.push(hinted("sensible", 0, &[(SIZE, b"1")]));
    let answers = burst_after(&envoy, sizes.len(), &requests).await;
    for (answer, (_, body)) in answers.iter().zip(&requests) {
        assert_held(&envoy, answer, body, WINDOW_MS);
        assert_eq!(outcome(answer), "alone", "{answer:?}");
        let wait = wait_ms(answer).unwrap();
        assert!(wait > u64::from(SOON_MS), "{answer:?}");
    }
    let answers = burst(&envoy, &[hinted("by itself", 0, &[(SIZE, b"1")])]).await;
    assert!(
        wait_ms(&answers[0]).unwrap() < u64::from(SOON_MS),
        "a sensible one counts"
    );
    assert_eq!(ignored(&envoy).await, sizes.len() as u64);
    assert_eq!(envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn names_that_make_no_sense_are_ignored_and_counted() {
    let envoy = start(3000).await;
    let long = [b'x'; 257];
    let ids: &[&[(&str, &[u8])]] = &[
        &[(ID, b"")],
        &[(ID, &long)],
        &[(ID, b"a\tb")],
        &[(ID, b"\xc3\xa9")],
        &[(ID, b"one"), (ID, b"one")],
        &[("X-Burst-Group-ID", b"one"), (ID, b"")],
    ];
    let mut requests = Vec::new();
    for (place, hints) in ids.iter().enumerate() {
        for seed in 0..2 {
            // Not the same prompt, but the same name.
            requests.push(hinted(&format!("prompt-{place}-{seed}"), 0, hints));
        }
    }
    for answer in burst(&envoy, &requests).await {
        assert_eq!(outcome(&answer), "alone", "{answer:?}");
    }
    assert_eq!(ignored(&envoy).await, requests.len() as u64);
    assert_eq!(envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn different_prompts_of_one_name_land_together() {
    let envoy = start(3000).await;
    let long = [b'x'; 256];
    let names: [&[u8]; 4] = [b"one", b"two", b"a name, with everything \"in\" it", &long];
    let mut requests = Vec::new();
    for (group, id) in names.iter().enumerate() {
        for seed in 0..4 {
            let prompt = format!("prompt-{group}-{seed}");
            requests.push(hinted(&prompt, seed, &[(ID, id)]));
        }
    }
    let answers = burst(&envoy, &requests).await;
    let mut homes = BTreeSet::new();
    for (place, answer) in answers.iter().enumerate() {
        assert_eq!(outcome(answer), "assigned;group=4", "{answer:?}");
        homes.insert((place / 4, answer.served_by()));
    }
    assert_eq!(homes.len(), 4, "{homes:?}");
    assert_eq!(ignored(&envoy).await, 0);
    assert_eq!(envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn equal_prompts_of_different_names_are_different_groups() {
    let envoy = start(3000).await;
    let mut requests = Vec::new();
    for seed in 0..12 {
        let hints: &[(&str, &[u8])] = match seed % 3 {
            0 => &[(ID, b"one")],
            1 => &[(ID, b"two")],
            _ => &[],
        };
        requests.push(hinted("prompt", seed, hints));
    }
    let answers = burst(&envoy, &requests).await;
    let mut homes = BTreeSet::new();
    for (place, answer) in answers.iter().enumerate() {
        assert_eq!(outcome(answer), "assigned;group=4", "{answer:?}");
        homes.insert((place % 3, answer.served_by()));
    }
    assert_eq!(homes.len(), 3, "{homes:?}");
    assert_eq!(envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn hints_are_removed_where_they_are_not_for_the_filter_too() {
    let envoy = start(20).await;
    let hints = [(SIZE, "8"), (ID, "one"), ("X-BURST-group-id", "two")];
    for (method, path) in [
        ("POST", "/v1/embeddings"),
        ("PUT", TEXT),
        ("POST", "/"),
        ("POST", TEXT),
    ] {
        let mut connection = envoy.connect().await;
        let request = request(method, path, &hints, "{");
        let answer = connection.exchange(&request).await;
        assert_eq!(answer.status, 200, "{method} {path}");
        assert!(
            answer.decision().starts_with("skipped;reason="),
            "{answer:?}"
        );
        for name in [SIZE, ID] {
            assert_eq!(answer.seen(name), None, "{method} {path}");
        }
    }
    assert_eq!(envoy.faults(), [""; 0]);
}
