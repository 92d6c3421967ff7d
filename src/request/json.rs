//! A pull reader for JSON, over the bytes of a body.
//!
//! It builds no tree, does not recurse, and never copies a text without escapes. It takes what
//! Python's `json` takes, because that is what stands in most engines: a byte order mark, `NaN`,
//! `Infinity`, lone surrogates, any depth. It also takes raw control characters in strings. It
//! refuses what cannot be read one way only: anything but UTF-8, trailing commas, comments,
//! single quotes, text after the end.
//!
//! [`Walk`] yields events and checks the grammar. [`Value`], [`Fields`] and [`Items`] stand on it:
//! they remember where a value begins and ends, so a caller picks the last of duplicate keys, or
//! its own order of fields, and reads the value afterwards.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::Unreadable;

/// Takes bytes as they are decoded.
pub(super) trait Sink {
    /// Appends bytes.
    fn push(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The fields of the object that a body is.
///
/// The body is well-formed only when the iterator ends without an error.
pub(super) fn document(body: &[u8]) -> Result<Fields<'_>, Unreadable> {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    // UTF-16 and UTF-32 without a mark are valid UTF-8, but no JSON starts with a NUL or has one
    // in second place.
    let wide = text.iter().take(2).any(|byte| *byte == 0);
    if wide || std::str::from_utf8(text).is_err() {
        return Err(Unreadable::Encoding);
    }
    let mut walk = Walk::new(text);
    match walk.next()? {
        Some(Event::Open(Shape::Object)) => Ok(Fields(walk)),
        _ => {
            while walk.next()?.is_some() {}
            walk.end()?;
            Err(Unreadable::Type)
        }
    }
}

/// A string as it stands between its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Pushes the decoded string: UTF-8, but for lone surrogates, which are encoded like any other
    /// code point of three bytes. No byte of it is above `0xF4`.
    pub(super) fn decode(self, sink: &mut impl Sink) {
        if !self.escaped {
            return sink.push(self.raw);
        }
        let mut rest = self.raw;
        // Escapes in a row, as non-ASCII text from Python has them, are pushed together.
        let mut batch = Batch::default();
        while let Some(at) = match rest.first() {
            Some(b'\\') => Some(0),
            _ => memchr(b'\\', rest),
        } {
            let Some((run, escape)) = rest.split_at_checked(at) else {
                break;
            };
            if !run.is_empty() {
                batch.flush(sink);
                sink.push(run);
            }
            // The walk has checked every escape before.
            let Some((character, used)) = unescape(escape) else {
                break;
            };
            batch.push(character, sink);
            rest = escape.get(used..).unwrap_or_default();
        }
        batch.flush(sink);
        sink.push(rest);
    }

    /// The decoded string.
    pub(super) fn decoded(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut decoded = Vec::with_capacity(self.raw.len());
        self.decode(&mut decoded);
        Cow::Owned(decoded)
    }
}

/// A value: a scalar, or the place of a container.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// The literal as it stands, `NaN` and `-Infinity` among them.
    Number(&'a [u8]),
    String(Text<'a>),
    Array(Raw<'a>),
    Object(Raw<'a>),
}

impl<'a> Value<'a> {
    /// `None` for null: a null field is an absent one.
    pub(super) fn non_null(self) -> Option<Self> {
        (!matches!(self, Value::Null)).then_some(self)
    }
}

/// The bytes of one container, from bracket to bracket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    /// The members of an object, in order. Of an array: no fields.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields(self.inside())
    }

    /// The elements of an array, in order.
    pub(super) fn items(self) -> Items<'a> {
        Items(self.inside())
    }

    /// All events of the container, its own brackets included.
    pub(super) fn walk(self) -> Walk<'a> {
        Walk::new(self.0)
    }

    fn inside(self) -> Walk<'a> {
        let mut walk = self.walk();
        // The opening bracket. It has been read before, so it does not fail.
        let _ = walk.next();
        walk
    }
}

