//! Bodies of requests.

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{identify, read};
use serde_json::json;

pub(crate) const TEXT: &str = "/v1/completions";
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// A text of `tokens` tokens, four bytes each, that shares no block with one of another name.
pub(crate) fn text(name: &str, tokens: usize) -> String {
    let words = format!("{name} ");
    let repeated = words.repeat(tokens * 4 / words.len() + 1);
    repeated.chars().take(tokens * 4).collect()
}

/// One of the samples of a prompt, as a completion or as a chat; they differ in the seed only.
pub(crate) fn sample(path: &str, name: &str, seed: usize) -> String {
    let prompt = text(name, 300);
    let body = match path {
        CHAT => json!({
            "model": "tiny",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 2,
            "seed": seed,
        }),
        _ => json!({"model": "tiny", "prompt": prompt, "max_tokens": 2, "seed": seed}),
    };
    body.to_string()
}

/// A completion of exactly `bytes` bytes.
pub(crate) fn sized(name: &str, bytes: usize) -> String {
    let (begin, end) = ("{\"prompt\":\"", "\",\"max_tokens\":2}");
    let inside = bytes - begin.len() - end.len();
    let mut prompt = text(name, inside.div_ceil(4));
    prompt.truncate(inside);
    [begin, &prompt, end].concat()
}

/// Blocks of a body's prompts.
pub(crate) fn blocks(path: &str, body: &str) -> usize {
    let api = identify("POST", path).unwrap();
    let prefix = read(api, body.as_bytes(), Layout::default()).unwrap();
    prefix.blocks().len()
}
