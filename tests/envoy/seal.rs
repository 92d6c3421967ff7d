//! Rollout steps that are larger than a batch: a full one closes its window, and whoever comes
//! after it follows what was placed.

use serde_json::json;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::fleet::LONG_MS;
use crate::http1::{Answer, Connection, post};
use crate::http2::{Client, whole};
use crate::prompts::{TEXT, sample};
use crate::responder;
use crate::spread::Homes;
use crate::verdict::{assert_held, outcome};

/// For each batch to come in, on a slow machine: only the last window is not closed by its size.
const WINDOW_MS: u32 = 2 * LONG_MS;
const SAMPLES: usize = 8;

async fn start() -> Envoy {
    let fields = [
        ("maxBatchSize", json!(1000)),
        ("onBatchFull", json!("seal")),
        ("groupMemoryMs", json!(60_000)),
    ];
    // All replicas are on one thread here, and take their time to accept thousands.
    let config = Config::shipped(&responder::start())
        .plugin(WINDOW_MS, &fields)
        .connect_timeout(60);
    Envoy::start(config.text(), &[]).await
}

/// A step, shuffled: for each request the group that it is of, and its body.
fn step(groups: usize) -> Vec<(String, String)> {
    let mut step: Vec<_> = (0..groups * SAMPLES)
        .map(|place| {
            let name = format!("group-{}", place % groups);
            let body = sample(TEXT, &name, place / groups);
            (name, body)
        })
        .collect();
    fastrand::Rng::with_seed(groups as u64).shuffle(&mut step);
    step
}

async fn check(envoy: &Envoy, step: &[(String, String)], answers: &[Answer]) {
    let mut homes = Homes::default();
    assert_eq!(answers.len(), step.len());
    let (mut remembered, mut late) = (0, 0);
    for ((group, body), answer) in step.iter().zip(answers) {
        assert_held(envoy, answer, body, WINDOW_MS);
        let follows = outcome(answer).starts_with("remembered;group=");
        let placed = outcome(answer).starts_with("assigned;group=");
        // A worker that is not let run for long loses its window; who was in it may be late.
        let is_late = outcome(answer) == "timed-out";
        assert!(follows || placed || is_late, "{answer:?}");
        remembered += usize::from(follows);
        late += usize::from(is_late);
        let replica = if is_late { "none" } else { answer.served_by() };
        homes.add(group, replica);
    }
    let (together, busiest) = (homes.together(), homes.busiest());
    println!(
        "{} requests: together: {together:.4}, busiest replica: {busiest:.3} x its share, \
         {remembered} remembered, {late} timed out",
        step.len()
    );
    assert_eq!(homes.groups(), step.len() / SAMPLES);
    assert!(together >= 0.99, "{together} went with their group");
    assert!(busiest <= 1.3, "{busiest} x its share");
    let turned_away = envoy.page("/stats?filter=batch-full").await;
    assert!(!turned_away.contains("batch-full"), "{turned_away}");
    assert_eq!(envoy.faults(), [""; 0]);
    assert_eq!(envoy.stat("vm_reload").await, 0);
}

#[tokio::test]
async fn a_step_of_two_batches_is_placed_whole() {
    let envoy = start().await;
    let step = step(256);
    let mut connections = Vec::with_capacity(step.len());
    for _ in &step {
        connections.push(Connection::open(envoy.address).await);
    }
    let mut waiting = Vec::with_capacity(step.len());
    for (mut connection, (_, body)) in connections.into_iter().zip(&step) {
        connection.write(post(TEXT, body)).await;
        waiting.push(tokio::spawn(connection.answer()));
    }
    let mut answers = Vec::with_capacity(step.len());
    for answer in waiting {
        answers.push(answer.await.unwrap());
    }
    check(&envoy, &step, &answers).await;
}

/// As streams: as many connections, to Envoy and from it, are more files than most may open.
#[tokio::test]
async fn a_step_of_ten_batches_is_placed_whole() {
    let envoy = start().await;
    let step = step(1250);
    let mut clients = Vec::new();
    for _ in 0..125 {
        clients.push(Client::open(envoy.address).await);
    }
    let clients = clients.iter().cycle();
    let waiting: Vec<_> = step
        .iter()
        .zip(clients)
        .map(|((_, body), client)| tokio::spawn(client.clone().post(TEXT, whole(body))))
        .collect();
    let mut answers = Vec::with_capacity(step.len());
    for answer in waiting {
        answers.push(answer.await.unwrap());
    }
    check(&envoy, &step, &answers).await;
}