/// An iterator over the members of an object; duplicates come as often as they stand there.
pub(super) struct Fields<'a>(Walk<'a>);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(Text<'a>, Value<'a>), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.next() {
            Ok(Some(Event::Key(key))) => Some(
                self.0
                    .value()
                    .and_then(|v| Ok((key, v.ok_or(Unreadable::Json)?))),
            ),
            Ok(_) => self.0.end().err().map(Err),
            Err(error) => Some(Err(error)),
        }
    }
}

/// An iterator over the elements of an array.
pub(super) struct Items<'a>(Walk<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Result<Value<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.value() {
            Ok(Some(value)) => Some(Ok(value)),
            Ok(None) => self.0.end().err().map(Err),
            Err(error) => Some(Err(error)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Array,
    Object,
}

/// One step through a document.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<'a> {
    Open(Shape),
    Close(Shape),
    Key(Text<'a>),
    Null,
    Bool(bool),
    Number(&'a [u8]),
    String(Text<'a>),
}

/// What may stand next.
#[derive(Debug, Clone, Copy)]
enum Expect {
    Value,
    FirstValueOrEnd,
    FirstKeyOrEnd,
    CommaOrEnd,
    Nothing,
}

/// The events of one value, the grammar checked on the way. After an error it must not be used.
pub(super) struct Walk<'a> {
    body: &'a [u8],
    at: usize,
    nest: Nest,
    expect: Expect,
}

impl<'a> Walk<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            at: 0,
            nest: Nest::default(),
            expect: Expect::Value,
        }
    }

    /// The next event, `None` when the value is complete.
    pub(super) fn next(&mut self) -> Result<Option<Event<'a>>, Unreadable> {
        let byte = match self.expect {
            Expect::Nothing => return Ok(None),
            _ => self.byte()?,
        };
        match (self.expect, byte) {
            (Expect::FirstValueOrEnd, b']') => self.close(Shape::Array),
            (Expect::FirstKeyOrEnd, b'}') => self.close(Shape::Object),
            (Expect::FirstKeyOrEnd, b'"') => self.key(),
            (Expect::FirstKeyOrEnd, _) => Err(Unreadable::Json),
            (Expect::CommaOrEnd, b',') => {
                self.at += 1;
                match (self.nest.top(), self.byte()?) {
                    (Shape::Object, b'"') => self.key(),
                    (Shape::Object, _) => Err(Unreadable::Json),
                    (Shape::Array, byte) => self.scalar_or_open(byte),
                }
            }
            (Expect::CommaOrEnd, b']') if self.nest.top() == Shape::Array => {
                self.close(Shape::Array)
            }
            (Expect::CommaOrEnd, b'}') if self.nest.top() == Shape::Object => {
                self.close(Shape::Object)
            }
            (Expect::CommaOrEnd, _) => Err(Unreadable::Json),
            (_, byte) => self.scalar_or_open(byte),
        }
        .map(Some)
    }

    /// The whole value that stands next; `None` where its container ends.
    pub(super) fn value(&mut self) -> Result<Option<Value<'a>>, Unreadable> {
        Ok(match self.next()? {
            None | Some(Event::Close(_)) => None,
            Some(Event::Key(_)) => return Err(Unreadable::Json),
            Some(Event::Null) => Some(Value::Null),
            Some(Event::Bool(value)) => Some(Value::Bool(value)),
            Some(Event::Number(literal)) => Some(Value::Number(literal)),
            Some(Event::String(text)) => Some(Value::String(text)),
            Some(Event::Open(shape)) => {
                // The bracket is the byte just read.
                let start = self.at.saturating_sub(1);
                let depth = self.nest.depth;
                while self.nest.depth >= depth {
                    self.next()?;
                }
                let raw = Raw(self.since(start));
                Some(match shape {
                    Shape::Array => Value::Array(raw),
                    Shape::Object => Value::Object(raw),
                })
            }
        })
    }

    /// Checks that nothing but white space follows.
    fn end(&mut self) -> Result<(), Unreadable> {
        self.space();
        if self.at < self.body.len() {
            Err(Unreadable::Json)
        } else {
            Ok(())
        }
    }

    fn scalar_or_open(&mut self, byte: u8) -> Result<Event<'a>, Unreadable> {
        match byte {
            b'"' => {
                let text = self.string()?;
                Ok(self.complete(Event::String(text)))
            }
            b'{' => Ok(self.open(Shape::Object, Expect::FirstKeyOrEnd)),
            b'[' => Ok(self.open(Shape::Array, Expect::FirstValueOrEnd)),
            b't' => self.literal(b"true", Event::Bool(true)),
            b'f' => self.literal(b"false", Event::Bool(false)),
            b'n' => self.literal(b"null", Event::Null),
            b'N' => self.literal(b"NaN", Event::Number(b"NaN")),
            b'I' => self.literal(b"Infinity", Event::Number(b"Infinity")),
            b'-' if self.rest().starts_with(b"-I") => {
                self.literal(b"-Infinity", Event::Number(b"-Infinity"))
            }
            _ => {
                let literal = self.number()?;
                Ok(self.complete(Event::Number(literal)))
            }
        }
    }

    fn open(&mut self, shape: Shape, expect: Expect) -> Event<'a> {
        self.at += 1;
        self.nest.push(shape);
        self.expect = expect;
        Event::Open(shape)
    }

    fn close(&mut self, shape: Shape) -> Result<Event<'a>, Unreadable> {
        self.at += 1;
        self.nest.pop();
        Ok(self.complete(Event::Close(shape)))
    }

    fn complete(&mut self, event: Event<'a>) -> Event<'a> {
        self.expect = if self.nest.depth == 0 {
            Expect::Nothing
        } else {
            Expect::CommaOrEnd
        };
        event
    }

    fn key(&mut self) -> Result<Event<'a>, Unreadable> {
        let key = self.string()?;
        if self.byte()? != b':' {
            return Err(Unreadable::Json);
        }
        self.at += 1;
        self.expect = Expect::Value;
        Ok(Event::Key(key))
    }

    fn literal(&mut self, word: &[u8], event: Event<'a>) -> Result<Event<'a>, Unreadable> {
        if !self.rest().starts_with(word) {
            return Err(Unreadable::Json);
        }
        self.at += word.len();
        Ok(self.complete(event))
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    fn number(&mut self) -> Result<&'a [u8], Unreadable> {
        let start = self.at;
        self.eat(b"-");
        if !self.eat(b"0") {
            self.digits()?;
        }
        if self.eat(b".") {
            self.digits()?;
        }
        if self.eat(b"eE") {
            self.eat(b"+-");
            self.digits()?;
        }
        Ok(self.since(start))
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), Unreadable> {
        let count = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.at += count;
        if count == 0 {
            Err(Unreadable::Json)
        } else {
            Ok(())
        }
    }

    /// Steps over the next byte if it is one of these.
    fn eat(&mut self, bytes: &[u8]) -> bool {
        let found = self
            .body
            .get(self.at)
            .is_some_and(|byte| bytes.contains(byte));
        self.at += usize::from(found);
        found
    }

    /// The string whose opening quote stands next; its escapes are checked, not decoded.
    fn string(&mut self) -> Result<Text<'a>, Unreadable> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.rest();
            let hit = match rest.first() {
                Some(b'"' | b'\\') => 0,
                _ => memchr2(b'"', b'\\', rest).ok_or(Unreadable::Json)?,
            };
            self.at += hit;
            let tail = rest.get(hit..).unwrap_or_default();
            if tail.first() == Some(&b'"') {
                let raw = self.since(start);
                self.at += 1;
                return Ok(Text { raw, escaped });
            }
            escaped = true;
            let (_, used) = unescape(tail).ok_or(Unreadable::Json)?;
            self.at += used;
        }
    }

    /// The next byte that is not white space.
    fn byte(&mut self) -> Result<u8, Unreadable> {
        self.space();
        self.body.get(self.at).copied().ok_or(Unreadable::Json)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.body.get(self.at) {
            self.at += 1;
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'a [u8] {
        self.body.get(start..self.at).unwrap_or_default()
    }
}

