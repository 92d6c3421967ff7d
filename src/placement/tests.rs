//! Each rule by example. A letter is a block, a word a request; `-` is nowhere.

use super::BalanceBy::{Requests, Tokens};
use super::*;

struct Case {
    name: &'static str,
    /// 0 = no bound.
    k: u32,
    m: u32,
    by: BalanceBy,
    /// Names; a digit after `+` is the number of running requests.
    replicas: &'static str,
    requests: &'static str,
    assigned: &'static str,
    /// The rule that chose each run, unit after unit.
    why: &'static str,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "rule 1: equal blocks are one unit, in whatever order they arrive",
        k: 0, m: 0, by: Requests, replicas: "p q", requests: "ab cd ab cd ab",
        assigned: "p q p q p", why: "least least" },
    Case { name: "rule 1: a request without blocks is in no unit",
        k: 0, m: 1, by: Requests, replicas: "p q", requests: "- a - a",
        assigned: "- p - p", why: "least" },
    Case { name: "rule 2: without m a single goes anywhere, whatever it shares",
        k: 0, m: 0, by: Requests, replicas: "p q", requests: "ab ac ab",
        assigned: "p - p", why: "least" },
    Case { name: "rule 2: a single is placed when another request begins with its first m",
        k: 0, m: 2, by: Requests, replicas: "p q", requests: "abc abd ae a x",
        assigned: "p q - - -", why: "least fair" },
    Case { name: "rule 2: a group is placed though shorter than m",
        k: 0, m: 3, by: Requests, replicas: "p q", requests: "a a",
        assigned: "p p", why: "least" },
    Case { name: "rule 3: groups before singles, longer before shorter, earlier before later",
        k: 0, m: 1, by: Requests, replicas: "p q r s", requests: "abcde fgh f fgh ij ij kl kl",
        assigned: "- p s p q q r r", why: "least least least fair" },
    Case { name: "rule 4: the fair share is rounded up",
        k: 0, m: 1, by: Requests, replicas: "p q", requests: "ab ac ad",
        assigned: "p p q", why: "least prefix fair" },
    Case { name: "rule 4: what is not placed does not count",
        k: 0, m: 1, by: Requests, replicas: "p q", requests: "x y z ab ac",
        assigned: "- - - p q", why: "least fair" },
    Case { name: "rule 5: the walk stops at the first block that nobody holds",
        k: 0, m: 1, by: Requests, replicas: "p q", requests: "bcde bcde xcde xcde",
        assigned: "p p q q", why: "least least" },
    Case { name: "rule 5: a replica counts the blocks that it holds after one that it doesn't",
        k: 0, m: 2, by: Tokens, replicas: "p q r", requests: "abcdef abcdef gcdefi gcdefi g gcdefj gcdefj",
        assigned: "p p q q - r r", why: "least least fair" },
    Case { name: "rule 6: the longest match wins over the lower load",
        k: 0, m: 1, by: Requests, replicas: "p q r", requests: "abcd abcd abce abce f f g g h h i i",
        assigned: "p p p p q q r r q q r r", why: "least prefix least least least least" },
    Case { name: "rule 6: above the fair share the prefix doesn't count",
        k: 0, m: 1, by: Requests, replicas: "p q", requests: "ab ab ac ac",
        assigned: "p p q q", why: "least fair" },
    Case { name: "rule 6: later runs go by load alone",
        k: 1, m: 1, by: Requests, replicas: "p q r", requests: "ab ab ac ac",
        assigned: "p q p r", why: "least least prefix least" },
    Case { name: "rule 7: a run fills its replica up",
        k: 2, m: 0, by: Requests, replicas: "p q r", requests: "a a a a a",
        assigned: "p p q q r", why: "least least least" },
    Case { name: "rule 7: when all are full it is one at a time",
        k: 1, m: 0, by: Requests, replicas: "p q", requests: "a a a a a",
        assigned: "p q p q p", why: "least least overflow overflow overflow" },
    Case { name: "rule 7: overflow levels the loads",
        k: 1, m: 0, by: Requests, replicas: "p q", requests: "abc abc abc x a a a a a",
        assigned: "p q p - q p q p q",
        why: "least least overflow least least overflow overflow overflow" },
    Case { name: "rule 8: tokens are the blocks of a unit, however many members it has",
        k: 0, m: 0, by: Tokens, replicas: "p q", requests: "abcd abcd e e e e f f g g",
        assigned: "p p q q q q q q q q", why: "least least least least" },
    Case { name: "rule 8: tokens are less what the replica holds",
        k: 0, m: 0, by: Tokens, replicas: "p", requests: "ab ab ac ac",
        assigned: "p p p p", why: "least least" },
    Case { name: "rule 8: overflow brings no tokens, so it all goes to one",
        k: 1, m: 0, by: Tokens, replicas: "p q", requests: "ab ab ab ab ab",
        assigned: "p q p p p", why: "least least overflow" },
    Case { name: "rule 9: then fewer running, then the bytewise lower name",
        k: 0, m: 0, by: Requests, replicas: "pod1+1 pod2 pod10 q+1", requests: "a a b b c c d d",
        assigned: "pod10 pod10 pod2 pod2 pod1 pod1 q q", why: "least least least least" },
    Case { name: "no replicas", k: 0, m: 0, by: Requests, replicas: "", requests: "a a",
        assigned: "- -", why: "" },
    Case { name: "no requests", k: 0, m: 0, by: Requests, replicas: "p", requests: "",
        assigned: "", why: "" },
];

