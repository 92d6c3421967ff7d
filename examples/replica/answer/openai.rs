//! Completions and chat completions.

use serde_json::{Value, json};

use super::{Answer, push_event};
use crate::request::Api;

impl Answer {
    pub(super) fn completion(&self, texts: Vec<String>) -> Value {
        let choices: Vec<Value> = texts
            .into_iter()
            .enumerate()
            .map(|(index, text)| self.choice(index, &text))
            .collect();
        let object = match self.api {
            Api::Chat => "chat.completion",
            _ => "text_completion",
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "usage": self.usage(),
        })
    }

    /// The events of a token.
    pub(super) fn completion_token(
        &self,
        index: usize,
        text: &str,
        first: bool,
        last: bool,
    ) -> String {
        let mut out = String::new();
        if self.api == Api::Chat && first {
            push_event(&mut out, &self.role_chunk(index).to_string());
        }
        let chunk = self.token_chunk(index, text, last);
        push_event(&mut out, &chunk.to_string());
        out
    }

    /// The events behind the last token.
    pub(super) fn completion_end(&self) -> String {
        let mut out = String::new();
        if self.include_usage {
            push_event(&mut out, &self.usage_chunk().to_string());
        }
        push_event(&mut out, "[DONE]");
        out
    }

    fn choice(&self, index: usize, text: &str) -> Value {
        match self.api {
            Api::Chat => json!({
                "index": index,
                "message": {"role": "assistant", "content": text},
                "logprobs": null,
                "finish_reason": "length",
            }),
            _ => json!({
                "index": index,
                "text": text,
                "logprobs": null,
                "finish_reason": "length",
            }),
        }
    }

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        })
    }

    fn chunk(&self, choices: Value) -> Value {
        let object = match self.api {
            Api::Chat => "chat.completion.chunk",
            _ => "text_completion",
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn token_chunk(&self, index: usize, text: &str, last: bool) -> Value {
        let finish_reason = last.then_some("length");
        self.chunk(match self.api {
            Api::Chat => json!([{
                "index": index,
                "delta": {"content": text},
                "logprobs": null,
                "finish_reason": finish_reason,
            }]),
            _ => json!([{
                "index": index,
                "text": text,
                "logprobs": null,
                "finish_reason": finish_reason,
            }]),
        })
    }

    fn role_chunk(&self, index: usize) -> Value {
        self.chunk(json!([{
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": null,
            "finish_reason": null,
        }]))
    }

    fn usage_chunk(&self) -> Value {
        let mut chunk = self.chunk(json!([]));
        if let Some(chunk) = chunk.as_object_mut() {
            chunk.insert("usage".to_owned(), self.usage());
        }
        chunk
    }
}
