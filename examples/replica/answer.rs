//! Answers in OpenAI's shapes: whole, or as server-sent events.

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};

use crate::engine::{Event, Events};
use crate::record::Record;
use crate::request::{Api, Request};

/// A request being answered: its shape, and the tokens counted so far.
pub(crate) struct Answer {
    id: String,
    created: u64,
    model: String,
    api: Api,
    samples: usize,
    include_usage: bool,
    prompt_tokens: usize,
    cached_tokens: usize,
    completion_tokens: usize,
}

impl Answer {
    /// `number` sets this answer's id apart; `created` is in seconds since 1970.
    pub(crate) fn new(request: &Request, number: u64, created: u64, default_model: &str) -> Self {
        let prefix = match request.api {
            Api::Completions => "cmpl",
            Api::Chat => "chatcmpl",
        };
        Self {
            id: format!("{prefix}-{number:016x}"),
            created,
            model: request
                .model
                .clone()
                .unwrap_or_else(|| default_model.to_owned()),
            api: request.api,
            samples: request.samples,
            include_usage: request.include_usage,
            prompt_tokens: request.prompts.iter().map(|prompt| prompt.tokens).sum(),
            cached_tokens: 0,
            completion_tokens: 0,
        }
    }

    /// Waits for all tokens.
    pub(crate) async fn whole(
        mut self,
        mut events: Events,
        sequences: usize,
        record: &mut Record,
    ) -> Value {
        let mut texts = vec![String::new(); sequences];
        while let Some(event) = events.recv().await {
            self.count(&event);
            if let Event::Token { sequence, text, .. } = event
                && let Some(whole) = texts.get_mut(sequence)
            {
                whole.push_str(&text);
            }
        }
        record.tokens(self.prompt_tokens, self.cached_tokens);
        let choices: Vec<Value> = texts
            .into_iter()
            .enumerate()
            .map(|(index, text)| self.choice(index, &text))
            .collect();
        let object = match self.api {
            Api::Completions => "text_completion",
            Api::Chat => "chat.completion",
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

    /// Of a prompt's samples only the first tells whether the prompt was cached.
    fn count(&mut self, event: &Event) {
        match event {
            Event::Scheduled { sequence, cached } if sequence % self.samples == 0 => {
                self.cached_tokens += cached;
            }
            Event::Scheduled { .. } => {}
            Event::Token { .. } => self.completion_tokens += 1,
        }
    }

    fn choice(&self, index: usize, text: &str) -> Value {
        match self.api {
            Api::Completions => json!({
                "index": index,
                "text": text,
                "logprobs": null,
                "finish_reason": "length",
            }),
            Api::Chat => json!({
                "index": index,
                "message": {"role": "assistant", "content": text},
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
            Api::Completions => "text_completion",
            Api::Chat => "chat.completion.chunk",
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
            Api::Completions => json!([{
                "index": index,
                "text": text,
                "logprobs": null,
                "finish_reason": finish_reason,
            }]),
            Api::Chat => json!([{
                "index": index,
                "delta": {"content": text},
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

/// A streamed answer: an event for each token, sent when it is there. Dropping it, as hyper does
/// when the client goes, ends the sequences.
pub(crate) struct Stream {
    answer: Answer,
    events: Events,
    /// Choices whose role was told, which a chat stream does first.
    begun: HashSet<usize>,
    record: Record,
    ended: bool,
}

impl Stream {
    pub(crate) fn new(answer: Answer, events: Events, record: Record) -> Self {
        Self {
            answer,
            events,
            begun: HashSet::new(),
            record,
            ended: false,
        }
    }

    fn token(&mut self, index: usize, text: &str, last: bool) -> String {
        let mut out = String::new();
        if self.answer.api == Api::Chat && self.begun.insert(index) {
            push_event(&mut out, &self.answer.role_chunk(index).to_string());
        }
        let chunk = self.answer.token_chunk(index, text, last);
        push_event(&mut out, &chunk.to_string());
        out
    }

    fn end(&mut self) -> String {
        let Answer {
            prompt_tokens,
            cached_tokens,
            ..
        } = self.answer;
        self.record.tokens(prompt_tokens, cached_tokens);
        self.record.end(200);
        let mut out = String::new();
        if self.answer.include_usage {
            push_event(&mut out, &self.answer.usage_chunk().to_string());
        }
        push_event(&mut out, "[DONE]");
        out
    }
}

fn push_event(out: &mut String, data: &str) {
    for part in ["data: ", data, "\n\n"] {
        out.push_str(part);
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.get_mut();
        if stream.ended {
            return Poll::Ready(None);
        }
        let out = loop {
            let Some(event) = ready!(stream.events.poll_recv(cx)) else {
                stream.ended = true;
                break stream.end();
            };
            stream.answer.count(&event);
            if let Event::Token {
                sequence,
                text,
                last,
            } = event
            {
                break stream.token(sequence, &text, last);
            }
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(out)))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