/// The open containers, one bit each: the depth of a body costs next to nothing.
#[derive(Debug, Default)]
struct Nest {
    depth: usize,
    /// The innermost containers, up to 64, the last one in the lowest bit; 1 is an object.
    bits: u64,
    /// Those further out, 64 a word.
    outer: Vec<u64>,
}

impl Nest {
    fn push(&mut self, shape: Shape) {
        if self.depth != 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(shape == Shape::Object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.bits >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth != 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    fn top(&self) -> Shape {
        if self.bits & 1 == 1 {
            Shape::Object
        } else {
            Shape::Array
        }
    }
}

/// One code point, encoded.
#[derive(Debug, Clone, Copy)]
struct Encoded {
    bytes: [u8; 4],
    len: usize,
}

impl Encoded {
    /// UTF-8; a surrogate in the same manner (WTF-8).
    fn new(code: u32) -> Self {
        let low = |shift: u32| (code >> shift & 0x3f) as u8 | 0x80;
        let high = |mark: u8, shift: u32| mark | (code >> shift) as u8;
        match code {
            0..0x80 => Self {
                bytes: [code as u8, 0, 0, 0],
                len: 1,
            },
            0x80..0x800 => Self {
                bytes: [high(0xc0, 6), low(0), 0, 0],
                len: 2,
            },
            0x800..0x1_0000 => Self {
                bytes: [high(0xe0, 12), low(6), low(0), 0],
                len: 3,
            },
            _ => Self {
                bytes: [high(0xf0, 18), low(12), low(6), low(0)],
                len: 4,
            },
        }
    }
}

/// The code point of the escape that `bytes` begin with, and the number of bytes it takes: a pair
/// of surrogates is one. `None` if it is no escape of JSON.
fn unescape(bytes: &[u8]) -> Option<(Encoded, usize)> {
    let code = match bytes.get(1)? {
        b'"' => b'"',
        b'\\' => b'\\',
        b'/' => b'/',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let first = hex(bytes.get(2..6)?)?;
            let second = match bytes.get(6..) {
                Some([b'\\', b'u', digits @ ..]) if (0xd800..0xdc00).contains(&first) => digits
                    .get(..4)
                    .and_then(hex)
                    .filter(|code| (0xdc00..0xe000).contains(code)),
                _ => None,
            };
            return Some(match second {
                Some(second) => (
                    Encoded::new(0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff)),
                    12,
                ),
                None => (Encoded::new(first), 6),
            });
        }
        _ => return None,
    };
    Some((Encoded::new(u32::from(code)), 2))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |code, digit| {
        Some(code << 4 | char::from(*digit).to_digit(16)?)
    })
}

/// Decoded escapes on their way to a sink.
#[derive(Default)]
struct Batch {
    bytes: [u8; 32],
    len: usize,
}

impl Batch {
    fn push(&mut self, character: Encoded, sink: &mut impl Sink) {
        if self.len + character.bytes.len() > self.bytes.len() {
            self.flush(sink);
        }
        // All four bytes are written, and those past the character's end overwritten.
        if let Some(place) = self
            .bytes
            .get_mut(self.len..self.len + character.bytes.len())
        {
            place.copy_from_slice(&character.bytes);
            self.len += character.len;
        }
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        if self.len > 0 {
            sink.push(self.bytes.get(..self.len).unwrap_or_default());
            self.len = 0;
        }
    }
}

#[cfg(test)]
mod tests;
