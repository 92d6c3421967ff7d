//! `explain prompt`: a body in, its prompts as block hashes out.

use std::io::{Read, Write};

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{self, Api, Length, Prompt};
use serde::Serialize;

/// What is written. Hashes are decimal strings: not every reader of JSON keeps 64 bits.
#[derive(Serialize)]
struct Answer {
    api: Option<&'static str>,
    model: Option<String>,
    prompts: Vec<Blocks>,
    /// With `--why`: the fields that all chains start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<Vec<&'static str>>,
    /// With `--why`: the samples that the request asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Blocks {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    blocks: Vec<String>,
}

/// Reads the body of one request and writes its prompts, or the reason why there are none: the
/// filter's own token for it.
pub(crate) fn run(
    mut input: impl Read,
    mut output: impl Write,
    path: &str,
    layout: Layout,
    why: bool,
) -> Result<(), String> {
    let mut body = Vec::new();
    input
        .read_to_end(&mut body)
        .map_err(|error| format!("reading: {error}"))?;
    let answer = answer(path, &body, layout, why);
    let answer = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    writeln!(output, "{answer}").map_err(|error| format!("writing: {error}"))
}

fn answer(path: &str, body: &[u8], layout: Layout, why: bool) -> Answer {
    let none = |api: Option<Api>, reason| Answer {
        api: api.map(Api::name),
        model: None,
        prompts: Vec::new(),
        seed: None,
        weight: None,
        reason: Some(reason),
    };
    let Some(api) = request::identify("POST", path) else {
        return none(None, "path");
    };
    if body.is_empty() {
        return none(Some(api), "no-body");
    }
    match request::read(api, body, layout) {
        Err(unreadable) => none(Some(api), unreadable.token()),
        Ok(prefix) => Answer {
            api: Some(api.name()),
            model: Some(prefix.model),
            prompts: prefix.prompts.iter().map(blocks).collect(),
            seed: why.then_some(prefix.seed_fields),
            weight: why.then_some(prefix.weight),
            reason: prefix.reason.map(|reason| reason.token()),
        },
    }
}

