//! `/v1/completions`: a prompt as it stands, text or token ids, one or a batch.
//!
//! - The prompt: `prompt`, a string, strings, token ids, or lists of token ids. Each prompt of a
//!   batch is a chain of its own. There is no frame, as the reference has none.
//! - Into the seed: what [`SeedFields`] names; a list of `extra_key` or `lora_path` that is as
//!   long as the batch has one for each prompt.
//! - `prompt_embeds`: no prefix.
//! - `n` is the weight; all else is ignored.

use super::Spec;
use crate::prefix::Layout;
use crate::request::json::{self, Value};
use crate::request::plain::{Media, Plain};
use crate::request::seed::SeedFields;
use crate::request::{NoPrefix, Prefix, Unreadable, weight};

pub(super) const SPEC: Spec = Spec {
    name: "completions",
    path: "/v1/completions",
    read,
};

fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut prompt, mut embeds, mut n) = (None, None, None);
    for field in json::document(body, &[b"prompt"])? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"prompt" => prompt = Some(value),
            b"prompt_embeds" => embeds = Some(value),
            b"n" => n = Some(value),
            name => seed.note(name, value),
        }
    }
    let (origin, seeds) = seed.seeds()?;
    let weight = weight::samples(n);
    if embeds.and_then(Value::non_null).is_some() {
        return Ok(Prefix::none(origin, weight, NoPrefix::PromptEmbeds));
    }
    let prompt = prompt
        .and_then(Value::non_null)
        .ok_or(Unreadable::Missing)?;
    let plain = Plain {
        layout,
        seeds,
        media: Media::default(),
    };
    Ok(Prefix::new(origin, weight, plain.read(prompt)?))
}
