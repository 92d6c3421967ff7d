//! The strings of JSON: where they end, and what they mean.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Bytes that are searched at once.
const WORD: usize = 8;

/// Words that are searched one by one, before a call pays.
const NEAR: usize = 4;

/// Takes bytes as they are decoded.
pub(crate) trait Sink: Clone {
    /// Appends bytes.
    fn push(&mut self, bytes: &[u8]);

    /// The bytes that a copy of it takes.
    fn size(&self) -> usize;
}

impl Sink for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn size(&self) -> usize {
        self.len()
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
        loop {
            rest = batch.append_run(rest, sink);
            if let [b'\\', byte, behind @ ..] = rest
                && *byte != b'u'
            {
                batch.append_byte(byte_of(&ESCAPES, *byte), sink);
                rest = behind;
                continue;
            }
            // The walk has checked every escape before.
            let Some((character, used)) = unescape(rest) else {
                break;
            };
            batch.append_character(character, sink);
            rest = rest.get(used..).unwrap_or_default();
        }
        batch.flush(sink);
    }

    pub(crate) fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// Whether the decoded string begins with these bytes.
    pub(crate) fn starts_with(self, bytes: &[u8]) -> bool {
        // No escape is longer than that, and one that is cut stands behind all that counts.
        const LONGEST_ESCAPE: usize = 12;
        let enough = (bytes.len() + 1) * LONGEST_ESCAPE;
        let raw = self.raw.get(..enough).unwrap_or(self.raw);
        let escaped = self.escaped;
        Self { raw, escaped }.decoded().starts_with(bytes)
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

/// Where the first quote or backslash stands.
#[inline]
pub(super) fn find_quote_or_escape(bytes: &[u8]) -> Option<usize> {
    let found = |word| equal_bytes(word, b'"') | equal_bytes(word, b'\\');
    find(bytes, found, |far| memchr2(b'"', b'\\', far))
}

/// Searches the first bytes by words, the rest by a call: most strings, and most runs between
/// escapes, are over before a call would have paid.
#[inline]
fn find(
    bytes: &[u8],
    near: impl Fn(u64) -> u64,
    far: impl Fn(&[u8]) -> Option<usize>,
) -> Option<usize> {
    let mut rest = bytes;
    for word in 0..NEAR {
        let at = word * WORD;
        let Some((word, behind)) = rest.split_first_chunk::<WORD>() else {
            break;
        };
        let found = near(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        rest = behind;
    }
    far(rest).map(|at| bytes.len() - rest.len() + at)
}

/// The high bit of each byte of `word` that is `byte`. Only the lowest bit set is to be trusted:
/// the subtraction borrows from the bytes above.
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let low = u64::from_ne_bytes([1; 8]);
    let zero_if_equal = word ^ (low * u64::from(byte));
    zero_if_equal.wrapping_sub(low) & !zero_if_equal & (low << 7)
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

    /// Appends what stands before the first escape, and returns what begins with it.
    #[inline]
    fn append_run<'a>(&mut self, bytes: &'a [u8], sink: &mut impl Sink) -> &'a [u8] {
        let mut rest = bytes;
        // Most runs are short: copied while they are searched, word by word.
        for _ in 0..NEAR {
            let Some((word, behind)) = rest.split_first_chunk::<WORD>() else {
                break;
            };
            self.write(*word, sink);
            let escape = equal_bytes(u64::from_le_bytes(*word), b'\\');
            if escape != 0 {
                let run = escape.trailing_zeros() as usize / 8;
                self.len += run;
                return rest.get(run..).unwrap_or_default();
            }
            self.len += WORD;
            rest = behind;
        }
        let run = memchr(b'\\', rest).unwrap_or(rest.len());
        let (run, rest) = rest.split_at_checked(run).unwrap_or((rest, &[]));
        self.append(run, sink);
        rest
    }

    fn append(&mut self, piece: &[u8], sink: &mut impl Sink) {
        if self.len + piece.len() > self.bytes.len() {
            self.flush(sink);
        }
        match self.bytes.get_mut(self.len..self.len + piece.len()) {
            Some(place) => {
                place.copy_from_slice(piece);
                self.len += piece.len();
            }
            // Longer than a batch.
            None => sink.push(piece),
        }
    }

    /// Writes bytes behind the last one, of which `len` does not know yet. All of them are
    /// written, as that is quick; what follows takes the place of those that do not count.
    #[inline]
    fn write<const N: usize>(&mut self, bytes: [u8; N], sink: &mut impl Sink) {
        if self.len + N > self.bytes.len() {
            self.flush(sink);
        }
        let place = self.bytes.get_mut(self.len..);
        if let Some(place) = place.and_then(|place| place.first_chunk_mut()) {
            *place = bytes;
        }
    }

    #[inline]
    fn append_character(&mut self, character: Encoded, sink: &mut impl Sink) {
        self.write(character.bytes, sink);
        self.len += character.len;
    }

    #[inline]
    fn append_byte(&mut self, byte: u8, sink: &mut impl Sink) {
        self.write([byte], sink);
        self.len += 1;
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        sink.push(self.bytes.get(..self.len).unwrap_or_default());
        self.len = 0;
    }
}

