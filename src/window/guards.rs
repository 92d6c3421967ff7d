//! When to look after which held request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::message::StreamId;
use crate::workers::Moment;

/// The guards of held requests, the earliest first. Those of requests that wait no more, or have
/// another guard by now, stay until their time comes or until they would be the earliest.
#[derive(Debug, Default)]
pub(super) struct Guards(BinaryHeap<Reverse<(Moment, StreamId)>>);

impl Guards {
    /// Sets a guard.
    pub(super) fn set(&mut self, moment: Moment, stream: StreamId) {
        self.0.push(Reverse((moment, stream)));
    }

    /// Takes out all guards whose time has come. All at once: what is offered again, and guarded
    /// again, is looked after another time.
    pub(super) fn due(&mut self, now: Moment) -> Vec<(Moment, StreamId)> {
        let mut due = Vec::new();
        while let Some(Reverse(guard)) = self.0.peek().copied() {
            if guard.0 > now {
                break;
            }
            self.0.pop();
            due.push(guard);
        }
        due
    }

    /// The earliest guard that `holds`.
    pub(super) fn earliest(&mut self, holds: impl Fn(Moment, StreamId) -> bool) -> Option<Moment> {
        while let Some(Reverse((moment, stream))) = self.0.peek().copied() {
            if holds(moment, stream) {
                return Some(moment);
            }
            self.0.pop();
        }
        None
    }
}
