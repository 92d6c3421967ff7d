//! What a prompt says is nobody's business: not the log's, not the admin's.

use serde_json::json;

use crate::fleet::Fleet;
use crate::http1::{post, request};
use crate::prompts::{CHAT, TEXT, sample};

const SECRET: &str = "Zanzibar-7731";

#[tokio::test]
async fn no_text_of_a_prompt_is_in_the_log_or_the_admin() {
    let trace = ["--component-log-level", "wasm:trace"];
    let fleet = Fleet::with(&[], &trace, |config| config.plugin(1000, &[])).await;
    let parts =
        json!({"messages": [{"role": SECRET, "content": [{"type": SECRET, "text": SECRET}]}]});
    let gzip = [("content-encoding", "gzip")];
    let mut requests = vec![
        post(CHAT, parts.to_string()),
        post(
            CHAT,
            json!({"tools": [SECRET], "messages": SECRET}).to_string(),
        ),
        post(TEXT, json!({"prompt": {SECRET: 1}}).to_string()),
        post(
            TEXT,
            json!({"prompt": [SECRET], "cache_salt": SECRET, "model": SECRET}).to_string(),
        ),
        post(TEXT, format!("{{\"prompt\":\"{SECRET}")),
        post(TEXT, format!("{SECRET}{{}}")),
        post(TEXT, [b"{\"prompt\":\"\xff", SECRET.as_bytes()].concat()),
        request("POST", TEXT, &gzip, SECRET),
        request("POST", "/v1/embeddings", &[], SECRET),
    ];
    requests.extend((0..8).map(|seed| post(CHAT, sample(CHAT, SECRET, seed))));
    let answers = fleet.burst(&requests).await;
    for answer in &answers {
        let told = answer
            .headers
            .iter()
            .any(|(_, value)| value.contains(SECRET));
        assert!(!told, "{:?}", answer.headers);
    }
    let together = answers
        .iter()
        .filter(|a| a.decision().starts_with("assigned;group=8"));
    assert_eq!(together.count(), 8);

    let log = fleet.envoy.log();
    assert!(log.contains("[trace][wasm]"), "it was to trace: {log}");
    assert!(!log.contains(SECRET), "the log has it");
    for page in [
        "/stats",
        "/stats/prometheus",
        "/config_dump",
        "/clusters",
        "/listeners",
    ] {
        let text = fleet.envoy.page(page).await;
        assert!(!text.contains(SECRET), "{page} has it");
    }
}
