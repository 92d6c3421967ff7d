//! The watch for `allow_on_headers_stop_iteration`.
//!
//! The filter stops a request at its headers and waits for its body. Where Envoy's configuration
//! lacks that knob the body stops too, its callback never comes, and the request would hang until
//! Envoy's idle timeout. So until this VM has seen a first body callback, requests that wait for
//! one are looked after: one whose body bytes have reached Envoy, but not the filter, is passed
//! on. A slow upload has no bytes yet, and is left alone.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::host;
use super::stream::Request;
use crate::workers::Moment;

/// How long a request waits for its first body callback until it is looked at, and between two
/// looks.
const PATIENCE: Duration = Duration::from_secs(1);

/// A request that waits for its body.
#[derive(Debug)]
struct Waiting {
    look_at: Moment,
    request: Rc<Request>,
    /// Bytes that Envoy had received when the headers came.
    received: i64,
}

/// Whether the knob is there, as far as this VM knows.
#[derive(Debug, Default)]
pub(super) struct Knob {
    proven: bool,
    warned: bool,
    /// In order of `look_at`, since all wait equally long.
    waiting: VecDeque<Waiting>,
}

impl Knob {
    /// A request's headers were stopped; the current context is its stream.
    pub(super) fn watch(&mut self, now: Moment, request: &Rc<Request>) {
        if !self.proven {
            self.waiting.push_back(Waiting {
                look_at: now.plus(PATIENCE),
                request: Rc::clone(request),
                received: received(),
            });
        }
    }

    /// A body callback came: the knob is there.
    pub(super) fn prove(&mut self) {
        if !self.proven {
            self.proven = true;
            self.waiting = VecDeque::new();
        }
    }

    /// When to look next.
    pub(super) fn wake_at(&self) -> Option<Moment> {
        self.waiting.front().map(|waiting| waiting.look_at)
    }

    /// The requests to pass on, since their bodies will not come. Changes the current context.
    pub(super) fn stuck(&mut self, now: Moment) -> Vec<Rc<Request>> {
        let mut stuck = Vec::new();
        while let Some(mut first) = self.waiting.pop_front() {
            if first.look_at > now {
                self.waiting.push_front(first);
                break;
            }
            if !first.request.reads() || host::act_on(first.request.id).is_err() {
                continue;
            }
            if received() > first.received {
                stuck.push(first.request);
            } else {
                first.look_at = now.plus(PATIENCE);
                self.waiting.push_back(first);
            }
        }
        stuck
    }

    /// Says once what is missing.
    pub(super) fn warn(&mut self) {
        if !self.warned {
            self.warned = true;
            log::error!(
                "requests are passed on without placement: their bodies do not reach the filter. \
                 Add `allow_on_headers_stop_iteration: true` to the filter's \
                 envoy.extensions.wasm.v3.PluginConfig (Envoy 1.35 or later)"
            );
        }
    }
}

/// Bytes of the current request that Envoy has received.
fn received() -> i64 {
    host::property(&["request", "total_size"])
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i64::from_le_bytes)
}
