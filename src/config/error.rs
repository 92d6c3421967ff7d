//! Why a configuration was refused.

use std::fmt;

/// Why a configuration was refused; its text names the field, the value and the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// The text is no JSON, or no object.
    NotAnObject(String),
    /// A field that does not exist.
    UnknownField {
        /// Its name, with those of the objects that it stands in.
        field: String,
        /// The names that are known there.
        known: &'static [&'static str],
    },
    /// A required field is missing.
    Missing {
        /// Name of the field.
        field: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// A field has a value outside its range.
    OutOfRange {
        /// Name of the field, with the position in a list.
        field: String,
        /// The value as it stands in the configuration.
        value: String,
        /// What the field takes.
        expected: String,
    },
    /// A value that makes sense only together with another field.
    Needs {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: &'static str,
        /// What else must be set, and why.
        needs: &'static str,
    },
    /// A value that is planned but not built yet: refused rather than ignored.
    NotAvailable {
        /// Name of the field.
        field: String,
        /// The value as it stands in the configuration.
        value: String,
        /// What the field takes today.
        expected: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject(found) => {
                write!(f, "the configuration must be a JSON object: {found}")
            }
            Self::UnknownField { field, known } => {
                write!(f, "{field}: unknown field; known are {}", known.join(", "))
            }
            Self::Missing { field, expected } => {
                write!(f, "{field}: missing; it takes {expected}")
            }
            Self::OutOfRange {
                field,
                value,
                expected,
            } => write!(f, "{field}: {value} is refused; it takes {expected}"),
            Self::Needs {
                field,
                value,
                needs,
            } => write!(f, "{field}: {value} is refused; it needs {needs}"),
            Self::NotAvailable {
                field,
                value,
                expected,
            } => write!(
                f,
                "{field}: {value} is not available yet; it takes {expected}"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}
