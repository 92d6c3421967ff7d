//! What batches are made of, at random.

use std::num::NonZeroU32;

use burst_prefix_cache::placement::{BalanceBy, Rules};
use proptest::prelude::*;

/// Any rules, with small k and m.
pub(crate) fn rules() -> impl Strategy<Value = Rules> {
    (0u32..5, 0u32..4, any::<bool>()).prop_map(|(k, min_colocate_blocks, tokens)| Rules {
        max_per_replica: NonZeroU32::new(k),
        min_colocate_blocks,
        balance_by: if tokens {
            BalanceBy::Tokens
        } else {
            BalanceBy::Requests
        },
    })
}

/// The hash of a block that covers all before it.
pub(crate) fn chained(before: u64, step: u64) -> u64 {
    (before ^ before >> 31)
        .wrapping_add(step + 1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
