//! From a request's path and body to its prompts, as chained block hashes.
//!
//! ```text
//!  method, path ─▶ identify ─▶ Api ─┐
//!  body ────────────────────────────┴▶ read ─▶ Prefix: model, prompts
//! ```
//!
//! Two requests whose prompts share a prefix in the engine share leading blocks here, and two that
//! the engine would prefill differently are not identical here. What of a body is its prompt, and
//! in which order, is said in the file of each API.
//!
//! Everything here is total: any bytes give a [`Prefix`] or an [`Unreadable`], in linear time.

mod chat;
mod completions;
mod duplicates;
mod frame;
mod json;
mod seed;

use crate::prefix::Layout;

/// An API whose prompts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/completions` of OpenAI.
    Completions,
    /// `/v1/chat/completions` of OpenAI.
    ChatCompletions,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 2] = [Self::Completions, Self::ChatCompletions];

    /// The end of the paths that the API is served on.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::ChatCompletions => "/v1/chat/completions",
        }
    }

    /// A short stable name, `[a-z-]`, for headers and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Completions => "completions",
            Self::ChatCompletions => "chat-completions",
        }
    }
}

/// The API that a request addresses, `None` if it is not ours to hold.
///
/// Only `POST` counts, and the end of the path: whatever stands before it, a trailing slash, a
/// query or a fragment make no difference.
#[must_use]
pub fn identify(method: &str, path: &str) -> Option<Api> {
    if method != "POST" {
        return None;
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let path = path.get(..end).unwrap_or(path).trim_end_matches('/');
    Api::ALL.into_iter().find(|api| path.ends_with(api.path()))
}

/// Reads the prompts of a body, decompressed and complete.
///
/// # Errors
/// [`Unreadable`] where the prompts cannot be told. Such a request is not refused: an engine may
/// well read it. It is passed on as it is.
pub fn read(api: Api, body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    match api {
        Api::Completions => completions::read(body, layout),
        Api::ChatCompletions => chat::read(body, layout),
    }
}

/// The prompts of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The model or adapter asked for, empty if the request names none. Lone surrogates in it are
    /// replaced.
    pub model: String,
    /// The prompts that have blocks, in order; empty exactly if there is a `reason`.
    pub prompts: Vec<Prompt>,
    /// Why there are no prompts.
    pub reason: Option<NoPrefix>,
}

impl Prefix {
    /// Drops the prompts without blocks.
    fn new(model: String, mut prompts: Vec<Prompt>) -> Self {
        prompts.retain(|prompt| !prompt.blocks.is_empty());
        let reason = prompts.is_empty().then_some(NoPrefix::Empty);
        Self {
            model,
            prompts,
            reason,
        }
    }

    fn none(model: String, reason: NoPrefix) -> Self {
        Self {
            model,
            prompts: Vec::new(),
            reason: Some(reason),
        }
    }

    /// The blocks of all prompts, one prompt after the other.
    #[must_use]
    pub fn blocks(&self) -> Vec<u64> {
        self.prompts
            .iter()
            .flat_map(|prompt| &prompt.blocks)
            .copied()
            .collect()
    }
}

/// One prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its whole length, blocks past the cap included.
    pub length: Length,
    /// Chained hashes of its leading blocks, never empty in a [`Prefix`].
    pub blocks: Vec<u64>,
}

/// The length of a prompt, in the unit that the request gives it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Bytes of decoded text, and of the frames around it; about four are a token.
    Bytes(u64),
    /// Tokens.
    Tokens(u64),
}

impl Length {
    /// The length in tokens, four bytes to one, rounded up.
    #[must_use]
    pub fn tokens(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.div_ceil(crate::prefix::BYTES_PER_TOKEN as u64),
            Self::Tokens(tokens) => tokens,
        }
    }
}

/// Why a request that was read has no prompts to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoPrefix {
    /// Its prompts are empty.
    Empty,
    /// Its prompt is embeddings, not text.
    PromptEmbeds,
}

impl NoPrefix {
    /// A short stable token, `[a-z0-9-]`, for headers and metrics.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::PromptEmbeds => "prompt-embeds",
        }
    }
}

/// Why the prompts of a body cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unreadable {
    /// It is not UTF-8.
    Encoding,
    /// It is not JSON.
    Json,
    /// A field, or the body itself, has another type than the API's.
    Type,
    /// It has no prompt.
    Missing,
}

impl Unreadable {
    /// A short stable token, `[a-z0-9-]`, for headers and metrics.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::Json => "json",
            Self::Type => "type",
            Self::Missing => "missing",
        }
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Encoding => "the body is not UTF-8",
            Self::Json => "the body is not JSON",
            Self::Type => "a field of the body has another type than the API's",
            Self::Missing => "the body has no prompt",
        })
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_the_end_of_a_path() {
        let chat = Some(Api::ChatCompletions);
        for (method, path, expected) in [
            ("POST", "/v1/completions", Some(Api::Completions)),
            ("POST", "/v1/chat/completions", chat),
            ("POST", "/v1/chat/completions/", chat),
            ("POST", "/v1/chat/completions//", chat),
            ("POST", "/v1/chat/completions?a=/v1/completions", chat),
            ("POST", "/v1/chat/completions/?", chat),
            ("POST", "/v1/chat/completions#x", chat),
            ("POST", "/v1/chat/completions#x?y", chat),
            ("POST", "/openai/v1/chat/completions", chat),
            ("POST", "http://host/v1/chat/completions", chat),
            ("GET", "/v1/chat/completions", None),
            ("post", "/v1/chat/completions", None),
            ("OPTIONS", "/v1/completions", None),
            ("POST", "/v1/chat/completions/x", None),
            ("POST", "/v1/chatcompletions", None),
            ("POST", "/v2/completions", None),
            ("POST", "/completions", None),
            ("POST", "/v1/embeddings", None),
            ("POST", "/?/v1/completions", None),
            ("POST", "/", None),
            ("POST", "", None),
        ] {
            assert_eq!(identify(method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn tokens_are_short_and_plain() {
        let unreadable = [
            Unreadable::Encoding,
            Unreadable::Json,
            Unreadable::Type,
            Unreadable::Missing,
        ]
        .map(Unreadable::token);
        let no_prefix = [NoPrefix::Empty, NoPrefix::PromptEmbeds].map(NoPrefix::token);
        for token in unreadable
            .into_iter()
            .chain(no_prefix)
            .chain(Api::ALL.map(Api::name))
        {
            let plain = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
            assert!(token.len() <= 20 && token.bytes().all(plain), "{token}");
        }
    }
}
