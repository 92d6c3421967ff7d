//! `/v1/completions`: a prompt as it stands, text or token ids, one or a batch.
//!
//! Plain prompts are hashed as their bytes or ids alone, with no frame, as the reference does.

use super::json::{self, Raw, Text, Value};
use super::seed::SeedFields;
use super::{Length, NoPrefix, Prefix, Prompt, Unreadable};
use crate::prefix::{BYTES_PER_TOKEN, BlockIds, Layout, Seed};

/// Reads the prompts of a body.
///
/// # Errors
/// See [`Unreadable`]. A body without a prompt, or with one of mixed kinds, is unreadable.
pub(super) fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut prompt, mut embeds) = (None, None);
    for field in json::document(body)? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"prompt" => prompt = Some(value),
            b"prompt_embeds" => embeds = Some(value),
            name => seed.note(name, value),
        }
    }
    let (model, seed) = seed.seed()?;
    if embeds.and_then(Value::non_null).is_some() {
        return Ok(Prefix::none(model, NoPrefix::PromptEmbeds));
    }
    let prompt = prompt
        .and_then(Value::non_null)
        .ok_or(Unreadable::Missing)?;
    Ok(Prefix::new(model, plain(prompt, layout, seed)?))
}

/// The prompts of a string, strings, token ids, or lists of token ids.
pub(super) fn plain(
    prompt: Value<'_>,
    layout: Layout,
    seed: Seed,
) -> Result<Vec<Prompt>, Unreadable> {
    let list = match prompt {
        Value::String(text) => return Ok(vec![plain_text(text, layout, seed)]),
        Value::Array(raw) => raw,
        _ => return Err(Unreadable::Type),
    };
    match list.items().next().transpose()? {
        None => Ok(Vec::new()),
        Some(Value::Number(_)) => Ok(vec![token_ids(list, layout, seed)?]),
        Some(Value::String(_)) => list
            .items()
            .map(|item| match item? {
                Value::String(text) => Ok(plain_text(text, layout, seed)),
                _ => Err(Unreadable::Type),
            })
            .collect(),
        Some(Value::Array(_)) => list
            .items()
            .map(|item| match item? {
                Value::Array(ids) => token_ids(ids, layout, seed),
                _ => Err(Unreadable::Type),
            })
            .collect(),
        Some(_) => Err(Unreadable::Type),
    }
}

fn plain_text(text: Text<'_>, layout: Layout, seed: Seed) -> Prompt {
    let mut blocks = BlockIds::new(layout);
    text.decode(&mut blocks);
    Prompt {
        length: Length::Bytes(blocks.bytes()),
        blocks: blocks.chain(seed),
    }
}

fn token_ids(ids: Raw<'_>, layout: Layout, seed: Seed) -> Result<Prompt, Unreadable> {
    let mut blocks = BlockIds::new(layout);
    for literal in ids.literals() {
        blocks.push_token(token_id(literal).ok_or(Unreadable::Type)?);
    }
    let length = Length::Tokens(blocks.bytes() / BYTES_PER_TOKEN as u64);
    Ok(Prompt {
        length,
        blocks: blocks.chain(seed),
    })
}

/// An integer of `0..=u32::MAX`.
fn token_id(literal: &[u8]) -> Option<u32> {
    if literal == b"-0" {
        return Some(0);
    }
    // No u32 has more digits, and no number of JSON has zeros in front.
    if literal.is_empty() || literal.len() > 10 {
        return None;
    }
    let id = literal.iter().try_fold(0u64, |id, byte| match byte {
        b'0'..=b'9' => Some(id * 10 + u64::from(byte - b'0')),
        _ => None,
    });
    u32::try_from(id?).ok()
}
