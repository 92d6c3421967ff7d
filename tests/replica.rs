//! The stand-in replica over real sockets: other tests and the demo trust what it tells.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

#[path = "support/replica.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Answer, Replica, request};

/// A prompt of `tokens` tokens, four bytes each.
fn prompt(tokens: usize) -> String {
    "abc ".repeat(tokens)
}

#[test]
fn a_completion_has_openais_shape() {
    let replica = Replica::quick();
    let answer = replica.complete(&json!({"model": "m", "prompt": "hello", "max_tokens": 3}));
    let body = answer.json();
    assert_eq!(answer.status, 200);
    assert_eq!(body["object"], "text_completion");
    assert_eq!(body["model"], "m");
    assert_eq!(body["choices"][0]["text"].as_str().unwrap().len(), 12);
    assert_eq!(
        body["usage"],
        json!({
            "prompt_tokens": 2,
            "completion_tokens": 3,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0},
        })
    );
}

#[test]
fn a_chat_answers_each_sample_and_says_the_same_again() {
    let replica = Replica::quick();
    let body = json!({"n": 3, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let path = "/v1/chat/completions?x=1";
    let ask = || replica.ask("POST", path, "", &body).json()["choices"].take();
    let choices = ask();
    let text = |i: usize| choices[i]["message"]["content"].as_str().unwrap();
    assert_eq!(choices.as_array().unwrap().len(), 3);
    assert_eq!(choices[2]["index"], 2);
    assert_ne!(text(0), text(1));
    assert_eq!(ask(), choices);
}

#[test]
fn a_response_has_openais_shape_and_tells_what_was_cached() {
    let replica = Replica::quick();
    let body =
        json!({"model": "m", "instructions": "i", "input": prompt(33), "max_output_tokens": 3});
    let ask = || {
        replica
            .ask("POST", "/v1/responses", "", &body.to_string())
            .json()
    };
    let (first, second) = (ask(), ask());
    assert_eq!(first["object"], "response");
    assert_eq!(first["status"], "completed");
    assert_eq!(first["output"][0]["content"][0]["type"], "output_text");
    let text = &first["output"][0]["content"][0]["text"];
    assert_eq!(text.as_str().unwrap().len(), 12);
    assert_eq!(first["usage"]["output_tokens"], 3);
    assert_eq!(first["usage"]["input_tokens_details"]["cached_tokens"], 0);
    assert_eq!(second["usage"]["input_tokens_details"]["cached_tokens"], 48);
    let items = json!({"input": [{"role": "user", "content": prompt(33)}], "instructions": "i"});
    let answer = replica.ask("POST", "/v1/responses/", "", &items.to_string());
    assert_eq!(answer.status, 200);
}

#[test]
fn a_message_has_anthropics_shape_and_tells_what_was_cached() {
    let replica = Replica::quick();
    let message = json!({"role": "user", "content": [{"type": "text", "text": prompt(33)}]});
    let body = json!({"model": "m", "system": "s", "messages": [message], "max_tokens": 3});
    let ask = || {
        replica
            .ask("POST", "/v1/messages?beta=true", "", &body.to_string())
            .json()
    };
    let (first, second) = (ask(), ask());
    assert_eq!(first["type"], "message");
    assert_eq!(first["content"][0]["text"].as_str().unwrap().len(), 12);
    assert_eq!(first["stop_reason"], "max_tokens");
    assert_eq!(first["usage"]["output_tokens"], 3);
    assert_eq!(first["usage"]["cache_read_input_tokens"], 0);
    // What was read from the cache is not counted as input again.
    let (whole, cached) = (&first["usage"]["input_tokens"], 48);
    assert_eq!(second["usage"]["cache_read_input_tokens"], cached);
    let rest = whole.as_u64().unwrap() - cached;
    assert_eq!(second["usage"]["input_tokens"], rest);
}

#[test]
fn streams_of_responses_and_messages_have_the_real_events() {
    let replica = Replica::quick();
    for (path, body, expected) in [
        (
            "/v1/responses",
            json!({"input": "a", "stream": true, "max_output_tokens": 2}),
            vec![
                "response.created",
                "response.in_progress",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.completed",
            ],
        ),
        (
            "/v1/messages",
            json!({"messages": [{"role": "user", "content": "a"}], "stream": true, "max_tokens": 2}),
            vec![
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ],
        ),
    ] {
        let answer = replica.ask("POST", path, "", &body.to_string());
        let kind = |event: &&str| {
            let event: Value = serde_json::from_str(event).unwrap();
            event["type"].as_str().unwrap().to_owned()
        };
        let kinds: Vec<String> = answer.events().iter().map(kind).collect();
        assert_eq!(kinds, expected, "{path}");
    }
}

#[test]
fn the_second_of_two_equal_prompts_is_cached_but_for_its_last_token() {
    // Tokens of the prompt, and how many of them the second request finds.
    for (tokens, cached) in [(15, 0), (16, 0), (17, 16), (48, 32), (49, 48)] {
        let replica = Replica::quick();
        let body = json!({"prompt": prompt(tokens)});
        assert_eq!(replica.complete(&body).usage(), (tokens as u64, 0));
        assert_eq!(replica.complete(&body).usage(), (tokens as u64, cached));
    }
}

#[test]
fn eight_equal_requests_at_once_are_prefilled_once() {
    let replica = Replica::start(&["--prefill-us-per-token", "100"]);
    let body = json!({"prompt": prompt(161)}).to_string();
    let streams: Vec<TcpStream> = (0..8)
        .map(|_| replica.send("POST", "/v1/completions", "", &body))
        .collect();
    let answers = streams.into_iter().map(Answer::read);
    let mut cached: Vec<u64> = answers.map(|answer| answer.usage().1).collect();
    cached.sort_unstable();
    assert_eq!(cached, [0, 160, 160, 160, 160, 160, 160, 160]);
    let queries = replica.metric("vllm:prefix_cache_queries_total{}");
    let hits = replica.metric("vllm:prefix_cache_hits_total{}");
    assert_eq!((queries, hits), (8.0 * 161.0, 7.0 * 160.0));
}

#[test]
fn metrics_count_sequences_and_tokens() {
    let replica = Replica::quick();
    replica.complete(&json!({"prompt": prompt(33), "n": 2, "max_tokens": 5}));
    for (name, value) in [
        ("vllm:prefix_cache_queries_total{}", 66.0),
        ("vllm:prefix_cache_hits_total{}", 32.0),
        ("vllm:prompt_tokens_total{}", 66.0),
        ("vllm:generation_tokens_total{}", 10.0),
        (
            "vllm:request_success_total{,finished_reason=\"length\"}",
            2.0,
        ),
        ("vllm:time_to_first_token_seconds_count{}", 2.0),
        ("vllm:num_requests_running{}", 0.0),
        ("vllm:num_requests_waiting{}", 0.0),
        ("vllm:kv_cache_usage_perc{}", 0.0),
    ] {
        assert_eq!(replica.metric(name), value, "{name}");
    }
}

#[test]
fn a_stream_has_a_chunk_for_each_token_and_ends_with_usage() {
    let replica = Replica::quick();
    let body = json!({
        "messages": [{"role": "user", "content": [{"type": "text", "text": prompt(20)}]}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 6,
    });
    let answer = replica.ask("POST", "/v1/chat/completions", "", &body.to_string());
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let events = answer.events();
    let parse = |event: &str| serde_json::from_str::<Value>(event).unwrap();
    assert_eq!(events.len(), 1 + 6 + 1 + 1, "role, tokens, usage, [DONE]");
    assert_eq!(parse(events[0])["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(parse(events[5])["choices"][0]["finish_reason"], Value::Null);
    assert_eq!(parse(events[6])["choices"][0]["finish_reason"], "length");
    assert_eq!(parse(events[7])["usage"]["completion_tokens"], 6);
    assert_eq!(events[8], "[DONE]");
}

#[test]
fn a_stream_is_sent_while_it_is_generated() {
    let replica = Replica::start(&["--decode-us-per-token", "20000"]);
    // It would take over half an hour, so what arrives was not kept until the end.
    let body = json!({"prompt": "hello", "stream": true, "max_tokens": 100_000}).to_string();
    let stream = replica.send("POST", "/v1/completions", "", &body);
    let mut lines = BufReader::new(stream).lines();
    for _ in 0..3 {
        let mut next = || lines.next().unwrap().unwrap();
        while !next().starts_with("data: ") {}
    }
    assert_eq!(replica.metric("vllm:num_requests_running{}"), 1.0);
    drop(lines);
    replica.await_metric("vllm:num_requests_running{}", 0.0);
}

#[test]
fn token_ids_and_lists_are_prompts_too() {
    let replica = Replica::quick();
    let ids: Vec<u32> = (0..33).collect();
    assert_eq!(replica.complete(&json!({"prompt": ids})).usage(), (33, 0));
    let answer = replica.complete(&json!({"prompt": [ids, ids, [7]]}));
    assert_eq!(answer.usage(), (67, 64));
    assert_eq!(answer.json()["choices"].as_array().unwrap().len(), 3);
    let texts = json!({"prompt": [prompt(17), prompt(17), "x"], "n": 2});
    let answer = replica.complete(&texts);
    assert_eq!(answer.usage(), (35, 16));
    assert_eq!(answer.json()["choices"].as_array().unwrap().len(), 6);
}

#[test]
fn a_small_cache_forgets_the_least_recently_used_prompt() {
    let replica = Replica::start(&["--cache-blocks", "4"]);
    let ask = |first: u32| {
        let ids: Vec<u32> = std::iter::once(first).chain(0..32).collect();
        let answer = replica.complete(&json!({"prompt": ids, "max_tokens": 1}));
        answer.usage().1
    };
    let cached = [1, 2, 1, 3, 1, 2].map(ask);
    assert_eq!(cached, [0, 0, 32, 0, 32, 0]);
}

#[test]
fn what_is_wrong_is_told_in_openais_shape() {
    let replica = Replica::quick();
    let (text, chat) = ("/v1/completions", "/v1/chat/completions");
    let gzip = "content-encoding: gzip\r\n";
    for (method, path, headers, body, status, told) in [
        ("POST", text, "", "{\"prompt\":", 400, "not JSON"),
        ("POST", text, "", "{}", 400, "`prompt` is missing"),
        ("POST", chat, "", "{}", 400, "`messages` is missing"),
        ("POST", "/v1/responses", "", "{}", 400, "`input` is missing"),
        (
            "POST",
            "/v1/messages",
            "",
            "{}",
            400,
            "`messages` is missing",
        ),
        ("GET", "/v1/messages", "", "", 405, "takes POST"),
        ("POST", text, gzip, "x", 415, "encoded"),
        ("GET", text, "", "", 405, "takes POST"),
        ("POST", "/health", "", "", 405, "takes GET"),
        ("POST", "/v1/embeddings", "", "{}", 404, "not served"),
    ] {
        let answer = replica.ask(method, path, headers, body);
        let error = answer.json()["error"].take();
        assert_eq!(answer.status, status, "{method} {path}: {error}");
        assert_eq!(error["code"], status);
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
    }
    assert_eq!(replica.ask("GET", "/health", "", "").status, 200);
    let models = replica.ask("GET", "/v1/models", "", "").json();
    assert_eq!(models["data"][0]["id"], "stand-in");
}

#[test]
fn an_answer_and_the_record_tell_what_was_received() {
    let file = std::env::temp_dir().join(format!("replica-record-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let replica = Replica::start(&["--name", "r7", "--record", file.to_str().unwrap()]);
    let body = json!({"prompt": prompt(17)}).to_string();
    let headers = "x-burst-prefix-cache: assigned;group=8;wait=97\r\nx-other: 1\r\nx-other: 2\r\n";
    let answer = replica.ask("POST", "/v1/completions", headers, &body);
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();

    let hash = format!("{:016x}", xxhash_rust::xxh64::xxh64(body.as_bytes(), 0));
    for (name, value) in [
        ("x-served-by", Some("r7")),
        ("x-body-xxh64", Some(&*hash)),
        (
            "x-echo-x-burst-prefix-cache",
            Some("assigned;group=8;wait=97"),
        ),
        ("x-echo-x-prefix-cache-score", None),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let line: Value = serde_json::from_str(&lines).unwrap();
    for (field, value) in [
        ("replica", json!("r7")),
        ("method", json!("POST")),
        ("path", json!("/v1/completions")),
        ("body_bytes", json!(body.len())),
        ("body_xxh64", json!(hash)),
        ("prompt_tokens", json!(17)),
        ("cached_tokens", json!(0)),
        ("outcome", json!(200)),
    ] {
        assert_eq!(line[field], value, "{field}");
    }
    assert_eq!(line["headers"]["x-other"], "1, 2");
}

#[test]
fn a_thousand_connections_at_once_are_all_answered() {
    rlimit::increase_nofile_limit(1 << 13).unwrap();
    let replica = Replica::quick();
    let streams: Vec<TcpStream> = (0..1000).map(|_| replica.connect()).collect();
    for (number, mut stream) in streams.iter().enumerate() {
        let body = json!({"prompt": format!("prompt {number}"), "max_tokens": 2}).to_string();
        let request = request("POST", "/v1/completions", "", &body);
        stream.write_all(request.as_bytes()).unwrap();
    }
    let answers = streams.into_iter().map(Answer::read);
    assert_eq!(answers.filter(|answer| answer.status == 200).count(), 1000);
}

#[test]
fn past_max_running_sequences_wait_and_all_end_when_their_client_goes() {
    let replica = Replica::start(&["--max-running", "2", "--decode-us-per-token", "20000"]);
    let body = json!({"prompt": prompt(32), "n": 5, "max_tokens": 100_000}).to_string();
    let stream = replica.send("POST", "/v1/completions", "", &body);
    replica.await_metric("vllm:num_requests_running{}", 2.0);
    replica.await_metric("vllm:num_requests_waiting{}", 3.0);
    assert!(replica.metric("vllm:kv_cache_usage_perc{}") > 0.0);
    drop(stream);
    replica.await_metric(
        "vllm:request_success_total{,finished_reason=\"abort\"}",
        5.0,
    );
    replica.await_metric("vllm:num_requests_running{}", 0.0);
    replica.await_metric("vllm:num_requests_waiting{}", 0.0);
    replica.await_metric("vllm:kv_cache_usage_perc{}", 0.0);
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let replica = Replica::quick();
    let mut stream = replica.connect();
    for _ in 0..2 {
        let request = "GET /health HTTP/1.1\r\nhost: replica\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        let mut byte = [0];
        while !head.ends_with("\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(char::from(byte[0]));
        }
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    }
}

#[cfg(unix)]
#[test]
fn a_signal_stops_it_cleanly_although_connections_are_open() {
    for signal in ["TERM", "INT"] {
        let mut replica = Replica::quick();
        let _idle = replica.connect();
        let id = replica.child.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(kill.unwrap().success());
        assert!(replica.child.wait().unwrap().success(), "{signal}");
    }
}
