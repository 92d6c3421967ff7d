//! The framed stream: how messages, tools and media become bytes that can be mistaken for nothing
//! else.
//!
//! Decoded text never contains the byte `0xFF` (UTF-8 ends at `0xF4`, lone surrogates included).
//! So `0xFF` and a kind begin each part, and no length need be known beforehand: the stream is
//! hashed as it is decoded, and a message's bytes do not depend on what follows it.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::Unreadable;
use super::duplicates::{self, Keys};
use super::json::{Event, Raw, Shape, Sink, Text, Value};
use crate::prefix::BlockIds;

impl Sink for BlockIds {
    fn push(&mut self, bytes: &[u8]) {
        BlockIds::push(self, bytes);
    }

    fn size(&self) -> usize {
        BlockIds::size(self)
    }
}

impl Sink for Xxh3 {
    fn push(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// What the part that begins here is. Part of the hashes: a changed letter changes every hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    // The parts of a conversation.
    Tools = b'T',
    Message = b'M',
    Role = b'r',
    Name = b'n',
    ToolCallId = b'i',
    Reasoning = b'h',
    Text = b'x',
    Refusal = b'f',
    Media = b'm',
    ToolCall = b'c',
    Arguments = b'a',
    ToolChoice = b'k',
    ToolResult = b'o',
    IsError = b'e',
    EndOfResult = b',',
    System = b's',
    Template = b'p',
    Summary = b'u',
    Encrypted = b'y',
    /// Of no kind that is known here.
    Item = b'I',
    /// Ends a message. No stream ends in a zero byte, so none has a twin by the padding of blocks.
    End = b'.',
    // What may stand behind the last message.
    AddGenerationPrompt = b'G',
    ContinueFinalMessage = b'C',
    // The parts of the seed behind model and salt.
    Seed = b'S',
    SeedOfPrompt = b'P',
    // JSON structure.
    OpenObject = b'{',
    CloseObject = b'}',
    OpenArray = b'[',
    CloseArray = b']',
    Key = b':',
    String = b'"',
    Number = b'0',
    True = b't',
    False = b'F',
    Null = b'N',
}

/// Begins a part.
pub(super) fn mark(sink: &mut impl Sink, mark: Mark) {
    sink.push(&[0xff, mark as u8]);
}

/// A part that is one text, where the request has it. Anything but text and null is refused.
pub(super) fn text(
    sink: &mut impl Sink,
    kind: Mark,
    value: Option<Value<'_>>,
) -> Result<(), Unreadable> {
    match value.and_then(Value::non_null) {
        None => Ok(()),
        Some(Value::String(text)) => {
            mark(sink, kind);
            text.decode(sink);
            Ok(())
        }
        Some(_) => Err(Unreadable::Type),
    }
}

/// A part that is any value, where the request has it.
pub(super) fn any(
    sink: &mut impl Sink,
    kind: Mark,
    value: Option<Value<'_>>,
    ignored: &[&[u8]],
) -> Result<(), Unreadable> {
    match value.and_then(Value::non_null) {
        None => Ok(()),
        Some(value) => {
            mark(sink, kind);
            value_without(sink, value, ignored)
        }
    }
}

/// A part that is a setting, where it is not the default.
pub(super) fn setting(
    sink: &mut impl Sink,
    kind: Mark,
    value: Option<Value<'_>>,
    default: bool,
) -> Result<(), Unreadable> {
    let default = |value: &Value<'_>| matches!(value, Value::Bool(value) if *value == default);
    any(sink, kind, value.filter(|value| !default(value)), &[])
}

/// Any value: white space and escapes make no difference, the order of keys does (templates print
/// tools as they were given). Of duplicate keys the last value counts, in the place of the first,
/// as in Python's dictionaries.
pub(super) fn value(sink: &mut impl Sink, value: Value<'_>) -> Result<(), Unreadable> {
    value_without(sink, value, &[])
}

/// Any value, but members of these names are left out, however deep they stand.
pub(super) fn value_without(
    sink: &mut impl Sink,
    value: Value<'_>,
    ignored: &[&[u8]],
) -> Result<(), Unreadable> {
    match value {
        Value::Null => mark(sink, Mark::Null),
        Value::Bool(true) => mark(sink, Mark::True),
        Value::Bool(false) => mark(sink, Mark::False),
        Value::Number(literal) => number(sink, literal),
        Value::String(text) => string(sink, text),
        Value::Array(raw) | Value::Object(raw) => {
            // Where a copy of the sink is not larger than the value, the value is pushed at once,
            // and taken back if it has duplicates.
            let copy = (sink.size() <= raw.len()).then(|| sink.clone());
            if copy.is_none() && duplicates::has_duplicates(raw)? || !distinct(sink, raw, ignored)?
            {
                if let Some(copy) = copy {
                    *sink = copy;
                }
                let mut filter = Filter::new(ignored);
                return duplicates::resolve(raw, |event| {
                    if filter.keeps(&event) {
                        structure(sink, event);
                    }
                });
            }
        }
    }
    Ok(())
}

/// Pushes a value, and tells whether no object in it has a key twice.
fn distinct(sink: &mut impl Sink, raw: Raw<'_>, ignored: &[&[u8]]) -> Result<bool, Unreadable> {
    let mut keys = Keys::default();
    let mut filter = Filter::new(ignored);
    let mut walk = raw.walk();
    while let Some(event) = walk.next()? {
        if !keys.differ(&event) {
            return Ok(false);
        }
        if filter.keeps(&event) {
            structure(sink, event);
        }
    }
    Ok(true)
}

/// Leaves members out by their names.
struct Filter<'i> {
    ignored: &'i [&'i [u8]],
    /// Inside a member that is left out, the number of its open containers.
    inside: Option<usize>,
}

