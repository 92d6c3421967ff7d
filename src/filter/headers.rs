//! The headers that the filter removes, writes and reads.

use std::num::NonZeroU32;
use std::rc::Rc;

use super::host::{self, Failed, Headers};
use crate::match_info::{MatchInfo, Status};
use crate::picker::Listed;
use crate::request::hints;

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

/// From a gateway before this one: the replicas that a request may go to.
const SUBSET: &str = "x-gateway-destination-endpoint-subset";
/// From a client: how many requests its group has.
const GROUP_SIZE: &str = "x-burst-group-size";
/// From a client: the name of its group.
const GROUP_ID: &str = "x-burst-group-id";

/// What a client must not bring along: it would steer, or claim a decision that nobody made. And
/// what it says of groups, which is for the filter alone.
const OURS: [&str; 6] = [ENDPOINT, MATCH_INFO, SCORE, STATUS, GROUP_SIZE, GROUP_ID];

/// Removes a client's own copies of the headers that the filter writes, from the request's headers
/// or its trailers.
pub(super) fn remove_inbound(from: Headers) {
    for name in OURS {
        // There is nothing to do where the host keeps it: what the filter writes replaces it.
        let _removed = host::remove_header(from, name);
    }
}

/// What a client says of its request's group, read from its headers. A hint that makes no sense is
/// none.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) group: Option<u64>,
    pub(super) group_size: Option<NonZeroU32>,
    /// Hints that were ignored.
    pub(super) ignored: u64,
}

impl Hints {
    /// Reads the hints of the current context's request.
    pub(super) fn read() -> Self {
        let mut hints = Self::default();
        if let Some(id) = hint(GROUP_ID) {
            hints.group = id.and_then(|id| hints::group_id(&id));
            hints.ignored += u64::from(hints.group.is_none());
        }
        if let Some(size) = hint(GROUP_SIZE) {
            hints.group_size = size.and_then(|size| hints::group_size(&size));
            hints.ignored += u64::from(hints.group_size.is_none());
        }
        hints
    }
}

/// A hint of the current context's request, if it has one; inside it none, where it stands there
/// more than once.
fn hint(name: &str) -> Option<Option<Vec<u8>>> {
    let first = host::header(Headers::Request, name)?;
    let is_alone = host::all_of_header(name).is_some_and(|all| all == first);
    Some(is_alone.then_some(first))
}

/// The replicas that a gateway before this one narrows a request to, on however many lines; none
/// where it says nothing.
pub(super) fn subset() -> Option<Vec<String>> {
    Some(hints::subset(&host::all_of_header(SUBSET)?))
}

/// The cluster that the route of the current context's request names.
pub(super) fn routed() -> Option<String> {
    String::from_utf8(host::property(&["xds", "cluster_name"])?).ok()
}

/// A request whose outcome is to be written: its status, the wait in whole milliseconds, the
/// blocks of its prompts, and the candidates that its replica is one of.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) wait_ms: u64,
    pub(super) blocks: u32,
    pub(super) listed: Rc<Listed>,
}

impl Outcome {
    /// An outcome of a request that was not held.
    pub(super) fn at_once(status: Status, blocks: u32, listed: Rc<Listed>) -> Self {
        Self {
            status,
            wait_ms: 0,
            blocks,
            listed,
        }
    }

    /// The name of the chosen replica.
    pub(super) fn endpoint(&self) -> Option<&str> {
        let name = self.listed.names.get(self.replica()?)?;
        Some(name)
    }

    fn replica(&self) -> Option<usize> {
        match self.status {
            Status::Decided(decision) => usize::try_from(decision.replica()?).ok(),
            _ => None,
        }
    }

    /// Writes the outcome into the request of the current context.
    ///
    /// # Errors
    /// The host refused a header; those before it are written.
    pub(super) fn write(&self, block_size_tokens: u32) -> Result<(), Failed> {
        if let Some(endpoint) = self.endpoint() {
            host::set_header(Headers::Request, ENDPOINT, endpoint)?;
        }
        // An empty list of structured fields is no header at all.
        if self.status != Status::NOT_OURS && !self.listed.is_empty() {
            let info = MatchInfo {
                candidates: &self.listed,
                matched: self.replica(),
                total_blocks: self.blocks,
                block_size_tokens,
            };
            host::set_header(Headers::Request, MATCH_INFO, &info.header())?;
            host::set_header(Headers::Request, SCORE, &info.score_header())?;
        }
        host::set_header(Headers::Request, STATUS, &self.status.header(self.wait_ms))
    }
}

/// The replica that served the response of the current context, as `ip:port`.
pub(super) fn served() -> Option<String> {
    String::from_utf8(host::property(&["upstream", "address"])?).ok()
}

/// Tells the decision on the response.
pub(super) fn write_response(status: &str) {
    // A response that takes no header goes out without.
    let _written = host::set_header(Headers::Response, STATUS, status);
    if let Some(address) = served() {
        let _written = host::set_header(Headers::Response, SERVED, &address);
    }
}
