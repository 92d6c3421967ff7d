//! Lists of token ids, the longest lists of numbers that there are.

use super::super::Unreadable;
use super::text::Sink;
use super::{Raw, Walk};

/// Ids that are pushed together.
const BATCH: usize = 64;

impl Raw<'_> {
    /// Pushes the elements of an array of token ids, each as a little-endian u32, and counts them.
    ///
    /// Its grammar is checked on the way. Anything but integers of `0..=u32::MAX` is refused.
    pub(in super::super) fn token_ids(self, sink: &mut impl Sink) -> Result<u64, Unreadable> {
        let Some((b'[', mut rest)) = self.0.split_first() else {
            return Err(Unreadable::Type);
        };
        if space(rest) == b"]" {
            return Ok(0);
        }
        let mut batch = [[0u8; 4]; BATCH];
        let mut used = 0;
        let mut count = 0;
        loop {
            let Some((id, behind)) = integer(space(rest)) else {
                return Err(self.fault());
            };
            if used == BATCH {
                sink.push(batch.as_flattened());
                used = 0;
            }
            if let Some(place) = batch.get_mut(used) {
                *place = id.to_le_bytes();
            }
            used += 1;
            count += 1;
            match space(behind) {
                [b',', next @ ..] => rest = next,
                [b']'] => break,
                _ => return Err(self.fault()),
            }
        }
        sink.push(batch.get(..used).unwrap_or_default().as_flattened());
        Ok(count)
    }

    /// What is wrong with a list that is not one of ids.
    fn fault(self) -> Unreadable {
        match self.check() {
            Err(error) => error,
            Ok(()) => Unreadable::Type,
        }
    }

    /// Whether the container is well-formed.
    pub(super) fn check(self) -> Result<(), Unreadable> {
        let mut walk = Walk::new(self.0);
        walk.value()?;
        walk.end()
    }
}

#[inline(always)]
fn space(bytes: &[u8]) -> &[u8] {
    match bytes {
        [byte, ..] if *byte > b' ' => bytes,
        [b' ', rest @ ..] if rest.first().is_none_or(|byte| *byte > b' ') => rest,
        _ => {
            let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            let length = bytes.iter().take_while(|byte| is_space(byte)).count();
            bytes.get(length..).unwrap_or_default()
        }
    }
}

/// The number that the bytes begin with, and what follows it.
#[inline(always)]
fn integer(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (value, digits) = match bytes.first_chunk() {
        Some(word) => eight(u64::from_le_bytes(*word)),
        None => (0, 8),
    };
    let (value, digits) = match digits {
        8 => one_by_one(bytes)?,
        _ => (value, digits),
    };
    if digits == 0 && bytes.starts_with(b"-0") {
        return Some((0, bytes.get(2..)?));
    }
    let leading_zero = digits > 1 && bytes.first() == Some(&b'0');
    match digits {
        0 => None,
        _ if leading_zero => None,
        _ => Some((value, bytes.get(digits..)?)),
    }
}

/// The number that a word of text begins with, and how many of its bytes are digits of it. Nothing
/// is told of a number of eight digits, as there might be more.
#[inline(always)]
fn eight(word: u64) -> (u32, usize) {
    let each = |byte: u8| u64::from_ne_bytes([byte; 8]);
    let values = word ^ each(b'0');
    // The high bit of each byte that is above 9; of ASCII, which the others are above anyway.
    let others = (values.wrapping_add(each(0x76)) | values) & each(0x80);
    let digits = (others.trailing_zeros() / 8) as usize;
    if digits == 0 || digits >= 8 {
        return (0, digits);
    }
    // The digits go to the end of the word, zeros before them; then pairs, fours, all eight.
    let values = values << (64 - 8 * digits);
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let whole = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    (whole as u32, digits)
}

/// Any number of digits, up to that of `u32::MAX`.
fn one_by_one(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    let mut digits = 0;
    for byte in bytes.iter().take_while(|byte| byte.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
        digits += 1;
    }
    Some((value, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &str) -> Result<Vec<u32>, Unreadable> {
        let mut bytes: Vec<u8> = Vec::new();
        let count = Raw(list.as_bytes()).token_ids(&mut bytes)?;
        let (ids, rest) = bytes.as_chunks();
        assert!(rest.is_empty() && ids.len() as u64 == count, "{list}");
        Ok(ids.iter().map(|id| u32::from_le_bytes(*id)).collect())
    }

    #[test]
    fn numbers_of_every_length() {
        let numbers: Vec<u32> = (0..=9u32)
            .flat_map(|digits| {
                [
                    10u32.pow(digits),
                    10u32.pow(digits) - 1,
                    1_234_567_890 % 10u32.pow(digits),
                ]
            })
            .chain([u32::MAX, 4_000_000_000])
            .collect();
        for separator in [",", ", ", " ,", "\n\t , \r\n"] {
            for first in 0..numbers.len() {
                let numbers = &numbers[first..];
                let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
                for list in [
                    format!("[{}]", text.join(separator)),
                    format!("[ {} ]", text.join(separator)),
                ] {
                    assert_eq!(ids(&list).as_deref(), Ok(numbers), "{list}");
                }
            }
        }
    }

    #[test]
    fn lists_of_every_length() {
        for length in 0..300 {
            let numbers: Vec<u32> = (0..length).map(|i| i * 37).collect();
            let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
            assert_eq!(ids(&format!("[{}]", text.join(","))), Ok(numbers));
        }
    }

    #[test]
    fn what_is_no_list_of_ids() {
        for (list, expected) in [
            ("[ ]", Ok(vec![])),
            ("[-0]", Ok(vec![0])),
            ("[1,-0, 0]", Ok(vec![1, 0, 0])),
            ("[-1]", Err(Unreadable::Type)),
            ("[-01]", Err(Unreadable::Json)),
            ("[00]", Err(Unreadable::Json)),
            ("[01234567]", Err(Unreadable::Json)),
            ("[012345678]", Err(Unreadable::Json)),
            ("[4294967296]", Err(Unreadable::Type)),
            ("[99999999999999999999]", Err(Unreadable::Type)),
            ("[1.0]", Err(Unreadable::Type)),
            ("[1,2e3]", Err(Unreadable::Type)),
            ("[1,\"2\"]", Err(Unreadable::Type)),
            ("[1,[2]]", Err(Unreadable::Type)),
            ("[1,null]", Err(Unreadable::Type)),
            ("[NaN]", Err(Unreadable::Type)),
            ("[1,]", Err(Unreadable::Json)),
            ("[,1]", Err(Unreadable::Json)),
            ("[1,,2]", Err(Unreadable::Json)),
            ("[1 2]", Err(Unreadable::Json)),
            ("[1234567 8]", Err(Unreadable::Json)),
            ("[1\u{b}]", Err(Unreadable::Json)),
            ("[\u{c}1]", Err(Unreadable::Json)),
            ("[1:2]", Err(Unreadable::Json)),
            ("[1]2]", Err(Unreadable::Json)),
            ("[é1]", Err(Unreadable::Json)),
            ("[1;]", Err(Unreadable::Json)),
            ("[1}", Err(Unreadable::Json)),
        ] {
            assert_eq!(ids(list), expected, "{list}");
        }
    }
}
