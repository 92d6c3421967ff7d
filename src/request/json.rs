//! A pull reader for JSON, over the bytes of a body.
//!
//! It builds no tree, does not recurse, and never copies a text without escapes. It takes what
//! Python's `json` takes, because that is what stands in most engines: a byte order mark, `NaN`,
//! `Infinity`, lone surrogates. It also takes any depth, and raw control characters in strings. It
//! refuses what cannot be read one way only: anything but UTF-8, trailing commas, comments,
//! single quotes, text after the end.
//!
//! [`Walk`] yields events and checks the grammar. [`Value`], [`Fields`] and [`Items`] stand on it:
//! they remember where a value begins and ends, so a caller picks the last of duplicate keys, or
//! its own order of fields, and reads the value afterwards.

mod blocks;
mod ids;
mod nest;
mod skim;
mod text;
mod walk;

use super::Unreadable;
pub(super) use text::{Sink, Text};
use walk::Next;
pub(super) use walk::{Event, Shape, Walk};

/// The fields of the object that a body is. Of those that are `large`, lists and objects are not
/// checked yet, only their ends are found: whoever reads them checks them.
///
/// The body is well-formed only when the iterator, and the reading of large fields, ends without
/// an error.
pub(super) fn document<'a>(
    body: &'a [u8],
    large: &'static [&'static [u8]],
) -> Result<Document<'a>, Unreadable> {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    // UTF-16 and UTF-32 without a mark are valid UTF-8, but no JSON starts with a NUL or has one
    // in second place.
    let wide = text.iter().take(2).any(|byte| *byte == 0);
    if wide || std::str::from_utf8(text).is_err() {
        return Err(Unreadable::Encoding);
    }
    let mut walk = Walk::new(text);
    match walk.next()? {
        Some(Event::Open(Shape::Object)) => Ok(Document {
            walk,
            large,
            unchecked: Vec::new(),
        }),
        _ => {
            while walk.next()?.is_some() {}
            walk.end()?;
            Err(Unreadable::Type)
        }
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

    /// Not so null, `{}` and `[]`: what a template sees of them is what it sees without them.
    pub(super) fn says_something(&self) -> bool {
        match *self {
            Value::Null => false,
            Value::Object(raw) => raw.fields().next().is_some(),
            Value::Array(raw) => raw.items().next().is_some(),
            _ => true,
        }
    }

    /// The member of this name, of duplicates the last, where this is an object that has one.
    pub(super) fn member(self, name: &[u8]) -> Option<Value<'a>> {
        let Value::Object(raw) = self else {
            return None;
        };
        let members = raw.fields().flatten();
        members
            .filter(|(key, _)| key.decoded().as_ref() == name)
            .last()
            .map(|(_, value)| value)
    }
}

/// The bytes of one container, from bracket to bracket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    /// The members, in order, of a container that is an object.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields(self.inside())
    }

    /// The elements, in order, of a container that is an array.
    pub(super) fn items(self) -> Items<'a> {
        Items(self.inside())
    }

    /// Its bytes, as it stands in the body.
    pub(super) fn len(self) -> usize {
        self.0.len()
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

/// An iterator over the fields of a body; duplicates come as often as they stand there.
pub(super) struct Document<'a> {
    walk: Walk<'a>,
    large: &'static [&'static [u8]],
    /// Large fields that were passed over, at most one of a name.
    unchecked: Vec<(&'static [u8], Raw<'a>)>,
}

impl<'a> Document<'a> {
    fn field(&mut self) -> Result<Option<(Text<'a>, Value<'a>)>, Unreadable> {
        let Some(Event::Key(key)) = self.walk.next()? else {
            self.walk.end()?;
            return Ok(None);
        };
        let name = key.decoded();
        let Some(large) = self.large.iter().find(|large| **large == name.as_ref()) else {
            return Ok(Some((key, self.walk.value()?.ok_or(Unreadable::Json)?)));
        };
        // What another of the same name replaces is never read.
        if let Some(at) = self.unchecked.iter().position(|(name, _)| name == large) {
            self.unchecked.swap_remove(at).1.check()?;
        }
        let value = self.walk.value_unchecked()?.ok_or(Unreadable::Json)?;
        if let Value::Array(raw) | Value::Object(raw) = value {
            self.unchecked.push((large, raw));
        }
        Ok(Some((key, value)))
    }
}

impl<'a> Iterator for Document<'a> {
    type Item = Result<(Text<'a>, Value<'a>), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.field().transpose();
        self.walk.end_by(field)
    }
}

/// An iterator over the members of an object; duplicates come as often as they stand there.
pub(super) struct Fields<'a>(Walk<'a>);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(Text<'a>, Value<'a>), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let member = match self.0.member() {
            Ok(None) => self.0.end().err().map(Err),
            member => member.transpose(),
        };
        self.0.end_by(member)
    }
}

/// An iterator over the elements of an array.
pub(super) struct Items<'a>(Walk<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Result<Value<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match self.0.value() {
            Ok(None) => self.0.end().err().map(Err),
            item => item.transpose(),
        };
        self.0.end_by(item)
    }
}

impl<'a> Items<'a> {
    /// The next element; if it is an object, one whose members are read where they stand, without
    /// stepping over it first.
    pub(super) fn next_open(&mut self) -> Result<Option<Item<'_, 'a>>, Unreadable> {
        // Members that were not asked for.
        while self.0.depth() > 1 {
            self.0.next()?;
        }
        match self.0.value_or_open()? {
            None => {
                self.0.end()?;
                Ok(None)
            }
            Some(Next::Value(value)) => Ok(Some(Item::Other(value))),
            Some(Next::Open { start }) => Ok(Some(Item::Object(Members {
                walk: &mut self.0,
                start,
            }))),
        }
    }
}

/// An element of an array.
pub(super) enum Item<'w, 'a> {
    Object(Members<'w, 'a>),
    Other(Value<'a>),
}

/// An iterator over the members of an object inside an array.
pub(super) struct Members<'w, 'a> {
    walk: &'w mut Walk<'a>,
    start: usize,
}

impl<'a> Members<'_, 'a> {
    /// The object as a whole, once all its members have been read.
    pub(super) fn whole(&self) -> Raw<'a> {
        Raw(self.walk.since(self.start))
    }
}

impl<'a> Iterator for Members<'_, 'a> {
    type Item = Result<(Text<'a>, Value<'a>), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let member = self.walk.member().transpose();
        self.walk.end_by(member)
    }
}

#[cfg(test)]
mod tests;
