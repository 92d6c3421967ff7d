//! What engines put up with, for every API: the form of a body makes no difference.

use burst_prefix_cache::request::Api;
use serde_json::{Map, Value};

use crate::blocks;

/// A body of each API that has something in all its fields; keys of tools are in order, as they are
/// part of the prompt.
const BODIES: [(Api, &str); 7] = [
    (
        Api::Completions,
        r#"{"model":"m","prompt":["a\"é/","b"],"cache_salt":"s"}"#,
    ),
    (
        Api::ChatCompletions,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\"é/"}]}],
        "tools":[{"function":{"name":"f"},"type":"function"}],"cache_salt":"s"}"#,
    ),
    (
        Api::Responses,
        r#"{"model":"m","instructions":"i","input":[{"role":"user","content":"a\"é/"},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],
        "tools":[{"name":"f","type":"function"}]}"#,
    ),
    (
        Api::Messages,
        r#"{"model":"m","system":"s","messages":[{"role":"user","content":"a\"é/"}],
        "tools":[{"input_schema":{},"name":"f"}]}"#,
    ),
    (
        Api::VllmGenerate,
        r#"{"model":"m","token_ids":[1,2,3],"features":{"mm_hashes":{"image":["h"]}}}"#,
    ),
    (
        Api::Generate,
        r#"{"model":"m","text":["a\"é/","b"],"image_data":["u","v"],"lora_path":["k","l"]}"#,
    ),
    (
        Api::Generate,
        r#"{"model":"m","inputs":"a\"é/","parameters":{"adapter_id":"l"}}"#,
    ),
];

fn fields(body: &str) -> Map<String, Value> {
    serde_json::from_str(body).unwrap()
}

/// The fields in this order, each key written by `key`, a value by `value`.
fn written<'a>(
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    key: impl Fn(&str) -> String,
    value: impl Fn(&Value) -> String,
) -> String {
    let fields: Vec<String> = fields
        .map(|(name, field)| format!("{}:{}", key(name), value(field)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// The name as escapes all through.
fn escaped(name: &str) -> String {
    let units = name.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
    format!("\"{}\"", units.collect::<String>())
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

#[test]
fn the_form_of_a_body_makes_no_difference() {
    for (api, body) in BODIES {
        let expected = blocks(api, body);
        let fields = fields(body);
        let pretty = serde_json::to_string_pretty(&fields).unwrap();
        for (what, other) in [
            ("a byte order mark", format!("\u{feff}{body}")),
            ("white space", pretty.replace('\n', "\r\n\t ")),
            ("space around", format!(" \n\t{body}\r\n ")),
            (
                "the order of keys",
                written(fields.iter().rev(), quoted, Value::to_string),
            ),
            (
                "escaped keys",
                written(fields.iter(), escaped, Value::to_string),
            ),
            (
                "slashes and letters as escapes",
                body.replace('/', r"\/").replace('é', r"\u00E9"),
            ),
        ] {
            assert_eq!(blocks(api, &other), expected, "{what}: {other}");
        }
    }
}

#[test]
fn of_duplicate_keys_the_last_one_counts() {
    // Of a type that no API takes there, so it would be noticed.
    let nonsense = r#"{"x":[null]}"#;
    for (api, body) in BODIES {
        let expected = blocks(api, body);
        for name in fields(body).keys() {
            let other = body.replacen('{', &format!("{{\"{name}\":{nonsense},"), 1);
            assert_eq!(blocks(api, &other), expected, "{other}");
        }
    }
}

#[test]
fn fields_that_are_not_the_prompts_may_hold_anything() {
    for (api, body) in BODIES {
        let expected = blocks(api, body);
        for ignored in [
            r#""temperature":NaN,"top_p":Infinity,"top_k":-Infinity,"seed":-0.0e-0"#,
            r#""stream":true,"max_tokens":5,"stop":["\ud800"],"user":"u","priority":1"#,
            r#""metadata":{"model":"x","text":"x","input":"x","messages":[{"role":[]}]}"#,
            r#""rid":null,"request_id":"r","return_logprob":true,"logprobs":5,"logit_bias":{}"#,
        ] {
            let other = body.replacen('{', &format!("{{{ignored},"), 1);
            assert_eq!(blocks(api, &other), expected, "{other}");
        }
    }
}

#[test]
fn what_keeps_whole_prompts_apart_does_so_everywhere() {
    for (api, body) in BODIES {
        let mut seen = vec![blocks(api, body)];
        for field in [
            r#""model":"other""#,
            r#""cache_salt":"salt""#,
            r#""extra_key":"key""#,
            r#""chat_template":"t""#,
            r#""chat_template_kwargs":{"a":1}"#,
            r#""documents":[{"text":"d"}]"#,
            r#""reasoning_effort":"low""#,
        ] {
            // Put last, so that it is the one that counts.
            let end = body.rfind('}').unwrap();
            let other = blocks(api, &format!("{},{field}}}", &body[..end]));
            for earlier in &seen {
                assert_ne!(earlier[0][0], other[0][0], "{field} in {body}");
            }
            seen.push(other);
        }
    }
}
