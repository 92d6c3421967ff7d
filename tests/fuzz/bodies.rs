//! Any bytes as a body, any texts as method and path.

use std::num::NonZeroU32;

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{Api, identify, read};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases;
use crate::mutate::{changed, changes};

/// Words of bodies, well-formed or not.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    " ",
    "\n",
    "\u{feff}",
    "null",
    "true",
    "false",
    "NaN",
    "-Infinity",
    "0",
    "-1",
    "1e999",
    "0.1",
    "00",
    "\"a\"",
    "\"\\u0061\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"\\",
    "\"\\u12\"",
    "\"é\"",
    "\"prompt\":",
    "\"messages\":[",
    "\"model\":",
    "\"tools\":",
    "\"role\":\"user\",",
    "\"content\":",
    "\"type\":\"text\",",
    "\"type\":\"image_url\",",
    "\"text\":",
    "\"image_url\":{\"url\":",
    "\"tool_calls\":[",
    "\"function\":{",
    "\"arguments\":",
    "\"cache_salt\":",
    "\"chat_template_kwargs\":{",
    "\"prompt_embeds\":",
    "\"add_generation_prompt\":",
    "\"documents\":[",
];

fn any_layout() -> impl Strategy<Value = Layout> {
    let size = prop_oneof![1..4_u32, 1..=u32::MAX];
    let tokens = prop_oneof![Just(0), 1..100_u32, any::<u32>()];
    (size, tokens).prop_map(|(size, tokens)| Layout::new(NonZeroU32::new(size).unwrap(), tokens))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let key = prop::sample::select(
        &[
            "prompt",
            "role",
            "content",
            "type",
            "text",
            "tool_calls",
            "function",
            "url",
            "a",
            "b",
        ][..],
    );
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4).prop_map(|fields| {
                let fields = fields.into_iter();
                Value::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// A body of an API, some of it odd.
fn any_body() -> impl Strategy<Value = Value> {
    (any_json(), any_json(), any_json(), "[ -~]{0,80}").prop_map(|(a, b, c, text)| {
        json!({
            "model": "m",
            "prompt": [text, a],
            "messages": [
                {"role": "system", "content": text},
                {"role": "user", "content": [{"type": "text", "text": text}, a]},
                {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": b}}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": text, "x": c}}]},
            ],
            "tools": [{"type": "function", "function": b}],
            "chat_template_kwargs": {"a": c},
        })
    })
}

fn check(body: &[u8], layout: Layout) {
    for api in Api::ALL {
        let first = read(api, body, layout);
        if let Ok(prefix) = &first {
            assert_eq!(prefix.prompts.is_empty(), prefix.reason.is_some());
            for prompt in &prefix.prompts {
                assert!((1..=layout.max_blocks).contains(&prompt.blocks.len()));
            }
        }
        assert_eq!(first, read(api, body, layout));
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..200), layout in any_layout()) {
        check(&body, layout);
        check(&[b"{\"prompt\":\"", &body[..], b"\"}"].concat(), layout);
    }

    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(WORDS), 0..40), layout in any_layout()) {
        let body = words.concat();
        check(body.as_bytes(), layout);
        check(format!("{{{body}}}").as_bytes(), layout);
        check(format!("{{\"messages\":[{{{body}}}]}}").as_bytes(), layout);
    }

    #[test]
    fn a_body_and_what_is_nearly_one(body in any_body(), changes in changes(), layout in any_layout()) {
        check(&changed(body.to_string().into_bytes(), &changes), layout);
    }

    #[test]
    fn any_method_and_path(
        method in prop_oneof![Just("POST".to_owned()), ".{0,8}"],
        before in "[/?#.a-zé]{0,10}",
        path in prop_oneof![Just("/v1/completions"), Just("/v1/chat/completions"), Just("/v1"), Just("")],
        after in "[/?#.a-zé]{0,10}",
        any in ".{0,60}",
    ) {
        let _ = identify(&method, &any);
        let _ = identify(&any, &any);
        let whole = format!("{before}{path}{after}");
        if let Some(api) = identify(&method, &whole) {
            prop_assert_eq!(method, "POST");
            prop_assert!(whole.contains(api.path()));
        }
    }
}