fn blocks(prompt: &Prompt) -> Blocks {
    let (bytes, tokens) = match prompt.length {
        Length::Bytes(bytes) => (Some(bytes), None),
        Length::Tokens(tokens) => (None, Some(tokens)),
    };
    Blocks {
        bytes,
        tokens,
        blocks: prompt.blocks.iter().map(u64::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const CHAT: &str = "/v1/chat/completions";
    const COMPLETIONS: &str = "/v1/completions";

    fn explained(path: &str, body: &[u8]) -> String {
        explained_with(Layout::default(), path, body)
    }

    fn explained_with(layout: Layout, path: &str, body: &[u8]) -> String {
        let mut output = Vec::new();
        run(body, &mut output, path, layout, false).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_text_has_bytes_and_token_ids_have_tokens() {
        // The hashes are those of tests/vectors/prefix_hash.jsonl's recipe, worked out here by hand.
        let hash = |seed: &[u8], block: &[u8]| {
            let xxh64 = |bytes: &[u8]| xxhash_rust::xxh64::xxh64(bytes, 0);
            xxh64(&[xxh64(block).to_le_bytes(), xxh64(seed).to_le_bytes()].concat())
        };
        assert_eq!(
            explained(COMPLETIONS, br#"{"prompt":"abcd","model":"m","seed":3}"#),
            format!(
                r#"{{"api":"completions","model":"m","prompts":[{{"bytes":4,"blocks":["{}"]}}]}}{}"#,
                hash(b"m", b"abcd"),
                "\n"
            )
        );
        assert_eq!(
            explained("/x/v1/completions/?y", br#"{"prompt":[[1],[2]]}"#),
            format!(
                r#"{{"api":"completions","model":"","prompts":[{{"tokens":1,"blocks":["{}"]}},{{"tokens":1,"blocks":["{}"]}}]}}{}"#,
                hash(b"", &[1, 0, 0, 0]),
                hash(b"", &[2, 0, 0, 0]),
                "\n"
            )
        );
    }

    #[test]
    fn conversations_share_the_blocks_of_what_they_share() {
        let blocks = |question: &str| -> Vec<String> {
            let system = "s".repeat(600);
            let body = format!(
                r#"{{"messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"{question}"}}]}}"#
            );
            let answer: serde_json::Value =
                serde_json::from_str(&explained(CHAT, body.as_bytes())).unwrap();
            assert_eq!(answer["api"], "chat-completions");
            serde_json::from_value(answer["prompts"][0]["blocks"].clone()).unwrap()
        };
        let (a, b) = (blocks("a"), blocks("b"));
        assert_eq!((a.len(), b.len()), (3, 3));
        assert_eq!(a[..2], b[..2]);
        assert_ne!(a[2], b[2]);
    }

    #[test]
    fn where_there_is_no_prefix_there_is_a_reason() {
        for (path, body, expected) in [
            (
                "/v1/embeddings",
                r#"{"input":"x"}"#,
                r#"{"api":null,"model":null,"prompts":[],"reason":"path"}"#,
            ),
            (
                CHAT,
                "",
                r#"{"api":"chat-completions","model":null,"prompts":[],"reason":"no-body"}"#,
            ),
            (
                CHAT,
                "{'a'}",
                r#"{"api":"chat-completions","model":null,"prompts":[],"reason":"json"}"#,
            ),
            (
                COMPLETIONS,
                "{}",
                r#"{"api":"completions","model":null,"prompts":[],"reason":"missing"}"#,
            ),
            (
                COMPLETIONS,
                r#"{"prompt":7}"#,
                r#"{"api":"completions","model":null,"prompts":[],"reason":"type"}"#,
            ),
            (
                COMPLETIONS,
                r#"{"model":"m","prompt":""}"#,
                r#"{"api":"completions","model":"m","prompts":[],"reason":"empty"}"#,
            ),
            (
                COMPLETIONS,
                r#"{"model":"m","prompt_embeds":"AA=="}"#,
                r#"{"api":"completions","model":"m","prompts":[],"reason":"prompt-embeds"}"#,
            ),
        ] {
            assert_eq!(explained(path, body.as_bytes()), format!("{expected}\n"));
        }
        let unreadable = explained(CHAT, b"\xff\xfe");
        assert!(
            unreadable.contains(r#""reason":"encoding""#),
            "{unreadable}"
        );
    }

    #[test]
    fn blocks_are_as_long_and_as_many_as_told() {
        let body = br#"{"prompt":"0123456789abcdef0123456789abcdef"}"#;
        let blocks = |block_size, max_tokens| {
            let layout = Layout::new(NonZeroU32::new(block_size).unwrap(), max_tokens);
            let answer: serde_json::Value =
                serde_json::from_str(&explained_with(layout, COMPLETIONS, body)).unwrap();
            assert_eq!(answer["prompts"][0]["bytes"], 32);
            answer["prompts"][0]["blocks"].as_array().unwrap().len()
        };
        assert_eq!(blocks(64, 0), 1);
        assert_eq!(blocks(2, 0), 4);
        assert_eq!(blocks(2, 5), 2);
    }

    #[test]
    fn why_adds_what_the_hashes_start_from_and_the_weight() {
        let body = br#"{"model":"m","cache_salt":"s","documents":[],"reasoning_effort":"low","n":4,
            "messages":[{"role":"user","content":"hi"}]}"#;
        let mut output = Vec::new();
        let path = "/v1/chat/completions";
        run(&body[..], &mut output, path, Layout::default(), true).unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output).unwrap();
        let seed = serde_json::json!(["model", "cache_salt", "reasoning_effort"]);
        assert_eq!(told["seed"], seed);
        assert_eq!(told["weight"], 4);
    }
}
