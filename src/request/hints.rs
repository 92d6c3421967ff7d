//! What a request's headers say of its group and of where it may go.
//!
//! Its client may know how many requests its group has, or that requests with different prompts
//! belong together; what makes no sense is no hint. A gateway before this one may have narrowed
//! down where the request may go.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use xxhash_rust::xxh3::xxh3_64;

use crate::replicas::MOST_IN_POOL;

/// The largest group that is believed: a typing error shall not hold a window open for ever.
const LARGEST_GROUP: u32 = 100_000;
/// The longest name of a group, in bytes.
const LONGEST_GROUP_ID: usize = 256;

/// The value of `x-burst-group-id`, as a hash: 1 to 256 printable characters of ASCII.
#[must_use]
pub fn group_id(name: &[u8]) -> Option<u64> {
    let sensible = (1..=LONGEST_GROUP_ID).contains(&name.len());
    let printable = name.iter().all(|byte| matches!(byte, b' '..=b'~'));
    (sensible && printable).then(|| xxh3_64(name))
}

/// The value of `x-burst-group-size`: 1 to 100,000, in decimal digits.
#[must_use]
pub fn group_size(text: &[u8]) -> Option<NonZeroU32> {
    let digits = text.iter().all(u8::is_ascii_digit);
    let number: NonZeroU32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (digits && number.get() <= LARGEST_GROUP).then_some(number)
}

/// The value of `x-gateway-destination-endpoint-subset`: replicas as `ip:port`, between commas. They
/// come sorted, each once, in the form in which replicas are named; what is no address is left out.
#[must_use]
pub fn subset(list: &[u8]) -> Vec<String> {
    let mut subset: Vec<String> = String::from_utf8_lossy(list)
        .split(',')
        .filter_map(|name| name.trim().parse::<SocketAddr>().ok())
        .map(|address| address.to_string())
        .take(MOST_IN_POOL)
        .collect();
    subset.sort_unstable();
    subset.dedup();
    subset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_decimal_number_from_1_to_100000() {
        for (text, size) in [
            ("1", Some(1)),
            ("8", Some(8)),
            ("007", Some(7)),
            ("100000", Some(100_000)),
            ("100001", None),
            ("18446744073709551617", None),
            ("0", None),
            ("-1", None),
            ("+8", None),
            ("8.0", None),
            (" 8", None),
            ("8,8", None),
            ("eight", None),
            ("\u{668}", None),
            ("", None),
        ] {
            let found = group_size(text.as_bytes()).map(NonZeroU32::get);
            assert_eq!(found, size, "{text:?}");
        }
        assert_eq!(group_size(b"\xff"), None);
    }

    #[test]
    fn a_name_is_printable_and_of_sensible_length() {
        let (longest, longer) = ("x".repeat(256), "x".repeat(257));
        for name in ["a", "step 7, prompt 3", "~", &longest] {
            assert!(group_id(name.as_bytes()).is_some(), "{name:?}");
        }
        for name in ["", "a\tb", "a\u{7f}", "\u{e9}", &longer] {
            assert_eq!(group_id(name.as_bytes()), None, "{name:?}");
        }
        assert_ne!(group_id(b"a"), group_id(b"A"));
    }

    #[test]
    fn a_subset_is_sorted_and_named_as_replicas_are() {
        for (list, names) in [
            ("10.0.0.2:80,10.0.0.1:80", "10.0.0.1:80 10.0.0.2:80"),
            (" 10.0.0.1:80 ,,10.0.0.1:80", "10.0.0.1:80"),
            ("[0:0::1]:80", "[::1]:80"),
            ("pod-1:80,10.0.0.1,10.0.0.1:70000,\r\n", ""),
            ("", ""),
        ] {
            assert_eq!(subset(list.as_bytes()).join(" "), names, "{list:?}");
        }
        let many: Vec<String> = (0..5000).map(|port| format!("10.0.0.1:{port}")).collect();
        assert_eq!(subset(many.join(",").as_bytes()).len(), MOST_IN_POOL);
    }
}
