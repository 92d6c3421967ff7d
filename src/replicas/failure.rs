//! Why a question to Envoy's admin brought no list.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a question to Envoy's admin brought no list; its text says what was found and what is
/// taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Envoy knows no cluster of this name.
    NoCluster(String),
    /// The call was refused, or ended without an answer.
    Call,
    /// There was no answer in time.
    Timeout,
    /// An answer with another status than 200; 0 where it had none.
    Status(u16),
    /// The answer is not what `/clusters?format=json` looks like: where, and why.
    Unreadable(String),
    /// The answer is larger than is read.
    TooLarge {
        /// Its size, in bytes.
        found: usize,
        /// The most that is read, in bytes.
        most: usize,
    },
    /// The answer has more of something than is kept.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are; bytes, of a name.
        found: usize,
        /// How many are kept.
        most: usize,
    },
}

/// What kind of [`Failure`] it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// [`Failure::NoCluster`].
    Cluster,
    /// [`Failure::Call`].
    Call,
    /// [`Failure::Timeout`].
    Timeout,
    /// [`Failure::Status`].
    Status,
    /// [`Failure::Unreadable`].
    Json,
    /// [`Failure::TooLarge`].
    Size,
    /// [`Failure::TooMany`].
    Limit,
}

impl Cause {
    /// The word that stands in the metric.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Call => "call",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Json => "json",
            Self::Size => "size",
            Self::Limit => "limit",
        }
    }
}

impl Failure {
    /// What kind it is.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::NoCluster(_) => Cause::Cluster,
            Self::Call => Cause::Call,
            Self::Timeout => Cause::Timeout,
            Self::Status(_) => Cause::Status,
            Self::Unreadable(_) => Cause::Json,
            Self::TooLarge { .. } => Cause::Size,
            Self::TooMany { .. } => Cause::Limit,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster(name) => write!(f, "there is no cluster {name:?}"),
            Self::Call => write!(f, "the call ended without an answer"),
            Self::Timeout => write!(f, "there was no answer in time"),
            Self::Status(status) => write!(f, "the answer has the status {status}, not 200"),
            Self::Unreadable(why) => write!(f, "the answer cannot be read: {why}"),
            Self::TooLarge { found, most } => {
                write!(f, "the answer has {found} bytes; at most {most} are read")
            }
            Self::TooMany { what, found, most } => {
                write!(f, "the answer has {found} {what}; at most {most} are taken")
            }
        }
    }
}

impl std::error::Error for Failure {}
