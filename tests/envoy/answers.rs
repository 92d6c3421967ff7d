//! The way back: answers as the replica sends them.

use serde_json::json;

use crate::fleet::Fleet;
use crate::http1::post;
use crate::prompts::{CHAT, TEXT, sample};

#[tokio::test]
async fn a_stream_passes_while_it_is_generated() {
    let options = ["--decode-us-per-token", "20000"];
    let fleet = Fleet::with(&options, &[], |config| config.plugin(20, &[])).await;
    for (path, prompt) in [
        (TEXT, json!({"prompt": "hello"})),
        (
            CHAT,
            json!({"messages": [{"role": "user", "content": "hello"}]}),
        ),
    ] {
        let mut body = prompt.clone();
        body["stream"] = json!(true);
        // It would take over half an hour, so what arrives was not kept until the end.
        body["max_tokens"] = json!(100_000);
        let mut connection = fleet.envoy.connect().await;
        connection.write(post(path, body.to_string())).await;
        assert_eq!(connection.line().await, "HTTP/1.1 200 OK");
        for _ in 0..3 {
            while !connection.line().await.starts_with("data: ") {}
        }
        let running = "vllm:num_requests_running{}";
        let busy = fleet
            .replicas
            .iter()
            .find(|replica| replica.metric(running) > 0.0);
        let busy = busy.expect("a replica still generates");
        // The replica learns that the client has left, too.
        drop(connection);
        busy.await_metric(running, 0.0);
    }
}

#[tokio::test]
async fn a_stream_ends_as_the_replica_ended_it() {
    let fleet = Fleet::start(20, &[]).await;
    let body = json!({"prompt": "hello", "stream": true, "max_tokens": 50}).to_string();
    let request = post(TEXT, &body);
    let answer = fleet.envoy.ask(&request).await;
    let text = answer.text();
    let events: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(answer.status, 200);
    assert_eq!(events.len(), 50 + 1 + 1, "tokens, [DONE], nothing: {text}");
    assert_eq!(events[50], "data: [DONE]");
}

#[tokio::test]
async fn the_decision_is_told_to_the_client_only_where_debugging_asks_for_it() {
    for debug in [false, true] {
        let fields = [("debugResponseHeaders", json!(debug))];
        let fleet = Fleet::start(1000, &fields).await;
        let mut requests: Vec<Vec<u8>> = (0..4)
            .map(|seed| post(TEXT, sample(TEXT, "one", seed)))
            .collect();
        requests.push(post(TEXT, "{"));
        for (place, answer) in fleet.burst(&requests).await.iter().enumerate() {
            let decision = match place {
                4 => "skipped;reason=unreadable",
                _ => "assigned;group=4;wait=",
            };
            assert!(answer.decision().starts_with(decision), "{answer:?}");
            let told = answer.header("x-burst-prefix-cache");
            let served = answer.header("x-gateway-destination-endpoint-served");
            if debug {
                assert_eq!(told, Some(answer.decision()));
                assert_eq!(served, Some(answer.served_by()));
            } else {
                assert_eq!((told, served), (None, None));
            }
        }
    }
}
