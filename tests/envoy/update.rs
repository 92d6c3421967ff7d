//! A new configuration comes while requests are held under the old one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::fleet::{Fleet, LONG_MS, QUICK, addresses};
use crate::http1::{Answer, Connection, post};
use crate::prompts::{TEXT, sample};
use crate::replica::Replica;
use crate::verdict::{assert_held, outcome};
use crate::watched::{NODE, Watched};

const ACTIVE: &str = "http.llm.downstream_rq_active";
/// The old listener's connections live this long after an update; longer than any window.
const DRAIN: [&str; 2] = ["--drain-time-s", "20"];
const NEW_MS: u32 = 1000;

/// A fleet whose listener can be changed.
struct Changing {
    fleet: Fleet,
    file: Watched,
}

impl Changing {
    async fn start(name: &str, window_ms: u32) -> Self {
        let replicas: Vec<Replica> = (0..4).map(|_| Replica::start(&QUICK)).collect();
        let config = || Config::shipped(&addresses(&replicas)).plugin(window_ms, &[]);
        let file = Watched::create(name, &config().listeners_file());
        let config = config().watching(&file.path());
        let envoy = Envoy::start(config.text(), &[&DRAIN[..], &NODE].concat()).await;
        let fleet = Fleet { envoy, replicas };
        Self { fleet, file }
    }

    /// Moves another configuration into place, and waits until Envoy goes by it.
    async fn update(&self, change: impl FnOnce(Config) -> Config) {
        let config = change(Config::shipped(&self.fleet.names()));
        let updates = "listener_manager.listener_modified";
        let before = self.fleet.envoy.stat(updates).await;
        self.file.put(&config.listeners_file());
        self.fleet.envoy.await_stat(updates, before + 1).await;
        let warming = "listener_manager.total_listeners_warming";
        self.fleet.envoy.await_stat(warming, 0).await;
        // For the workers to hear of it.
        sleep(Duration::from_millis(200)).await;
    }
}

/// Requests of a group, sent and not answered yet.
async fn hold(fleet: &Fleet, name: &str, count: usize) -> Vec<(String, Connection)> {
    let mut sent = Vec::new();
    for seed in 0..count {
        let body = sample(TEXT, name, seed);
        let mut connection = fleet.envoy.connect().await;
        connection.write(post(TEXT, &body)).await;
        sent.push((body, connection));
    }
    sent
}

/// That all are answered by their window. The old listener's connections are closed late, as
/// Envoy drains them; their answers are not.
async fn check(
    fleet: &Fleet,
    sent: Vec<(String, Connection)>,
    window_ms: u32,
    expected: &str,
) -> Vec<Answer> {
    let mut answers = Vec::new();
    for (body, connection) in sent {
        let answer = connection.answer().await;
        assert_held(&fleet.envoy, &answer, &body, window_ms);
        assert_eq!(outcome(&answer), expected, "{answer:?}");
        answers.push(answer);
    }
    answers
}

#[tokio::test]
async fn what_is_held_under_the_old_configuration_is_answered_by_it() {
    let changing = Changing::start("update", LONG_MS).await;
    let fleet = &changing.fleet;
    let old = hold(fleet, "one", 40).await;
    fleet.envoy.await_stat(ACTIVE, 40).await;
    sleep(Duration::from_millis(200)).await;

    let fields = [("maxPerReplica", json!(5))];
    changing
        .update(|config| config.plugin(NEW_MS, &fields))
        .await;
    assert_eq!(fleet.envoy.stat(ACTIVE).await, 40, "in mid-window");
    // The same prompt, in a window of its own.
    let new = hold(fleet, "one", 20).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for answer in check(fleet, new, NEW_MS, "assigned;group=20").await {
        *counts.entry(answer.served_by().to_owned()).or_default() += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [5, 5, 5, 5]);
    check(fleet, old, LONG_MS, "assigned;group=40").await;
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn windows_outlast_changes_that_do_not_concern_them() {
    let window_ms = 2 * LONG_MS;
    let changing = Changing::start("unconcerned", window_ms).await;
    let fleet = &changing.fleet;
    let mut sent = hold(fleet, "one", 10).await;
    // Another listener with the same plugin, another plugin, and the first one again.
    let same = |config: Config| config.plugin(window_ms, &[]);
    changing
        .update(|config| same(config).idle_timeout(200))
        .await;
    sent.extend(hold(fleet, "one", 10).await);
    changing.update(|config| config.plugin(NEW_MS, &[])).await;
    let other = hold(fleet, "one", 10).await;
    changing.update(same).await;
    sent.extend(hold(fleet, "one", 10).await);
    check(fleet, other, NEW_MS, "assigned;group=10").await;
    check(fleet, sent, window_ms, "assigned;group=30").await;
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn what_is_remembered_outlasts_changes_that_do_not_concern_it() {
    let fields = [("groupMemoryMs", json!(60_000))];
    let same = |config: Config| config.plugin(NEW_MS, &fields);
    let changing = Changing::start("remembered", NEW_MS).await;
    let fleet = &changing.fleet;
    changing.update(same).await;
    let sent = hold(fleet, "one", 10).await;
    let placed = check(fleet, sent, NEW_MS, "assigned;group=10").await;
    let home = placed[0].served_by();
    // Another listener with the same plugin; some are held meanwhile, of another group.
    let held = hold(fleet, "two", 10).await;
    changing
        .update(|config| same(config).idle_timeout(200))
        .await;
    for place in 11..16 {
        let sent = hold(fleet, "one", 1).await;
        let expected = format!("remembered;group={place}");
        let followed = check(fleet, sent, 0, &expected).await;
        assert_eq!(followed[0].served_by(), home);
    }
    check(fleet, held, NEW_MS, "assigned;group=10").await;
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn nothing_is_lost_while_the_memory_is_configured_anew() {
    let plugin = |config: Config, memory_ms: u32| {
        config.plugin(LONG_MS, &[("groupMemoryMs", json!(memory_ms))])
    };
    let changing = Changing::start("anew", LONG_MS).await;
    let fleet = &changing.fleet;
    for (round, memory_ms) in [60_000, 0, 50_000].into_iter().enumerate() {
        // Held under the configuration before, answered by it.
        let name = format!("held-{round}");
        let held = hold(fleet, &name, 20).await;
        changing.update(|config| plugin(config, memory_ms)).await;
        let followers = hold(fleet, &name, 5).await;
        let mut answers = Vec::new();
        for (body, connection) in held.into_iter().chain(followers) {
            let answer = connection.answer().await;
            assert_held(&fleet.envoy, &answer, &body, LONG_MS);
            assert!(outcome(&answer).starts_with("assigned;"), "{answer:?}");
            answers.push(answer);
        }
        assert_eq!(outcome(&answers[0]), "assigned;group=20");
        assert_eq!(outcome(&answers[20]), "assigned;group=5");
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
