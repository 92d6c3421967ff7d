//! Plain prompts: text or token ids, one or a batch, hashed as their bytes or ids alone.
//!
//! That is how the reference hashes them, so they have no frame. Media that stand next to such a
//! prompt come before it, framed: one hash of them all.

use xxhash_rust::xxh3::Xxh3;

use super::Unreadable;
use super::frame::{self, Mark};
use super::json::{Raw, Sink, Text, Value};
use super::prompts::Prompt;
use super::seed::Seeds;
use crate::prefix::{BlockIds, Layout};

/// What all prompts of a request have in common.
pub(super) struct Plain<'a> {
    pub(super) layout: Layout,
    pub(super) seeds: Seeds<'a>,
    pub(super) media: Media<'a>,
}

impl Plain<'_> {
    /// The prompts of a string, strings, token ids, or lists of token ids.
    pub(super) fn read(&self, prompt: Value<'_>) -> Result<Vec<Prompt>, Unreadable> {
        let list = match prompt {
            Value::String(text) => return Ok(vec![self.text(text, Place::ALONE)?]),
            Value::Array(raw) => raw,
            _ => return Err(Unreadable::Type),
        };
        match list.items().next().transpose()? {
            None => Ok(Vec::new()),
            Some(Value::Number(_)) => Ok(vec![self.ids(list, Place::ALONE)?]),
            Some(Value::String(_)) => self.batch(list, |item, place| match item {
                Value::String(text) => self.text(text, place),
                _ => Err(Unreadable::Type),
            }),
            Some(Value::Array(_)) => self.batch(list, |item, place| match item {
                Value::Array(ids) => self.ids(ids, place),
                _ => Err(Unreadable::Type),
            }),
            Some(_) => Err(Unreadable::Type),
        }
    }

    /// The prompt of token ids, and of nothing else.
    pub(super) fn read_ids(&self, prompt: Value<'_>) -> Result<Vec<Prompt>, Unreadable> {
        match prompt {
            Value::Array(ids) => Ok(vec![self.ids(ids, Place::ALONE)?]),
            _ => Err(Unreadable::Type),
        }
    }

    fn batch(
        &self,
        list: Raw<'_>,
        read: impl Fn(Value<'_>, Place) -> Result<Prompt, Unreadable>,
    ) -> Result<Vec<Prompt>, Unreadable> {
        // Only lists that go along with the prompts ask how many there are.
        let count = match self.seeds.has_lists() || self.media.has_lists() {
            true => list.items().count(),
            false => 0,
        };
        let prompts = list.items().zip(0..);
        prompts
            .map(|(item, index)| read(item?, Place { index, count }))
            .collect()
    }

    fn text(&self, text: Text<'_>, place: Place) -> Result<Prompt, Unreadable> {
        if text.is_empty() {
            return Ok(Prompt::EMPTY);
        }
        let mut blocks = BlockIds::new(self.layout);
        self.media.push(&mut blocks, place)?;
        text.decode(&mut blocks);
        Ok(Prompt::of_bytes(blocks, self.seeds.of(place)?))
    }

    fn ids(&self, ids: Raw<'_>, place: Place) -> Result<Prompt, Unreadable> {
        let mut blocks = BlockIds::new(self.layout);
        self.media.push(&mut blocks, place)?;
        match ids.token_ids(&mut blocks)? {
            0 => Ok(Prompt::EMPTY),
            tokens => Ok(Prompt::of_tokens(tokens, blocks, self.seeds.of(place)?)),
        }
    }
}

/// Which prompt of how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) count: usize,
}

impl Place {
    /// The one prompt of a request.
    pub(super) const ALONE: Self = Self { index: 0, count: 1 };
}

/// A field that is one value for all prompts, or a list with a value for each.
pub(super) enum PerPrompt<'a> {
    Absent,
    Same(u128),
    List {
        /// Of the list as a whole, for prompts that are not as many.
        whole: u128,
        items: Vec<Value<'a>>,
    },
}

impl<'a> PerPrompt<'a> {
    pub(super) fn new(value: Option<Value<'a>>) -> Result<Self, Unreadable> {
        Ok(match value.filter(Value::says_something) {
            None => Self::Absent,
            Some(Value::Array(list)) => Self::List {
                whole: entries(Value::Array(list))?,
                items: list.items().collect::<Result<_, _>>()?,
            },
            Some(value) => Self::Same(entries(value)?),
        })
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List { .. })
    }

    /// The hash of what belongs to a prompt, where anything does. A list belongs to a lone prompt
    /// as a whole, which is the same as its only item.
    pub(super) fn digest(&self, place: Place) -> Result<Option<u128>, Unreadable> {
        match self {
            Self::Absent => Ok(None),
            Self::Same(digest) => Ok(Some(*digest)),
            Self::List { items, .. } if place.count > 0 && items.len() == place.count => {
                let own = items.get(place.index).copied();
                own.filter(Value::says_something).map(entries).transpose()
            }
            Self::List { whole, .. } => Ok(Some(*whole)),
        }
    }
}

/// The hash of an entry: of the elements of a list, or of a value as if it were a list of one.
fn entries(value: Value<'_>) -> Result<u128, Unreadable> {
    let mut hash = Xxh3::new();
    match value {
        Value::Array(list) => {
            for item in list.items() {
                frame::value(&mut hash, item?)?;
            }
        }
        one => frame::value(&mut hash, one)?,
    }
    Ok(hash.digest128())
}

/// Media next to plain prompts, each kind in its own field.
#[derive(Default)]
pub(super) struct Media<'a> {
    kinds: Vec<(u8, PerPrompt<'a>)>,
}

impl<'a> Media<'a> {
    /// Adds a field; `kind` sets its media apart from those of others.
    pub(super) fn add(&mut self, kind: u8, value: Option<Value<'a>>) -> Result<(), Unreadable> {
        match PerPrompt::new(value)? {
            PerPrompt::Absent => {}
            media => self.kinds.push((kind, media)),
        }
        Ok(())
    }

    /// Adds media by their hash.
    pub(super) fn add_hash(&mut self, kind: u8, hash: u128) {
        self.kinds.push((kind, PerPrompt::Same(hash)));
    }

    fn has_lists(&self) -> bool {
        self.kinds.iter().any(|(_, media)| media.is_list())
    }

    fn push(&self, sink: &mut impl Sink, place: Place) -> Result<(), Unreadable> {
        let mut all = Xxh3::new();
        let mut any = false;
        for (kind, media) in &self.kinds {
            if let Some(digest) = media.digest(place)? {
                any = true;
                all.update(&[*kind]);
                all.update(&digest.to_le_bytes());
            }
        }
        if any {
            frame::mark(sink, Mark::Media);
            sink.push(&all.digest128().to_le_bytes());
        }
        Ok(())
    }
}
