//! The VM of one worker traps while all four hold requests of one window.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;

use crate::fleet::{Fleet, QUICK};
use crate::http1::{Connection, post, request};
use crate::prompts::{TEXT, sample};
use crate::verdict::{assert_held, outcome};
use crate::workers::{Connections, WORKERS, connect_each};

/// Long enough for all to be there before the trap, short enough to end before the idle timeout.
const WINDOW_MS: u32 = 2500;
const IDLE_TIMEOUT_S: u32 = 5;

const GROUPS: usize = 5;
/// The place of the request that opens the window.
const FIRST: usize = 0;
/// The worker whose VM traps.
const VICTIM: usize = 0;

fn body(group: usize, worker: usize) -> String {
    sample(TEXT, &format!("group-{group}"), worker)
}

/// A burst in groups with a member on each worker.
async fn write_groups(
    connections: &mut [Connections; WORKERS],
    groups: std::ops::Range<usize>,
) -> Vec<(usize, String, Connection)> {
    let mut sent = Vec::new();
    for group in groups {
        for (worker, of_worker) in connections.iter_mut().enumerate() {
            let mut connection = of_worker.pop().unwrap();
            let body = body(group, worker);
            connection.write(post(TEXT, &body)).await;
            sent.push((worker, body, connection));
        }
    }
    sent
}

/// The worker `owner` opens the window, the victim traps in the middle of it.
async fn trap(owner: usize) {
    let fleet = Fleet::with(&QUICK, &[], |config| {
        let config = config.plugin(WINDOW_MS, &[]);
        config.trapping().idle_timeout(IDLE_TIMEOUT_S)
    })
    .await;
    let mut connections = connect_each(&fleet.envoy, GROUPS + 3).await;
    let active = "http.llm.downstream_rq_active";

    // Envoy reloads no VM that is younger than this, a second and some jitter.
    sleep(Duration::from_secs(2)).await;
    let mut first = connections[owner].pop().unwrap();
    let first_body = sample(TEXT, "first", 0);
    first.write(post(TEXT, &first_body)).await;
    fleet.envoy.await_stat(active, 1).await;
    sleep(Duration::from_millis(50)).await;
    let mut sent = vec![(owner, first_body, first)];
    sent.extend(write_groups(&mut connections, 0..GROUPS).await);
    fleet.envoy.await_stat(active, sent.len() as u64).await;
    sleep(Duration::from_millis(200)).await;

    let mut trapping = connections[VICTIM].pop().unwrap();
    let headers = [("x-test-trap", "1")];
    trapping.write(request("POST", TEXT, &headers, "{}")).await;
    assert_eq!(trapping.answer().await.status, 503);
    let lost = sent.iter().filter(|(worker, ..)| *worker == VICTIM).count();
    // Those who come now join a window whose owner may be dead; one of them gets its worker a
    // fresh VM.
    sent.extend(write_groups(&mut connections, 0..1).await);

    let mut lone = 0;
    let mut placed = 0;
    let mut ended = 0;
    for (place, (worker, body, connection)) in sent.into_iter().enumerate() {
        if worker == VICTIM && ended < lost {
            ended += 1;
            // Out of the filter's reach: Envoy ends them, with a 503 where its own 504 has to
            // pass the filter that is no more.
            if let Ok(answer) = connection.try_answer().await {
                assert!(matches!(answer.status, 503 | 504), "{answer:?}");
            }
            continue;
        }
        let answer = connection.answer().await;
        assert_held(&fleet.envoy, &answer, &body, WINDOW_MS);
        match outcome(&answer) {
            "timed-out" => {}
            "alone" if place == FIRST => lone += 1,
            assigned if assigned.starts_with("assigned;group=") => placed += 1,
            other => panic!("{other}: {answer:?}"),
        }
    }
    // An owner that lives places all; those whose owner died have had time to meet again.
    assert!(placed > 0);
    assert_eq!(lone, usize::from(owner != VICTIM));
    serves_again(&fleet).await;
}

/// All four workers are back at work.
async fn serves_again(fleet: &Fleet) {
    let mut connections = connect_each(&fleet.envoy, GROUPS).await;
    let sent = write_groups(&mut connections, 10..10 + GROUPS).await;
    let mut homes = BTreeSet::new();
    for (place, (_, body, connection)) in sent.into_iter().enumerate() {
        let answer = connection.answer().await;
        assert_held(&fleet.envoy, &answer, &body, WINDOW_MS);
        assert_eq!(outcome(&answer), "assigned;group=4", "{answer:?}");
        homes.insert((place / WORKERS, answer.served_by().to_owned()));
    }
    assert_eq!(homes.len(), GROUPS, "{homes:?}");
    assert_eq!(fleet.envoy.stat("vm_reload_success").await, 1);
    assert_eq!(fleet.envoy.stat("vm_reload_failure").await, 0);
}

#[tokio::test]
async fn the_owner_of_the_window_traps() {
    trap(VICTIM).await;
}

#[tokio::test]
async fn a_worker_that_does_not_own_the_window_traps() {
    trap(VICTIM + 1).await;
}
