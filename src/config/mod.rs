//! The plugin configuration: read, checked, refused with the field, the value and the range.
//!
//! A bad configuration is the only thing this filter ever refuses, and it does so when Envoy
//! loads it. [`Config`] is the checked form: nothing behind it has to check a range again.

mod error;
mod fields;
mod replicas;
mod structure;
#[cfg(test)]
mod tests;

pub use error::ConfigError;

use std::num::NonZeroU32;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_128;

use crate::placement::{BalanceBy, Rules};
use crate::prefix::Layout;
use crate::replicas::Source;
use crate::window::Settings;
use fields::Fields;

/// The longest window, in milliseconds.
const LONGEST_WINDOW_MS: u32 = 10_000;
/// The longest that a unit is remembered, in milliseconds: a day.
const LONGEST_MEMORY_MS: u32 = 86_400_000;

/// A checked plugin configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How long a window stays open, 1 ms to 10 s (`windowDurationMs`).
    pub window: Duration,
    /// After how long without an arrival a window closes early; none = never (`quietPeriodMs`).
    pub quiet: Option<Duration>,
    /// The most requests one window takes, over all workers; none = no bound (`maxBatchSize`).
    pub max_batch: Option<NonZeroU32>,
    /// Whether a full window closes at once, and turns nobody away (`onBatchFull`).
    pub seal: bool,
    /// Whether requests are held at all (`hold`).
    pub hold: bool,
    /// How long a placed unit is remembered; zero = not at all (`groupMemoryMs`).
    pub memory: Duration,
    /// How a window is placed (`maxPerReplica`, `minColocateBlocks`, `balanceBy`).
    pub rules: Rules,
    /// How a prompt is cut into blocks (`blockSizeTokens`, `maxPrefixTokensToMatch`).
    pub layout: Layout,
    /// Where the replicas come from (`replicas`).
    pub replicas: Source,
    /// Whether a request may name the replicas that it may go to
    /// (`replicas.trustSubsetHeader`).
    pub trust_subset_header: bool,
    /// A larger body is passed on at once, in bytes, ≥ 1 (`maxBodyBytes`).
    pub max_body_bytes: u32,
    /// Whether the decision is told on the response (`debugResponseHeaders`).
    pub debug_response_headers: bool,
}

impl Config {
    /// Reads and checks a configuration, in either form that Envoy hands over: JSON text, or a
    /// serialized protobuf `Struct`.
    ///
    /// # Errors
    /// The first field that is unknown, missing or out of range.
    pub fn parse(bytes: &[u8]) -> Result<Self, ConfigError> {
        let fields = Fields(structure::fields(bytes)?);
        fields.refuse_unknown()?;

        let block_size_tokens = fields.positive("blockSizeTokens", 64)?;
        let quiet = fields.millis("quietPeriodMs", 0, LONGEST_WINDOW_MS, 0)?;
        let memory = fields.millis("groupMemoryMs", 0, LONGEST_MEMORY_MS, 0)?;
        let hold = fields.word("hold", &["window", "none"], &[], "window or none")? == 0;
        if !hold && memory.is_zero() {
            return Err(ConfigError::Needs {
                field: "hold",
                value: "none",
                needs: "groupMemoryMs above 0: what nobody holds can only follow what is remembered",
            });
        }
        let config = Self {
            window: fields.millis("windowDurationMs", 1, LONGEST_WINDOW_MS, 100)?,
            quiet: (!quiet.is_zero()).then_some(quiet),
            seal: fields.word("onBatchFull", &["pass", "seal"], &[], "pass or seal")? == 1,
            hold,
            memory,
            max_batch: fields.unbounded("maxBatchSize", Some(1000))?,
            rules: Rules {
                max_per_replica: fields.unbounded("maxPerReplica", None)?,
                min_colocate_blocks: fields.count("minColocateBlocks", 0)?,
                balance_by: match fields.word(
                    "balanceBy",
                    &["requests", "tokens"],
                    &["work"],
                    "requests or tokens",
                )? {
                    1 => BalanceBy::Tokens,
                    _ => BalanceBy::Requests,
                },
            },
            layout: Layout::new(block_size_tokens, fields.prefix_tokens(block_size_tokens)?),
            replicas: fields.replicas()?,
            trust_subset_header: fields.trust_subset_header()?,
            max_body_bytes: fields.positive("maxBodyBytes", 1 << 20)?.get(),
            debug_response_headers: fields.flag("debugResponseHeaders")?,
        };
        fields.word("mode", &["route"], &["shadow"], "route")?;
        Ok(config)
    }

    /// What the workers of a window go by.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            window: self.window,
            quiet: self.quiet,
            max_batch: self.max_batch,
            seal: self.seal,
            hold: self.hold,
            memory: self.memory,
            rules: self.rules,
            source: self.replicas.clone(),
        }
    }

    /// What two workers must agree on to share a window: equal for equal configurations,
    /// whatever the order of their fields, and different for different ones.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        xxh3_128(format!("{self:?}").as_bytes())
    }
}
