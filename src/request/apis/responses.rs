//! `/v1/responses`: instructions, tools, then the input.
//!
//! - The prompt: `prompt` (a stored template, by its name), `instructions`, `tools` with
//!   `tool_choice` where it leaves tools out, `input`. An input that is a string is the message of
//!   a user.
//! - Each item of the input is a frame. A message: role, content. A function call: call id, name,
//!   arguments. Its output: call id, content. Reasoning: the texts of its content, then those of
//!   its summary, then `encrypted_content`. Any other kind enters by its hash. Ids and states of
//!   items, annotations and log probabilities of texts are ignored, but an unfinished last item is
//!   one to go on with.
//! - Into the seed: what [`SeedFields`] names; `reasoning.effort` is `reasoning_effort`.
//! - `previous_response_id`, `conversation`, an item that is a mere reference: no prefix, since
//!   the engine has text that we do not.
//! - All else is ignored. The weight is 1.

use super::Spec;
use crate::prefix::{BlockIds, Layout};
use crate::request::frame::{self, Mark};
use crate::request::json::{self, Item, Members, Sink, Value};
use crate::request::plain::Place;
use crate::request::prompts::Prompt;
use crate::request::seed::SeedFields;
use crate::request::{NoPrefix, Prefix, Unreadable, parts, tools};

pub(super) const SPEC: Spec = Spec {
    name: "responses",
    path: "/v1/responses",
    read,
};

fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut previous, mut conversation, mut template) = (None, None, None);
    let (mut instructions, mut tools, mut choice, mut input) = (None, None, None, None);
    for field in json::document(body, &[b"input", b"tools"])? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"previous_response_id" => previous = Some(value),
            b"conversation" => conversation = Some(value),
            b"prompt" => template = Some(value),
            b"instructions" => instructions = Some(value),
            b"tools" => tools = Some(value),
            b"tool_choice" => choice = Some(value),
            b"input" => input = Some(value),
            b"reasoning" => seed.note_member(b"reasoning_effort", value, b"effort"),
            name => seed.note(name, value),
        }
    }
    let (origin, seeds) = seed.seeds()?;
    for (field, reason) in [
        (previous, NoPrefix::PreviousResponse),
        (conversation, NoPrefix::Conversation),
    ] {
        if field.and_then(Value::non_null).is_some() {
            return Ok(Prefix::none(origin, 1, reason));
        }
    }
    let mut blocks = BlockIds::new(layout);
    frame::any(&mut blocks, Mark::Template, template, &[])?;
    instruct(&mut blocks, instructions)?;
    tools::push(&mut blocks, tools, choice, &[])?;
    let items = match input.and_then(Value::non_null) {
        // A stored template can do without.
        None if template.and_then(Value::non_null).is_none() => return Err(Unreadable::Missing),
        None => Items::Many,
        Some(text @ Value::String(_)) => {
            user(&mut blocks, text)?;
            Items::Many
        }
        Some(Value::Array(items)) => all(&mut blocks, items.items())?,
        Some(_) => return Err(Unreadable::Type),
    };
    match items {
        Items::None => Ok(Prefix::none(origin, 1, NoPrefix::Empty)),
        Items::Referred => Ok(Prefix::none(origin, 1, NoPrefix::ItemReference)),
        Items::Many => {
            let prompt = Prompt::of_bytes(blocks, seeds.of(Place::ALONE)?);
            Ok(Prefix::new(origin, 1, vec![prompt]))
        }
    }
}

/// What a list of items turned out to be.
enum Items {
    None,
    Many,
    /// One of them at least is only a reference.
    Referred,
}

/// No instructions and empty ones are the same.
fn instruct(sink: &mut impl Sink, instructions: Option<Value<'_>>) -> Result<(), Unreadable> {
    match instructions {
        Some(Value::String(text)) if text.is_empty() => Ok(()),
        // A response that is sent back has items here.
        Some(Value::Array(_)) => frame::any(sink, Mark::System, instructions, &[]),
        text => frame::text(sink, Mark::System, text),
    }
}

