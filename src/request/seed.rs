//! What the chains of a request start from: the model, the salt, and whatever else changes the
//! prompt without being text of it.

use super::Unreadable;
use super::frame::{self, Mark};
use super::json::Value;
use crate::prefix::Seed;

/// Fields that change the rendered prompt or must keep two caches apart. In the order in which
/// they enter the seed; the position is part of the hashes, so new ones go to the end.
const OTHERS: [&[u8]; 10] = [
    b"extra_key",
    b"lora_path",
    b"chat_template",
    b"chat_template_kwargs",
    b"documents",
    b"reasoning_effort",
    b"add_special_tokens",
    b"truncate_prompt_tokens",
    b"mm_processor_kwargs",
    b"media_io_kwargs",
];

/// The seed's fields, gathered while a body is read. The last of duplicates counts.
#[derive(Default)]
pub(super) struct SeedFields<'a> {
    model: Option<Value<'a>>,
    cache_salt: Option<Value<'a>>,
    others: [Option<Value<'a>>; OTHERS.len()],
}

impl<'a> SeedFields<'a> {
    /// Remembers a field of the body if it belongs to the seed.
    pub(super) fn note(&mut self, name: &[u8], value: Value<'a>) {
        match name {
            b"model" => self.model = Some(value),
            b"cache_salt" => self.cache_salt = Some(value),
            _ => {
                let slots = OTHERS.iter().zip(&mut self.others);
                for (_, slot) in slots.filter(|(other, _)| **other == name) {
                    *slot = Some(value);
                }
            }
        }
    }

    /// The model's name, empty where the request has none, and the seed.
    ///
    /// Model and salt stand right behind each other, as in the reference; each other field that is
    /// present and says something is framed. A model that is no string is refused.
    pub(super) fn seed(self) -> Result<(String, Seed), Unreadable> {
        let mut bytes = Vec::new();
        match self.model.and_then(Value::non_null) {
            None => {}
            Some(Value::String(name)) => name.decode(&mut bytes),
            Some(_) => return Err(Unreadable::Type),
        }
        let model = String::from_utf8_lossy(&bytes).into_owned();
        match self.cache_salt.and_then(Value::non_null) {
            None => {}
            Some(Value::String(salt)) => salt.decode(&mut bytes),
            // SGLang takes a list of salts, one for each prompt.
            Some(other) => {
                frame::mark(&mut bytes, Mark::Seed);
                frame::value(&mut bytes, other)?;
            }
        }
        for (place, value) in (0u8..).zip(self.others) {
            let Some(value) = value.filter(says_something) else {
                continue;
            };
            frame::mark(&mut bytes, Mark::Seed);
            bytes.push(place);
            match value {
                Value::Object(raw) => bytes.extend(frame::unordered(raw, &[])?.to_le_bytes()),
                other => frame::value(&mut bytes, other)?,
            }
        }
        Ok((model, Seed::of(&bytes)))
    }
}

/// Null, `{}` and `[]` are what a template sees without the field.
fn says_something(value: &Value<'_>) -> bool {
    match *value {
        Value::Null => false,
        Value::Object(raw) => raw.fields().next().is_some(),
        Value::Array(raw) => raw.items().next().is_some(),
        _ => true,
    }
}
