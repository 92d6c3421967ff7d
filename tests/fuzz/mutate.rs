//! Something valid with a few bytes changed comes further than bytes out of nowhere.

use proptest::prelude::*;
use proptest::sample::Index;

/// One change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        let size = bytes.len();
        let part = |at: usize, length: usize| at..(at + length).min(size);
        match self {
            Self::Insert(at, more) => {
                let at = at.index(size + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            _ if size == 0 => {}
            Self::Set(at, value) => bytes[at.index(size)] = *value,
            Self::Flip(at, bit) => bytes[at.index(size)] ^= 1 << (bit % 8),
            Self::Remove(at, length) => {
                let part = part(at.index(size), *length);
                bytes.drain(part);
            }
            Self::Repeat(at, length) => {
                let part = part(at.index(size), *length);
                let copy = bytes[part.clone()].to_vec();
                bytes.splice(part.end..part.end, copy);
            }
            Self::Cut(at) => bytes.truncate(at.index(size)),
        }
    }
}

/// Up to four changes.
pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = || any::<Index>();
    // Bytes that mean something, and any.
    let value = || {
        prop_oneof![
            any::<u8>(),
            prop::sample::select(&b"{}[]:,\"\\0-.eEn \n"[..])
        ]
    };
    let change = prop_oneof![
        (at(), value()).prop_map(|(at, value)| Change::Set(at, value)),
        (at(), any::<u8>()).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), prop::collection::vec(value(), 1..6))
            .prop_map(|(at, more)| Change::Insert(at, more)),
        (at(), 1..30_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (at(), 1..60_usize).prop_map(|(at, length)| Change::Repeat(at, length)),
        at().prop_map(Change::Cut),
    ];
    prop::collection::vec(change, 0..5)
}

pub(crate) fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        change.make(&mut bytes);
    }
    bytes
}
