//! Anthropic's Messages.

use serde_json::{Value, json};

use super::{Answer, Stream, push_named};

impl Answer {
    pub(super) fn message(&self, text: &str) -> Value {
        let content = json!([{"type": "text", "text": text}]);
        self.message_of(content, json!("max_tokens"))
    }

    fn message_of(&self, content: Value, stop_reason: Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": null,
            "usage": self.message_usage(),
        })
    }

    /// Tokens that were read from the cache are not counted as input again.
    fn message_usage(&self) -> Value {
        json!({
            "input_tokens": self.prompt_tokens.saturating_sub(self.cached_tokens),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached_tokens,
            "output_tokens": self.completion_tokens,
        })
    }
}

impl Stream {
    /// The events of a token.
    pub(super) fn message_token(&mut self, text: &str, first: bool) -> String {
        let mut out = String::new();
        if first {
            let message = self.answer.message_of(json!([]), Value::Null);
            push_named(
                &mut out,
                &json!({"type": "message_start", "message": message}),
            );
            let block = json!({"type": "text", "text": ""});
            let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
            push_named(&mut out, &start);
        }
        let delta = json!({"type": "text_delta", "text": text});
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        push_named(&mut out, &delta);
        out
    }

    /// The events behind the last token.
    pub(super) fn message_end(&self) -> String {
        let mut out = String::new();
        push_named(&mut out, &json!({"type": "content_block_stop", "index": 0}));
        let delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": "max_tokens", "stop_sequence": null},
            "usage": self.answer.message_usage(),
        });
        push_named(&mut out, &delta);
        push_named(&mut out, &json!({"type": "message_stop"}));
        out
    }
}
