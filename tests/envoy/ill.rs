//! Replicas that die or answer errors while bursts go on.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::config::Config;
use crate::discovered::{Discovered, REPLICAS, burst};
use crate::fleet::{self, keep_silent};
use crate::http1::Answer;
use crate::prompts::TEXT;

const ENDPOINT: &str = "x-gateway-destination-endpoint";

/// Generations that last, so that some are under way at any time.
const BUSY: [&str; 4] = [
    "--prefill-us-per-token",
    "0",
    "--decode-us-per-token",
    "50000",
];

/// What Envoy retries: with the shipped conditions, what runs on a replica that dies is lost.
const RETRY_ON: &str = "connect-failure,refused-stream,reset";

/// How far a test has come, and what was answered to what was sent since when.
#[derive(Default)]
struct Load {
    phase: Cell<usize>,
    answers: RefCell<Vec<(usize, Answer)>>,
}

const OVER: usize = 9;

impl Load {
    /// One burst after the other until it is over.
    async fn run(&self, name: &str, to: SocketAddr) {
        let mut number = 0;
        while self.phase.get() < OVER {
            let phase = self.phase.get();
            let requests = burst(TEXT, &format!("{name}-{number}"), 4);
            let answers = fleet::burst(to, &requests).await;
            let answers = answers.into_iter().map(|answer| (phase, answer));
            self.answers.borrow_mut().extend(answers);
            number += 1;
        }
    }

    /// What was sent in this phase or later.
    fn since(&self, phase: usize) -> Vec<Answer> {
        let answers = self.answers.take();
        let (since, before) = answers.into_iter().partition(|(at, _)| *at >= phase);
        self.answers.replace(before);
        let since: Vec<(usize, Answer)> = since;
        since.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn await_answers(&self, phase: usize, count: usize) {
        let of_phase = || {
            let answers = self.answers.borrow();
            answers.iter().filter(|(at, _)| *at == phase).count()
        };
        while of_phase() < count {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// That Envoy's view of the replica says so.
async fn await_flag(started: &Discovered, address: &str, flag: &str) {
    let line = format!("replicas::{address}::health_flags::");
    loop {
        let page = started.fleet.envoy.page("/clusters").await;
        let flags = page.lines().find_map(|l| l.strip_prefix(&line)).unwrap();
        if flags.contains(flag) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_replica_that_dies_gets_nothing_from_two_refreshes_after_envoy_knows_it() {
    let change = |config: Config| {
        let check = json!({
            "timeout": "2s",
            "interval": "0.1s",
            "no_traffic_interval": "0.1s",
            "unhealthy_threshold": 2,
            "healthy_threshold": 1,
            "http_health_check": {"path": "/health"},
        });
        let config = config.plugin(100, &[]).retry_on(RETRY_ON);
        config
            .of_replicas(&json!({"health_checks": [check]}))
            .and_plain()
    };
    let started = Discovered::unanswered("replicas", &BUSY, change).await;
    started.answer();
    started.known(4).await;
    let plain = started.fleet.envoy.listener("plain").await;
    let victim = &started.fleet.replicas[1];
    let (filtered, unfiltered) = (Load::default(), Load::default());
    let phase = |phase| {
        filtered.phase.set(phase);
        unfiltered.phase.set(phase);
    };
    let story = async {
        filtered.await_answers(0, 64).await;
        unfiltered.await_answers(0, 64).await;
        phase(1);
        // While some of them run there.
        while victim.metric("vllm:num_requests_running{}") == 0.0 {
            sleep(Duration::from_millis(1)).await;
        }
        let id = victim.child.id().to_string();
        let killed = Command::new("kill").args(["-9", &id]).status().unwrap();
        assert!(killed.success());
        let silent = keep_silent(&victim.address).await;
        await_flag(&started, &victim.address, "failed_active_hc").await;
        started.refreshed().await;
        phase(2);
        filtered.await_answers(2, 160).await;
        phase(OVER);
        silent
    };
    let _all = tokio::join!(
        filtered.run("with", started.fleet.envoy.address),
        filtered.run("with too", started.fleet.envoy.address),
        unfiltered.run("without", plain),
        unfiltered.run("without too", plain),
        story,
    );
    for answer in filtered.since(2) {
        let endpoint = answer.seen(ENDPOINT);
        let placed = answer.decision().starts_with("assigned;group=4;");
        assert!(placed, "{answer:?}");
        assert_ne!(endpoint, Some(victim.address.as_str()), "{answer:?}");
        assert_eq!(endpoint, Some(answer.served_by()));
    }
    let errors = |load: &Load| {
        let mut answers = load.since(0);
        answers.retain(|answer| answer.status != 200);
        answers
    };
    let (with, without) = (errors(&filtered), errors(&unfiltered));
    assert!(with.len() <= without.len(), "{with:?}, {without:?}");
    assert_eq!(started.faults(), [""; 0]);
}

#[tokio::test]
async fn a_replica_that_answers_errors_is_no_candidate_until_its_ejection_is_over() {
    let change = |config: Config| {
        let detection = json!({
            "consecutive_5xx": 3,
            "interval": "0.2s",
            "base_ejection_time": "8s",
            "max_ejection_time": "8s",
            "max_ejection_time_jitter": "0s",
            "max_ejection_percent": 50,
            "enforcing_success_rate": 0,
            "enforcing_failure_percentage": 0,
        });
        let config = config.plugin(200, &[]);
        config.of_replicas(&json!({"outlier_detection": detection}))
    };
    let (started, wires) = Discovered::of_wires("replicas", change).await;
    started.known(4).await;
    let names: Vec<String> = wires.iter().map(|wire| wire.address.clone()).collect();
    started.homes("well", 4, &names).await;

    wires[2].say(500, "");
    let mut bursts = 0;
    let envoy = &started.fleet.envoy;
    while envoy.value(REPLICAS).await == Some(4) {
        let requests = burst(TEXT, &format!("ill-{bursts}"), 4);
        started.fleet.burst(&requests).await;
        bursts += 1;
    }
    started.known(3).await;
    await_flag(&started, &names[2], "failed_outlier_check").await;
    let others = [&names[..2], &names[3..]].concat();
    let homes = started.homes("others", 6, &others).await;
    assert!(!homes.contains(&names[2]), "{homes:?}");

    wires[2].say(200, "");
    started.known(4).await;
    let homes = started.homes("again", 4, &names).await;
    assert!(homes.contains(&names[2]), "{homes:?}");
    assert_eq!(started.faults(), [""; 0]);
}
