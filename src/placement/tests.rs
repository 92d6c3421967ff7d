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

/// Names; a digit after `+` is the number of running requests, one after `:` the load.
fn replicas(text: &str) -> Vec<Replica<'_>> {
    let number = |text: &str, mark: char| {
        let (_, number) = text.split_once(mark)?;
        Some(u64::from(number.chars().next()?.to_digit(10)?))
    };
    text.split_whitespace()
        .map(|replica| Replica {
            running: number(replica, '+').unwrap_or(0) as i64,
            load: number(replica, ':').unwrap_or(0),
            ..Replica::new(replica.split(['+', ':']).next().unwrap())
        })
        .collect()
}

fn blocks(word: &str) -> Vec<u64> {
    word.bytes().filter(|&b| b != b'-').map(u64::from).collect()
}

/// The name of each request's replica.
fn assigned(placement: &Placement, replicas: &[Replica<'_>]) -> String {
    let replica = |i| placement.assigned(i).map(|replica| replicas[replica].name);
    let names: Vec<&str> = (0..placement.len())
        .map(|i| replica(i).unwrap_or("-"))
        .collect();
    names.join(" ")
}

#[test]
fn the_rules_by_example() {
    let mut wrong = Vec::new();
    for case in CASES {
        let replicas = replicas(case.replicas);
        let blocks: Vec<Vec<u64>> = case.requests.split_whitespace().map(blocks).collect();
        let requests: Vec<Request<'_>> = blocks.iter().map(|blocks| Request::new(blocks)).collect();
        let rules = Rules {
            max_per_replica: NonZeroU32::new(case.k),
            min_colocate_blocks: case.m,
            balance_by: case.by,
        };
        let explanation = explain(&rules, &replicas, &requests);
        let assigned = assigned(&explanation.placement, &replicas);
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
        let answer = (assigned, why.join(" "));
        if answer != (case.assigned.to_owned(), case.why.to_owned()) {
            wrong.push(format!("{}: {answer:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn requests_with_different_candidates_are_different_units_that_share_loads() {
    let replicas = ["p", "q"].map(Replica::new);
    let to = |candidates| Request {
        candidates,
        ..Request::new(&[1, 2])
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

struct CaseAfter {
    name: &'static str,
    /// 0 = no bound.
    k: u32,
    m: u32,
    by: BalanceBy,
    place_all: bool,
    replicas: &'static str,
    /// Blocks, `@`, and places in the replica list.
    held: &'static str,
    /// A digit after `/` is the group, one after `*` the weight.
    requests: &'static str,
    assigned: &'static str,
    charges: &'static str,
}

const NONE_BEFORE: CaseAfter = CaseAfter {
    name: "",
    k: 0,
    m: 0,
    by: Requests,
    place_all: false,
    replicas: "p q",
    held: "",
    requests: "",
    assigned: "",
    charges: "",
};

#[rustfmt::skip]
const CASES_AFTER: &[CaseAfter] = &[
    CaseAfter { name: "loads start where they were",
        replicas: "p:3 q:1", requests: "a a b b c c",
        assigned: "q q p p q q", charges: "1 1 1 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "the fair share counts the loads before",
        m: 1, replicas: "p:2 q:2", requests: "ab ac ad",
        assigned: "p p q", charges: "1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "a replica at the fair share before the batch gets nothing by prefix",
        m: 1, replicas: "p:4 q", held: "ab@0", requests: "abc abc",
        assigned: "q q", charges: "1 1", ..NONE_BEFORE },
    CaseAfter { name: "of entries with one name the largest load counts",
        replicas: "p:1 p:9 q:5", requests: "a a",
        assigned: "q q", charges: "1 1", ..NONE_BEFORE },
    CaseAfter { name: "loads before overflow levels up from where they were",
        k: 1, replicas: "p:5 q:1", requests: "a a a a",
        assigned: "q p q q", charges: "1 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "a group is one unit whatever its blocks",
        replicas: "p q r", requests: "a/1 b/2 c/1 d/2 c c",
        assigned: "p q p q r r", charges: "1 1 1 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "a group has the blocks of its first",
        m: 2, replicas: "p q:9 r", requests: "abc/1 xyz/1 abd xyv xyw",
        assigned: "p p p r r", charges: "1 1 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "equal blocks in a group and in none are two units",
        replicas: "p q", requests: "a a a/1 a/1",
        assigned: "p p q q", charges: "1 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "a request without blocks is in no unit, whatever its group",
        replicas: "p q", requests: "-/1 a/1 -/1 b/1",
        assigned: "- p - p", charges: "0 1 0 1", ..NONE_BEFORE },
    CaseAfter { name: "place_all places all but those without blocks, singles last",
        place_all: true, requests: "x - ab ab yz",
        assigned: "q - p p q", charges: "1 0 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "what place_all places counts in the fair share",
        place_all: true, m: 1, requests: "ab ac ad x y z",
        assigned: "p p p q q q", charges: "1 1 1 1 1 1", ..NONE_BEFORE },
    CaseAfter { name: "a prefix held before is an overlap",
        m: 2, replicas: "p q", held: "abc@1", requests: "abd a xab",
        assigned: "q - -", charges: "1 0 0", ..NONE_BEFORE },
    CaseAfter { name: "a held prefix shorter than m is none",
        m: 2, held: "a@1", requests: "ab cd",
        assigned: "- -", charges: "0 0", ..NONE_BEFORE },
    CaseAfter { name: "nobody holds what is held outside the list",
        m: 1, held: "ab@279", requests: "ab cd",
        assigned: "- -", charges: "0 0", ..NONE_BEFORE },
    CaseAfter { name: "the longest of the prefixes held before wins",
        m: 1, replicas: "p q r", held: "ab@0 abc@1 ab@2", requests: "abcd abcd",
        assigned: "q q", charges: "1 1", ..NONE_BEFORE },
    CaseAfter { name: "one block held by several is theirs",
        m: 1, replicas: "p q:1 r", held: "ab@12 ab@2", requests: "abc abc",
        assigned: "r r", charges: "1 1", ..NONE_BEFORE },
    CaseAfter { name: "by tokens, what is held before is no load",
        by: Tokens, held: "abc@0", requests: "abcd abcd abce abce",
        assigned: "p p q q", charges: "1 0 4 0", ..NONE_BEFORE },
    CaseAfter { name: "by tokens, each replica is charged for its first",
        k: 1, by: Tokens, requests: "ab ab ab ab",
        assigned: "p q p p", charges: "2 2 0 0", ..NONE_BEFORE },
    CaseAfter { name: "by requests, the charge is the weight",
        k: 2, requests: "a*2 a*0 a*3 b*5",
        assigned: "p q q -", charges: "2 1 3 0", ..NONE_BEFORE },
];

#[test]
fn the_rules_after_earlier_batches_by_example() {
    let digit = |c: char| c.to_digit(10).unwrap();
    let mut wrong = Vec::new();
    for case in CASES_AFTER {
        let replicas = replicas(case.replicas);
        let requests: Vec<(Vec<u64>, &str)> = case
            .requests
            .split_whitespace()
            .map(|word| word.split_at(word.find(['/', '*']).unwrap_or(word.len())))
            .map(|(letters, rest)| (blocks(letters), rest))
            .collect();
        let requests: Vec<Request<'_>> = requests
            .iter()
            .map(|(blocks, rest)| Request {
                group: rest.strip_prefix('/').map(|group| group.parse().unwrap()),
                weight: rest.strip_prefix('*').map_or(1, |n| n.parse().unwrap()),
                ..Request::new(blocks)
            })
            .collect();
        let held: Vec<(Vec<u64>, Vec<u32>)> = case
            .held
            .split_whitespace()
            .map(|held| held.split_once('@').unwrap())
            .map(|(letters, places)| (blocks(letters), places.chars().map(digit).collect()))
            .collect();
        let held: Vec<HeldPrefix<'_>> = held
            .iter()
            .map(|(blocks, replicas)| HeldPrefix {
                blocks,
                replicas,
                chained: false,
            })
            .collect();
        let rules = Rules {
            max_per_replica: NonZeroU32::new(case.k),
            min_colocate_blocks: case.m,
            balance_by: case.by,
        };
        let before = Before {
            place_all: case.place_all,
            held: &held,
            ..Before::default()
        };
        let placement = place_after(&rules, &replicas, &requests, &before);
        let charges: Vec<String> = (0..placement.len())
            .map(|i| placement.charge(i).to_string())
            .collect();
        let answer = (assigned(&placement, &replicas), charges.join(" "));
        if answer != (case.assigned.to_owned(), case.charges.to_owned()) {
            wrong.push(format!("{}: {answer:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn units_that_begin_are_spread_by_what_they_are_expected_to_have() {
    let (names, blocks) = (["p", "q", "r"], [[1], [2], [3], [4], [5], [6]]);
    let replicas = names.map(|name| Replica {
        // One unit of eight began on `p` before.
        load: if name == "p" { 8 } else { 0 },
        ..Replica::new(name)
    });
    let requests = blocks.each_ref().map(|blocks| Request::new(blocks));
    let place = |expected, k| {
        let rules = Rules {
            max_per_replica: NonZeroU32::new(k),
            min_colocate_blocks: 0,
            balance_by: Requests,
        };
        let before = Before {
            place_all: true,
            expected,
            held: &[],
        };
        let placement = place_after(&rules, &replicas, &requests, &before);
        let charges: u64 = (0..6).map(|i| placement.charge(i)).sum();
        assert_eq!(charges, 6, "what is only expected is no load");
        let assigned = |i| placement.assigned(i).map_or("-", |place| names[place]);
        (0..6).map(assigned).collect::<String>()
    };
    assert_eq!(place(0, 0), "qrqrqr");
    assert_eq!(place(8, 0), "qrpqrp");
    assert_eq!(place(8, 1), "qrqrqr", "a replica takes one of each unit");
}
