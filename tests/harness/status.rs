//! What a host call answers.

/// A status that is not `Ok`, with its number in the proxy-wasm ABI 0.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    NotFound = 1,
    BadArgument = 2,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
}

impl Status {
    pub(crate) fn number(result: Result<(), Self>) -> u32 {
        result.map_or_else(|status| status as u32, |()| 0)
    }
}
