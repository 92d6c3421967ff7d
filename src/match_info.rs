//! `PrefixCacheMatchInfo` and the prefix-cache score of a request, in their header forms.
//!
//! Both are lists of RFC 9651 structured fields, one member a candidate. A request with an
//! affinity matches fully on its replica and not at all elsewhere; without one it matches
//! nowhere.

use std::fmt::Write;

use crate::picker::{Decision, Listed};

/// Stands for all candidates that are not listed.
const THE_REST: &str = "*";

/// What one request matches on each candidate.
#[derive(Debug, Clone, Copy)]
pub struct MatchInfo<'a> {
    /// The candidates; where they are too many to list, one `"*"` stands for those that do not
    /// match.
    pub candidates: &'a Listed,
    /// Index of the candidate that holds the whole prompt; none without an affinity.
    pub matched: Option<usize>,
    /// Blocks of the request's prompts.
    pub total_blocks: u32,
    /// Tokens of a block.
    pub block_size_tokens: u32,
}

impl MatchInfo<'_> {
    /// The value of `x-prefix-cache-match-info`:
    /// `"10.0.0.1:8000";match=32;total=32;block=64, …`. It is empty without candidates, and an
    /// empty list is no header.
    #[must_use]
    pub fn header(&self) -> String {
        self.list(|header, matched| {
            let blocks = if matched { self.total_blocks } else { 0 };
            let (total, block) = (self.total_blocks, self.block_size_tokens);
            write!(header, ";match={blocks};total={total};block={block}")
        })
    }

    /// The value of `x-prefix-cache-score`, the match divided by the total:
    /// `"10.0.0.1:8000";score=1.0, …`.
    #[must_use]
    pub fn score_header(&self) -> String {
        self.list(|header, matched| {
            let score = if matched { "1.0" } else { "0.0" };
            write!(header, ";score={score}")
        })
    }

    fn list(&self, parameters: impl Fn(&mut String, bool) -> std::fmt::Result) -> String {
        let mut header = String::new();
        let mut member = |name: &str, matched: bool| {
            if !header.is_empty() {
                header.push_str(", ");
            }
            header.push('"');
            // A structured field's string takes printable ASCII, with these two escaped.
            for c in name.chars().filter(|c| matches!(c, ' '..='~')) {
                if matches!(c, '"' | '\\') {
                    header.push('\\');
                }
                header.push(c);
            }
            header.push('"');
            // Writing to a string cannot fail.
            let _written = parameters(&mut header, matched);
        };
        let all = self.candidates.all;
        for (index, name) in self.candidates.names.iter().enumerate() {
            let matched = self.matched == Some(index);
            if all || matched {
                member(name, matched);
            }
        }
        if !all {
            member(THE_REST, false);
        }
        header
    }
}

/// What became of a request, as `x-burst-prefix-cache` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was decided where it goes.
    Decided(Decision),
    /// It has no prompt to match.
    NoPrefix,
    /// Its window was full.
    BatchFull,
    /// It was not held at all, for this reason (a word of `a-z` and `-`).
    Skipped(&'static str),
}

impl Status {
    /// It is for none of the APIs whose prompts are read.
    pub const NOT_OURS: Self = Self::Skipped("path");

    /// The outcome's token; also the label of its counter.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Decided(Decision::Assigned { .. }) => "assigned",
            Self::Decided(Decision::Remembered { .. }) => "remembered",
            Self::Decided(Decision::Alone) => "alone",
            Self::Decided(Decision::NoReplicas) => "no-replicas",
            Self::Decided(Decision::TimedOut) => "timed-out",
            Self::NoPrefix => "no-prefix",
            Self::BatchFull => "batch-full",
            Self::Skipped(_) => "skipped",
        }
    }

    /// Why it was not held, where it was not.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Skipped(reason) => Some(reason),
            _ => None,
        }
    }

    /// The value of `x-burst-prefix-cache`: the token and its parameters, the wait in whole
    /// milliseconds where the request was held.
    #[must_use]
    pub fn header(self, wait_ms: u64) -> String {
        let token = self.token();
        match self {
            Self::Decided(
                Decision::Assigned { group, .. } | Decision::Remembered { group, .. },
            ) => {
                format!("{token};group={group};wait={wait_ms}")
            }
            Self::Decided(_) => format!("{token};wait={wait_ms}"),
            Self::NoPrefix | Self::BatchFull => token.to_owned(),
            Self::Skipped(reason) => format!("{token};reason={reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Listed {
        Listed {
            names: (1..=count).map(|i| format!("10.0.0.{i}:8000")).collect(),
            all: true,
        }
    }

    fn info(candidates: &Listed, matched: Option<usize>) -> MatchInfo<'_> {
        MatchInfo {
            candidates,
            matched,
            total_blocks: 32,
            block_size_tokens: 64,
        }
    }

    #[test]
    fn a_full_match_on_one_and_none_elsewhere() {
        let two = names(2);
        assert_eq!(
            info(&two, Some(0)).header(),
            r#""10.0.0.1:8000";match=32;total=32;block=64, "10.0.0.2:8000";match=0;total=32;block=64"#
        );
        assert_eq!(
            info(&two, Some(1)).score_header(),
            r#""10.0.0.1:8000";score=0.0, "10.0.0.2:8000";score=1.0"#
        );
    }

    #[test]
    fn without_an_affinity_all_are_zero() {
        assert_eq!(
            info(&names(2), None).header(),
            r#""10.0.0.1:8000";match=0;total=32;block=64, "10.0.0.2:8000";match=0;total=32;block=64"#
        );
    }

    #[test]
    fn of_too_many_candidates_only_the_match_and_one_star_are_listed() {
        let many = Listed {
            all: false,
            ..names(2)
        };
        assert_eq!(
            info(&many, Some(1)).header(),
            r#""10.0.0.2:8000";match=32;total=32;block=64, "*";match=0;total=32;block=64"#
        );
        assert_eq!(info(&many, None).score_header(), r#""*";score=0.0"#);
        assert_eq!(info(&names(0), None).header(), "");
    }

    #[test]
    fn names_cannot_break_out_of_the_string() {
        let odd = Listed {
            names: vec!["a\"\\b\r\nx: y\u{e9}".to_owned()],
            all: true,
        };
        assert_eq!(info(&odd, None).score_header(), r#""a\"\\bx: y";score=0.0"#);
    }

    #[test]
    fn status_is_a_token_with_parameters() {
        let assigned = Status::Decided(Decision::Assigned {
            replica: 2,
            group: 8,
        });
        for (status, header) in [
            (assigned, "assigned;group=8;wait=97"),
            (
                Status::Decided(Decision::Remembered {
                    replica: 2,
                    group: 9,
                }),
                "remembered;group=9;wait=97",
            ),
            (Status::Decided(Decision::Alone), "alone;wait=97"),
            (Status::Decided(Decision::TimedOut), "timed-out;wait=97"),
            (Status::Decided(Decision::NoReplicas), "no-replicas;wait=97"),
            (Status::NoPrefix, "no-prefix"),
            (Status::BatchFull, "batch-full"),
            (Status::Skipped("too-large"), "skipped;reason=too-large"),
        ] {
            assert_eq!(status.header(97), header);
        }
    }
}
