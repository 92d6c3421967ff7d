//! The block chain against the golden vectors of the reference.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::num::NonZeroU32;

use burst_prefix_cache::prefix::{BlockIds, Layout, Seed};
use burst_prefix_cache::request::{self, Api};
use serde_json::Value;

/// Every row: its case, its layout, the row itself and the hashes expected, one list a prompt.
fn rows() -> impl Iterator<Item = (String, Layout, Value, Vec<Vec<u64>>)> {
    include_str!("vectors/prefix_hash.jsonl")
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let block_size = u32::try_from(row["blockSizeTokens"].as_u64().unwrap()).unwrap();
            let layout = Layout {
                block_size_tokens: NonZeroU32::new(block_size).unwrap(),
                max_blocks: usize::try_from(row["maxBlocks"].as_u64().unwrap()).unwrap(),
            };
            let hash = |hash: &Value| hash.as_str().unwrap().parse().unwrap();
            let chain = |chain: &Value| chain.as_array().unwrap().iter().map(hash).collect();
            let hashes = row["hashes"]
                .as_array()
                .unwrap()
                .iter()
                .map(chain)
                .collect();
            (
                row["case"].as_str().unwrap().to_owned(),
                layout,
                row,
                hashes,
            )
        })
}

fn seed(row: &Value) -> Seed {
    let (model, salt) = (
        row["model"].as_str().unwrap(),
        row["cacheSalt"].as_str().unwrap(),
    );
    Seed::of([model, salt].concat().as_bytes())
}

#[test]
fn all_rows_are_there() {
    assert_eq!(rows().count(), 153);
}

#[test]
fn token_ids_chain_as_in_the_reference() {
    for (case, layout, row, expected) in rows() {
        let hashes: Vec<Vec<u64>> = (row["tokens"].as_array().unwrap().iter())
            .map(|prompt| {
                let mut ids = BlockIds::new(layout);
                for token in prompt.as_array().unwrap() {
                    ids.push_token(u32::try_from(token.as_u64().unwrap()).unwrap());
                }
                ids.chain(seed(&row))
            })
            .filter(|hashes| !hashes.is_empty())
            .collect();
        assert_eq!(hashes, expected, "{case}");
    }
}

#[test]
fn text_chains_as_in_the_reference() {
    let mut seen = 0;
    for (case, layout, row, expected) in rows() {
        let Some(texts) = row["text"].as_array() else {
            continue;
        };
        let hashes: Vec<Vec<u64>> = (texts.iter())
            .map(|text| {
                let mut ids = BlockIds::new(layout);
                ids.push(text.as_str().unwrap().as_bytes());
                ids.chain(seed(&row))
            })
            .filter(|hashes| !hashes.is_empty())
            .collect();
        assert_eq!(hashes, expected, "{case}");
        seen += 1;
    }
    assert_eq!(seen, 6);
}

/// The rows as bodies of `/v1/completions`: those that are bodies, and those made into one.
#[test]
fn bodies_chain_as_in_the_reference() {
    for (case, layout, row, expected) in rows() {
        let body = match (row["body"].as_str(), row["api"].as_str()) {
            (Some(body), Some("completions")) => body.to_owned(),
            // An API that is not read yet.
            (Some(_), _) => continue,
            (None, _) => serde_json::json!({
                "prompt": row.get("text").unwrap_or(&row["tokens"]),
                "cache_salt": row["cacheSalt"],
                "model": row["model"],
            })
            .to_string(),
        };
        let prefix = request::read(Api::Completions, body.as_bytes(), layout).unwrap();
        let hashes: Vec<Vec<u64>> = prefix.prompts.into_iter().map(|p| p.blocks).collect();
        assert_eq!(hashes, expected, "{case}");
    }
}