/// Whether what stands behind a backslash makes an escape of JSON.
#[inline]
pub(super) fn is_escape(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        None => false,
        Some((b'u', digits)) => hex(digits).is_some(),
        Some((byte, _)) => byte_of(&ESCAPES, *byte) != 0,
    }
}

/// What the byte behind a backslash stands for: `u` for itself, as digits follow it, and 0 where it
/// makes no escape. Tables, as text mixes its escapes at random, and a jump is mispredicted often.
#[expect(clippy::indexing_slicing, reason = "checked when it is compiled")]
static ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 0x08;
    table[b'f' as usize] = 0x0c;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table[b'u' as usize] = b'u';
    table
};

/// The value of each hexadecimal digit, [`NO_DIGIT`] for any other byte.
#[expect(clippy::indexing_slicing, reason = "checked when it is compiled")]
static DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut byte = 0u8;
    while byte < u8::MAX {
        if let Some(value) = (byte as char).to_digit(16) {
            table[byte as usize] = value as u8;
        }
        byte += 1;
    }
    table
};

const NO_DIGIT: u8 = 0x80;

#[inline]
fn byte_of(table: &[u8; 256], index: u8) -> u8 {
    // A byte is always inside, and the compiler knows.
    table.get(usize::from(index)).copied().unwrap_or_default()
}

/// One code point, encoded.
#[derive(Debug, Clone, Copy)]
struct Encoded {
    bytes: [u8; 4],
    len: usize,
}

impl Encoded {
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
    match byte_of(&ESCAPES, *bytes.get(1)?) {
        0 => None,
        b'u' => {
            let first = hex(bytes.get(2..)?)?;
            let second = match bytes.get(6..) {
                Some([b'\\', b'u', digits @ ..]) if (0xd800..0xdc00).contains(&first) => digits
                    .get(..4)
                    .and_then(hex)
                    .filter(|code| (0xdc00..0xe000).contains(code)),
                _ => None,
            };
            Some(match second {
                Some(second) => (
                    Encoded::new(0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff)),
                    12,
                ),
                None => (Encoded::new(first), 6),
            })
        }
        simple => Some((Encoded::new(simple.into()), 2)),
    }
}

/// The value of the four hexadecimal digits that `bytes` begin with.
#[inline]
fn hex(bytes: &[u8]) -> Option<u32> {
    let [a, b, c, d] = bytes.first_chunk()?.map(|digit| byte_of(&DIGITS, digit));
    let value = u32::from(a) << 12 | u32::from(b) << 8 | u32::from(c) << 4 | u32::from(d);
    ((a | b | c | d) & NO_DIGIT == 0).then_some(value)
}
