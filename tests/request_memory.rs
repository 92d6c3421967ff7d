//! How much memory reading a body takes: nothing large in it is copied.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/heap.rs"]
mod heap;

use burst_prefix_cache::prefix;
use burst_prefix_cache::request::{Api, read};

/// The most bytes that reading the body takes at a time.
fn peak(api: Api, body: &str) -> usize {
    let layout = prefix::Layout::default();
    let (peak, prefix) = heap::peak_of(|| read(api, body.as_bytes(), layout).unwrap());
    assert!(!prefix.prompts.is_empty());
    peak
}

// One test, since the count is of the whole process.
#[test]
fn ten_megabytes_of_media_text_or_ids_are_not_copied() {
    let data = "QUJD".repeat(2_500_000);
    let url = format!("data:image/png;base64,{data}");
    // Slashes as escapes, as some clients write them.
    let escaped = url.replacen('/', "\\/", 1);
    let ids = vec!["12345"; 1_700_000].join(",");
    let lines = "a line of text\\n".repeat(700_000);
    for (what, api, body) in [
        (
            "an image",
            Api::ChatCompletions,
            format!(
                r#"{{"messages":[{{"content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#
            ),
        ),
        (
            "an image with escapes",
            Api::ChatCompletions,
            format!(
                r#"{{"messages":[{{"content":[{{"type":"image_url","image_url":{{"url":"{escaped}"}}}}]}}]}}"#
            ),
        ),
        (
            "an image of Responses",
            Api::Responses,
            format!(
                r#"{{"input":[{{"role":"user","content":[{{"type":"input_image","image_url":"{url}"}}]}}]}}"#
            ),
        ),
        (
            "an image of Messages",
            Api::Messages,
            format!(
                r#"{{"messages":[{{"content":[{{"type":"image","source":{{"type":"base64","data":"{data}"}}}}]}}]}}"#
            ),
        ),
        (
            "an image of SGLang",
            Api::Generate,
            format!(r#"{{"text":"a","image_data":["{escaped}"]}}"#),
        ),
        (
            "a key of the cache",
            Api::Generate,
            format!(r#"{{"text":"a","extra_key":"{data}"}}"#),
        ),
        (
            "text",
            Api::Completions,
            format!(r#"{{"prompt":"{data}"}}"#),
        ),
        (
            "text with escapes",
            Api::ChatCompletions,
            format!(r#"{{"messages":[{{"content":"{lines}"}}]}}"#),
        ),
        (
            "ids",
            Api::VllmGenerate,
            format!(r#"{{"token_ids":[{ids}]}}"#),
        ),
    ] {
        let peak = peak(api, &body);
        println!("{what}, {} MB: {peak} B", body.len() / 1_000_000);
        // The hashes of 2,048 blocks take 16 kB, and as much again while their list grows.
        assert!(peak < 50_000, "{what}: {peak} B");
    }
}
