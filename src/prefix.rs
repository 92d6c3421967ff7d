//! Byte streams and token ids to chained block hashes.
//!
//! A prompt is cut into blocks of [`Layout::block_size_tokens`] tokens, and each block's hash
//! takes the hash before it, so that two prompts have equal hashes exactly as far as their
//! leading blocks are equal. The recipe is that of llm-d's `prefixhash`, so token ids and plain
//! text give the very hashes that it gives (`tests/vectors/prefix_hash.jsonl`):
//!
//! ```text
//! h₋₁ = XXH64(model ‖ cache_salt)
//! idᵢ = XXH64(the block's token ids, each a little-endian u32)
//! hᵢ  = XXH64(LE64(idᵢ) ‖ LE64(hᵢ₋₁))
//! ```
//!
//! - Text needs no tokenizer: four bytes count as one token, so a block of 64 tokens is 256 bytes
//!   of text hashed as they stand. The last token of a text is padded with zero bytes.
//! - The tail that is shorter than a block is a block of its own: identity is exact, and a prompt
//!   nested in a longer one does not match on its tail.
//!
//! The ids do not depend on the seed. So the parser pushes text as it decodes it, and applies the
//! seed at the end, wherever in the body the model's name may stand.

use std::num::NonZeroU32;

use xxhash_rust::xxh64::{Xxh64, xxh64};

/// Bytes of text that count as one token, and bytes of one token id.
pub const BYTES_PER_TOKEN: usize = 4;

/// Blocks hashed of each prompt, where the configuration does not say.
pub const DEFAULT_MAX_BLOCKS: usize = 2048;

/// How prompts are cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Tokens in a block, at least one.
    pub block_size_tokens: NonZeroU32,
    /// Blocks hashed of each prompt; what follows counts towards its length only.
    pub max_blocks: usize,
}

impl Layout {
    /// The layout of a configuration: `max_prefix_tokens` is the most tokens to match of a prompt,
    /// 0 for the default of [`DEFAULT_MAX_BLOCKS`] blocks.
    #[must_use]
    pub fn new(block_size_tokens: NonZeroU32, max_prefix_tokens: u32) -> Self {
        let max_blocks = match max_prefix_tokens {
            0 => DEFAULT_MAX_BLOCKS,
            tokens => (tokens / block_size_tokens) as usize,
        };
        Self {
            block_size_tokens,
            max_blocks,
        }
    }

    fn block_bytes(self) -> usize {
        // Saturating on 32-bit targets: a block larger than any body is never full.
        usize::try_from(self.block_size_tokens.get())
            .unwrap_or(usize::MAX)
            .saturating_mul(BYTES_PER_TOKEN)
    }
}

impl Default for Layout {
    /// 64 tokens a block, at most [`DEFAULT_MAX_BLOCKS`] blocks.
    fn default() -> Self {
        const SIXTY_FOUR: NonZeroU32 = NonZeroU32::MIN.saturating_add(63);
        Self::new(SIXTY_FOUR, 0)
    }
}

/// The block ids of one prompt, built as its bytes arrive.
///
/// Whole blocks in the input are hashed where they stand; only a partial block is copied.
#[derive(Debug, Clone)]
pub struct BlockIds {
    block_bytes: usize,
    max_blocks: usize,
    ids: Vec<u64>,
    partial: Vec<u8>,
    bytes: u64,
}

