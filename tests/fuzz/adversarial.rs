//! Large bodies made to cost as much as they can: each is read to its end, on a small stack.
//!
//! How long that takes is asked for only as far as it tells linear from quadratic time.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{Api, read};

use crate::on_a_stack_of;

const PATIENCE: Duration = Duration::from_secs(30);

/// Where a value may stand that is looked into: before it and behind it.
const PLACES: &[(&str, &str)] = &[
    ("", ""),
    ("{\"prompt\":", "}"),
    ("{\"messages\":", "}"),
    ("{\"x\":", ",\"prompt\":\"x\",\"messages\":[]}"),
    ("{\"messages\":[{\"content\":", "}]}"),
    (
        "{\"messages\":[{\"content\":[{\"type\":\"image_url\",\"image_url\":",
        "}]}]}",
    ),
    ("{\"messages\":[{\"content\":\"x\"}],\"tools\":", "}"),
    (
        "{\"messages\":[{\"content\":\"x\"}],\"chat_template_kwargs\":{\"x\":",
        "}}",
    ),
    (
        "{\"messages\":[{\"tool_calls\":[{\"function\":{\"arguments\":",
        "}}]}]}",
    ),
];

fn nested(open: &str, close: &str, bytes: usize) -> String {
    let depth = bytes / (open.len() + close.len());
    [open.repeat(depth), close.repeat(depth)].concat()
}

/// A piece as often as it fits, between two brackets.
fn list(bracket: [char; 2], bytes: usize, piece: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes + 100);
    text.push(bracket[0]);
    for number in 0.. {
        text.push_str(&piece(number));
        if text.len() >= bytes {
            break;
        }
        text.push(',');
    }
    text.push(bracket[1]);
    text
}

/// Values of about this size.
fn values(bytes: usize) -> Vec<(&'static str, String)> {
    let (array, object) = (['[', ']'], ['{', '}']);
    vec![
        ("arrays", nested("[", "]", bytes)),
        ("arrays that do not end", "[".repeat(bytes)),
        (
            "objects",
            nested("{\"a\":", "}", bytes).replace(":}", ":0}"),
        ),
        ("both", nested("[{\"\":[", "]}]", bytes)),
        (
            "twins",
            nested("{\"a\":0,\"a\":", "}", bytes).replace(":}", ":0}"),
        ),
        (
            "one key",
            list(object, bytes, |number| format!("\"a\":{number}")),
        ),
        (
            "keys",
            list(object, bytes, |number| format!("\"{number}\":0")),
        ),
        (
            "keys twice",
            list(object, bytes, |number| format!("\"{}\":[]", number / 2)),
        ),
        (
            "escaped keys",
            list(object, bytes, |_| "\"\\u0061\":{\"\\u0062\":0}".to_owned()),
        ),
        ("empty objects", list(array, bytes, |_| "{}".to_owned())),
        ("empty texts", list(array, bytes, |_| "\"\"".to_owned())),
        ("tokens", list(array, bytes, |number| number.to_string())),
        (
            "lists of tokens",
            list(array, bytes, |number| format!("[{number}]")),
        ),
        (
            "messages",
            list(array, bytes, |_| {
                "{\"role\":\"\",\"content\":[]}".to_owned()
            }),
        ),
        ("text", format!("\"{}\"", "a".repeat(bytes))),
        ("escapes", format!("\"{}\"", "\\u0061".repeat(bytes / 6))),
        ("surrogates", format!("\"{}\"", "\\ud83d".repeat(bytes / 6))),
        ("backslashes", format!("\"{}\"", "\\\\".repeat(bytes / 2))),
        ("quotes", format!("\"{}", "\\\"".repeat(bytes / 2))),
        ("number", "1".repeat(bytes)),
        (
            "fraction",
            format!("0.{}e{}", "1".repeat(bytes / 2), "9".repeat(bytes / 2)),
        ),
        ("space", " ".repeat(bytes)),
    ]
}

fn read_in_time(api: Api, body: &str, layout: Layout, what: &str) {
    let begin = Instant::now();
    let _ = read(api, body.as_bytes(), layout);
    let took = begin.elapsed();
    assert!(took < PATIENCE, "{what}: {took:?}");
}

#[test]
fn everything_everywhere() {
    let tiny_blocks = Layout {
        block_size_tokens: NonZeroU32::MIN,
        max_blocks: usize::MAX,
    };
    on_a_stack_of(256, move || {
        for (what, value) in values(1 << 16) {
            for (before, behind) in PLACES {
                let body = [before, value.as_str(), behind].concat();
                for api in Api::ALL {
                    for layout in [Layout::default(), tiny_blocks] {
                        read_in_time(api, &body, layout, what);
                    }
                }
            }
        }
    });
}

#[test]
fn half_a_mebibyte_where_it_is_looked_into_most() {
    on_a_stack_of(256, || {
        for (what, value) in values(1 << 19) {
            for (before, behind) in &PLACES[4..7] {
                let body = [before, value.as_str(), behind].concat();
                read_in_time(Api::ChatCompletions, &body, Layout::default(), what);
            }
        }
    });
}

#[test]
fn eight_million_brackets() {
    const BYTES: usize = 16 << 20;
    on_a_stack_of(256, || {
        for value in [nested("[", "]", BYTES), "[".repeat(BYTES)] {
            let (before, behind) = PLACES[6];
            let in_tools = [before, value.as_str(), behind].concat();
            for body in [&value, &in_tools] {
                read_in_time(Api::ChatCompletions, body, Layout::default(), "brackets");
            }
        }
    });
}
