//! The recommended configurations: a real Envoy takes them, the filter works there, and what users
//! copy from them is what `envoy/envoy.yaml` has.

use std::time::Duration;

use tokio::time::sleep;

use crate::config::{Config, RL, SERVING, SHIPPED};
use crate::envoy::Envoy;
use crate::http1::{Answer, post};
use crate::prompts::{CHAT, sample};
use crate::responder;

/// What stands before and after the values that each file has of its own.
const VALUES: (&str, &str) = (
    "                  value:\n",
    "                    # Envoy's own hosts of the cluster below",
);

#[test]
fn recommended_files_differ_from_the_shipped_one_in_the_filters_values_only() {
    let rest = |file: &str| {
        let (_, file) = file.split_once("\nadmin:\n").unwrap();
        let (before, after) = file.split_once(VALUES.0).unwrap();
        let (_, after) = after.split_once(VALUES.1).unwrap();
        [before, after].concat()
    };
    for file in [RL, SERVING] {
        similar(&rest(SHIPPED), &rest(file));
    }
}

/// Tells the first line that is not the same.
fn similar(one: &str, other: &str) {
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(one, other);
}

/// The answers to four samples of one prompt, each sent when the one before was answered: the
/// first decides.
async fn samples(file: &str) -> Vec<Answer> {
    let config = Config::of(file, &responder::start());
    let envoy = Envoy::start(config.text(), &[]).await;
    let mut answers = Vec::new();
    for seed in 0..4 {
        answers.push(envoy.ask(&post(CHAT, sample(CHAT, "one", seed))).await);
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(envoy.faults(), [""; 0]);
    answers
}

/// The first is decided so; the others follow it at once.
fn assert_followed(answers: &[Answer], first: &str) {
    let chosen = answers[0].seen("x-gateway-destination-endpoint");
    assert!(chosen.is_some(), "{answers:?}");
    for (place, answer) in (1..).zip(answers) {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.seen("x-gateway-destination-endpoint"), chosen);
        let decision = answer.decision();
        if place == 1 {
            assert!(decision.starts_with(first), "{answer:?}");
        } else {
            let told = format!("remembered;group={place}");
            assert!(decision.starts_with(&told), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn rl_yaml_holds_the_first_of_a_group_and_the_others_follow() {
    assert_followed(&samples(RL).await, "assigned;group=1;wait=");
}

#[tokio::test]
async fn serving_yaml_holds_nobody() {
    let answers = samples(SERVING).await;
    assert_followed(&answers, "assigned;group=1");
    let waits = answers
        .iter()
        .filter(|answer| answer.decision().contains("wait="));
    let waits = waits.filter(|answer| !answer.decision().ends_with("wait=0"));
    assert_eq!(waits.count(), 0, "{answers:?}");
}
