//! `/generate` of SGLang and of TGI, told apart by their fields.
//!
//! SGLang:
//! - The prompt: `input_ids`, or else `text`, one or a batch, as they stand. `image_data`,
//!   `video_data` and `audio_data` come before them, by their hash; a list that is as long as the
//!   batch has the media of each prompt.
//! - Into the seed: what [`SeedFields`] names; `lora_path` and `extra_key` may be lists likewise.
//! - `session_params` (the engine has text that we do not), `input_embeds`: no prefix.
//! - `sampling_params.n` is the weight; all else is ignored.
//!
//! TGI:
//! - The prompt: `inputs`, as it stands.
//! - Into the seed: `parameters.adapter_id` is `lora_path`, `parameters.truncate` is
//!   `truncate_prompt_tokens`.
//! - All else is ignored. The weight is 1.

use super::Spec;
use crate::prefix::Layout;
use crate::request::json::{self, Value};
use crate::request::plain::{Media, Plain};
use crate::request::seed::SeedFields;
use crate::request::{NoPrefix, Prefix, Unreadable, weight};

pub(super) const SPEC: Spec = Spec {
    name: "generate",
    path: "/generate",
    read,
};

fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut ids, mut text, mut embeds, mut session) = (None, None, None, None);
    let (mut images, mut videos, mut audios, mut params) = (None, None, None, None);
    let (mut inputs, mut parameters) = (None, None);
    for field in json::document(body, &[b"input_ids"])? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"input_ids" => ids = Some(value),
            b"text" => text = Some(value),
            b"input_embeds" => embeds = Some(value),
            b"session_params" => session = Some(value),
            b"image_data" => images = Some(value),
            b"video_data" => videos = Some(value),
            b"audio_data" => audios = Some(value),
            b"sampling_params" => params = Some(value),
            b"inputs" => inputs = Some(value),
            b"parameters" => parameters = Some(value),
            name => seed.note(name, value),
        }
    }
    let sglang = ids.and_then(Value::non_null).or(text);
    let sglang = sglang.and_then(Value::non_null);
    let has = |field: Option<Value<'_>>| field.and_then(Value::non_null).is_some();
    let mut media = Media::default();
    let (prompt, weight) = if sglang.is_some() || has(session) || has(embeds) {
        for (kind, field) in [(b'i', images), (b'v', videos), (b'a', audios)] {
            media.add(kind, field)?;
        }
        (sglang, weight::of_sampling_params(params))
    } else {
        if let Some(parameters) = parameters {
            seed.note_member(b"lora_path", parameters, b"adapter_id");
            seed.note_member(b"truncate_prompt_tokens", parameters, b"truncate");
        }
        (inputs.and_then(Value::non_null), 1)
    };
    let (origin, seeds) = seed.seeds()?;
    for (field, reason) in [
        (session, NoPrefix::Session),
        (embeds, NoPrefix::PromptEmbeds),
    ] {
        if has(field) {
            return Ok(Prefix::none(origin, weight, reason));
        }
    }
    let prompt = prompt.ok_or(Unreadable::Missing)?;
    let plain = Plain {
        layout,
        seeds,
        media,
    };
    Ok(Prefix::new(origin, weight, plain.read(prompt)?))
}
