//! 64 bytes at a time, a bit for each: where quotes, escapes and brackets stand.
//!
//! Text with an escape every few bytes costs no more than text without.

use wide::u8x16;

/// Bytes that are looked at together.
pub(super) const BLOCK: usize = 64;

/// The block that `bytes` begin with; behind their end it is filled with spaces.
#[inline(always)]
pub(super) fn block(bytes: &[u8]) -> [u8; BLOCK] {
    match bytes.first_chunk() {
        Some(block) => *block,
        None => {
            let mut block = [b' '; BLOCK];
            for (place, byte) in block.iter_mut().zip(bytes) {
                *place = *byte;
            }
            block
        }
    }
}

/// Where the characters of strings stand that end them or begin escapes, the first byte in the
/// lowest bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strings {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
}

impl Strings {
    #[inline(always)]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        let [quotes, backslashes] = bits(block, |lane| [equal(lane, b'"'), equal(lane, b'\\')]);
        Self {
            quotes,
            backslashes,
        }
    }
}

/// Where brackets stand, square or curly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Brackets {
    pub(super) opening: u64,
    pub(super) closing: u64,
}

impl Brackets {
    #[inline(always)]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        // Square and curly brackets differ in one bit, and no other byte is a curly one with it.
        let [opening, closing] = bits(block, |lane| {
            let curly = lane | u8x16::splat(b'{' ^ b'[');
            [equal(curly, b'{'), equal(curly, b'}')]
        });
        Self { opening, closing }
    }
}

/// The bytes that backslashes escape. `carry` tells of the block before whether the first byte of
/// this one is escaped, and is made ready for the next.
#[inline(always)]
pub(super) fn escaped(backslashes: u64, carry: &mut bool) -> u64 {
    const EVEN: u64 = u64::from_ne_bytes([0x55; 8]);
    // One that is escaped itself escapes nothing.
    let backslashes = backslashes & !u64::from(*carry);
    let behind = backslashes << 1 | u64::from(*carry);
    // Adding its start to a run of backslashes leaves one bit behind its end. Runs that start at
    // an odd place are turned round, so that the escaped bytes are the even ones in all.
    let odd_starts = backslashes & !EVEN & !behind;
    let (ends, over) = odd_starts.overflowing_add(backslashes);
    *carry = over;
    (EVEN ^ (ends << 1)) & behind
}

/// For each bit, whether the bits up to it, itself included, are odd in number.
#[inline(always)]
pub(super) fn odd_up_to(bits: u64) -> u64 {
    let bits = bits ^ bits << 1;
    let bits = bits ^ bits << 2;
    let bits = bits ^ bits << 4;
    let bits = bits ^ bits << 8;
    let bits = bits ^ bits << 16;
    bits ^ bits << 32
}

/// The places of the bits that are set, from the lowest.
#[inline(always)]
pub(super) fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let place = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        Some(place)
    })
}

#[inline(always)]
fn equal(lane: u8x16, byte: u8) -> u8x16 {
    lane.simd_eq(u8x16::splat(byte))
}

/// Two bits for each byte, asked for 16 bytes at a time.
#[inline(always)]
fn bits(block: &[u8; BLOCK], ask: impl Fn(u8x16) -> [u8x16; 2]) -> [u64; 2] {
    let (parts, _) = block.as_chunks::<16>();
    let mut all = [0; 2];
    for (part, shift) in parts.iter().zip([0, 16, 32, 48]) {
        for (bits, answer) in all.iter_mut().zip(ask(u8x16::new(*part))) {
            *bits |= u64::from(answer.to_bitmask()) << shift;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of the bytes that are one of these, told one by one.
    fn plainly(block: &[u8; BLOCK], these: &[u8]) -> u64 {
        let bytes = block.iter().zip(0..);
        bytes
            .map(|(byte, place)| u64::from(these.contains(byte)) << place)
            .sum()
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..BLOCK {
                let mut block = [b'x'; BLOCK];
                block[place] = byte;
                block[(place + 7) % BLOCK] = byte;
                let strings = Strings::of(&block);
                assert_eq!(strings.quotes, plainly(&block, b"\""));
                assert_eq!(strings.backslashes, plainly(&block, b"\\"));
                let brackets = Brackets::of(&block);
                assert_eq!(brackets.opening, plainly(&block, b"[{"));
                assert_eq!(brackets.closing, plainly(&block, b"]}"));
            }
        }
    }

    #[test]
    fn escapes_are_told_over_the_borders_of_blocks() {
        let mut random = fastrand::Rng::with_seed(1);
        for density in [1, 2, 3, 10, 40] {
            for _ in 0..200 {
                let text: Vec<u8> = (0..4 * BLOCK)
                    .map(|_| {
                        if random.u8(0..density) == 0 {
                            b'\\'
                        } else {
                            b'x'
                        }
                    })
                    .collect();
                let (mut carry, mut escape) = (false, false);
                for chunk in text.chunks(BLOCK) {
                    let block = block(chunk);
                    let found = escaped(Strings::of(&block).backslashes, &mut carry);
                    for (place, byte) in block.iter().enumerate() {
                        assert_eq!(found >> place & 1 == 1, escape);
                        escape = !escape && *byte == b'\\';
                    }
                    assert_eq!(carry, escape);
                }
            }
        }
    }

    #[test]
    fn a_short_end_is_filled_up() {
        assert_eq!(block(b"ab")[..3], *b"ab ");
        assert_eq!(odd_up_to(0b1000_0100), !0 << 2 & !(!0 << 7));
        assert_eq!(places(0b1_0010).collect::<Vec<_>>(), [1, 4]);
    }
}
