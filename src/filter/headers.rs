//! The headers that the filter removes, writes and reads.

use super::host::{self, Failed, Headers};
use crate::config::Config;
use crate::match_info::{MatchInfo, Status};
use crate::window::Decision;

/// The chosen replica; Envoy's `override_host` policy routes by it.
pub(super) const ENDPOINT: &str = "x-gateway-destination-endpoint";
/// What the request matches on each candidate.
pub(super) const MATCH_INFO: &str = "x-prefix-cache-match-info";
/// The prefix-cache score of each candidate.
pub(super) const SCORE: &str = "x-prefix-cache-score";
/// What became of the request.
pub(super) const STATUS: &str = "x-burst-prefix-cache";
/// On the response: the replica that served, which need not be the chosen one.
pub(super) const SERVED: &str = "x-gateway-destination-endpoint-served";

/// What a client must not bring along: it would steer, or claim a decision that nobody made.
const OURS: [&str; 4] = [ENDPOINT, MATCH_INFO, SCORE, STATUS];

/// Removes a client's own copies of the headers that the filter writes, from the request's headers
/// or its trailers.
pub(super) fn remove_inbound(from: Headers) {
    for name in OURS {
        // There is nothing to do where the host keeps it: what the filter writes replaces it.
        let _removed = host::remove_header(from, name);
    }
}

/// A request whose outcome is to be written: its status, the wait in whole milliseconds, and the
/// blocks of its prompts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) wait_ms: u64,
    pub(super) blocks: u32,
}

impl Outcome {
    /// An outcome of a request that was not held.
    pub(super) fn at_once(status: Status, blocks: u32) -> Self {
        Self {
            status,
            wait_ms: 0,
            blocks,
        }
    }

    fn replica(self) -> Option<usize> {
        match self.status {
            Status::Decided(Decision::Assigned { replica, .. }) => usize::try_from(replica).ok(),
            _ => None,
        }
    }

    /// Writes the outcome into the request of the current context.
    ///
    /// # Errors
    /// The host refused a header; those before it are written.
    pub(super) fn write(self, config: &Config) -> Result<(), Failed> {
        let replica = self.replica();
        if let Some(endpoint) = replica.and_then(|index| config.replicas.known().get(index)) {
            host::set_header(Headers::Request, ENDPOINT, endpoint)?;
        }
        if self.status != Status::NOT_OURS {
            let info = MatchInfo {
                candidates: config.replicas.known(),
                matched: replica,
                total_blocks: self.blocks,
                block_size_tokens: config.layout.block_size_tokens.get(),
            };
            host::set_header(Headers::Request, MATCH_INFO, &info.header())?;
            host::set_header(Headers::Request, SCORE, &info.score_header())?;
        }
        host::set_header(Headers::Request, STATUS, &self.status.header(self.wait_ms))
    }
}

/// Tells the decision on the response.
pub(super) fn write_response(status: &str) {
    // A response that takes no header goes out without.
    let _written = host::set_header(Headers::Response, STATUS, status);
    if let Some(address) = host::property(&["upstream", "address"])
        && let Ok(address) = std::str::from_utf8(&address)
    {
        let _written = host::set_header(Headers::Response, SERVED, address);
    }
}
