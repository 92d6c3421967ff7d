//! The APIs: one file each, of one shape.
//!
//! A file says at its top which fields are the prompt, in which order, which go into the seed, and
//! which are ignored; it gives a [`Spec`]. A new API is a new file and a variant of [`Api`].

mod chat;
mod completions;
mod generate;
mod messages;
mod responses;
mod vllm_generate;

use super::{Prefix, Unreadable};
use crate::prefix::Layout;

/// What the file of an API gives.
struct Spec {
    /// A short stable name, `[a-z-]`.
    name: &'static str,
    /// The end of the paths that it is served on.
    path: &'static str,
    /// Reads the prompts of a body.
    read: fn(&[u8], Layout) -> Result<Prefix, Unreadable>,
}

/// An API whose prompts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/completions` of OpenAI.
    Completions,
    /// `/v1/chat/completions` of OpenAI.
    ChatCompletions,
    /// `/v1/responses` of OpenAI.
    Responses,
    /// `/v1/messages` of Anthropic.
    Messages,
    /// `/inference/v1/generate` of vLLM.
    VllmGenerate,
    /// `/generate` of SGLang and of TGI, which the body tells apart.
    Generate,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 6] = [
        Self::Completions,
        Self::ChatCompletions,
        Self::Responses,
        Self::Messages,
        Self::VllmGenerate,
        Self::Generate,
    ];

    fn spec(self) -> &'static Spec {
        match self {
            Self::Completions => &completions::SPEC,
            Self::ChatCompletions => &chat::SPEC,
            Self::Responses => &responses::SPEC,
            Self::Messages => &messages::SPEC,
            Self::VllmGenerate => &vllm_generate::SPEC,
            Self::Generate => &generate::SPEC,
        }
    }

    /// The end of the paths that the API is served on.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.spec().path
    }

    /// A short stable name, `[a-z-]`, for headers and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

/// The API that a request addresses, `None` if it is not ours to hold.
///
/// Only `POST` counts, and the end of the path: whatever stands before it, a trailing slash, a
/// query or a fragment make no difference. Where several APIs' paths are such an end, the longest
/// is meant.
#[must_use]
pub fn identify(method: &str, path: &str) -> Option<Api> {
    if method != "POST" {
        return None;
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let path = path.get(..end).unwrap_or(path).trim_end_matches('/');
    let ours = Api::ALL
        .into_iter()
        .filter(|api| path.ends_with(api.path()));
    ours.max_by_key(|api| api.path().len())
}

/// Reads the prompts of a body, decompressed and complete.
///
/// # Errors
/// [`Unreadable`] where the prompts cannot be told. Such a request is not refused: an engine may
/// well read it. It is passed on as it is.
pub fn read(api: Api, body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    (api.spec().read)(body, layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_the_end_of_a_path() {
        let chat = Some(Api::ChatCompletions);
        let vllm = Some(Api::VllmGenerate);
        let generate = Some(Api::Generate);
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
            ("POST", "/v1/responses", Some(Api::Responses)),
            ("POST", "/v1/responses/?x", Some(Api::Responses)),
            ("POST", "/v1/messages", Some(Api::Messages)),
            ("POST", "/v1/messages?beta=true", Some(Api::Messages)),
            ("POST", "/anthropic/v1/messages/", Some(Api::Messages)),
            ("POST", "/inference/v1/generate", vllm),
            ("POST", "/pool/inference/v1/generate/", vllm),
            ("POST", "/v1/generate", generate),
            ("POST", "/generate", generate),
            ("POST", "/generate/?x=/inference/v1/generate", generate),
            ("POST", "/pool/generate", generate),
            ("GET", "/v1/chat/completions", None),
            ("GET", "/generate", None),
            ("post", "/v1/chat/completions", None),
            ("OPTIONS", "/v1/completions", None),
            ("POST", "/v1/chat/completions/x", None),
            ("POST", "/v1/chatcompletions", None),
            ("POST", "/v2/completions", None),
            ("POST", "/completions", None),
            ("POST", "/v1/embeddings", None),
            ("POST", "/v1/rerank", None),
            ("POST", "/v1/audio/transcriptions", None),
            ("POST", "/v1/audio/speech", None),
            ("POST", "/v1/messages/count_tokens", None),
            ("POST", "/v1/messages/batches", None),
            ("POST", "/v1/responses/resp_1/cancel", None),
            ("POST", "/threads/1/messages", None),
            ("POST", "/regenerate", None),
            ("POST", "/generate_stream", None),
            ("POST", "/?/v1/completions", None),
            ("POST", "/", None),
            ("POST", "", None),
        ] {
            assert_eq!(identify(method, path), expected, "{method} {path}");
        }
    }
}
