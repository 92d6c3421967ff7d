//! What the engine gets to see of a prompt: how many tokens, and the chain of its full blocks.

use std::num::NonZeroUsize;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A prompt in tokens, reduced to what caching and the stand-in's answer need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) tokens: usize,
    /// One hash for each full block, over its tokens and all before them.
    pub(crate) blocks: Vec<u64>,
    /// Of all tokens; the generated text grows from it.
    pub(crate) digest: u64,
}

impl Prompt {
    /// There is no tokenizer: four bytes of text are one token. An empty text is one token, as if
    /// a tokenizer had put its begin-of-text there.
    pub(crate) fn from_text(text: &str, seed: u64, block_tokens: NonZeroUsize) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(bytes.len().next_multiple_of(4).max(4), 0);
        Self::from_bytes(&bytes, seed, block_tokens)
    }

    /// `ids` must not be empty.
    pub(crate) fn from_ids(ids: &[u32], seed: u64, block_tokens: NonZeroUsize) -> Self {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        Self::from_bytes(&bytes, seed, block_tokens)
    }

    fn from_bytes(bytes: &[u8], seed: u64, block_tokens: NonZeroUsize) -> Self {
        let full = bytes.chunks_exact(block_tokens.get().saturating_mul(4));
        let tail = full.remainder();
        let blocks: Vec<u64> = full
            .scan(seed, |before, block| {
                *before = xxh3_64_with_seed(block, *before);
                Some(*before)
            })
            .collect();
        let digest = xxh3_64_with_seed(tail, blocks.last().copied().unwrap_or(seed));
        Self {
            tokens: bytes.len() / 4,
            blocks,
            digest,
        }
    }

    /// The most blocks that may count as a hit: the last token is always computed, since its
    /// logits are what the first generated token comes from.
    pub(crate) fn max_hit(&self, block_tokens: NonZeroUsize) -> usize {
        self.tokens.saturating_sub(1) / block_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    #[test]
    fn four_bytes_are_a_token_and_only_full_blocks_are_hashed() {
        for (text, tokens, blocks) in [
            ("", 1, 0),
            ("abc", 1, 0),
            ("abcde", 2, 0),
            ("0123456789abcdef", 4, 1),
            ("0123456789abcdef!", 5, 1),
        ] {
            let prompt = Prompt::from_text(text, 0, FOUR);
            assert_eq!((prompt.tokens, prompt.blocks.len()), (tokens, blocks));
        }
    }

    #[test]
    fn a_shared_start_shares_its_blocks_only_under_one_seed() {
        let of = |ids: &[u32], seed| Prompt::from_ids(ids, seed, FOUR).blocks;
        let short = of(&[1, 2, 3, 4], 0);
        let long = of(&[1, 2, 3, 4, 5, 6, 7, 8], 0);
        assert!(long.starts_with(&short));
        assert_ne!(of(&[1, 2, 3, 4], 1), short);
        assert_ne!(of(&[9, 9, 9, 9, 5, 6, 7, 8], 0)[1], long[1]);
    }

    #[test]
    fn the_last_token_is_never_a_hit() {
        for (tokens, most) in [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2)] {
            let prompt = Prompt::from_ids(&vec![7; tokens], 0, FOUR);
            assert_eq!(prompt.max_hit(FOUR), most, "{tokens} tokens");
        }
    }
}
