//! Laws of the chat stream, over conversations of any shape.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::num::NonZeroU32;

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{Api, Length, Prefix, Unreadable, read};
use proptest::prelude::*;
use serde_json::{Value, json};

fn layout() -> Layout {
    Layout {
        block_size_tokens: NonZeroU32::new(2).unwrap(),
        max_blocks: 2048,
    }
}

fn parse(body: &Value) -> Prefix {
    read(Api::ChatCompletions, body.to_string().as_bytes(), layout()).unwrap()
}

fn blocks(messages: &[Value]) -> Vec<u64> {
    parse(&json!({ "model": "m", "messages": messages })).blocks()
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ab]{0,3}",
        "[ -~]{0,100}",
        "[\u{0}é\"\\\\]{0,20}"
    ]
}

fn any_part() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_text().prop_map(|text| json!({ "type": "text", "text": text })),
        any_text().prop_map(|text| json!(text)),
        any_text().prop_map(|url| json!({ "type": "image_url", "image_url": { "url": url } })),
    ]
}

fn any_content() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_text().prop_map(Value::from),
        prop::collection::vec(any_part(), 0..4).prop_map(Value::from),
        Just(Value::Null),
    ]
}

fn any_call() -> impl Strategy<Value = Value> {
    (any_text(), any_text(), any_text()).prop_map(|(id, name, arguments)| {
        json!({ "id": id, "function": { "name": name, "arguments": arguments } })
    })
}

fn any_message() -> impl Strategy<Value = Value> {
    let role = prop_oneof![
        Just("system"),
        Just("user"),
        Just("assistant"),
        Just("tool")
    ];
    let calls = prop::collection::vec(any_call(), 0..3);
    (role, any_content(), prop::option::of("[ab]{0,2}"), calls).prop_map(
        |(role, content, name, calls)| {
            json!({ "role": role, "content": content, "name": name, "tool_calls": calls })
        },
    )
}

fn any_messages() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(any_message(), 1..5)
}

/// What is the same prompt by rule: null is absent, and so is an empty list; one text part is its
/// text; a bare string is a text part.
fn plain(message: &Value) -> Value {
    let mut fields = message.as_object().unwrap().clone();
    fields.retain(|_, value| !value.is_null() && *value != json!([]));
    if let Some(content) = fields.get_mut("content") {
        let parts = match content.take() {
            Value::Array(parts) => parts,
            text => vec![text],
        };
        let part = |part| match part {
            Value::String(text) => json!({ "type": "text", "text": text }),
            part => part,
        };
        *content = parts.into_iter().map(part).collect();
    }
    Value::Object(fields)
}

fn plainly(messages: &[Value]) -> Vec<Value> {
    messages.iter().map(plain).collect()
}

const BODIES: [(Api, &str); 5] = [
    (
        Api::ChatCompletions,
        r#"{"messages":[{"role":"a","content":[{"type":"text","text":"\u00e9\\"}]}],"messages":[{"x":[1,{}]},
        {"content":"\"]"}],"tools":[{"a":{"b":[]}}]}"#,
    ),
    (
        Api::Messages,
        r#"{"messages":[{"content":[{"type":"tool_use","input":{"a":[1,2]}}]}],"system":[{"text":"\\"}]}"#,
    ),
    (
        Api::Responses,
        r#"{"input":[{"role":"user","content":"\\\""},{"type":"reasoning","summary":[]}]}"#,
    ),
    (
        Api::VllmGenerate,
        r#"{"token_ids":[1,23,456, 7890],"token_ids":[12345678,9 ,0]}"#,
    ),
    (
        Api::Generate,
        r#"{"input_ids":[[1,2],[],[3]],"image_data":["a",null,"b"]}"#,
    ),
];

/// An edit of a text: where, how many characters go, and what comes.
fn any_edit() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    (
        any::<prop::sample::Index>(),
        0..3usize,
        "[\\[\\]{}\",:\\\\ 019u-]{0,3}",
    )
}

