//! Pairs of bodies: which are one prompt, which are not, how much they share, and which have no
//! prompt to match.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::num::NonZeroU32;

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::Api::{ChatCompletions as Chat, Completions as Plain};
use burst_prefix_cache::request::{Api, Length, Prefix, Unreadable, read};

/// Blocks of eight bytes, so that short bodies have several.
fn layout() -> Layout {
    Layout {
        block_size_tokens: NonZeroU32::new(2).unwrap(),
        max_blocks: 2048,
    }
}

fn parse(api: Api, body: &str) -> Prefix {
    read(api, body.as_bytes(), layout()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn shared(api: Api, a: &str, b: &str) -> usize {
    let (a, b) = (parse(api, a).blocks(), parse(api, b).blocks());
    a.iter().zip(&b).take_while(|(a, b)| a == b).count()
}

/// Chat bodies are written as their messages alone where nothing else matters.
fn chat(body: &str) -> String {
    if body.starts_with('[') {
        format!(r#"{{"messages":{body}}}"#)
    } else {
        body.to_owned()
    }
}

const SAME: &[(Api, &str, &str)] = &[
    // White space, key order, escapes.
    (
        Plain,
        r#"{"model":"m","prompt":"ab"}"#,
        "\n{ \"prompt\" :\t\"ab\" , \"model\":\"m\" }\r\n",
    ),
    (
        Plain,
        r#"{"prompt":"é/\"\n😀"}"#,
        r#"{"prompt":"\u00e9\/\u0022\u000A\uD83D\ude00"}"#,
    ),
    (Plain, r#"{"prompt":"ab"}"#, "\u{feff}{\"prompt\":\"ab\"}"),
    (
        Plain,
        r#"{"prompt":"ab","model":"m"}"#,
        r#"{"p\u0072ompt":"ab","mode\u006c":"\u006d"}"#,
    ),
    // Duplicates: the last one counts.
    (
        Plain,
        r#"{"prompt":"ab"}"#,
        r#"{"prompt":[1,2],"prompt":"ab"}"#,
    ),
    (
        Plain,
        r#"{"prompt":"ab"}"#,
        r#"{"prompt_embeds":"x","prompt":"ab","prompt_embeds":null}"#,
    ),
    (
        Plain,
        r#"{"model":"b","prompt":"ab"}"#,
        r#"{"model":"a","prompt":"ab","model":"b"}"#,
    ),
    // Kinds of prompts that are the same prompts.
    (Plain, r#"{"prompt":"ab"}"#, r#"{"prompt":["ab"]}"#),
    (Plain, r#"{"prompt":[1,2,3]}"#, r#"{"prompt":[[1,2,3]]}"#),
    (
        Plain,
        r#"{"prompt":["a","","b"]}"#,
        r#"{"prompt":["a","b"]}"#,
    ),
    (
        Plain,
        r#"{"prompt":[[1],[],[2]]}"#,
        r#"{"prompt":[[1],[2]]}"#,
    ),
    (
        Plain,
        r#"{"prompt":"ab"}"#,
        r#"{"prompt":"ab","model":null,"cache_salt":null}"#,
    ),
    (
        Plain,
        r#"{"prompt":"ab"}"#,
        r#"{"prompt":"ab","model":"","cache_salt":""}"#,
    ),
    // What does not change the prompt.
    (
        Plain,
        r#"{"prompt":"ab"}"#,
        r#"{"prompt":"ab","n":8,"seed":1,"temperature":NaN,"top_p":1,
        "max_tokens":5,"stream":true,"stop":["a"],"user":"u","metadata":{"prompt":"x"},
        "priority":1,"suffix":"s","echo":true,"messages":[{"content":"c"}]}"#,
    ),
    (
        Chat,
        r#"[{"role":"user","content":"a"}]"#,
        r#"{"messages":[{"content":"a","role":"user"}],
        "n":8,"seed":1,"temperature":0.5,"top_p":1,"max_tokens":5,"stream":true,"stop":"a",
        "user":"u","metadata":{"messages":[]},"priority":1,"tool_choice":"auto","prompt":"p"}"#,
    ),
    // Fields that say nothing.
    (
        Chat,
        r#"[{"role":"user","content":"a"}]"#,
        r#"{"messages":[{"role":"user","content":"a",
        "name":null,"tool_calls":null,"refusal":null,"reasoning_content":null,"unknown":1}],
        "tools":[],"documents":null,"chat_template_kwargs":{},"continue_final_message":false,
        "add_generation_prompt":true,"chat_template":null,"reasoning_effort":null}"#,
    ),
    (
        Chat,
        r#"[{"role":"user","content":"a"}]"#,
        r#"{"tools":null,"messages":[{"role":"user",
        "tool_calls":[],"content":[{"text":"a","type":"text","cache_control":{"x":1}}]}]}"#,
    ),
    (
        Chat,
        r#"[{"role":"user","content":"a"}]"#,
        r#"[{"role":"user","content":["a"]}]"#,
    ),
    (
        Chat,
        r#"[{"role":"user"}]"#,
        r#"[{"role":"user","content":null}]"#,
    ),
    (
        Chat,
        r#"[{"role":"user"}]"#,
        r#"[{"role":"user","content":[]}]"#,
    ),
    (
        Chat,
        r#"[{"role":"a","reasoning":"x"}]"#,
        r#"[{"role":"a","reasoning_content":"x"}]"#,
    ),
    // Duplicates inside a message, a part, a call, a tool.
    (
        Chat,
        r#"[{"role":"a","content":"b"}]"#,
        r#"[{"role":"x","content":[1],"role":"a","content":"b"}]"#,
    ),
    (
        Chat,
        r#"[{"content":[{"type":"text","text":"b"}]}]"#,
        r#"[{"content":[{"type":"image","text":"a","type":"text","text":"b"}]}]"#,
    ),
    (
        Chat,
        r#"[{"content":[{"type":"i","i":{"url":"a"}}]}]"#,
        r#"[{"content":[{"i":3,"type":"x","i":{"url":"b","url":"a"},"type":"i"}]}]"#,
    ),
    (
        Chat,
        r#"[{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}]"#,
        r#"[{"tool_calls":[{"id":"0","function":1,"type":"function","function":{"arguments":"",
        "arguments":"{}","name":"f"},"id":"1"}]}]"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":1,"b":2}],"messages":[{}]}"#,
        r#"{"messages":[{}],"tools":[ {"\u0061":0, "b":2, "a":1} ]}"#,
    ),
    // A picture's fields have no order.
    (
        Chat,
        r#"[{"content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}}]}]"#,
        r#"[{"content":[{"image_url":{"detail":"low","url":"\u0075"},"type":"image_url",
        "cache_control":{},"uuid":null}]}]"#,
    ),
    (
        Chat,
        r#"{"chat_template_kwargs":{"a":1,"b":{"c":2,"d":3}},"messages":[{}]}"#,
        r#"{"chat_template_kwargs":{"b":{"d":3,"c":2},"a":1},"messages":[{}]}"#,
    ),
    // The reference joins model and salt without a border, and pads text with zeros.
    (
        Plain,
        r#"{"prompt":"a","model":"ab","cache_salt":"c"}"#,
        r#"{"prompt":"a","model":"a","cache_salt":"bc"}"#,
    ),
    (Plain, r#"{"prompt":"abc"}"#, r#"{"prompt":"abc\u0000"}"#),
];

