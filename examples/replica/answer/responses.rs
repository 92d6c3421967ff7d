//! OpenAI's Responses.

use serde_json::{Value, json};

use super::{Answer, Stream, push_named};

impl Answer {
    /// A response, `completed` or `in_progress`.
    fn response_of(&self, status: &str, output: Value, usage: Value) -> Value {
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": true,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": usage,
        })
    }

    pub(super) fn response(&self, text: &str) -> Value {
        let output = json!([self.output_message("completed", json!([output_text(text)]))]);
        let usage = json!({
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": {"cached_tokens": self.cached_tokens},
            "output_tokens": self.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        });
        self.response_of("completed", output, usage)
    }

    fn output_message(&self, status: &str, content: Value) -> Value {
        json!({
            "type": "message",
            "id": self.item(),
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }

    /// The id of the one message of a response.
    fn item(&self) -> String {
        self.id.replacen("resp", "msg", 1)
    }
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

impl Stream {
    /// The events of a token.
    pub(super) fn response_token(&mut self, text: &str, first: bool) -> String {
        let mut out = String::new();
        if first {
            for kind in ["response.created", "response.in_progress"] {
                let response = self
                    .answer
                    .response_of("in_progress", json!([]), Value::Null);
                self.push(&mut out, json!({"type": kind, "response": response}));
            }
            let item = self.answer.output_message("in_progress", json!([]));
            let added =
                json!({"type": "response.output_item.added", "output_index": 0, "item": item});
            self.push(&mut out, added);
            self.push_part(
                &mut out,
                "response.content_part.added",
                json!({"part": output_text("")}),
            );
        }
        self.text.push_str(text);
        self.push_part(
            &mut out,
            "response.output_text.delta",
            json!({"delta": text, "logprobs": []}),
        );
        out
    }

    /// The events behind the last token.
    pub(super) fn response_end(&mut self) -> String {
        let mut out = String::new();
        let text = std::mem::take(&mut self.text);
        let part = output_text(&text);
        self.push_part(
            &mut out,
            "response.output_text.done",
            json!({"text": text, "logprobs": []}),
        );
        self.push_part(
            &mut out,
            "response.content_part.done",
            json!({"part": part}),
        );
        let item = self.answer.output_message("completed", json!([part]));
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        self.push(&mut out, done);
        let response = self.answer.response(&text);
        self.push(
            &mut out,
            json!({"type": "response.completed", "response": response}),
        );
        out
    }

    /// An event about the one part of the one message.
    fn push_part(&mut self, out: &mut String, kind: &str, mut data: Value) {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("type".to_owned(), kind.into());
            fields.insert("item_id".to_owned(), self.answer.item().into());
            fields.insert("output_index".to_owned(), 0.into());
            fields.insert("content_index".to_owned(), 0.into());
        }
        self.push(out, data);
    }

    fn push(&mut self, out: &mut String, mut data: Value) {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("sequence_number".to_owned(), self.number.into());
        }
        self.number += 1;
        push_named(out, &data);
    }
}
