//! The framed stream: how messages, tools and media become bytes that can be mistaken for nothing
//! else.
//!
//! Decoded text never contains the byte `0xFF` (UTF-8 ends at `0xF4`, lone surrogates included).
//! So `0xFF` and a kind begin each part, and no length need be known beforehand: the stream is
//! hashed as it is decoded, and a message's bytes do not depend on what follows it.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::Unreadable;
use super::duplicates;
use super::json::{Event, Raw, Shape, Sink, Text, Value};
use crate::prefix::BlockIds;

impl Sink for BlockIds {
    fn push(&mut self, bytes: &[u8]) {
        BlockIds::push(self, bytes);
    }
}

impl Sink for Xxh3 {
    fn push(&mut self, bytes: &[u8]) {
        self.update(bytes);
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
    /// Ends a message. No stream ends in a zero byte, so none has a twin by the padding of blocks.
    End = b'.',
    // What may stand behind the last message.
    AddGenerationPrompt = b'G',
    ContinueFinalMessage = b'C',
    // The parts of the seed behind model and salt.
    Seed = b'S',
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

/// Any value: white space and escapes make no difference, the order of keys does (templates print
/// tools as they were given). Of duplicate keys the last value counts, in the place of the first,
/// as in Python's dictionaries.
pub(super) fn value(sink: &mut impl Sink, value: Value<'_>) -> Result<(), Unreadable> {
    match value {
        Value::Null => mark(sink, Mark::Null),
        Value::Bool(true) => mark(sink, Mark::True),
        Value::Bool(false) => mark(sink, Mark::False),
        Value::Number(literal) => number(sink, literal),
        Value::String(text) => string(sink, text),
        Value::Array(raw) | Value::Object(raw) => {
            if duplicates::has_duplicates(raw)? {
                return duplicates::resolve(raw, |event| structure(sink, event));
            }
            let mut walk = raw.walk();
            while let Some(event) = walk.next()? {
                structure(sink, event);
            }
        }
    }
    Ok(())
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
/// `ignored` names.
pub(super) fn unordered(object: Raw<'_>, ignored: &[&[u8]]) -> Result<u128, Unreadable> {
    digest(object, ignored, |value| match value {
        Value::Object(inner) => digest(inner, ignored, ordered),
        other => ordered(other),
    })
}

fn ordered(of: Value<'_>) -> Result<u128, Unreadable> {
    let mut hash = Xxh3::new();
    value(&mut hash, of)?;
    Ok(hash.digest128())
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
