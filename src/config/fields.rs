//! The fields of the configuration as they stand, and the forms that their values take.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value};

use super::error::ConfigError;
use crate::prefix::DEFAULT_MAX_BLOCKS;

/// All fields, in the order of the documentation.
const KNOWN: [&str; 15] = [
    "windowDurationMs",
    "maxPerReplica",
    "blockSizeTokens",
    "maxPrefixTokensToMatch",
    "minColocateBlocks",
    "maxBatchSize",
    "onBatchFull",
    "balanceBy",
    "hold",
    "quietPeriodMs",
    "groupMemoryMs",
    "replicas",
    "maxBodyBytes",
    "mode",
    "debugResponseHeaders",
];

/// The fields as they stand, before they are checked.
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    pub(super) fn refuse_unknown(&self) -> Result<(), ConfigError> {
        match self.0.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            Some(key) => Err(unknown(key, &KNOWN)),
            None => Ok(()),
        }
    }

    /// A whole number in `low..=high`. A `Struct` holds doubles, so `100.0` is 100.
    pub(super) fn integer(
        &self,
        field: &'static str,
        low: i64,
        high: i64,
        default: i64,
    ) -> Result<i64, ConfigError> {
        match self.0.get(field) {
            Some(value) => whole_within(field, value, low, high),
            None => Ok(default),
        }
    }

    pub(super) fn count(&self, field: &'static str, default: u32) -> Result<u32, ConfigError> {
        let number = self.integer(field, 0, i64::from(u32::MAX), i64::from(default))?;
        Ok(u32::try_from(number).unwrap_or(default))
    }

    /// A time in whole milliseconds, in `low..=high`.
    pub(super) fn millis(
        &self,
        field: &'static str,
        low: u32,
        high: u32,
        default: u32,
    ) -> Result<Duration, ConfigError> {
        let millis = self.integer(field, low.into(), high.into(), default.into())?;
        Ok(Duration::from_millis(millis.unsigned_abs()))
    }

    pub(super) fn positive(
        &self,
        field: &'static str,
        default: u32,
    ) -> Result<NonZeroU32, ConfigError> {
        let number = self.integer(field, 1, i64::from(u32::MAX), i64::from(default))?;
        Ok(u32::try_from(number)
            .ok()
            .and_then(NonZeroU32::new)
            .unwrap_or(NonZeroU32::MIN))
    }

    /// -1 for no bound, or at least 1.
    pub(super) fn unbounded(
        &self,
        field: &'static str,
        default: Option<u32>,
    ) -> Result<Option<NonZeroU32>, ConfigError> {
        let Some(value) = self.0.get(field) else {
            return Ok(default.and_then(NonZeroU32::new));
        };
        let refused = || {
            out_of_range(
                field,
                value,
                format!(
                    "-1 for no bound, or a whole number from 1 to {}",
                    i64::from(u32::MAX)
                ),
            )
        };
        match whole(value) {
            Some(-1) => Ok(None),
            Some(number) => u32::try_from(number)
                .ok()
                .and_then(NonZeroU32::new)
                .map(Some)
                .ok_or_else(refused),
            None => Err(refused()),
        }
    }

    /// 0 for the default, or at least a block.
    pub(super) fn prefix_tokens(&self, block_size_tokens: NonZeroU32) -> Result<u32, ConfigError> {
        const FIELD: &str = "maxPrefixTokensToMatch";
        let size = block_size_tokens.get();
        match self.count(FIELD, 0)? {
            tokens if tokens == 0 || tokens >= size => Ok(tokens),
            tokens => Err(ConfigError::OutOfRange {
                field: FIELD.into(),
                value: tokens.to_string(),
                expected: format!(
                    "0 for {DEFAULT_MAX_BLOCKS} blocks, or at least blockSizeTokens, {size}, up to {}",
                    u32::MAX
                ),
            }),
        }
    }

    /// Index of the word in `words`; the first is the default. `later` are words that are
    /// planned.
    pub(super) fn word(
        &self,
        field: &'static str,
        words: &[&str],
        later: &[&str],
        expected: &'static str,
    ) -> Result<usize, ConfigError> {
        let Some(value) = self.0.get(field) else {
            return Ok(0);
        };
        let word = value.as_str().unwrap_or_default();
        if let Some(index) = words.iter().position(|known| *known == word) {
            Ok(index)
        } else if later.contains(&word) {
            Err(not_available(field, value, expected))
        } else {
            Err(out_of_range(field, value, expected))
        }
    }

    pub(super) fn flag(&self, field: &'static str) -> Result<bool, ConfigError> {
        self.0
            .get(field)
            .map_or(Ok(false), |value| truth(field, value))
    }
}

/// A whole number in `low..=high`, as the value of a field of that name.
pub(super) fn whole_within(
    field: &str,
    value: &Value,
    low: i64,
    high: i64,
) -> Result<i64, ConfigError> {
    whole(value)
        .filter(|number| (low..=high).contains(number))
        .ok_or_else(|| out_of_range(field, value, format!("a whole number from {low} to {high}")))
}

/// True or false, as the value of a field of that name.
pub(super) fn truth(field: &str, value: &Value) -> Result<bool, ConfigError> {
    value
        .as_bool()
        .ok_or_else(|| out_of_range(field, value, "true or false"))
}

/// A JSON number that is a whole number.
fn whole(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_f64().and_then(whole_double))
}

/// A double that is a whole number.
pub(super) fn whole_double(number: f64) -> Option<i64> {
    /// Up to here every whole number has a double of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    // The cast is exact: whole, and within ±2^53.
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

pub(super) fn out_of_range(field: &str, value: &Value, expected: impl Into<String>) -> ConfigError {
    ConfigError::OutOfRange {
        field: field.into(),
        value: shown(value),
        expected: expected.into(),
    }
}

pub(super) fn not_available(field: &str, value: &Value, expected: &'static str) -> ConfigError {
    ConfigError::NotAvailable {
        field: field.into(),
        value: shown(value),
        expected,
    }
}

pub(super) fn unknown(field: &str, known: &'static [&'static str]) -> ConfigError {
    // A name may hold anything, line ends too.
    let field = cut(field.escape_debug().to_string());
    ConfigError::UnknownField { field, known }
}

/// A value as it stands in the configuration.
pub(super) fn shown(value: &Value) -> String {
    cut(value.to_string())
}

/// A text, cut where it would flood the log.
fn cut(mut text: String) -> String {
    const LONGEST: usize = 80;
    if text.len() > LONGEST {
        let end = text.floor_char_boundary(LONGEST);
        text.truncate(end);
        text.push('…');
    }
    text
}
