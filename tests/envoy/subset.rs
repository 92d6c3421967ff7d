//! A gateway before this one says which replicas a request may go to.

use std::collections::BTreeSet;

use serde_json::json;

use crate::discovered::{homes, listed};
use crate::fleet::{Fleet, QUICK};
use crate::http1::{Answer, request};
use crate::prompts::{TEXT, sample};
use crate::verdict::outcome;

const SUBSET: &str = "x-gateway-destination-endpoint-subset";

/// A host of IPv6 that the cluster does not have, beside the four that it has.
const SIXTH: &str = "[::1]:9";

async fn fleet(trust: bool) -> Fleet {
    Fleet::with(&QUICK, &[], |config| {
        let mut names = config.hosts();
        names.push(SIXTH.to_owned());
        let source = json!({"static": names, "trustSubsetHeader": trust});
        config.replicas(&source).plugin(1000, &[])
    })
    .await
}

/// Groups of four, each with these lines of the header.
async fn ask(fleet: &Fleet, groups: &[Vec<String>]) -> Vec<Answer> {
    let mut requests = Vec::new();
    for seed in 0..4 {
        for (number, lines) in groups.iter().enumerate() {
            let headers: Vec<(&str, &str)> = lines.iter().map(|l| (SUBSET, l.as_str())).collect();
            let body = sample(TEXT, &format!("group-{number}"), seed);
            requests.push(request("POST", TEXT, &headers, body));
        }
    }
    fleet.burst(&requests).await
}

#[tokio::test]
async fn a_trusted_subset_narrows_the_candidates() {
    let fleet = fleet(true).await;
    let names = fleet.names();
    let (a, b, c) = (&names[0], &names[1], &names[2]);
    let long = format!("[0:0:0:0:0:0:0:1]:9,{c}");
    // The lines of the header, and the candidates that are left.
    let rows = [
        (vec![c.clone()], vec![c.clone()]),
        (vec![format!("{b},{c}")], vec![b.clone(), c.clone()]),
        (vec![format!(" {b} ,, {b} ")], vec![b.clone()]),
        (
            vec![format!("localhost,{a},:1,{a}:1,10.9.9.9:1,\",;x")],
            vec![a.clone()],
        ),
        (vec![long], vec![c.clone(), SIXTH.to_owned()]),
        (vec![b.clone(), c.clone()], vec![b.clone(), c.clone()]),
        (vec![String::from("10.9.9.9:1"), c.clone()], vec![c.clone()]),
    ];
    for (lines, left) in rows {
        // Two of a kind, so that they meet.
        let answers = ask(&fleet, &[lines.clone(), lines.clone()]).await;
        for answer in &answers {
            assert_eq!(outcome(answer), "assigned;group=4", "{lines:?}: {answer:?}");
            let listed: BTreeSet<String> = listed(answer).into_iter().collect();
            let left: BTreeSet<String> = left.iter().cloned().collect();
            assert_eq!(listed, left, "{lines:?}");
            let endpoint = answer.seen("x-gateway-destination-endpoint").unwrap();
            assert!(left.contains(endpoint), "{lines:?}: {endpoint}");
            if endpoint != SIXTH {
                assert_eq!(answer.served_by(), endpoint);
            }
        }
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_trusted_subset_of_unknown_replicas_leaves_none() {
    let fleet = fleet(true).await;
    for line in ["10.9.9.9:1", "nonsense", "", ",", "127.0.0.1", "[::1]", "*"] {
        let answers = ask(&fleet, &[vec![line.to_owned()]]).await;
        for answer in &answers {
            assert_eq!(answer.status, 200);
            assert_eq!(answer.decision(), "no-replicas;wait=0", "{line:?}");
            assert_eq!(listed(answer), [""; 0]);
            assert_eq!(answer.seen("x-gateway-destination-endpoint"), None);
        }
    }
    assert_eq!(fleet.envoy.value("windows_total").await, None);
}

#[tokio::test]
async fn requests_with_different_candidates_are_not_one_group() {
    let fleet = fleet(true).await;
    let names = fleet.names();
    let headers: Vec<[(&str, &str); 1]> = names[..2].iter().map(|n| [(SUBSET, &**n)]).collect();
    let mut requests = Vec::new();
    for seed in 0..6 {
        let body = sample(TEXT, "one", seed);
        requests.push(request("POST", TEXT, &headers[seed % 2], body));
    }
    for (place, answer) in fleet.burst(&requests).await.iter().enumerate() {
        assert_eq!(outcome(answer), "assigned;group=3", "{answer:?}");
        assert_eq!(answer.served_by(), names[place % 2]);
    }
}

#[tokio::test]
async fn a_subset_that_is_not_trusted_has_no_effect() {
    let fleet = fleet(false).await;
    let mut all = fleet.names();
    let last = all[3].clone();
    all.push(SIXTH.to_owned());
    let groups = vec![vec![last.clone()]; 4];
    let answers = ask(&fleet, &groups).await;
    let homes: BTreeSet<String> = homes(&answers, 4, &all).into_iter().collect();
    assert_eq!(homes.len(), 4, "{homes:?}");
    let unknown = ask(&fleet, &vec![vec!["10.9.9.9:1".to_owned()]; 4]).await;
    for answer in &unknown {
        assert_eq!(outcome(answer), "assigned;group=4", "{answer:?}");
    }
}
