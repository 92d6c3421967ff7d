//! What reading a body gives: its prompts, or why there are none.

use crate::prefix::{BYTES_PER_TOKEN, BlockIds, Seed};

/// The prompts of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The model or adapter asked for, empty if the request names none. Lone surrogates in it are
    /// replaced.
    pub model: String,
    /// The fields that the chains start from, as far as the request has them.
    pub seed_fields: Vec<&'static str>,
    /// The samples asked for of each prompt, 1 to [`MAX_WEIGHT`]: what the request weighs. They
    /// stay on one engine by themselves.
    pub weight: u32,
    /// The prompts that have blocks, in order; empty exactly if there is a `reason`.
    pub prompts: Vec<Prompt>,
    /// Why there are no prompts.
    pub reason: Option<NoPrefix>,
}

/// More samples than this weigh no more.
pub const MAX_WEIGHT: u32 = 1024;

/// What the chains of a request start from, for people.
pub(super) struct Origin {
    pub(super) model: String,
    pub(super) fields: Vec<&'static str>,
}

impl Prefix {
    /// Drops the prompts without blocks.
    pub(super) fn new(origin: Origin, weight: u32, mut prompts: Vec<Prompt>) -> Self {
        prompts.retain(|prompt| !prompt.blocks.is_empty());
        let reason = prompts.is_empty().then_some(NoPrefix::Empty);
        Self {
            model: origin.model,
            seed_fields: origin.fields,
            weight,
            prompts,
            reason,
        }
    }

    pub(super) fn none(origin: Origin, weight: u32, reason: NoPrefix) -> Self {
        Self {
            model: origin.model,
            seed_fields: origin.fields,
            weight,
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

    /// Whether they are one chain: each hash covers all blocks before it.
    #[must_use]
    pub fn is_chained(&self) -> bool {
        self.prompts.len() == 1
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

impl Prompt {
    /// A prompt without tokens.
    pub(super) const EMPTY: Self = Self {
        length: Length::Tokens(0),
        blocks: Vec::new(),
    };

    /// A prompt of text, or of text and frames.
    pub(super) fn of_bytes(blocks: BlockIds, seed: Seed) -> Self {
        Self {
            length: Length::Bytes(blocks.bytes()),
            blocks: blocks.chain(seed),
        }
    }

    /// A prompt of so many token ids.
    pub(super) fn of_tokens(tokens: u64, blocks: BlockIds, seed: Seed) -> Self {
        Self {
            length: Length::Tokens(tokens),
            blocks: blocks.chain(seed),
        }
    }
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
            Self::Bytes(bytes) => bytes.div_ceil(BYTES_PER_TOKEN as u64),
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
    /// It goes on from a response that the engine keeps.
    PreviousResponse,
    /// It belongs to a conversation that the engine keeps.
    Conversation,
    /// It names items of its prompt that the engine keeps.
    ItemReference,
    /// It belongs to a session that the engine keeps.
    Session,
}

impl NoPrefix {
    /// Every reason.
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::PromptEmbeds,
        Self::PreviousResponse,
        Self::Conversation,
        Self::ItemReference,
        Self::Session,
    ];

    /// A short stable token, `[a-z0-9-]`, for headers and metrics.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::PromptEmbeds => "prompt-embeds",
            Self::PreviousResponse => "previous-response",
            Self::Conversation => "conversation",
            Self::ItemReference => "item-reference",
            Self::Session => "session",
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
    /// Every cause.
    pub const ALL: [Self; 4] = [Self::Encoding, Self::Json, Self::Type, Self::Missing];

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
    use super::super::Api;
    use super::*;

    #[test]
    fn tokens_are_short_and_plain() {
        let unreadable = Unreadable::ALL.map(Unreadable::token).into_iter();
        let no_prefix = NoPrefix::ALL.map(NoPrefix::token);
        for token in unreadable.chain(no_prefix).chain(Api::ALL.map(Api::name)) {
            let plain = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
            assert!(token.len() <= 20 && token.bytes().all(plain), "{token}");
        }
    }
}
