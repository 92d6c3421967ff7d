//! `/v1/chat/completions`: tools, then the messages in order.
//!
//! Each message is a frame of its fields in an order of our own, whatever their order in the body:
//! role, name, tool call id, reasoning, content, refusal, tool calls, tools. Fields that are null
//! are absent; fields that no template prints are ignored. A content that is a string and one that
//! is a single text part are the same prompt, as they are for most templates; several parts are
//! not the same as their texts joined.

use super::frame::{self, Mark};
use super::json::{self, Raw, Sink, Value};
use super::seed::SeedFields;
use super::{Length, NoPrefix, Prefix, Prompt, Unreadable};
use crate::prefix::{BlockIds, Layout};

/// Reads the one prompt of a body.
///
/// # Errors
/// See [`Unreadable`]. A body without a list of messages is unreadable, and so is a message that
/// is no object or whose fields have types that no engine takes.
pub(super) fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut messages, mut tools) = (None, None);
    let (mut generation, mut continuation) = (None, None);
    for field in json::document(body)? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"messages" => messages = Some(value),
            b"tools" => tools = Some(value),
            b"add_generation_prompt" => generation = Some(value),
            b"continue_final_message" => continuation = Some(value),
            name => seed.note(name, value),
        }
    }
    let (model, seed) = seed.seed()?;
    let messages = match messages.and_then(Value::non_null) {
        None => return Err(Unreadable::Missing),
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(Unreadable::Type),
    };
    let mut blocks = BlockIds::new(layout);
    tool_list(&mut blocks, tools)?;
    let mut empty = true;
    for item in messages.items() {
        empty = false;
        message(&mut blocks, item?)?;
    }
    if empty {
        return Ok(Prefix::none(model, NoPrefix::Empty));
    }
    // Behind the messages, so that a longer conversation still shares all of this one.
    flag(&mut blocks, Mark::AddGenerationPrompt, generation, true)?;
    flag(&mut blocks, Mark::ContinueFinalMessage, continuation, false)?;
    let length = Length::Bytes(blocks.bytes());
    Ok(Prefix::new(
        model,
        vec![Prompt {
            length,
            blocks: blocks.chain(seed),
        }],
    ))
}

/// Tools in the order given, that of their keys too: templates print them so. No tools and an
/// empty list are the same.
fn tool_list(sink: &mut impl Sink, tools: Option<Value<'_>>) -> Result<(), Unreadable> {
    match tools.and_then(Value::non_null) {
        None => Ok(()),
        Some(Value::Array(list)) if list.items().next().is_none() => Ok(()),
        Some(tools) => {
            frame::mark(sink, Mark::Tools);
            frame::value(sink, tools)
        }
    }
}

/// A setting of the template, where it is not the default.
fn flag(
    sink: &mut impl Sink,
    kind: Mark,
    value: Option<Value<'_>>,
    default: bool,
) -> Result<(), Unreadable> {
    match value.and_then(Value::non_null) {
        None => Ok(()),
        Some(Value::Bool(value)) if value == default => Ok(()),
        Some(other) => {
            frame::mark(sink, kind);
            frame::value(sink, other)
        }
    }
}

fn message(sink: &mut impl Sink, message: Value<'_>) -> Result<(), Unreadable> {
    let Value::Object(fields) = message else {
        return Err(Unreadable::Type);
    };
    let (mut role, mut name, mut call_id, mut content) = (None, None, None, None);
    let (mut reasoning, mut reasoning_content) = (None, None);
    let (mut refusal, mut calls, mut tools) = (None, None, None);
    for field in fields.fields() {
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
    match content {
        Some(Value::Array(parts)) => {
            for item in parts.items() {
                part(sink, item?)?;
            }
        }
        text => frame::text(sink, Mark::Text, text)?,
    }
    frame::text(sink, Mark::Refusal, refusal)?;
    match calls.and_then(Value::non_null) {
        None => {}
        Some(Value::Array(calls)) => {
            for item in calls.items() {
                tool_call(sink, item?)?;
            }
        }
        Some(_) => return Err(Unreadable::Type),
    }
    tool_list(sink, tools)?;
    frame::mark(sink, Mark::End);
    Ok(())
}

/// One part of a content: a text, or something that enters by its hash.
fn part(sink: &mut impl Sink, part: Value<'_>) -> Result<(), Unreadable> {
    let fields = match part {
        Value::String(_) => return frame::text(sink, Mark::Text, Some(part)),
        Value::Object(fields) => fields,
        _ => return Err(Unreadable::Type),
    };
    let (mut kind, mut text) = (None, None);
    for field in fields.fields() {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"type" => kind = Some(value),
            b"text" => text = Some(value),
            _ => {}
        }
    }
    let is_text = match kind.and_then(Value::non_null) {
        None => matches!(text, Some(Value::String(_))),
        Some(Value::String(kind)) => {
            matches!(
                kind.decoded().as_ref(),
                b"text" | b"input_text" | b"output_text"
            )
        }
        Some(_) => return Err(Unreadable::Type),
    };
    if is_text {
        // A text part without its text is none.
        text.and_then(Value::non_null).ok_or(Unreadable::Type)?;
        return frame::text(sink, Mark::Text, text);
    }
    media(sink, fields)
}

/// A picture, a sound, a file: its kind, its URL or data and its settings, by their hash.
fn media(sink: &mut impl Sink, fields: Raw<'_>) -> Result<(), Unreadable> {
    frame::mark(sink, Mark::Media);
    sink.push(&frame::unordered(fields, &[b"cache_control"])?.to_le_bytes());
    Ok(())
}

/// A call the model made before: its id, its function's name and arguments.
fn tool_call(sink: &mut impl Sink, call: Value<'_>) -> Result<(), Unreadable> {
    let Value::Object(fields) = call else {
        return Err(Unreadable::Type);
    };
    let (mut id, mut function) = (None, None);
    for field in fields.fields() {
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
    if let Some(arguments) = arguments.and_then(Value::non_null) {
        frame::mark(sink, Mark::Arguments);
        frame::value(sink, arguments)?;
    }
    Ok(())
}
