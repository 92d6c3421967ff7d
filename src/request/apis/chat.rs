//! `/v1/chat/completions`: tools, then the messages in order.
//!
//! - The prompt: `tools`, with `tool_choice` where it leaves tools out; `messages`; at the end
//!   `add_generation_prompt` and `continue_final_message` where they are not the default, so that
//!   a longer conversation still shares all of this one.
//! - Each message is a frame of its fields in an order of our own, whatever their order in the
//!   body: role, name, tool call id, reasoning, content, refusal, tool calls, tools. Fields that
//!   are null are absent; fields that no template prints are ignored. A content that is a string
//!   and one that is a single text part are the same prompt, as they are for most templates;
//!   several parts are not the same as their texts joined.
//! - Into the seed: what [`SeedFields`] names.
//! - `n` is the weight; all else is ignored.

use super::Spec;
use crate::prefix::{BlockIds, Layout};
use crate::request::frame::{self, Mark};
use crate::request::json::{self, Item, Members, Raw, Sink, Value};
use crate::request::plain::Place;
use crate::request::prompts::Prompt;
use crate::request::seed::SeedFields;
use crate::request::{NoPrefix, Prefix, Unreadable, parts, tools, weight};

pub(super) const SPEC: Spec = Spec {
    name: "chat-completions",
    path: "/v1/chat/completions",
    read,
};

fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut messages, mut tools, mut choice, mut n) = (None, None, None, None);
    let (mut generation, mut continuation) = (None, None);
    for field in json::document(body, &[b"messages", b"tools"])? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"messages" => messages = Some(value),
            b"tools" => tools = Some(value),
            b"tool_choice" => choice = Some(value),
            b"add_generation_prompt" => generation = Some(value),
            b"continue_final_message" => continuation = Some(value),
            b"n" => n = Some(value),
            name => seed.note(name, value),
        }
    }
    let (origin, seeds) = seed.seeds()?;
    let weight = weight::samples(n);
    let messages = match messages.and_then(Value::non_null) {
        None => return Err(Unreadable::Missing),
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(Unreadable::Type),
    };
    let mut blocks = BlockIds::new(layout);
    tools::push(&mut blocks, tools, choice, &[])?;
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
        return Ok(Prefix::none(origin, weight, NoPrefix::Empty));
    }
    frame::setting(&mut blocks, Mark::AddGenerationPrompt, generation, true)?;
    frame::setting(&mut blocks, Mark::ContinueFinalMessage, continuation, false)?;
    let prompt = Prompt::of_bytes(blocks, seeds.of(Place::ALONE)?);
    Ok(Prefix::new(origin, weight, vec![prompt]))
}

fn message(sink: &mut impl Sink, fields: Members<'_, '_>) -> Result<(), Unreadable> {
    let (mut role, mut name, mut call_id, mut content) = (None, None, None, None);
    let (mut reasoning, mut reasoning_content) = (None, None);
    let (mut refusal, mut calls, mut tools) = (None, None, None);
    for field in fields {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"role" => role = Some(value),
            b"name" => name = Some(value),
            b"tool_call_id" => call_id = Some(value),
            b"reasoning" => reasoning = Some(value),
            b"reasoning_content" => reasoning_content = Some(value),
            b"content" => content = Some(value),
            b"refusal" => refusal = Some(value),
            b"tool_calls" => calls = Some(value),
            b"tools" => tools = Some(value),
            _ => {}
        }
    }
    frame::mark(sink, Mark::Message);
    frame::text(sink, Mark::Role, role)?;
    frame::text(sink, Mark::Name, name)?;
    frame::text(sink, Mark::ToolCallId, call_id)?;
    // The same text under its newer and its older name.
    let reasoning = reasoning.and_then(Value::non_null).or(reasoning_content);
    frame::text(sink, Mark::Reasoning, reasoning)?;
    parts::content(sink, content)?;
    frame::text(sink, Mark::Refusal, refusal)?;
    match calls.and_then(Value::non_null) {
        None => {}
        Some(Value::Array(calls)) => {
            for item in calls.items() {
                let Value::Object(call) = item? else {
                    return Err(Unreadable::Type);
                };
                tool_call(sink, call)?;
            }
        }
        Some(_) => return Err(Unreadable::Type),
    }
    tools::push(sink, tools, None, &[])?;
    frame::mark(sink, Mark::End);
    Ok(())
}

/// A call the model made before: its id, its function's name and arguments.
fn tool_call(sink: &mut impl Sink, call: Raw<'_>) -> Result<(), Unreadable> {
    let (mut id, mut function) = (None, None);
    for field in call.fields() {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"id" => id = Some(value),
            b"function" => function = Some(value),
            _ => {}
        }
    }
    frame::mark(sink, Mark::ToolCall);
    frame::text(sink, Mark::ToolCallId, id)?;
    let function = match function.and_then(Value::non_null) {
        None => return Ok(()),
        Some(Value::Object(function)) => function,
        Some(_) => return Err(Unreadable::Type),
    };
    let (mut name, mut arguments) = (None, None);
    for field in function.fields() {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"name" => name = Some(value),
            b"arguments" => arguments = Some(value),
            _ => {}
        }
    }
    frame::text(sink, Mark::Name, name)?;
    frame::any(sink, Mark::Arguments, arguments, &[])
}