fn user(sink: &mut impl Sink, text: Value<'_>) -> Result<(), Unreadable> {
    frame::mark(sink, Mark::Message);
    frame::mark(sink, Mark::Role);
    sink.push(b"user");
    frame::text(sink, Mark::Text, Some(text))?;
    frame::mark(sink, Mark::End);
    Ok(())
}

fn all(sink: &mut impl Sink, mut items: json::Items<'_>) -> Result<Items, Unreadable> {
    let mut found = Items::None;
    let mut unfinished = false;
    while let Some(item) = items.next_open()? {
        let Item::Object(fields) = item else {
            return Err(Unreadable::Type);
        };
        match push(sink, fields)? {
            Pushed::Finished => unfinished = false,
            Pushed::Unfinished => unfinished = true,
            // The rest is still read, as it might be no JSON.
            Pushed::Referred => found = Items::Referred,
        }
        if matches!(found, Items::None) {
            found = Items::Many;
        }
    }
    if unfinished {
        frame::mark(sink, Mark::ContinueFinalMessage);
        frame::mark(sink, Mark::True);
    }
    Ok(found)
}

enum Pushed {
    Finished,
    Unfinished,
    Referred,
}

/// One item of the input.
fn push(sink: &mut impl Sink, mut fields: Members<'_, '_>) -> Result<Pushed, Unreadable> {
    let (mut kind, mut role, mut content, mut status) = (None, None, None, None);
    let (mut call_id, mut name, mut arguments, mut output) = (None, None, None, None);
    let (mut summary, mut encrypted, mut id) = (None, None, None);
    for field in fields.by_ref() {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"type" => kind = Some(value),
            b"role" => role = Some(value),
            b"content" => content = Some(value),
            b"status" => status = Some(value),
            b"call_id" => call_id = Some(value),
            b"name" => name = Some(value),
            b"arguments" => arguments = Some(value),
            b"output" => output = Some(value),
            b"summary" => summary = Some(value),
            b"encrypted_content" => encrypted = Some(value),
            b"id" => id = Some(value),
            _ => {}
        }
    }
    let kind = match kind.and_then(Value::non_null) {
        Some(Value::String(kind)) => kind.decoded(),
        Some(_) => return Err(Unreadable::Type),
        // A message may leave its type out, and so may a reference.
        None if role.is_none() && content.is_none() && id.is_some() => {
            b"item_reference".as_slice().into()
        }
        None => b"message".as_slice().into(),
    };
    let mut can_go_on = false;
    match kind.as_ref() {
        b"message" => {
            can_go_on = true;
            frame::mark(sink, Mark::Message);
            frame::text(sink, Mark::Role, role)?;
            parts::content(sink, content)?;
        }
        b"function_call" => {
            frame::mark(sink, Mark::ToolCall);
            frame::text(sink, Mark::ToolCallId, call_id)?;
            frame::text(sink, Mark::Name, name)?;
            frame::any(sink, Mark::Arguments, arguments, &[])?;
        }
        b"function_call_output" => {
            frame::mark(sink, Mark::ToolResult);
            frame::text(sink, Mark::ToolCallId, call_id)?;
            parts::content(sink, output)?;
        }
        b"reasoning" => {
            can_go_on = true;
            frame::mark(sink, Mark::Reasoning);
            parts::content(sink, content)?;
            frame::mark(sink, Mark::Summary);
            parts::content(sink, summary)?;
            frame::text(sink, Mark::Encrypted, encrypted)?;
        }
        b"item_reference" => return Ok(Pushed::Referred),
        _ => {
            frame::mark(sink, Mark::Item);
            let whole = frame::unordered(fields.whole(), &[b"id", b"status"])?;
            sink.push(&whole.to_le_bytes());
        }
    }
    frame::mark(sink, Mark::End);
    let open = |status: &[u8]| matches!(status, b"in_progress" | b"incomplete");
    let unfinished = matches!(status, Some(Value::String(status)) if open(&status.decoded()));
    Ok(match can_go_on && unfinished {
        true => Pushed::Unfinished,
        false => Pushed::Finished,
    })
}
