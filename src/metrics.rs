//! The names of all metrics.
//!
//! A name carries its labels as parts, `outcome.assigned`, which Envoy's `stats_tags` turn into
//! Prometheus labels (`envoy/envoy.yaml` has the expressions). Times are in milliseconds.

use crate::match_info::Status;
use crate::replicas::Cause;

/// Counter of the requests that came to an outcome:
/// `burst_prefix_cache.outcome.assigned.requests_total`, for skipped ones
/// `burst_prefix_cache.outcome.skipped.reason.too-large.requests_total`.
#[must_use]
pub fn requests(status: Status) -> String {
    let outcome = status.token();
    match status.reason() {
        Some(reason) => {
            format!("burst_prefix_cache.outcome.{outcome}.reason.{reason}.requests_total")
        }
        None => format!("burst_prefix_cache.outcome.{outcome}.requests_total"),
    }
}

/// Counter of the requests that could not be read, by what was wrong with their bodies:
/// `burst_prefix_cache.unreadable.cause.json.requests_total`.
#[must_use]
pub fn unreadable(cause: &str) -> String {
    format!("burst_prefix_cache.unreadable.cause.{cause}.requests_total")
}

/// Histogram of how long held requests waited, in milliseconds.
pub const WAIT_MS: &str = "burst_prefix_cache.wait_ms";

/// Counter of held requests whose client left before they were released.
pub const LEFT: &str = "burst_prefix_cache.left_requests_total";

/// Counter of placed windows.
pub const WINDOWS: &str = "burst_prefix_cache.windows_total";

/// Histogram of the members of a placed window.
pub const WINDOW_REQUESTS: &str = "burst_prefix_cache.window_requests";

/// Counter of requests that were passed on because Envoy lacks
/// `allow_on_headers_stop_iteration`.
pub const KNOB_MISSING: &str = "burst_prefix_cache.knob_missing_requests_total";

/// Gauge of the age of the last good list of replicas, in milliseconds; before the first one, how
/// long one has been asked for. All workers tell it, each time that one could be asked for; of
/// several configurations in one Envoy, whichever told last.
pub const REPLICAS_AGE_MS: &str = "burst_prefix_cache.replicas_age_ms";

/// Gauge of the replicas that can be used, over all pools of the last good list.
pub const REPLICAS: &str = "burst_prefix_cache.replicas";

/// Counter of the questions to Envoy's admin that brought no list, by what was wrong:
/// `burst_prefix_cache.poll.cause.timeout.failures_total`.
#[must_use]
pub fn poll_failures(cause: Cause) -> String {
    let cause = cause.word();
    format!("burst_prefix_cache.poll.cause.{cause}.failures_total")
}

/// Counter of requests that were placed on a replica, and were not served by it: it refused, it
/// has gone, or the cluster never had it.
pub const NOT_SERVED: &str = "burst_prefix_cache.placed_not_served_requests_total";

/// Counter of hints of clients about their groups that were ignored since they make no sense.
pub const IGNORED_HINTS: &str = "burst_prefix_cache.ignored_hints_total";

/// Gauge of the requests that the filter sent to a replica of its choice and that are not over, on
/// all workers; as of the last half second.
pub const IN_FLIGHT: &str = "burst_prefix_cache.in_flight_requests";