const DIFFERENT: &[(Api, &str, &str)] = &[
    (Plain, r#"{"prompt":"ab"}"#, r#"{"prompt":["a","b"]}"#),
    (Plain, r#"{"prompt":"ab"}"#, r#"{"prompt":"ab "}"#),
    (Plain, r#"{"prompt":"é"}"#, r#"{"prompt":"e\u0301"}"#),
    (
        Plain,
        r#"{"prompt":"\ud83d\ude00"}"#,
        r#"{"prompt":"\ude00\ud83d"}"#,
    ),
    (Plain, r#"{"prompt":"\\u0061"}"#, r#"{"prompt":"\u0061"}"#),
    (Plain, r#"{"prompt":[1,2]}"#, r#"{"prompt":[2,1]}"#),
    (Plain, r#"{"prompt":[1,2]}"#, r#"{"prompt":[[1],[2]]}"#),
    (
        Plain,
        r#"{"prompt":"a","model":"m"}"#,
        r#"{"prompt":"a","model":"n"}"#,
    ),
    (
        Plain,
        r#"{"prompt":"a","model":"m"}"#,
        r#"{"prompt":"a","model":"m","cache_salt":"s"}"#,
    ),
    (
        Plain,
        r#"{"prompt":"a","cache_salt":"s"}"#,
        r#"{"prompt":"a","extra_key":"s"}"#,
    ),
    (
        Plain,
        r#"{"prompt":"a","extra_key":"s"}"#,
        r#"{"prompt":"a","lora_path":"s"}"#,
    ),
    (
        Plain,
        r#"{"prompt":"a"}"#,
        r#"{"prompt":"a","add_special_tokens":false}"#,
    ),
    // Borders between messages, and between what belongs to different fields.
    (
        Chat,
        r#"[{"role":"user","content":"ab"},{"role":"user","content":"c"}]"#,
        r#"[{"role":"user","content":"a"},{"role":"user","content":"bc"}]"#,
    ),
    (
        Chat,
        r#"[{"role":"usera","content":"b"}]"#,
        r#"[{"role":"user","content":"ab"}]"#,
    ),
    (
        Chat,
        r#"[{"role":"a"},{"role":"b"}]"#,
        r#"[{"role":"a","content":"b"}]"#,
    ),
    (
        Chat,
        r#"[{"role":"a","content":"b"}]"#,
        r#"[{"role":"a","name":"b"}]"#,
    ),
    (
        Chat,
        r#"[{"role":"a","content":"b"}]"#,
        r#"[{"role":"a","reasoning_content":"b"}]"#,
    ),
    (
        Chat,
        r#"[{"role":"a","content":"b"}]"#,
        r#"[{"role":"a","refusal":"b"}]"#,
    ),
    (
        Chat,
        r#"[{"role":"a","tool_call_id":"b"}]"#,
        r#"[{"role":"a","name":"b"}]"#,
    ),
    (Chat, r#"[{"role":"a","content":""}]"#, r#"[{"role":"a"}]"#),
    (
        Chat,
        r#"[{"content":"abc"}]"#,
        r#"[{"content":"abc\u0000"}]"#,
    ),
    (Chat, r#"[{"content":"a"}]"#, r#"[{"content":"a"},{}]"#),
    (Chat, r#"[{"content":["a","b"]}]"#, r#"[{"content":"ab"}]"#),
    (
        Chat,
        r#"[{"content":["a","b"]}]"#,
        r#"[{"content":"a\nb"}]"#,
    ),
    (
        Chat,
        r#"[{"content":["ab","c"]}]"#,
        r#"[{"content":["a","bc"]}]"#,
    ),
    (
        Chat,
        r#"[{"content":["a"]},{"content":"b"}]"#,
        r#"[{"content":["a","b"]}]"#,
    ),
    // Tools.
    (
        Chat,
        r#"{"tools":["x"],"messages":[{}]}"#,
        r#"[{"role":"user","content":"x"},{}]"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":1}],"messages":[{}]}"#,
        r#"{"tools":[{"a":2}],"messages":[{}]}"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":"1"}],"messages":[{}]}"#,
        r#"{"tools":[{"a":1}],"messages":[{}]}"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":1,"b":2}],"messages":[{}]}"#,
        r#"{"tools":[{"b":2,"a":1}],"messages":[{}]}"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":[]}],"messages":[{}]}"#,
        r#"{"tools":[{"a":{}}],"messages":[{}]}"#,
    ),
    (
        Chat,
        r#"{"tools":[["a"],"b"],"messages":[{}]}"#,
        r#"{"tools":[["a","b"]],"messages":[{}]}"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":1,"b":2,"a":3}],"messages":[{}]}"#,
        r#"{"tools":[{"b":2,"a":3}],"messages":[{}]}"#,
    ),
    (
        Chat,
        r#"{"tools":[{"a":1}],"messages":[{}]}"#,
        r#"{"messages":[{"tools":[{"a":1}]}]}"#,
    ),
    // Tool calls.
    (
        Chat,
        r#"[{"tool_calls":[{"function":{"name":"f","arguments":"x"}}]}]"#,
        r#"[{"tool_calls":[{"function":{"name":"f","arguments":"y"}}]}]"#,
    ),
    (
        Chat,
        r#"[{"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]}]"#,
        r#"[{"tool_calls":[{"function":{"name":"fg"}}]}]"#,
    ),
    (
        Chat,
        r#"[{"tool_calls":[{"id":"f"}]}]"#,
        r#"[{"tool_calls":[{"function":{"name":"f"}}]}]"#,
    ),
    (
        Chat,
        r#"[{"tool_calls":[{"id":"1"}]}]"#,
        r#"[{"tool_calls":[{"id":"2"}]}]"#,
    ),
    (
        Chat,
        r#"[{"tool_calls":[{"id":"a"}]}]"#,
        r#"[{"tool_call_id":"a"}]"#,
    ),
    // Media.
    (
        Chat,
        r#"[{"content":[{"type":"image_url","image_url":{"url":"a"}}]}]"#,
        r#"[{"content":[{"type":"image_url","image_url":{"url":"b"}}]}]"#,
    ),
    (
        Chat,
        r#"[{"content":[{"type":"image_url","image_url":{"url":"a"}}]}]"#,
        r#"[{"content":[{"type":"video_url","video_url":{"url":"a"}}]}]"#,
    ),
    (
        Chat,
        r#"[{"content":[{"type":"image_url","image_url":{"url":"a"}},"b"]}]"#,
        r#"[{"content":["b",{"type":"image_url","image_url":{"url":"a"}}]}]"#,
    ),
    (
        Chat,
        r#"[{"content":[{"type":"input_audio","input_audio":{"data":"a","format":"wav"}}]}]"#,
        r#"[{"content":[{"type":"input_audio","input_audio":{"data":"a","format":"mp3"}}]}]"#,
    ),
    // Settings of the template.
    (
        Chat,
        r#"{"messages":[{}]}"#,
        r#"{"messages":[{}],"chat_template":"x"}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}]}"#,
        r#"{"messages":[{}],"chat_template_kwargs":{"a":1}}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}],"chat_template_kwargs":{"a":1}}"#,
        r#"{"messages":[{}],"chat_template_kwargs":{"a":2}}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}],"chat_template_kwargs":{"a":{"b":1}}}"#,
        r#"{"messages":[{}],"chat_template_kwargs":{"b":{"a":1}}}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}]}"#,
        r#"{"messages":[{}],"documents":[{"text":"d"}]}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}]}"#,
        r#"{"messages":[{}],"reasoning_effort":"low"}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}],"reasoning_effort":"x"}"#,
        r#"{"messages":[{}],"chat_template":"x"}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}],"model":"x"}"#,
        r#"{"messages":[{}],"reasoning_effort":"x"}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}]}"#,
        r#"{"messages":[{}],"continue_final_message":true}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}]}"#,
        r#"{"messages":[{}],"add_generation_prompt":false}"#,
    ),
    (
        Chat,
        r#"{"messages":[{}],"continue_final_message":true}"#,
        r#"{"messages":[{}],"add_generation_prompt":false}"#,
    ),
];

/// Bodies that share exactly so many leading blocks of eight bytes.
const SHARED: &[(Api, usize, &str, &str)] = &[
    (
        Plain,
        2,
        r#"{"prompt":"0123456789abcdefX"}"#,
        r#"{"prompt":"0123456789abcdefY"}"#,
    ),
    // The shorter one's tail is a block of its own.
    (
        Plain,
        1,
        r#"{"prompt":"0123456789ab"}"#,
        r#"{"prompt":"0123456789abcdefgh"}"#,
    ),
    (Plain, 1, r#"{"prompt":[1,2,3]}"#, r#"{"prompt":[1,2,3,4]}"#),
    (
        Plain,
        0,
        r#"{"prompt":"01234567","model":"a"}"#,
        r#"{"prompt":"01234567","model":"b"}"#,
    ),
    // A message takes 10 bytes here, and each starts where the one before it ended.
    (
        Chat,
        2,
        r#"[{"role":"r","content":"s"},{"role":"r","content":"s"}]"#,
        r#"[{"role":"r","content":"s"},{"role":"r","content":"s"},{"role":"u"}]"#,
    ),
    (
        Chat,
        5,
        r#"[{"content":"01234567890123456789012345678901234567890"}]"#,
        r#"[{"content":"0123456789012345678901234567890123456789x"}]"#,
    ),
    // Tools stand first.
    (
        Chat,
        3,
        r#"{"messages":[{"content":"a"}],"tools":["0123456789abcdef"]}"#,
        r#"{"tools":["0123456789abcdef"],"messages":[{"content":"b"}]}"#,
    ),
];

const NO_PREFIX: &[(Api, &str, &str)] = &[
    (Plain, "prompt-embeds", r#"{"prompt_embeds":"AAAA"}"#),
    (
        Plain,
        "prompt-embeds",
        r#"{"prompt_embeds":["AAAA"],"prompt":"ab"}"#,
    ),
    (Plain, "empty", r#"{"prompt":""}"#),
    (Plain, "empty", r#"{"prompt":[]}"#),
    (Plain, "empty", r#"{"prompt":["",""]}"#),
    (Plain, "empty", r#"{"prompt":[[],[]]}"#),
    (Chat, "empty", r#"{"messages":[]}"#),
    (Chat, "empty", r#"{"messages":[],"tools":[{"a":1}]}"#),
];

const UNREADABLE: &[(Api, Unreadable, &str)] = &[
    (Plain, Unreadable::Missing, "{}"),
    (Plain, Unreadable::Missing, r#"{"prompt":null}"#),
    (Plain, Unreadable::Type, r#"{"prompt":1}"#),
    (Plain, Unreadable::Type, r#"{"prompt":true}"#),
    (Plain, Unreadable::Type, r#"{"prompt":{}}"#),
    (Plain, Unreadable::Type, r#"{"prompt":["a",1]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[1,"a"]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[[1],"a"]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[[1],2]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[["a"]]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[null]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[-1]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[1.5]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[1e2]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[4294967296]}"#),
    (
        Plain,
        Unreadable::Type,
        r#"{"prompt":[99999999999999999999999999]}"#,
    ),
    (Plain, Unreadable::Type, r#"{"prompt":[NaN]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":[true]}"#),
    (Plain, Unreadable::Type, r#"{"prompt":"a","model":1}"#),
    (Plain, Unreadable::Json, r#"{"prompt":"a"}x"#),
    (Plain, Unreadable::Json, r#"{"prompt":"a"},"#),
    (Plain, Unreadable::Json, r#"{"prompt":"a","#),
    (Plain, Unreadable::Json, r#"{"prompt":"a","x":[1,]}"#),
    (Plain, Unreadable::Json, r#"{"prompt":"a",'x':1}"#),
    (Plain, Unreadable::Json, r#"{"prompt":"a"/**/}"#),
    (Plain, Unreadable::Json, r#"{"prompt":"\ud83"}"#),
    (Plain, Unreadable::Json, "{\"prompt\":\"a\"}\u{a0}"),
    (Chat, Unreadable::Missing, "{}"),
    (Chat, Unreadable::Missing, r#"{"messages":null}"#),
    (Chat, Unreadable::Type, r#"{"messages":"a"}"#),
    (Chat, Unreadable::Type, r#"{"messages":["a"]}"#),
    (Chat, Unreadable::Type, r#"{"messages":[{"role":1}]}"#),
    (Chat, Unreadable::Type, r#"{"messages":[{"content":1}]}"#),
    (Chat, Unreadable::Type, r#"{"messages":[{"content":{}}]}"#),
    (Chat, Unreadable::Type, r#"{"messages":[{"content":[1]}]}"#),
    (
        Chat,
        Unreadable::Type,
        r#"{"messages":[{"content":[{"type":1}]}]}"#,
    ),
    (
        Chat,
        Unreadable::Type,
        r#"{"messages":[{"content":[{"type":"text"}]}]}"#,
    ),
    (
        Chat,
        Unreadable::Type,
        r#"{"messages":[{"content":[{"type":"text","text":{}}]}]}"#,
    ),
    (
        Chat,
        Unreadable::Type,
        r#"{"messages":[{"tool_calls":{}}]}"#,
    ),
    (
        Chat,
        Unreadable::Type,
        r#"{"messages":[{"tool_calls":["a"]}]}"#,
    ),
    (
        Chat,
        Unreadable::Type,
        r#"{"messages":[{"tool_calls":[{"function":"a"}]}]}"#,
    ),
];

#[test]
fn the_same_prompt() {
    for (api, a, b) in SAME {
        let (a, b) = (parse(*api, &chat(a)), parse(*api, &chat(b)));
        assert!(!a.prompts.is_empty(), "no prompt in {a:?}");
        let blocks = |prefix: &Prefix| -> Vec<_> {
            prefix
                .prompts
                .iter()
                .map(|prompt| prompt.blocks.clone())
                .collect()
        };
        assert_eq!(blocks(&a), blocks(&b), "{a:?} {b:?}");
    }
}

#[test]
fn different_prompts() {
    for (api, a, b) in DIFFERENT {
        let (left, right) = (parse(*api, &chat(a)), parse(*api, &chat(b)));
        assert!(
            !left.prompts.is_empty() && !right.prompts.is_empty(),
            "{a} {b}"
        );
        assert_ne!(left.blocks(), right.blocks(), "{a} {b}");
    }
}

#[test]
fn shared_blocks() {
    for (api, count, a, b) in SHARED {
        assert_eq!(shared(*api, &chat(a), &chat(b)), *count, "{a} {b}");
    }
}

#[test]
fn no_prefix() {
    for (api, reason, body) in NO_PREFIX {
        let prefix = parse(*api, body);
        assert_eq!(prefix.prompts, []);
        assert_eq!(
            prefix.reason.map(|reason| reason.token()),
            Some(*reason),
            "{body}"
        );
    }
}

#[test]
fn unreadable() {
    for (api, reason, body) in UNREADABLE {
        assert_eq!(
            read(*api, body.as_bytes(), layout()),
            Err(*reason),
            "{body}"
        );
    }
}

/// Whatever stands in front, an API's bodies cut short at any byte are read to no prefix.
#[test]
fn truncated_anywhere() {
    for (api, body, _) in SAME {
        let body = chat(body);
        for end in 0..body.trim_end().len() {
            let cut = read(*api, &body.as_bytes()[..end], layout());
            assert!(
                matches!(cut, Err(Unreadable::Json | Unreadable::Encoding)),
                "{cut:?} for the first {end} bytes of {body}"
            );
        }
    }
}

#[test]
fn lengths_are_in_the_unit_of_the_prompt() {
    let length = |body| {
        parse(Plain, body)
            .prompts
            .first()
            .map(|prompt| prompt.length)
    };
    assert_eq!(length(r#"{"prompt":"h\u00e9"}"#), Some(Length::Bytes(3)));
    assert_eq!(length(r#"{"prompt":[7,8,9]}"#), Some(Length::Tokens(3)));
    assert_eq!(Length::Bytes(5).tokens(), 2);
    assert_eq!(Length::Tokens(5).tokens(), 5);
}

#[test]
fn a_prefix_has_its_model() {
    assert_eq!(
        parse(Plain, r#"{"prompt":"a","model":"\u006d/\u00e9"}"#).model,
        "m/é"
    );
    assert_eq!(parse(Plain, r#"{"prompt":"a"}"#).model, "");
    assert_eq!(parse(Chat, r#"{"messages":[],"model":"m"}"#).model, "m");
    assert_eq!(
        parse(Plain, r#"{"prompt":"a","model":"\ud800"}"#).model,
        "\u{fffd}".repeat(3)
    );
}

/// Past the cap nothing is hashed, but the length and the grammar still count.
#[test]
fn past_the_cap() {
    let layout = Layout {
        max_blocks: 2,
        ..layout()
    };
    let long = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(1000));
    let prefix = read(Plain, long.as_bytes(), layout).unwrap();
    let prompt = prefix.prompts.first().unwrap();
    assert_eq!(
        (prompt.length, prompt.blocks.len()),
        (Length::Bytes(1000), 2)
    );
    assert_eq!(
        read(Plain, (long + "]").as_bytes(), layout),
        Err(Unreadable::Json)
    );
}
