//! What the chains of a request start from: the model, the salt, and whatever else changes the
//! prompt without being text of it.

use xxhash_rust::xxh64::Xxh64;

use super::Unreadable;
use super::frame::{self, Mark};
use super::json::{Sink, Value};
use super::plain::{PerPrompt, Place};
use super::prompts::Origin;
use crate::prefix::Seed;

/// Fields that change the rendered prompt or must keep two caches apart. In the order in which
/// they enter the seed; the position is part of the hashes, so new ones go to the end.
const OTHERS: [&[u8]; 9] = [
    b"chat_template",
    b"chat_template_kwargs",
    b"documents",
    b"reasoning_effort",
    b"add_special_tokens",
    b"truncate_prompt_tokens",
    b"mm_processor_kwargs",
    b"media_io_kwargs",
    THINKING,
];

/// Whether an Anthropic model thinks. No field of a body has this name.
pub(super) const THINKING: &[u8] = b"\xffthinking";

/// Likewise, and a list has one for each prompt of a batch. They enter behind the others.
const PER_PROMPT: [&[u8]; 2] = [b"extra_key", b"lora_path"];

/// The seed's fields, gathered while a body is read. The last of duplicates counts.
#[derive(Default)]
pub(super) struct SeedFields<'a> {
    model: Option<Value<'a>>,
    cache_salt: Option<Value<'a>>,
    others: [Option<Value<'a>>; OTHERS.len()],
    per_prompt: [Option<Value<'a>>; PER_PROMPT.len()],
}

impl<'a> SeedFields<'a> {
    /// Remembers a field of the body if it belongs to the seed.
    pub(super) fn note(&mut self, name: &[u8], value: Value<'a>) {
        self.set(name, Some(value));
    }

    /// Takes a member of an object for the field of this name.
    pub(super) fn note_member(&mut self, name: &[u8], object: Value<'a>, member: &[u8]) {
        self.set(name, object.member(member));
    }

    fn set(&mut self, name: &[u8], value: Option<Value<'a>>) {
        match name {
            b"model" => self.model = value,
            b"cache_salt" => self.cache_salt = value,
            _ => {
                let others = OTHERS.iter().zip(&mut self.others);
                let slots = others.chain(PER_PROMPT.iter().zip(&mut self.per_prompt));
                for (_, slot) in slots.filter(|(other, _)| **other == name) {
                    *slot = value;
                }
            }
        }
    }

    /// The model's name, empty where the request has none, which fields there are, and the seeds.
    ///
    /// Model and salt stand right behind each other, as in the reference; each other field that is
    /// present and says something is framed. A model that is no string is refused.
    pub(super) fn seeds(self) -> Result<(Origin, Seeds<'a>), Unreadable> {
        let fields = self.present();
        let mut state = Xxh64::new(0);
        let model = match self.model.and_then(Value::non_null) {
            None => String::new(),
            Some(Value::String(name)) => {
                name.decode(&mut state);
                String::from_utf8_lossy(&name.decoded()).into_owned()
            }
            Some(_) => return Err(Unreadable::Type),
        };
        match self.cache_salt.and_then(Value::non_null) {
            None => {}
            Some(Value::String(salt)) => salt.decode(&mut state),
            // SGLang takes a list of salts, one for each prompt.
            Some(other) => {
                frame::mark(&mut state, Mark::Seed);
                frame::value(&mut state, other)?;
            }
        }
        for (place, value) in (0u8..).zip(self.others) {
            let Some(value) = value.filter(Value::says_something) else {
                continue;
            };
            frame::mark(&mut state, Mark::Seed);
            state.push(&[place]);
            match value {
                Value::Object(raw) => state.push(&frame::unordered(raw, &[])?.to_le_bytes()),
                other => frame::value(&mut state, other)?,
            }
        }
        let [extra_key, lora_path] = self.per_prompt;
        let per_prompt = [PerPrompt::new(extra_key)?, PerPrompt::new(lora_path)?];
        Ok((Origin { model, fields }, Seeds { state, per_prompt }))
    }

    /// The names of the fields that say something.
    fn present(&self) -> Vec<&'static str> {
        let first = [
            (&b"model"[..], &self.model),
            (b"cache_salt", &self.cache_salt),
        ];
        let others = OTHERS.into_iter().zip(&self.others);
        let per_prompt = PER_PROMPT.into_iter().zip(&self.per_prompt);
        first
            .into_iter()
            .chain(others)
            .chain(per_prompt)
            .filter(|(_, value)| value.as_ref().is_some_and(Value::says_something))
            .map(|(name, _)| std::str::from_utf8(name).unwrap_or("thinking"))
            .collect()
    }
}

impl Sink for Xxh64 {
    fn push(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// The seeds of a request's prompts. They differ only where a field has a list.
pub(super) struct Seeds<'a> {
    state: Xxh64,
    per_prompt: [PerPrompt<'a>; PER_PROMPT.len()],
}

impl Seeds<'_> {
    pub(super) fn has_lists(&self) -> bool {
        self.per_prompt.iter().any(PerPrompt::is_list)
    }

    /// The seed of one of the prompts.
    pub(super) fn of(&self, place: Place) -> Result<Seed, Unreadable> {
        let mut state = self.state.clone();
        for (number, field) in (0u8..).zip(&self.per_prompt) {
            if let Some(digest) = field.digest(place)? {
                frame::mark(&mut state, Mark::SeedOfPrompt);
                state.push(&[number]);
                state.push(&digest.to_le_bytes());
            }
        }
        Ok(Seed::hashed(&state))
    }
}
