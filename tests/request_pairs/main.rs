//! Pairs of bodies, a table for each API: which are one prompt, which are not, how much they share,
//! which have no prompt to match, and which cannot be read.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod chat;
mod completions;
mod generate;
mod lenient;
mod messages;
mod responses;
mod vllm_generate;

use std::num::NonZeroU32;

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::Api::{self, ChatCompletions as Chat, Completions as Plain};
use burst_prefix_cache::request::{Length, Prefix, Unreadable, read};

/// What is known of an API's bodies.
pub(crate) struct Pairs {
    api: Api,
    /// Bodies with the same prompts.
    same: &'static [(&'static str, &'static str)],
    /// Bodies with different prompts.
    differ: &'static [(&'static str, &'static str)],
    /// Bodies that share exactly so many leading blocks of eight bytes.
    share: &'static [(usize, &'static str, &'static str)],
    /// Bodies without a prompt to match, and why.
    no_prefix: &'static [(&'static str, &'static str)],
    unreadable: &'static [(Unreadable, &'static str)],
}

const ALL: [Pairs; 6] = [
    completions::PAIRS,
    chat::PAIRS,
    responses::PAIRS,
    messages::PAIRS,
    vllm_generate::PAIRS,
    generate::PAIRS,
];

/// Blocks of eight bytes, so that short bodies have several.
pub(crate) fn layout() -> Layout {
    Layout {
        block_size_tokens: NonZeroU32::new(2).unwrap(),
        max_blocks: 2048,
    }
}

pub(crate) fn parse(api: Api, body: &str) -> Prefix {
    read(api, body.as_bytes(), layout()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// The blocks of each prompt.
pub(crate) fn blocks(api: Api, body: &str) -> Vec<Vec<u64>> {
    let prefix = parse(api, body);
    assert!(!prefix.prompts.is_empty(), "no prompt in {body}");
    let prompts = prefix.prompts.into_iter();
    prompts.map(|prompt| prompt.blocks).collect()
}

/// A list stands for the body whose messages, or whose input, it is.
fn whole(api: Api, body: &str) -> String {
    let field = match api {
        _ if !body.starts_with('[') => return body.to_owned(),
        Api::Responses => "input",
        _ => "messages",
    };
    format!(r#"{{"{field}":{body}}}"#)
}

#[test]
fn there_is_a_table_for_each_api() {
    assert_eq!(ALL.map(|pairs| pairs.api), Api::ALL);
}

#[test]
fn the_same_prompt() {
    for Pairs { api, same, .. } in ALL {
        for (a, b) in same {
            let blocks = |body| blocks(api, &whole(api, body));
            assert_eq!(blocks(a), blocks(b), "{a} {b}");
        }
    }
}

#[test]
fn different_prompts() {
    for Pairs { api, differ, .. } in ALL {
        for (a, b) in differ {
            let blocks = |body| blocks(api, &whole(api, body)).concat();
            assert_ne!(blocks(a), blocks(b), "{a} {b}");
        }
    }
}

#[test]
fn shared_blocks() {
    for Pairs { api, share, .. } in ALL {
        for (count, a, b) in share {
            let blocks = |body| blocks(api, &whole(api, body)).concat();
            let (left, right) = (blocks(a), blocks(b));
            let shared = left.iter().zip(&right).take_while(|(a, b)| a == b);
            assert_eq!(shared.count(), *count, "{a} {b}");
        }
    }
}

#[test]
fn no_prefix() {
    for Pairs { api, no_prefix, .. } in ALL {
        for (reason, body) in no_prefix {
            let prefix = parse(api, &whole(api, body));
            assert_eq!(prefix.prompts, [], "{body}");
            let found = prefix.reason.map(|reason| reason.token());
            assert_eq!(found, Some(*reason), "{body}");
        }
    }
}

#[test]
fn unreadable() {
    for Pairs {
        api, unreadable, ..
    } in ALL
    {
        for (reason, body) in unreadable {
            let read = read(api, whole(api, body).as_bytes(), layout());
            assert_eq!(read, Err(*reason), "{body}");
        }
    }
}

/// Whatever stands in front, an API's bodies cut short at any byte are read to no prefix.
#[test]
fn truncated_anywhere() {
    for Pairs { api, same, .. } in ALL {
        for (body, _) in same {
            let body = whole(api, body);
            for end in 0..body.trim_end().len() {
                let cut = read(api, &body.as_bytes()[..end], layout());
                assert!(
                    matches!(cut, Err(Unreadable::Json | Unreadable::Encoding)),
                    "{cut:?} for the first {end} bytes of {body}"
                );
            }
        }
    }
}

/// `n` is what a request weighs, wherever its API has it.
#[test]
fn samples_are_the_weight() {
    for (api, body, weight) in [
        (Plain, r#"{"prompt":"a"}"#, 1),
        (Plain, r#"{"prompt":"a","n":8}"#, 8),
        (Plain, r#"{"prompt":["a","b"],"n":8}"#, 8),
        (Plain, r#"{"prompt":"a","n":3,"n":4}"#, 4),
        (Plain, r#"{"prompt":"a","n":null}"#, 1),
        (Plain, r#"{"prompt":"a","n":0}"#, 1),
        (Plain, r#"{"prompt":"a","n":-8}"#, 1),
        (Plain, r#"{"prompt":"a","n":2.5}"#, 1),
        (Plain, r#"{"prompt":"a","n":"8"}"#, 1),
        (Plain, r#"{"prompt":"a","n":[8]}"#, 1),
        (Plain, r#"{"prompt":"a","n":99999999999999999999}"#, 1024),
        (Plain, r#"{"prompt":"","n":8}"#, 8),
        (Chat, r#"{"n":8,"messages":[{"content":"a","n":2}]}"#, 8),
        (Api::Responses, r#"{"input":"a","n":8}"#, 1),
        (Api::Messages, r#"{"messages":[{}],"n":8}"#, 1),
        (Api::VllmGenerate, r#"{"token_ids":[1],"n":8}"#, 1),
        (
            Api::VllmGenerate,
            r#"{"token_ids":[1],"sampling_params":{"n":8}}"#,
            8,
        ),
        (Api::Generate, r#"{"text":"a","n":8}"#, 1),
        (
            Api::Generate,
            r#"{"text":"a","sampling_params":{"n":8}}"#,
            8,
        ),
        (
            Api::Generate,
            r#"{"text":["a","b"],"sampling_params":[{"n":8},{"n":8}]}"#,
            8,
        ),
        (Api::Generate, r#"{"text":"a","sampling_params":[]}"#, 1),
        (Api::Generate, r#"{"text":"a","sampling_params":"n"}"#, 1),
        (
            Api::Generate,
            r#"{"inputs":"a","sampling_params":{"n":8}}"#,
            1,
        ),
    ] {
        assert_eq!(parse(api, body).weight, weight, "{body}");
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
