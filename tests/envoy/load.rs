//! What is in flight counts, over all workers and from one window to the next, and no longer than
//! it lasts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::http1::{Answer, Connection, post, request};
use crate::prompts::{TEXT, sample, text};
use crate::verdict::outcome;
use crate::workers::{Connections, WORKERS, connect_each};

/// A token every tenth of a second.
const SLOW: [&str; 4] = [
    "--prefill-us-per-token",
    "0",
    "--decode-us-per-token",
    "100000",
];
/// What was placed lately counts too; by half of this it fades to a half.
const MEMORY_MS: u32 = 1000;
/// After this long nothing is left of what this many requests were lately.
const FADED: Duration = Duration::from_millis(3000);
const MEMBERS: usize = 12;
const ACTIVE: &str = "http.llm.downstream_rq_active";
const ENDPOINT: &str = "x-gateway-destination-endpoint";

/// A request of a group that generates so many tokens, ten a second.
fn long(name: &str, seed: usize, tokens: usize) -> Vec<u8> {
    let body = json!({
        "prompt": text(name, 300), "stream": true, "max_tokens": tokens, "seed": seed,
    });
    post(TEXT, body.to_string())
}

/// Sends over these connections, and tells where each request was sent to; the answers go on.
async fn begin(connections: &mut [Connection], requests: &[Vec<u8>]) -> Vec<String> {
    let mut endpoints = Vec::new();
    for (connection, request) in connections.iter_mut().zip(requests) {
        connection.write(request).await;
    }
    for connection in connections.iter_mut().take(requests.len()) {
        let answer = connection.begin().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        endpoints.push(answer.seen(ENDPOINT).unwrap().to_owned());
    }
    endpoints
}

fn all_on_one(endpoints: &[String]) -> String {
    let different: BTreeSet<&String> = endpoints.iter().collect();
    assert_eq!(different.len(), 1, "{endpoints:?}");
    endpoints[0].clone()
}

/// A group with many members in flight, which all came through one worker.
struct Busy {
    fleet: Fleet,
    replica: String,
    members: Connections,
    /// Connections to each worker.
    others: [Connections; WORKERS],
}

impl Busy {
    async fn start(fields: &[(&str, Value)], window_ms: u32, tokens: usize) -> Self {
        let fleet = Fleet::with(&SLOW, &[], |config| {
            config.plugin(window_ms, fields).trapping()
        })
        .await;
        let mut others = connect_each(&fleet.envoy, MEMBERS + 4).await;
        let mut members: Connections = others[0].drain(..MEMBERS).collect();
        let requests: Vec<_> = (0..MEMBERS)
            .map(|seed| long("busy", seed, tokens))
            .collect();
        let replica = all_on_one(&begin(&mut members, &requests).await);
        sleep(FADED).await;
        Self {
            fleet,
            replica,
            members,
            others,
        }
    }

