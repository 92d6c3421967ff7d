//! Contents: a text, or parts that are texts or enter by their hash.

use super::Unreadable;
use super::frame::{self, Mark};
use super::json::{Item, Members, Raw, Sink, Value};

/// Settings of the client's own cache, which change no prompt.
pub(super) const CACHE_CONTROL: &[u8] = b"cache_control";

/// A content as OpenAI's APIs have it. A string and one text part are the same.
pub(super) fn content(sink: &mut impl Sink, content: Option<Value<'_>>) -> Result<(), Unreadable> {
    let Some(Value::Array(parts)) = content else {
        return frame::text(sink, Mark::Text, content);
    };
    let mut parts = parts.items();
    while let Some(item) = parts.next_open()? {
        match item {
            Item::Object(fields) => part(sink, fields)?,
            Item::Other(text @ Value::String(_)) => frame::text(sink, Mark::Text, Some(text))?,
            Item::Other(_) => return Err(Unreadable::Type),
        }
    }
    Ok(())
}

/// One part: a text, a refusal, or something that enters by its hash.
fn part(sink: &mut impl Sink, mut fields: Members<'_, '_>) -> Result<(), Unreadable> {
    let (mut kind, mut text, mut refusal) = (None, None, None);
    for field in fields.by_ref() {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"type" => kind = Some(value),
            b"text" => text = Some(value),
            b"refusal" => refusal = Some(value),
            _ => {}
        }
    }
    match kind_of(kind, text)?.as_ref() {
        b"text" | b"input_text" | b"output_text" | b"reasoning_text" | b"summary_text" => {
            required_text(sink, Mark::Text, text)
        }
        b"refusal" => required_text(sink, Mark::Refusal, refusal),
        _ => media(sink, fields.whole()),
    }
}

/// The `type` of a part; one without it that has a text is a text.
pub(super) fn kind_of<'a>(
    kind: Option<Value<'a>>,
    text: Option<Value<'a>>,
) -> Result<std::borrow::Cow<'a, [u8]>, Unreadable> {
    match kind.and_then(Value::non_null) {
        Some(Value::String(kind)) => Ok(kind.decoded()),
        None if matches!(text, Some(Value::String(_))) => Ok(b"text".into()),
        None => Ok(b"".into()),
        Some(_) => Err(Unreadable::Type),
    }
}

/// A text part without its text is none.
pub(super) fn required_text(
    sink: &mut impl Sink,
    mark: Mark,
    text: Option<Value<'_>>,
) -> Result<(), Unreadable> {
    text.and_then(Value::non_null).ok_or(Unreadable::Type)?;
    frame::text(sink, mark, text)
}

/// A picture, a sound, a file: its kind, its URL or data and its settings, by their hash.
pub(super) fn media(sink: &mut impl Sink, fields: Raw<'_>) -> Result<(), Unreadable> {
    frame::mark(sink, Mark::Media);
    sink.push(&frame::unordered(fields, &[CACHE_CONTROL])?.to_le_bytes());
    Ok(())
}
