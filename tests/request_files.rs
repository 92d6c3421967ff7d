//! Whole files of request bodies: real ones, odd ones, broken ones.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/rows.rs"]
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{Prefix, Unreadable, identify, read};
use serde_json::Value;

use crate::rows::{base64, rows};

/// The status token of a body: `prefix`, the reason of no prefix, or that of being unreadable.
fn verdict(path: &str, body: &[u8]) -> &'static str {
    match read(identify("POST", path).unwrap(), body, Layout::default()) {
        Ok(Prefix { reason: None, .. }) => "prefix",
        Ok(Prefix {
            reason: Some(reason),
            ..
        }) => reason.token(),
        Err(unreadable) => unreadable.token(),
    }
}

#[test]
fn samples_of_one_problem_are_one_unit() {
    let mut units: HashMap<Vec<u64>, Vec<Value>> = HashMap::new();
    for line in include_str!("prompts/rl_humaneval_chat_seeded_32x8.jsonl").lines() {
        let api = identify("POST", "/v1/chat/completions").unwrap();
        let prefix = read(api, line.as_bytes(), Layout::default()).unwrap();
        assert_eq!(prefix.model, "tiny");
        let body: Value = serde_json::from_str(line).unwrap();
        units
            .entry(prefix.blocks())
            .or_default()
            .push(body["messages"].clone());
    }
    assert_eq!(units.len(), 32);
    for messages in units.values() {
        assert_eq!(messages.len(), 8);
        assert!(messages.iter().all(|same| *same == messages[0]));
    }
}

/// Leading blocks that two prompts share.
fn shared(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[test]
fn questions_behind_one_few_shot_prefix_are_one_family() {
    let mut families: BTreeMap<u64, Vec<(String, Vec<u64>)>> = BTreeMap::new();
    for line in include_str!("prompts/fewshot_3groups_shuffled.jsonl").lines() {
        let api = identify("POST", "/v1/completions").unwrap();
        let prefix = read(api, line.as_bytes(), Layout::default()).unwrap();
        let body: Value = serde_json::from_str(line).unwrap();
        let text = body["prompt"].as_str().unwrap().to_owned();
        let blocks = prefix.blocks();
        families.entry(blocks[0]).or_default().push((text, blocks));
    }
    let sizes: Vec<usize> = families.values().map(Vec::len).collect();
    assert_eq!(sizes, [44, 44, 44]);
    for family in families.values() {
        let (first, blocks) = &family[0];
        for (text, others) in &family[1..] {
            // Blocks of 256 bytes that the texts have in common, and the whole of it if equal.
            let common = first.bytes().zip(text.bytes());
            let common = common.take_while(|(a, b)| a == b).count();
            assert!(common > 1000, "{common}");
            assert_ne!(blocks, others);
            assert_eq!(shared(blocks, others), common / 256);
        }
    }
}

#[test]
fn requests_with_one_list_of_tools_share_its_blocks() {
    let mut lists: HashMap<String, Vec<Vec<u64>>> = HashMap::new();
    for line in include_str!("prompts/tools_bfcl_live_shared_tools.jsonl").lines() {
        let api = identify("POST", "/v1/chat/completions").unwrap();
        let prefix = read(api, line.as_bytes(), Layout::default()).unwrap();
        let body: Value = serde_json::from_str(line).unwrap();
        let tools = body["tools"].to_string();
        lists.entry(tools).or_default().push(prefix.blocks());
    }
    assert!(lists.len() > 10);
    let all: Vec<(&String, &Vec<u64>)> = lists
        .iter()
        .flat_map(|(tools, prompts)| prompts.iter().map(move |blocks| (tools, blocks)))
        .collect();
    for (a, left) in &all {
        for (b, right) in &all {
            let shared = shared(left, right);
            if a == b {
                // The framed list is at least as long as all that it says.
                let texts: usize = texts(&serde_json::from_str(a).unwrap());
                assert!(shared >= texts / 256, "{shared} of {texts} bytes");
            } else {
                assert!(shared < left.len() && shared < right.len());
            }
        }
    }
}

/// The bytes of all strings in a value.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| key.len() + texts(value))
            .sum(),
        _ => 0,
    }
}

