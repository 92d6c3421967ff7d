//! `/inference/v1/generate` of vLLM: token ids that were rendered elsewhere.
//!
//! - The prompt: `token_ids`, as they stand. `features` come before them, by their hash: of what
//!   is next to `mm_hashes`, which name the media, `kwargs_data` is ignored, as it is sent along
//!   or not.
//! - Into the seed: what [`SeedFields`] names, `cache_salt` among it.
//! - `sampling_params.n` is the weight; all else is ignored.

use super::Spec;
use crate::prefix::Layout;
use crate::request::json::{self, Value};
use crate::request::plain::{Media, Plain};
use crate::request::seed::SeedFields;
use crate::request::{Prefix, Unreadable, frame, weight};

pub(super) const SPEC: Spec = Spec {
    name: "vllm-generate",
    path: "/inference/v1/generate",
    read,
};

fn read(body: &[u8], layout: Layout) -> Result<Prefix, Unreadable> {
    let mut seed = SeedFields::default();
    let (mut ids, mut features, mut params) = (None, None, None);
    for field in json::document(body, &[b"token_ids"])? {
        let (key, value) = field?;
        match key.decoded().as_ref() {
            b"token_ids" => ids = Some(value),
            b"features" => features = Some(value),
            b"sampling_params" => params = Some(value),
            name => seed.note(name, value),
        }
    }
    let (origin, seeds) = seed.seeds()?;
    let mut media = Media::default();
    match features.filter(Value::says_something) {
        Some(Value::Object(features)) => {
            let hashes = Value::Object(features).member(b"mm_hashes");
            let ignored: &[&[u8]] = match hashes.filter(Value::says_something) {
                Some(_) => &[b"kwargs_data"],
                None => &[],
            };
            media.add_hash(b'f', frame::unordered(features, ignored)?);
        }
        other => media.add(b'f', other)?,
    }
    let ids = ids.and_then(Value::non_null).ok_or(Unreadable::Missing)?;
    let plain = Plain {
        layout,
        seeds,
        media,
    };
    let weight = weight::of_sampling_params(params);
    Ok(Prefix::new(origin, weight, plain.read_ids(ids)?))
}