#[test]
fn the_rules_by_example() {
    let mut wrong = Vec::new();
    for case in CASES {
        let replicas: Vec<Replica<'_>> = case
            .replicas
            .split_whitespace()
            .map(|replica| {
                let (name, running) = replica.split_once('+').unwrap_or((replica, "0"));
                let running = running.parse().unwrap();
                Replica { name, running }
            })
            .collect();
        let blocks = |word: &str| word.bytes().filter(|&b| b != b'-').map(u64::from).collect();
        let blocks: Vec<Vec<u64>> = case.requests.split_whitespace().map(blocks).collect();
        let requests: Vec<Request<'_>> = blocks
            .iter()
            .map(|blocks| Request {
                blocks,
                candidates: Candidates::All,
                weight: 1,
            })
            .collect();
        let rules = Rules {
            max_per_replica: NonZeroU32::new(case.k),
            min_colocate_blocks: case.m,
            balance_by: case.by,
        };
        let explanation = explain(&rules, &replicas, &requests);
        let assigned: Vec<&str> = (0..requests.len())
            .map(|i| explanation.placement.assigned(i))
            .map(|replica| replica.map_or("-", |replica| replicas[replica].name))
            .collect();
        let why: Vec<&str> = explanation
            .units
            .iter()
            .flat_map(|unit| &unit.runs)
            .map(|run| match run.why {
                Why::Prefix => "prefix",
                Why::FairShare => "fair",
                Why::LeastLoaded => "least",
                Why::Overflow => "overflow",
            })
            .collect();
        let answer = (assigned.join(" "), why.join(" "));
        if answer != (case.assigned.to_owned(), case.why.to_owned()) {
            wrong.push(format!("{}: {answer:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn requests_with_different_candidates_are_different_units_that_share_loads() {
    let replicas = ["p", "q"].map(|name| Replica { name, running: 0 });
    let to = |candidates| Request {
        blocks: &[1, 2],
        candidates,
        weight: 1,
    };
    let requests = [
        to(Candidates::All),
        to(Candidates::Only(&[0])),
        to(Candidates::All),
        to(Candidates::Only(&[0, 0, 9])),
        to(Candidates::Only(&[1, 0])),
        to(Candidates::Only(&[])),
    ];
    let rules = Rules {
        max_per_replica: None,
        min_colocate_blocks: 0,
        balance_by: BalanceBy::Requests,
    };
    let placement = place(&rules, &replicas, &requests);
    let groups: Vec<u32> = (0..6).map(|i| placement.group(i)).collect();
    assert_eq!(groups, [3, 2, 3, 2, 3, 0]);
    let assigned: Vec<Option<usize>> = (0..6).map(|i| placement.assigned(i)).collect();
    assert_eq!(
        assigned,
        [Some(0), Some(0), Some(0), Some(0), Some(0), None]
    );
    assert_eq!(placement.assigned(6), None);
}
