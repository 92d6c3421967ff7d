//! The tools that a request offers to the model.
//!
//! They stand first, as in most templates (Llama 3.1 puts them into the first user turn, Mistral
//! before the last one; equal prompts are equal there too).

use super::Unreadable;
use super::frame::{self, Mark};
use super::json::{Sink, Value};

/// Tools in the order given, that of their keys too: templates print them so. No tools and an
/// empty list are the same.
///
/// A `choice` of another kind than "as you like" follows them: some engines print other tools
/// then, or none.
pub(super) fn push(
    sink: &mut impl Sink,
    tools: Option<Value<'_>>,
    choice: Option<Value<'_>>,
    ignored: &[&[u8]],
) -> Result<(), Unreadable> {
    let Some(tools) = tools.filter(Value::says_something) else {
        return Ok(());
    };
    frame::mark(sink, Mark::Tools);
    frame::value_without(sink, tools, ignored)?;
    if let Some(choice) = choice.filter(restricts) {
        frame::mark(sink, Mark::ToolChoice);
        match choice {
            Value::Object(fields) => {
                sink.push(&frame::unordered(fields, ignored)?.to_le_bytes());
            }
            other => frame::value(sink, other)?,
        }
    }
    Ok(())
}

/// Whether a tool choice is more than how eagerly to call.
fn restricts(choice: &Value<'_>) -> bool {
    let free = |kind: &[u8]| matches!(kind, b"auto" | b"any" | b"required");
    match *choice {
        Value::Null => false,
        Value::String(kind) => !free(&kind.decoded()),
        // Anthropic's form.
        Value::Object(_) => {
            !matches!(choice.member(b"type"), Some(Value::String(kind)) if free(&kind.decoded()))
        }
        _ => true,
    }
}
