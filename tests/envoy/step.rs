//! A rollout step whose requests do not come all at once: 32 problems with 8 samples each, within
//! 0.86 s, in any order.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fleet::{Fleet, QUICK};
use crate::http1::post;
use crate::prompts::CHAT;
use crate::spread::{Homes, Timed, median, spread};
use crate::verdict::{outcome, wait_ms};

/// How long the requests keep coming.
const OVER: Duration = Duration::from_millis(860);
/// 50 ms for each of 7 tokens after the first: 350 ms a request, however many there are.
const TAKES_A_WHILE: [&str; 4] = [
    "--prefill-us-per-token",
    "0",
    "--decode-us-per-token",
    "50000",
];
/// Far longer than the step.
const MEMORY: (&str, u32) = ("groupMemoryMs", 60_000);

/// The step's bodies, and what tells their problems apart. Bodies of different rounds share
/// nothing.
fn bodies(round: usize) -> Vec<(String, String)> {
    let lines = include_str!("../prompts/rl_humaneval_chat_seeded_32x8.jsonl").lines();
    let salted = |line| {
        let mut body: Value = serde_json::from_str(line).unwrap();
        body["cache_salt"] = json!(format!("round-{round}"));
        (body["messages"].to_string(), body.to_string())
    };
    lines.map(salted).collect()
}

/// Where the problems' samples went: together, and each request to where it was sent.
fn homes<'a>(problems: &'a [(String, String)], answers: &'a [Timed]) -> Homes<'a> {
    let mut homes = Homes::default();
    for ((problem, body), timed) in problems.iter().zip(answers) {
        let answer = &timed.answer;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.assert_arrived(body.as_bytes());
        let endpoint = answer.seen("x-gateway-destination-endpoint");
        assert_eq!(endpoint, Some(answer.served_by()), "{answer:?}");
        homes.add(problem, answer.served_by());
    }
    assert_eq!(homes.groups(), 32);
    let (together, busiest) = (homes.together(), homes.busiest());
    println!("together: {together:.4}, busiest replica: {busiest:.3} x its share");
    assert!(together >= 0.99, "{together} went with their group");
    homes
}

fn assert_shared_out(homes: &Homes) {
    let busiest = homes.busiest();
    assert!(busiest <= 1.3, "{busiest} x its share");
}

async fn in_windows(replica_options: &[&str]) {
    let fields = [(MEMORY.0, json!(MEMORY.1))];
    let fleet = Fleet::with(replica_options, &[], |config| config.plugin(50, &fields)).await;
    let problems = bodies(0);
    let requests: Vec<_> = problems
        .iter()
        .map(|(_, body)| (fleet.envoy.address, post(CHAT, body)))
        .collect();
    let answers = spread(&requests, OVER, 11).await;
    assert_shared_out(&homes(&problems, &answers));
    let waits = answers.iter().map(|timed| wait_ms(&timed.answer).unwrap());
    let (most, wait) = (waits.clone().max(), median(waits));
    println!("median wait: {wait} ms, longest: {most:?} ms");
    assert!(wait <= 15, "the median wait is {wait} ms");
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_step_that_trickles_into_short_windows_stays_together() {
    in_windows(&QUICK).await;
}

#[tokio::test]
async fn a_step_that_trickles_into_short_windows_stays_together_on_busy_replicas() {
    in_windows(&TAKES_A_WHILE).await;
}

/// The most that the filter may add at the median.
const MOST_ADDED: Duration = Duration::from_millis(2);
/// The machine may be busy with something else; the filter is as fast as its best round.
const ROUNDS: usize = 4;

/// Each request goes through Envoy twice, with the filter and without, interleaved.
async fn at_once(replica_options: &[&str]) {
    let fields = [(MEMORY.0, json!(MEMORY.1)), ("hold", json!("none"))];
    let fleet = Fleet::with(replica_options, &[], |config| {
        config.plugin(50, &fields).and_plain()
    })
    .await;
    let plain = fleet.envoy.listener("plain").await;
    let mut added = Vec::new();
    let steps: Vec<_> = (0..ROUNDS).map(bodies).collect();
    let mut answered = Vec::new();
    for (round, problems) in steps.iter().enumerate() {
        let filtered = problems
            .iter()
            .map(|(_, body)| (fleet.envoy.address, post(CHAT, body)));
        let unfiltered = problems.iter().map(|(_, body)| (plain, post(CHAT, body)));
        let requests: Vec<_> = filtered.chain(unfiltered).collect();
        let mut answers = spread(&requests, OVER, round as u64).await;
        let unfiltered = answers.split_off(problems.len());
        let homes = homes(problems, &answers);
        // What a step brought to a replica still counts in the next one: all of them together are
        // shared out, and the first one by itself.
        if round == 0 {
            assert_shared_out(&homes);
        }
        let mut first = 0;
        for Timed { answer, .. } in &answers {
            assert_eq!(wait_ms(answer), Some(0), "{answer:?}");
            first += usize::from(outcome(answer) == "assigned;group=1");
            let remembered = outcome(answer).starts_with("remembered;group=");
            assert!(
                remembered || outcome(answer) == "assigned;group=1",
                "{answer:?}"
            );
        }
        assert_eq!(first, 32, "one of each problem");
        for Timed { answer, .. } in &unfiltered {
            assert_eq!((answer.status, answer.decision()), (200, ""), "{answer:?}");
        }
        let with = median(answers.iter().map(|timed| timed.took));
        let without = median(unfiltered.iter().map(|timed| timed.took));
        println!("round {round}: {with:?} with the filter, {without:?} without");
        added.push(with.saturating_sub(without));
        answered.push(answers);
    }
    let mut all = Homes::default();
    for (problems, answers) in steps.iter().zip(&answered) {
        for ((problem, _), timed) in problems.iter().zip(answers) {
            all.add(problem, timed.answer.served_by());
        }
    }
    assert_shared_out(&all);
    assert!(added.iter().min().unwrap() <= &MOST_ADDED, "{added:?}");
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_step_that_nobody_holds_stays_together_and_loses_no_time() {
    at_once(&QUICK).await;
}

#[tokio::test]
async fn a_step_that_nobody_holds_stays_together_on_busy_replicas() {
    at_once(&TAKES_A_WHILE).await;
}
