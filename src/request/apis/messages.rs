//! `/v1/messages` of Anthropic: tools, system, then the messages in order.
//!
//! - The prompt: `tools` with `tool_choice` where it leaves tools out, `system`, `messages`.
//!   A system or a content that is a string and one that is a single text block are the same.
//! - Each message is a frame: role, then its blocks. Text, thinking (without its signature), the
//!   use of a tool (id, name, input) and its result (id, whether it is an error, content) are
//!   framed; images, documents and any other kind enter by their hash.
//! - `cache_control` is dropped everywhere, and so are system blocks without a text, or whose text
//!   begins with `x-anthropic-billing-header`: Claude Code puts one there that is different in
//!   each request, and engines do not prefill it.
//! - Into the seed: what [`SeedFields`] names; `output_config.effort` is `reasoning_effort`; the
//!   `type` of `thinking`.
//! - All else is ignored. The weight is 1, as there is no `n`.

use super::Spec;
use crate::prefix::{BlockIds, Layout};
use crate::request::frame::{self, Mark};
use crate::request::json::{self, Item, Members, Sink, Text, Value};
use crate::request::parts::{self, CACHE_CONTROL};
use crate::request::plain::Place;
use crate::request::prompts::Prompt;
use crate::request::seed::{SeedFields, THINKING};
use crate::request::{NoPrefix, Prefix, Unreadable, tools};

pub(super) const SPEC: Spec = Spec {
    name: "messages",
    path: "/v1/messages",
    read,
};

const BILLING: &[u8] = b"x-anthropic-billing-header";

fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut tools, mut choice, mut system, mut messages) = (None, None, None, None);
    for field in json::document(body, &[b"messages", b"tools"])? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"tools" => tools = Some(value),
            b"tool_choice" => choice = Some(value),
            b"system" => system = Some(value),
            b"messages" => messages = Some(value),
            b"thinking" => seed.note_member(THINKING, value, b"type"),
            b"output_config" => seed.note_member(b"reasoning_effort", value, b"effort"),
            name => seed.note(name, value),
        }
    }
    let (origin, seeds) = seed.seeds()?;
    let messages = match messages.and_then(Value::non_null) {
        None => return Err(Unreadable::Missing),
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(Unreadable::Type),
    };
    let mut blocks = BlockIds::new(layout);
    tools::push(&mut blocks, tools, choice, &[CACHE_CONTROL])?;
    instruct(&mut blocks, system)?;
    let mut messages = messages.items();
    let mut empty = true;
    while let Some(item) = messages.next_open()? {
        let Item::Object(fields) = item else {
            return Err(Unreadable::Type);
        };
        empty = false;
        message(&mut blocks, fields)?;
    }
    if empty {
        return Ok(Prefix::none(origin, 1, NoPrefix::Empty));
    }
    let prompt = Prompt::of_bytes(blocks, seeds.of(Place::ALONE)?);
    Ok(Prefix::new(origin, 1, vec![prompt]))
}

fn instruct(sink: &mut impl Sink, system: Option<Value<'_>>) -> Result<(), Unreadable> {
    let mut push = |text: Text<'_>| {
        if !text.is_empty() {
            frame::mark(sink, Mark::System);
            text.decode(sink);
        }
    };
    match system.and_then(Value::non_null) {
        None => Ok(()),
        Some(Value::String(text)) => {
            push(text);
            Ok(())
        }
        Some(Value::Array(list)) => {
            let mut list = list.items();
            while let Some(item) = list.next_open()? {
                let Item::Object(fields) = item else {
                    return Err(Unreadable::Type);
                };
                let mut text = None;
                for field in fields {
                    let (key, value) = field?;
                    if key.decoded().as_ref() == b"text" {
                        text = Some(value);
                    }
                }
                match text.and_then(Value::non_null) {
                    None => {}
                    Some(Value::String(text)) if text.starts_with(BILLING) => {}
                    Some(Value::String(text)) => push(text),
                    Some(_) => return Err(Unreadable::Type),
                }
            }
            Ok(())
        }
        Some(_) => Err(Unreadable::Type),
    }
}

fn message(sink: &mut impl Sink, fields: Members<'_, '_>) -> Result<(), Unreadable> {
    let (mut role, mut content) = (None, None);
    for field in fields {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"role" => role = Some(value),
            b"content" => content = Some(value),
            _ => {}
        }
    }
    frame::mark(sink, Mark::Message);
    frame::text(sink, Mark::Role, role)?;
    match content {
        Some(Value::Array(list)) => {
            let mut list = list.items();
            while let Some(item) = list.next_open()? {
                let Item::Object(fields) = item else {
                    return Err(Unreadable::Type);
                };
                block(sink, fields)?;
            }
        }
        text => frame::text(sink, Mark::Text, text)?,
    }
    frame::mark(sink, Mark::End);
    Ok(())
}

/// One block of a content.
fn block(sink: &mut impl Sink, mut fields: Members<'_, '_>) -> Result<(), Unreadable> {
    let (mut kind, mut text, mut thinking) = (None, None, None);
    let (mut id, mut name, mut input) = (None, None, None);
    let (mut of_use, mut content, mut is_error) = (None, None, None);
    for field in fields.by_ref() {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"type" => kind = Some(value),
            b"text" => text = Some(value),
            b"thinking" => thinking = Some(value),
            b"id" => id = Some(value),
            b"name" => name = Some(value),
            b"input" => input = Some(value),
            b"tool_use_id" => of_use = Some(value),
            b"content" => content = Some(value),
            b"is_error" => is_error = Some(value),
            _ => {}
        }
    }
    match parts::kind_of(kind, text)?.as_ref() {
        b"text" => parts::required_text(sink, Mark::Text, text),
        b"thinking" => parts::required_text(sink, Mark::Reasoning, thinking),
        b"tool_use" => {
            frame::mark(sink, Mark::ToolCall);
            frame::text(sink, Mark::ToolCallId, id)?;
            frame::text(sink, Mark::Name, name)?;
            frame::any(sink, Mark::Arguments, input, &[])
        }
        b"tool_result" => {
            frame::mark(sink, Mark::ToolResult);
            frame::text(sink, Mark::ToolCallId, of_use)?;
            frame::setting(sink, Mark::IsError, is_error, false)?;
            parts::content(sink, content)?;
            frame::mark(sink, Mark::EndOfResult);
            Ok(())
        }
        _ => parts::media(sink, fields.whole()),
    }
}