#[test]
fn prompts_that_are_not_ascii_are_the_same_as_escapes() {
    let ascii = |text: &str| -> String {
        let character = |c: char| match c {
            ' '..='~' => c.to_string(),
            other => {
                let mut units = [0; 2];
                let units = other.encode_utf16(&mut units).iter();
                units.map(|unit| format!("\\u{unit:04x}")).collect()
            }
        };
        text.chars().map(character).collect()
    };
    let api = identify("POST", "/v1/chat/completions").unwrap();
    for line in include_str!("prompts/nonascii_bfcl.jsonl").lines() {
        let escaped = ascii(line);
        assert!(escaped.is_ascii());
        let prefix = |body: &str| read(api, body.as_bytes(), Layout::default()).unwrap();
        assert_eq!(prefix(line), prefix(&escaped));
        assert_eq!(prefix(line).reason, None);
    }
}

#[test]
fn odd_bodies_of_one_group_are_one_prompt() {
    let mut groups: BTreeMap<String, BTreeSet<Vec<u64>>> = BTreeMap::new();
    let mut read_rows = 0;
    for row in rows(include_str!("prompts/odd_valid.jsonl")) {
        let read = read(
            identify("POST", &row.path).unwrap(),
            &row.body,
            Layout::default(),
        );
        // Compressed bodies are not for this room, and those in UTF-16 are refused.
        if row.encoded() || row.name == "utf16" {
            assert_eq!(read, Err(Unreadable::Encoding), "{}", row.name);
            continue;
        }
        // Content that is one text part is the same prompt here as the text alone.
        let group = row.group.trim_end_matches('?').to_owned();
        let blocks = read
            .unwrap_or_else(|error| panic!("{}: {error}", row.name))
            .blocks();
        assert!(!blocks.is_empty(), "{}", row.name);
        groups.entry(group).or_default().insert(blocks);
        read_rows += 1;
    }
    assert_eq!(read_rows, 39);
    let different: BTreeSet<_> = groups.values().flatten().collect();
    assert_eq!(different.len(), groups.len(), "two groups are one prompt");
    for (group, prompts) in &groups {
        assert_eq!(prompts.len(), 1, "{group} is not one prompt");
    }
}

/// What each broken body is taken for. Several are not broken for an engine, so not for us.
const MALFORMED: &[(&str, &str)] = &[
    ("empty", "json"),
    ("space", "json"),
    ("nul", "encoding"),
    ("truncated_1", "json"),
    ("truncated_2", "json"),
    ("truncated_10", "json"),
    ("truncated_50", "json"),
    ("truncated_415", "json"),
    ("truncated_828", "json"),
    ("truncated_829", "json"),
    ("trunc_in_escape", "json"),
    ("trunc_in_utf8", "encoding"),
    ("invalid_utf8", "encoding"),
    ("overlong_utf8", "encoding"),
    ("utf8_surrogate", "encoding"),
    ("latin1", "encoding"),
    ("huge_int", "prefix"),
    ("huge_exp", "prefix"),
    ("neg_exp", "empty"),
    ("nan", "prefix"),
    ("infinity", "empty"),
    ("trailing_comma", "json"),
    ("comments", "json"),
    ("single_quotes", "json"),
    ("two_docs", "json"),
    ("ndjson", "json"),
    ("trailing_garbage", "json"),
    ("top_array", "type"),
    ("top_string", "type"),
    ("top_null", "type"),
    ("top_number", "type"),
    ("messages_string", "type"),
    ("messages_object", "type"),
    ("messages_empty", "empty"),
    ("messages_null_items", "type"),
    ("content_number", "type"),
    ("content_parts_bad", "type"),
    ("prompt_object", "type"),
    ("prompt_mixed", "type"),
    ("no_prompt", "missing"),
    ("prompt_and_messages", "prefix"),
    ("bad_escape", "json"),
    ("raw_control", "prefix"),
    // The header that names a compression is not for this room.
    ("gzip_claimed_not_gzip", "prefix"),
    ("gzip_truncated", "encoding"),
    ("unknown_encoding", "prefix"),
    ("ctype_text/plain", "prefix"),
    ("ctype_application/x-www-form-urlencoded", "prefix"),
    ("ctype_multipart/form-data; boundary=x", "prefix"),
    ("ctype_application/octet-stream", "prefix"),
    ("ctype_application/json, text/plain", "prefix"),
    ("ctype_empty", "prefix"),
    ("form_body", "json"),
    ("multipart", "json"),
    ("bin_random", "encoding"),
];

#[test]
fn broken_bodies_have_their_verdict() {
    let rows = rows(include_str!("prompts/malformed.jsonl"));
    let verdicts: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row.name.as_str(), verdict(&row.path, &row.body)))
        .collect();
    assert_eq!(verdicts, MALFORMED);
}