impl<'i> Filter<'i> {
    fn new(ignored: &'i [&'i [u8]]) -> Self {
        Self {
            ignored,
            inside: None,
        }
    }

    fn keeps(&mut self, event: &Event<'_>) -> bool {
        let Some(open) = self.inside else {
            if let Event::Key(key) = event
                && !self.ignored.is_empty()
                && self.ignored.contains(&key.decoded().as_ref())
            {
                self.inside = Some(0);
                return false;
            }
            return true;
        };
        let open = match event {
            Event::Open(_) => open + 1,
            Event::Close(_) => open.saturating_sub(1),
            _ => open,
        };
        self.inside = (open > 0).then_some(open);
        false
    }
}

fn structure(sink: &mut impl Sink, event: Event<'_>) {
    match event {
        Event::Open(Shape::Object) => mark(sink, Mark::OpenObject),
        Event::Open(Shape::Array) => mark(sink, Mark::OpenArray),
        Event::Close(Shape::Object) => mark(sink, Mark::CloseObject),
        Event::Close(Shape::Array) => mark(sink, Mark::CloseArray),
        Event::Key(key) => {
            mark(sink, Mark::Key);
            key.decode(sink);
        }
        Event::Null => mark(sink, Mark::Null),
        Event::Bool(true) => mark(sink, Mark::True),
        Event::Bool(false) => mark(sink, Mark::False),
        Event::Number(literal) => number(sink, literal),
        Event::String(text) => string(sink, text),
    }
}

fn number(sink: &mut impl Sink, literal: &[u8]) {
    mark(sink, Mark::Number);
    sink.push(literal);
}

fn string(sink: &mut impl Sink, text: Text<'_>) {
    mark(sink, Mark::String);
    text.decode(sink);
}

/// The hash of an object whose order of keys means nothing: a picture, template arguments. The
/// objects right inside it are taken likewise. Null fields are absent, and so are those that
/// `ignored` names, however deep they stand.
pub(super) fn unordered(object: Raw<'_>, ignored: &[&[u8]]) -> Result<u128, Unreadable> {
    let ordered = |value: Value<'_>| {
        let mut hash = Xxh3::new();
        value_without(&mut hash, value, ignored)?;
        Ok(hash.digest128())
    };
    digest(object, ignored, |value: Value<'_>| match value {
        Value::Object(inner) => digest(inner, ignored, ordered),
        other => ordered(other),
    })
}

fn digest(
    object: Raw<'_>,
    ignored: &[&[u8]],
    of: impl Fn(Value<'_>) -> Result<u128, Unreadable>,
) -> Result<u128, Unreadable> {
    let mut fields = Vec::new();
    for field in object.fields() {
        let (key, value) = field?;
        let key = key.decoded();
        if !ignored.contains(&key.as_ref()) {
            let value = value.non_null().map(&of).transpose()?;
            fields.push((xxh3_128(&key), value));
        }
    }
    // Stable, so the last of equal keys is the last in the body.
    fields.sort_by_key(|(key, _)| *key);
    let mut hash = Xxh3::new();
    for same in fields.chunk_by(|(a, _), (b, _)| a == b) {
        if let Some((key, Some(value))) = same.last() {
            hash.update(&key.to_le_bytes());
            hash.update(&value.to_le_bytes());
        }
    }
    Ok(hash.digest128())
}
