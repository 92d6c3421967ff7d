//! Answers in the shape of their API: whole, or as server-sent events.

mod messages;
mod openai;
mod responses;

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame};
use serde_json::Value;

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
            Api::Responses => "resp",
            Api::Messages => "msg",
        };
        Self {
            id: match request.api {
                Api::Completions | Api::Chat => format!("{prefix}-{number:016x}"),
                Api::Responses | Api::Messages => format!("{prefix}_{number:016x}"),
            },
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
        match self.api {
            Api::Completions | Api::Chat => self.completion(texts),
            Api::Responses => self.response(&texts.concat()),
            Api::Messages => self.message(&texts.concat()),
        }
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
}

/// A streamed answer: an event for each token, sent when it is there. Dropping it, as hyper does
/// when the client goes, ends the sequences.
pub(crate) struct Stream {
    answer: Answer,
    events: Events,
    /// Sequences of which a token was told.
    begun: HashSet<usize>,
    /// All text so far, of APIs that tell it once more at the end.
    text: String,
    /// Numbers the events, of APIs that do.
    number: u64,
    record: Record,
    ended: bool,
}

impl Stream {
    pub(crate) fn new(answer: Answer, events: Events, record: Record) -> Self {
        Self {
            answer,
            events,
            begun: HashSet::new(),
            text: String::new(),
            number: 0,
            record,
            ended: false,
        }
    }

    fn token(&mut self, index: usize, text: &str, last: bool) -> String {
        let first = self.begun.insert(index);
        match self.answer.api {
            Api::Completions | Api::Chat => self.answer.completion_token(index, text, first, last),
            Api::Responses => self.response_token(text, first),
            Api::Messages => self.message_token(text, first),
        }
    }

    fn end(&mut self) -> String {
        let Answer {
            prompt_tokens,
            cached_tokens,
            ..
        } = self.answer;
        self.record.tokens(prompt_tokens, cached_tokens);
        self.record.end(200);
        match self.answer.api {
            Api::Completions | Api::Chat => self.answer.completion_end(),
            Api::Responses => self.response_end(),
            Api::Messages => self.message_end(),
        }
    }
}

fn push_event(out: &mut String, data: &str) {
    for part in ["data: ", data, "\n\n"] {
        out.push_str(part);
    }
}

/// An event with a name, which is its `type` too.
fn push_named(out: &mut String, data: &Value) {
    let name = data.get("type").and_then(Value::as_str);
    for part in ["event: ", name.unwrap_or_default(), "\n"] {
        out.push_str(part);
    }
    push_event(out, &data.to_string());
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
