//! What must have become of the request of every client that still lives.

use crate::envoy::Envoy;
use crate::http1::Answer;

/// What stands before the time it was held.
const WAIT: &str = ";wait=";

/// What the filter promises beyond its window, in milliseconds.
const PROMISE_MS: u64 = 300;

/// What no machine excuses, however starved.
const MOST_EXCUSED_MS: u64 = 700;

/// That it was held and answered by a replica, with the body it came with, and that it was held
/// no longer than promised. How long is what the filter says: the client may see its answer much
/// later.
///
/// No filter keeps a promise about time while its threads are not let run: on two cores with
/// several builds, Envoy's workers have been seen to wait 75 ms for their turn, and thousands of
/// releases have taken 600 ms instead of 250. What Linux says they waited excuses that much.
pub(crate) fn assert_held(envoy: &Envoy, answer: &Answer, body: &str, window_ms: u32) {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.assert_arrived(body.as_bytes());
    assert!(
        answer.decision().contains(WAIT),
        "it was not held: {answer:?}"
    );
    if is_late(answer, window_ms) {
        let excuse = envoy.starved_ms().min(MOST_EXCUSED_MS);
        let most = u64::from(window_ms) + PROMISE_MS + excuse;
        let wait = wait_ms(answer).unwrap();
        assert!(
            wait <= most,
            "held for {wait} ms, {excuse} ms are excused: {answer:?}"
        );
    }
}

/// Whether it was held for longer than promised.
pub(crate) fn is_late(answer: &Answer, window_ms: u32) -> bool {
    wait_ms(answer).is_some_and(|wait| wait > u64::from(window_ms) + PROMISE_MS)
}

/// How long the filter held it; none where it did not.
pub(crate) fn wait_ms(answer: &Answer) -> Option<u64> {
    let (_, wait) = answer.decision().split_once(WAIT)?;
    wait.parse().ok()
}

/// The filter's status without the wait.
pub(crate) fn outcome(answer: &Answer) -> &str {
    let decision = answer.decision();
    decision
        .split_once(WAIT)
        .map_or(decision, |(outcome, _)| outcome)
}
