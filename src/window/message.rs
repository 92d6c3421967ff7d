//! What workers tell each other. Block hashes travel, never prompt text.

use serde::{Deserialize, Serialize};

use super::Request;
use crate::picker::{Decision, Listed};
use crate::workers::{Moment, Shared, WorkerId};

/// A stream of a worker: its id in that worker's VM.
pub type StreamId = u32;

/// A message from one worker to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// A request joined a window that the receiver owns.
    Arrived {
        window: u64,
        index: u32,
        from: WorkerId,
        stream: StreamId,
        /// When the window must close, at the latest, for this request.
        close_by: Moment,
        /// It filled the window, which is closed: how many joined it.
        sealed: Option<u32>,
        request: Request,
    },
    /// A request that joined has left again.
    Gone { window: u64, index: u32 },
    /// The owner's answers to the receiver's requests of one window.
    Placed {
        window: u64,
        from: WorkerId,
        /// Which of the owner's messages to this worker it is.
        number: u64,
        lists: Vec<Listed>,
        answers: Vec<Answer>,
    },
    /// A worker to itself: there are requests left to release.
    Continue,
}

/// The answer to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) stream: StreamId,
    pub(super) decision: Decision,
    /// The list that the decision's replica is an index into.
    pub(super) list: u32,
    /// The load that the request brings to its replica.
    pub(super) charge: u64,
}

/// A message with its address: a worker reads what was sent to an earlier holder of its slot, and
/// must not take it for its own.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    to: u64,
    message: Message,
}

/// Sends a message. Where it cannot be sent nothing is lost: the guard of each held request
/// offers it again.
pub(super) fn send(shared: &mut dyn Shared, to: WorkerId, message: Message) {
    let envelope = Envelope {
        to: to.incarnation,
        message,
    };
    if let Ok(bytes) = postcard::to_allocvec(&envelope) {
        let _guarded = shared.send(to.slot, &bytes);
    }
}

/// The message in `bytes`, if it is for `me`.
pub(super) fn open(bytes: &[u8], me: WorkerId) -> Option<Message> {
    let envelope: Envelope = postcard::from_bytes(bytes).ok()?;
    (envelope.to == me.incarnation).then_some(envelope.message)
}
