//! The strings of JSON: where they end, and what they mean.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Takes bytes as they are decoded.
pub(crate) trait Sink {
    /// Appends bytes.
    fn push(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A string as it stands between its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escaped: bool,
}

impl<'a> Text<'a> {
    /// Pushes the decoded string: UTF-8, but for lone surrogates, which are encoded like any other
    /// code point of three bytes. No byte of it is above `0xF4`.
    pub(crate) fn decode(self, sink: &mut impl Sink) {
        if !self.escaped {
            return sink.push(self.raw);
        }
        let mut rest = self.raw;
        // Escapes and what stands between them are mostly short, and pushed together.
        let mut batch = Batch::new();
        while let Some(at) = find_escape(rest) {
            let Some((run, escape)) = rest.split_at_checked(at) else {
                break;
            };
            batch.append(run, sink);
            // The walk has checked every escape before.
            let Some((character, used)) = unescape(escape) else {
                break;
            };
            batch.append(character.bytes(), sink);
            rest = escape.get(used..).unwrap_or_default();
        }
        batch.append(rest, sink);
        batch.flush(sink);
    }

    /// The decoded string.
    pub(crate) fn decoded(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut decoded = Vec::with_capacity(self.raw.len());
        self.decode(&mut decoded);
        Cow::Owned(decoded)
    }
}

/// Bytes searched one by one before a faster search is begun.
const NEAR: usize = 8;

/// Where the first quote or backslash stands.
#[inline]
pub(super) fn find_quote_or_escape(bytes: &[u8]) -> Option<usize> {
    // Most strings and runs are short, and a call costs more than a few bytes do.
    let (near, far) = bytes.split_at_checked(NEAR).unwrap_or((bytes, &[]));
    match near.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        Some(at) => Some(at),
        None => memchr2(b'"', b'\\', far).map(|at| at + near.len()),
    }
}

/// Decoded pieces on their way to a sink.
struct Batch {
    bytes: [u8; 256],
    len: usize,
}

impl Batch {
    fn new() -> Self {
        Self {
            bytes: [0; 256],
            len: 0,
        }
    }

    #[inline]
    fn append(&mut self, piece: &[u8], sink: &mut impl Sink) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + piece.len()) {
            place.copy_from_slice(piece);
            self.len += piece.len();
            return;
        }
        self.flush(sink);
        match self.bytes.get_mut(..piece.len()) {
            Some(place) => {
                place.copy_from_slice(piece);
                self.len = piece.len();
            }
            None => sink.push(piece),
        }
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        sink.push(self.bytes.get(..self.len).unwrap_or_default());
        self.len = 0;
    }
}

/// Where the first backslash stands.
#[inline]
fn find_escape(bytes: &[u8]) -> Option<usize> {
    let (near, far) = bytes.split_at_checked(NEAR).unwrap_or((bytes, &[]));
    match near.iter().position(|byte| *byte == b'\\') {
        Some(at) => Some(at),
        None => memchr(b'\\', far).map(|at| at + near.len()),
    }
}

/// The length of the escape that `bytes` begin with, `None` if it is no escape of JSON.
#[inline]
pub(super) fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => bytes
            .get(2..6)?
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then_some(6),
        _ => None,
    }
}

/// One code point, encoded.
#[derive(Debug, Clone, Copy)]
struct Encoded {
    bytes: [u8; 4],
    len: usize,
}

impl Encoded {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// UTF-8; a surrogate in the same manner (WTF-8).
    fn new(code: u32) -> Self {
        let low = |shift: u32| (code >> shift & 0x3f) as u8 | 0x80;
        let high = |mark: u8, shift: u32| mark | (code >> shift) as u8;
        match code {
            0..0x80 => Self {
                bytes: [code as u8, 0, 0, 0],
                len: 1,
            },
            0x80..0x800 => Self {
                bytes: [high(0xc0, 6), low(0), 0, 0],
                len: 2,
            },
            0x800..0x1_0000 => Self {
                bytes: [high(0xe0, 12), low(6), low(0), 0],
                len: 3,
            },
            _ => Self {
                bytes: [high(0xf0, 18), low(12), low(6), low(0)],
                len: 4,
            },
        }
    }
}

/// The code point of the escape that `bytes` begin with, and the number of bytes it takes: a pair
/// of surrogates is one. `None` if it is no escape of JSON.
fn unescape(bytes: &[u8]) -> Option<(Encoded, usize)> {
    let code = match bytes.get(1)? {
        b'"' => b'"',
        b'\\' => b'\\',
        b'/' => b'/',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let first = hex(bytes.get(2..6)?)?;
            let second = match bytes.get(6..) {
                Some([b'\\', b'u', digits @ ..]) if (0xd800..0xdc00).contains(&first) => digits
                    .get(..4)
                    .and_then(hex)
                    .filter(|code| (0xdc00..0xe000).contains(code)),
                _ => None,
            };
            return Some(match second {
                Some(second) => (
                    Encoded::new(0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff)),
                    12,
                ),
                None => (Encoded::new(first), 6),
            });
        }
        _ => return None,
    };
    Some((Encoded::new(u32::from(code)), 2))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |code, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(code << 4 | u32::from(value))
    })
}