proptest! {
    #[test]
    fn a_message_more_leaves_all_whole_blocks(messages in any_messages(), more in any_message()) {
        let prompt = parse(&json!({ "messages": messages })).prompts.remove(0);
        let Length::Bytes(bytes) = prompt.length else { panic!("{:?}", prompt.length) };
        let whole = usize::try_from(bytes / 8).unwrap();
        let longer = [messages, vec![more]].concat();
        let longer = parse(&json!({ "messages": longer })).blocks();
        prop_assert_eq!(&longer[..whole], &prompt.blocks[..whole]);
        prop_assert_ne!(longer, prompt.blocks);
    }

    #[test]
    fn equal_blocks_are_equal_messages(a in any_messages(), b in any_messages()) {
        prop_assert_eq!(blocks(&a) == blocks(&b), plainly(&a) == plainly(&b), "{:?} {:?}", a, b);
        prop_assert_eq!(blocks(&a), blocks(&plainly(&a)));
    }

    #[test]
    fn text_moved_to_the_next_message_is_another_prompt(
        text in "[a-cé]{2,30}",
        cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        same_role in any::<bool>(),
    ) {
        let characters: Vec<char> = text.chars().collect();
        let split = |cut: prop::sample::Index| {
            let (a, b) = characters.split_at(cut.index(characters.len()));
            let second = if same_role { "user" } else { "assistant" };
            let content = |text: &[char]| text.iter().collect::<String>();
            [
                json!({ "role": "user", "content": content(a) }),
                json!({ "role": second, "content": content(b) }),
            ]
        };
        let (first, second) = (split(cuts.0), split(cuts.1));
        prop_assert_eq!(blocks(&first) == blocks(&second), first == second);
        prop_assert_ne!(blocks(&first), blocks(&[json!({ "role": "user", "content": text })]));
    }

    #[test]
    fn tools_are_told_from_messages(messages in any_messages(), tool in any_message()) {
        let tools = json!({ "model": "m", "tools": [tool], "messages": messages });
        prop_assert_ne!(parse(&tools).blocks(), blocks(&messages));
        prop_assert_ne!(parse(&tools).blocks(), blocks(&[vec![tool], messages].concat()));
    }

    #[test]
    fn the_form_of_a_body_makes_no_difference(messages in any_messages()) {
        let body = json!({ "model": "m", "messages": messages });
        let pretty = serde_json::to_vec_pretty(&body).unwrap();
        let pretty = read(Api::ChatCompletions, &pretty, layout()).unwrap();
        prop_assert_eq!(pretty, parse(&body));
    }

    /// Large fields are passed over by their brackets first: no fault in them is overlooked.
    #[test]
    fn what_is_read_is_json(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(any_edit(), 1..4),
    ) {
        let (api, body) = BODIES[which.index(BODIES.len())];
        // A line end inside a string would be read, but is no JSON.
        let mut characters: Vec<char> = body.chars().filter(|c| *c != '\n').collect();
        for (at, gone, new) in edits {
            let at = at.index(characters.len() + 1);
            let end = characters.len().min(at + gone);
            characters.splice(at..end, new.chars());
        }
        let body: String = characters.into_iter().collect();
        let valid = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
        match read(api, body.as_bytes(), layout()) {
            Ok(_) => prop_assert!(valid, "{}", body),
            Err(Unreadable::Json | Unreadable::Encoding) => prop_assert!(!valid, "{}", body),
            // Found before the rest was checked.
            Err(Unreadable::Type | Unreadable::Missing) => {}
        }
    }

    #[test]
    fn no_body_is_too_much(body in prop::collection::vec(any::<u8>(), 0..100), text in any_text()) {
        let body = String::from_utf8_lossy(&body);
        for api in Api::ALL {
            for field in [
                "messages", "prompt", "tools", "model", "chat_template_kwargs", "input", "system",
                "token_ids", "features", "input_ids", "text", "image_data", "lora_path",
            ] {
                let _ = read(api, format!("{{\"{field}\":{body}}}").as_bytes(), layout());
                let _ = read(api, format!("{{\"{field}\":[{{{text}}}]}}").as_bytes(), layout());
            }
            let _ = read(api, body.as_bytes(), layout());
        }
    }
}
