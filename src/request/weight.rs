//! How many samples a request asks for.

use super::json::Value;
use super::prompts::MAX_WEIGHT;

/// The samples of an `n`: 1 where it is missing, or no number that is whole and positive.
pub(super) fn samples(n: Option<Value<'_>>) -> u32 {
    let Some(Value::Number(literal)) = n else {
        return 1;
    };
    // Engines take 8.0 for 8.
    let literal = std::str::from_utf8(literal).unwrap_or_default();
    match literal.parse::<f64>() {
        Ok(n) if n >= 1.0 && n.fract() == 0.0 => n.min(f64::from(MAX_WEIGHT)) as u32,
        _ => 1,
    }
}

/// The samples that SGLang's and vLLM's sampling parameters ask for: one object, or for a batch a
/// list of them that agree.
pub(super) fn of_sampling_params(params: Option<Value<'_>>) -> u32 {
    let first = match params {
        Some(Value::Array(list)) => list.items().next().and_then(Result::ok),
        one => one,
    };
    samples(first.and_then(|params| params.member(b"n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_is_whole_and_bounded() {
        for (literal, expected) in [
            ("1", 1),
            ("8", 8),
            ("8.0", 8),
            ("1024", 1024),
            ("1025", 1024),
            ("1e300", 1024),
            ("0", 1),
            ("-0", 1),
            ("-3", 1),
            ("1.5", 1),
            ("NaN", 1),
            ("Infinity", 1),
            ("-Infinity", 1),
        ] {
            let n = Value::Number(literal.as_bytes());
            assert_eq!(samples(Some(n)), expected, "{literal}");
        }
        let long = "9".repeat(100_000);
        assert_eq!(samples(Some(Value::Number(long.as_bytes()))), 1);
        for other in [None, Some(Value::Null), Some(Value::Bool(true))] {
            assert_eq!(samples(other), 1);
        }
    }
}
