//! What workers tell each other. Block hashes travel, never prompt text.

use serde::{Deserialize, Serialize};

use crate::workers::WorkerId;
use crate::workers::{Moment, Shared};

/// A stream of a worker: its id in that worker's VM.
pub type StreamId = u32;

/// What the owner of a window decided for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// A full match on one replica.
    Assigned {
        /// Index of the replica in the configured list.
        replica: u32,
        /// Members of its unit in this window.
        group: u32,
    },
    /// It overlaps nothing in its window.
    Alone,
    /// There is no replica to place it on.
    NoReplicas,
    /// It came too late for its window, or its window was lost.
    TimedOut,
}

/// A message from one worker to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// A request joined a window that the receiver owns.
    Arrived {
        window: u64,
        index: u32,
        from: WorkerId,
        stream: StreamId,
        /// When the window must close, at the latest, for this request.
        close_by: Moment,
        /// How many samples it asks for.
        weight: u32,
        /// The block hashes, each 8 bytes little-endian.
        #[serde(borrow)]
        blocks: &'a [u8],
    },
    /// A request that joined has left again.
    Gone { window: u64, index: u32 },
    /// The owner's answers to the receiver's requests of one window.
    Placed {
        window: u64,
        answers: Vec<(StreamId, Decision)>,
    },
    /// A worker to itself: there are requests left to release.
    Continue,
}

/// A message with its address: a worker reads what was sent to an earlier holder of its slot, and
/// must not take it for its own.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope<'a> {
    to: u64,
    #[serde(borrow)]
    message: Message<'a>,
}

/// Sends a message. Where it cannot be sent nothing is lost: the guard of each held request
/// offers it again.
pub(super) fn send(shared: &mut dyn Shared, to: WorkerId, message: Message<'_>) {
    let envelope = Envelope {
        to: to.incarnation,
        message,
    };
    if let Ok(bytes) = postcard::to_allocvec(&envelope) {
        let _guarded = shared.send(to.slot, &bytes);
    }
}

/// The message in `bytes`, if it is for `me`.
pub(super) fn open(bytes: &[u8], me: WorkerId) -> Option<Message<'_>> {
    let envelope: Envelope<'_> = postcard::from_bytes(bytes).ok()?;
    (envelope.to == me.incarnation).then_some(envelope.message)
}

pub(super) fn blocks_to_bytes(blocks: &[u64]) -> Vec<u8> {
    blocks.iter().flat_map(|hash| hash.to_le_bytes()).collect()
}

pub(super) fn blocks_from_bytes(bytes: &[u8]) -> Vec<u64> {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect()
}