impl BlockIds {
    /// An empty prompt.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self {
            block_bytes: layout.block_bytes(),
            max_blocks: layout.max_blocks,
            ids: Vec::new(),
            partial: Vec::new(),
            bytes: 0,
        }
    }

    /// Appends bytes of text. How a text is split over calls makes no difference.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.is_full() {
            return;
        }
        if bytes.len() < self.block_bytes.saturating_sub(self.partial.len()) {
            self.partial.extend_from_slice(bytes);
        } else {
            self.push_blocks(bytes);
        }
    }

    /// Appends bytes that make at least one block whole.
    fn push_blocks(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let missing = self.block_bytes.saturating_sub(self.partial.len());
            let (head, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            self.partial.extend_from_slice(head);
            self.ids.push(xxh64(&self.partial, 0));
            self.partial.clear();
            bytes = rest;
        }
        let mut whole = bytes.chunks_exact(self.block_bytes);
        let left = self.max_blocks.saturating_sub(self.ids.len());
        self.ids
            .extend(whole.by_ref().take(left).map(|block| xxh64(block, 0)));
        if !self.is_full() {
            self.partial.extend_from_slice(whole.remainder());
        }
    }

    /// Appends one token id.
    #[inline]
    pub fn push_token(&mut self, id: u32) {
        self.push(&id.to_le_bytes());
    }

    /// Bytes pushed so far, those past the last hashed block included. A token id is
    /// [`BYTES_PER_TOKEN`] bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes that a copy of it takes, about.
    pub(crate) fn size(&self) -> usize {
        size_of_val(self.ids.as_slice()) + self.partial.len()
    }

    /// Ends the prompt and chains its blocks to the seed. An empty prompt has no blocks.
    ///
    /// The reference pads the last token of a text with zeros, so a text and the same text with
    /// up to three NULs behind it can have the same hashes. That is kept, as the golden vectors
    /// demand it; a framed stream ends in a byte that is not zero and has no such twin.
    #[must_use]
    pub fn chain(mut self, seed: Seed) -> Vec<u64> {
        if !self.is_full() && !self.partial.is_empty() {
            let padded = self.partial.len().next_multiple_of(BYTES_PER_TOKEN);
            self.partial.resize(padded, 0);
            self.ids.push(xxh64(&self.partial, 0));
        }
        let mut previous = seed.0;
        for id in &mut self.ids {
            let link = u128::from(*id) | u128::from(previous) << 64;
            previous = xxh64(&link.to_le_bytes(), 0);
            *id = previous;
        }
        self.ids
    }

    fn is_full(&self) -> bool {
        self.ids.len() >= self.max_blocks
    }
}

/// What all chains of one request start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed of these bytes: the model's name, the cache salt right behind it, and then
    /// whatever else changes the prompt without being text of it.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh64(bytes, 0))
    }

    /// The seed of the bytes that went into this state, which began with 0.
    pub(crate) fn hashed(state: &Xxh64) -> Self {
        Self(state.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(block_size_tokens: u32, max_blocks: usize) -> Layout {
        Layout {
            block_size_tokens: NonZeroU32::new(block_size_tokens).unwrap(),
            max_blocks,
        }
    }

    fn hashes(layout: Layout, pieces: &[&[u8]]) -> (u64, Vec<u64>) {
        let mut ids = BlockIds::new(layout);
        pieces.iter().for_each(|piece| ids.push(piece));
        (ids.bytes(), ids.chain(Seed::of(b"m")))
    }

    #[test]
    fn the_default_is_64_tokens_and_2048_blocks() {
        assert_eq!(Layout::default(), layout(64, 2048));
        assert_eq!(
            Layout::new(NonZeroU32::new(64).unwrap(), 200),
            layout(64, 3)
        );
    }

    #[test]
    fn the_split_over_calls_makes_no_difference() {
        let text: Vec<u8> = (0..200u8).collect();
        for block in 1..12 {
            let whole = hashes(layout(block, 2048), &[&text]);
            for first in 0..60 {
                for second in first..60 {
                    let (a, rest) = text.split_at(first);
                    let (b, c) = rest.split_at(second - first);
                    assert_eq!(hashes(layout(block, 2048), &[a, b, c]), whole);
                }
            }
        }
    }

    #[test]
    fn past_the_cap_only_the_length_grows() {
        let text = [7u8; 100];
        let (bytes, capped) = hashes(layout(4, 2), &[&text[..20], &text[20..]]);
        assert_eq!(bytes, 100);
        assert_eq!(capped, hashes(layout(4, 9), &[&text]).1[..2]);
        assert_eq!(hashes(layout(4, 0), &[&text]), (100, vec![]));
    }

    #[test]
    fn a_nested_prompt_shares_whole_blocks_but_not_its_tail() {
        let long = hashes(layout(2, 9), &[b"0123456789abcdef01234567"]).1;
        let nested = hashes(layout(2, 9), &[b"0123456789abcdef012"]).1;
        assert_eq!(long.len(), 3);
        assert_eq!(long[..2], nested[..2]);
        assert_ne!(long[2], nested[2]);
    }

    #[test]
    fn the_largest_block_size_makes_one_tail_block() {
        assert_eq!(hashes(layout(u32::MAX, 9), &[b"abc", b"def"]).1.len(), 1);
    }
}
