//! What must have become of the request of every client that still lives.

use crate::http1::Answer;

/// What the filter promises beyond its window, in milliseconds.
const PROMISE_MS: u64 = 300;

/// That it was held and answered by a replica, with the body it came with, and that it was held
/// no longer than promised. How long is what the filter says: a client on a busy machine may see
/// its answer much later.
pub(crate) fn assert_held(answer: &Answer, body: &str, window_ms: u32) {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.assert_arrived(body.as_bytes());
    let wait = wait_ms(answer).unwrap_or_else(|| panic!("it was not held: {answer:?}"));
    let most = u64::from(window_ms) + PROMISE_MS;
    assert!(wait <= most, "held for {wait} ms: {answer:?}");
}

/// How long the filter held it; none where it did not.
pub(crate) fn wait_ms(answer: &Answer) -> Option<u64> {
    let (_, wait) = answer.decision().split_once(";wait=")?;
    wait.parse().ok()
}

/// The filter's status without the wait.
pub(crate) fn outcome(answer: &Answer) -> &str {
    let decision = answer.decision();
    decision
        .split_once(";wait=")
        .map_or(decision, |(outcome, _)| outcome)
}
