//! From a request's path and body to its prompts, as chained block hashes.
//!
//! ```text
//!  method, path ─▶ identify ─▶ Api ─┐
//!  body ────────────────────────────┴▶ read ─▶ Prefix: model, weight, prompts
//! ```
//!
//! Two requests whose prompts share a prefix in the engine share leading blocks here, and two that
//! the engine would prefill differently are not identical here. What of a body is its prompt, and
//! in which order, is said in the file of each API, below `apis`. What they have in common:
//!
//! | | |
//! |---|---|
//! | `json` | a reader over the body's bytes, as lenient as engines are |
//! | `seed` | the model, the salt, and what else keeps whole prompts apart |
//! | `plain` | prompts hashed as they stand: text and token ids, one or a batch |
//! | `frame` | the framed stream: what messages, tools and media are hashed as |
//! | `parts`, `tools` | contents and tools, in that stream |
//!
//! What its headers say beside that is in [`hints`].
//!
//! Everything here is total: any bytes give a [`Prefix`] or an [`Unreadable`], in linear time.

mod apis;
mod duplicates;
mod frame;
pub mod hints;
mod json;
mod parts;
mod plain;
mod prompts;
mod seed;
mod tools;
mod weight;

pub use apis::{Api, identify, read};
pub use prompts::{Length, MAX_WEIGHT, NoPrefix, Prefix, Prompt, Unreadable};