    /// A short request through a worker.
    async fn ask(&mut self, worker: usize, name: &str, seed: usize) -> Answer {
        let mut connection = self.others[worker].pop().unwrap();
        connection.write(post(TEXT, sample(TEXT, name, seed))).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    async fn assert_busy(&self) {
        let active = self.fleet.envoy.stat(ACTIVE).await;
        assert_eq!(active, self.members.len() as u64, "still in flight");
    }

    /// That the load is gone: of as many requests as there are replicas, in flight at once, one
    /// goes to the replica again. In a moment, or within what a dead worker takes.
    async fn assert_freed(&self, within: Duration) {
        self.fleet.envoy.await_stat(ACTIVE, 0).await;
        let (since, starved) = (Instant::now(), self.fleet.envoy.starved_ms());
        for attempt in 0.. {
            let begun = since.elapsed();
            let mut connections: Connections = Vec::new();
            for _ in 0..4 {
                connections.push(self.fleet.envoy.connect().await);
            }
            let mut endpoints = Vec::new();
            for (place, connection) in connections.chunks_mut(1).enumerate() {
                let request = long(&format!("probe-{attempt}-{place}"), 0, 100_000);
                endpoints.extend(begin(connection, &[request]).await);
            }
            drop(connections);
            if endpoints.contains(&self.replica) {
                println!("free again after {begun:?}");
                return;
            }
            let excuse = Duration::from_millis(self.fleet.envoy.starved_ms() - starved);
            assert!(begun <= within + excuse, "{endpoints:?} after {begun:?}");
            self.fleet.envoy.await_stat(ACTIVE, 0).await;
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn unheld() -> [(&'static str, Value); 2] {
    [("hold", json!("none")), ("groupMemoryMs", json!(MEMORY_MS))]
}

/// What happens to the members in mid-response.
enum End {
    /// They come to their end.
    Whole,
    /// Their clients leave.
    Left,
    /// Their replica dies.
    Reset,
}

async fn busy_until(end: End) {
    let tokens = match end {
        End::Whole => 100,
        _ => 100_000,
    };
    let mut busy = Busy::start(&unheld(), 100, tokens).await;
    for round in 0..3 {
        for worker in 0..WORKERS {
            let answer = busy.ask(worker, &format!("{round}-{worker}"), 0).await;
            assert_eq!(outcome(&answer), "assigned;group=1", "{answer:?}");
            assert_ne!(answer.served_by(), busy.replica, "through {worker}");
        }
    }
    busy.assert_busy().await;
    match end {
        End::Whole => {
            for member in busy.members.drain(..) {
                member.rest().await;
            }
        }
        End::Left => busy.members.clear(),
        End::Reset => {
            let replicas = &mut busy.fleet.replicas;
            let dead = replicas.iter().position(|one| one.address == busy.replica);
            // Killed when dropped. The filter still knows it.
            drop(replicas.remove(dead.unwrap()));
        }
    }
    busy.assert_freed(Duration::from_secs(1)).await;
    if let End::Reset = end {
        let not_served = "burst_prefix_cache.placed_not_served_requests_total";
        assert!(busy.fleet.envoy.stat(not_served).await > 0);
    }
    assert_eq!(busy.fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_busy_replica_is_spared_until_its_requests_end() {
    busy_until(End::Whole).await;
}

#[tokio::test]
async fn a_busy_replica_is_spared_until_its_clients_leave() {
    busy_until(End::Left).await;
}

#[tokio::test]
async fn a_busy_replica_is_spared_until_it_resets_its_requests() {
    busy_until(End::Reset).await;
}

#[tokio::test]
async fn the_next_window_spares_a_busy_replica() {
    let remembers = [("groupMemoryMs", json!(MEMORY_MS))];
    // Without a memory what is in flight only breaks ties, so there has to be one.
    for (fields, groups) in [(&remembers[..], 3), (&[], 1)] {
        let mut busy = Busy::start(fields, 500, 100_000).await;
        for worker in 1..WORKERS {
            let mut sent = Vec::new();
            for seed in 0..groups * 2 {
                let name = format!("{worker}-{}", seed % groups);
                let mut connection = busy.others[worker].pop().unwrap();
                connection
                    .write(post(TEXT, sample(TEXT, &name, seed)))
                    .await;
                sent.push(connection);
            }
            for connection in sent {
                let answer = connection.answer().await;
                assert_eq!(outcome(&answer), "assigned;group=2", "{answer:?}");
                assert_ne!(answer.served_by(), busy.replica, "through {worker}");
            }
        }
        busy.assert_busy().await;
        assert_eq!(busy.fleet.envoy.faults(), [""; 0]);
    }
}

#[tokio::test]
async fn the_load_of_a_worker_that_died_is_forgotten() {
    let mut busy = Busy::start(&unheld(), 100, 100_000).await;
    let answer = busy.ask(1, "before", 0).await;
    assert_ne!(answer.served_by(), busy.replica);
    busy.assert_busy().await;
    // The members' own worker.
    let mut trapping = busy.others[0].pop().unwrap();
    let headers = [("x-test-trap", "1")];
    trapping.write(request("POST", TEXT, &headers, "{}")).await;
    assert_eq!(trapping.answer().await.status, 503);
    busy.members.clear();
    busy.assert_freed(Duration::from_secs(3)).await;
}