#[test]
fn deep_and_long_bodies_have_their_verdict() {
    let chat = |fields: &str| format!("{{{fields},\"messages\":[{{\"content\":\"hi\"}}]}}");
    let nested = |open: &str, inside: &str, close: &str, depth: usize| {
        [&open.repeat(depth), inside, &close.repeat(depth)].concat()
    };
    let many = |item: &str, count: usize| vec![item; count].join(",");
    let deep = nested("[", "", "]", 100_000);
    let table: Vec<(&str, String)> = vec![
        ("json", "[".repeat(100_000)),
        ("json", "{\"a\":".repeat(100_000)),
        ("json", nested("[", "", "}", 100_000)),
        ("type", deep.clone()),
        ("prefix", chat(&format!("\"metadata\":{deep}"))),
        (
            "prefix",
            chat(&format!(
                "\"metadata\":{}",
                nested("[{\"a\":", "1", "}]", 100_000)
            )),
        ),
        ("prefix", chat(&format!("\"tools\":{deep}"))),
        (
            "prefix",
            chat(&format!(
                "\"tools\":{}",
                nested("[{\"a\":", "1", "}]", 100_000)
            )),
        ),
        (
            "prefix",
            chat(&format!("\"chat_template_kwargs\":{{\"a\":{deep}}}")),
        ),
        ("type", format!("{{\"messages\":{deep}}}")),
        ("type", format!("{{\"messages\":[{{\"content\":{deep}}}]}}")),
        (
            "prefix",
            format!("{{\"messages\":[{{\"content\":[{{\"type\":\"x\",\"x\":{deep}}}]}}]}}"),
        ),
        ("prefix", chat(&format!("\"{}\":1", "k".repeat(100_000)))),
        (
            "prefix",
            chat(&format!("\"{}\":1", "\\u006b".repeat(100_000))),
        ),
        ("prefix", chat(&many("\"k\":0", 20_000))),
        ("prefix", chat(&many("\"messages\":[]", 20_000))),
        (
            "prefix",
            chat(&format!(
                "\"tools\":[{{{}}}]",
                many("\"k\":{\"k\":0}", 20_000)
            )),
        ),
        (
            "prefix",
            format!("{{\"messages\":[{}]}}", many("{}", 50_000)),
        ),
        (
            "prefix",
            format!(
                "{{\"messages\":[{{\"content\":[{}]}}]}}",
                many("\"\"", 50_000)
            ),
        ),
        (
            "prefix",
            format!(
                "{{\"messages\":[{{\"content\":\"{}\"}}]}}",
                "\\n".repeat(500_000)
            ),
        ),
        (
            "prefix",
            chat(&format!("\"max_tokens\":{}", "9".repeat(500_000))),
        ),
    ];
    for (place, (expected, body)) in table.iter().enumerate() {
        assert_eq!(
            verdict("/v1/chat/completions", body.as_bytes()),
            *expected,
            "body {place}"
        );
    }
}

/// Documents of JSONTestSuite that are no JSON, and are read all the same, as Python does, or
/// because nothing in them can be mistaken.
const LENIENT: &[&str] = &[
    "n_number_NaN",
    "n_number_infinity",
    "n_number_minus_infinity",
    "n_string_unescaped_ctrl_char",
    "n_string_unescaped_newline",
    "n_string_unescaped_tab",
];

/// Documents of JSONTestSuite that a reader may refuse, and that are refused: none is UTF-8.
const REFUSED: &[&str] = &[
    "i_string_UTF-16LE_with_BOM",
    "i_string_UTF-8_invalid_sequence",
    "i_string_UTF8_surrogate_U+D800",
    "i_string_invalid_utf-8",
    "i_string_iso_latin_1",
    "i_string_lone_utf8_continuation_byte",
    "i_string_not_in_unicode_range",
    "i_string_overlong_sequence_2_bytes",
    "i_string_overlong_sequence_6_bytes",
    "i_string_overlong_sequence_6_bytes_null",
    "i_string_truncated-utf-8",
    "i_string_utf16BE_no_BOM",
    "i_string_utf16LE_no_BOM",
];

#[test]
fn json_is_told_from_what_is_not() {
    for line in include_str!("prompts/json_test_suite.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let name = row["name"].as_str().unwrap();
        let body = base64(row["body_b64"].as_str().unwrap());
        // No document is a request: what is JSON has the wrong type, or no prompt.
        let is_json = match verdict("/v1/completions", &body) {
            "json" | "encoding" => false,
            "type" | "missing" => true,
            other => panic!("{name}: {other}"),
        };
        let expected = match name.as_bytes()[0] {
            b'y' => true,
            b'n' => LENIENT.contains(&name),
            _ => !REFUSED.contains(&name),
        };
        assert_eq!(is_json, expected, "{name}");
    }
}
