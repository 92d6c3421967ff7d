//! Bodies that the filter cannot read or does not want to hold: they pass untouched, and the
//! answer is the replica's own.

use std::time::{Duration, Instant};

use burst_prefix_cache::prefix::Layout;
use burst_prefix_cache::request::{identify, read};

use crate::fleet::Fleet;
use crate::http1::{Answer, Connection, chunked, head, post, request};
use crate::prompts::{CHAT, TEXT, sized};
use crate::rows::{Row, rows};

/// The longest there is.
const WINDOW_MS: u32 = 10_000;

const GZIP: (&str, &str) = ("content-encoding", "gzip");

/// What the replica answers without Envoy.
async fn direct(fleet: &Fleet, request: &[u8]) -> Answer {
    let address = fleet.names()[0].parse().unwrap();
    let mut connection = Connection::open(address).await;
    connection.write(request).await;
    connection.answer().await
}

/// What the filter says of it, without the wait.
fn decision(row: &Row) -> &'static str {
    if row.body.is_empty() {
        return "skipped;reason=no-body";
    }
    if row.encoded() {
        return "skipped;reason=encoding";
    }
    let api = identify("POST", &row.path).unwrap();
    match read(api, &row.body, Layout::default()) {
        Err(_) => "skipped;reason=unreadable",
        Ok(prefix) if prefix.blocks().is_empty() => "no-prefix",
        Ok(_) => "held",
    }
}

fn without_wait(decision: &str) -> &str {
    match decision.contains(";wait=") {
        true => "held",
        false => decision,
    }
}

#[tokio::test]
async fn odd_and_broken_bodies_get_the_replicas_own_answer() {
    let fleet = Fleet::start(100, &[]).await;
    let mut all = rows(include_str!("../prompts/malformed.jsonl"));
    all.extend(rows(include_str!("../prompts/odd_valid.jsonl")));
    all.extend(deep());
    let requests: Vec<Vec<u8>> = all
        .iter()
        .map(|row| {
            let headers = row.headers.iter();
            let headers: Vec<(&str, &str)> = headers.map(|(n, v)| (&**n, &**v)).collect();
            request("POST", &row.path, &headers, &row.body)
        })
        .collect();
    let answers = fleet.burst(&requests).await;
    for ((row, request), answer) in all.iter().zip(&requests).zip(&answers) {
        let name = &row.name;
        let direct = direct(&fleet, request).await;
        assert_eq!(answer.status, direct.status, "{name}: {}", answer.text());
        answer.assert_arrived(&row.body);
        assert_eq!(without_wait(answer.decision()), decision(row), "{name}");
    }
    // The table is worth nothing if all of it is alike.
    for status in [200, 400, 415] {
        assert!(answers.iter().any(|answer| answer.status == status));
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

/// Bodies that are too large for the files.
fn deep() -> Vec<Row> {
    let nested = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat();
    let with_tools =
        |tools: &str| format!("{{\"tools\":{tools},\"messages\":[{{\"content\":\"\"}}]}}");
    let bodies = [
        ("deep array", nested("[", "]")),
        ("deep objects that never end", nested("{\"a\":", "")),
        ("deep tools", with_tools(&nested("[", "]"))),
        (
            "deep tools of objects",
            with_tools(&nested("[{\"a\":[", "]}]")),
        ),
        ("a mebibyte of brackets", "[".repeat(1 << 20)),
    ];
    let row = |(name, body): (&str, String)| Row {
        name: name.to_owned(),
        group: String::new(),
        path: CHAT.to_owned(),
        headers: Vec::new(),
        body: body.into_bytes(),
    };
    bodies.into_iter().map(row).collect()
}

#[tokio::test]
async fn what_cannot_be_placed_is_not_held() {
    let fleet = Fleet::start(WINDOW_MS, &[]).await;
    let hello = r#"{"prompt":"hello"}"#;
    let begin = Instant::now();
    for (headers, body, status, decision) in [
        (&[][..], "{\"prompt\":", 400, "skipped;reason=unreadable"),
        (&[], "[]", 400, "skipped;reason=unreadable"),
        (&[], "{\"prompt\":{}}", 400, "skipped;reason=unreadable"),
        (&[], "{}", 400, "skipped;reason=unreadable"),
        (&[], "", 400, "skipped;reason=no-body"),
        (&[GZIP], hello, 415, "skipped;reason=encoding"),
        (
            &[("content-encoding", "identity"), GZIP],
            hello,
            415,
            "skipped;reason=encoding",
        ),
        (
            &[("Content-Encoding", "GZIP")],
            hello,
            415,
            "skipped;reason=encoding",
        ),
    ] {
        let answer = fleet.envoy.ask(&request("POST", TEXT, headers, body)).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert_eq!(answer.decision(), decision, "{body}");
        answer.assert_arrived(body.as_bytes());
    }
    // Neither a body nor a length.
    let bare = format!("{}\r\n", head("POST", TEXT, &[]));
    let answer = fleet.envoy.ask(bare.as_bytes()).await;
    assert_eq!(
        (answer.status, answer.decision()),
        (400, "skipped;reason=no-body")
    );
    // Chunks, but none with a byte in it.
    let bare = head("POST", TEXT, &[("transfer-encoding", "chunked")]);
    let answer = fleet
        .envoy
        .ask(format!("{bare}\r\n0\r\n\r\n").as_bytes())
        .await;
    assert_eq!(
        (answer.status, answer.decision()),
        (400, "skipped;reason=no-body")
    );
    assert!(begin.elapsed() < Duration::from_millis(u64::from(WINDOW_MS)));
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn a_body_that_is_too_large_passes_as_it_comes() {
    let fleet = Fleet::start(WINDOW_MS, &[]).await;
    // One more than is held, and more than Envoy would buffer.
    for bytes in [(1 << 20) + 1, 8 << 20] {
        let body = sized("large", bytes);
        let mut in_chunks = head("POST", TEXT, &[("transfer-encoding", "chunked")]);
        in_chunks.push_str("\r\n");
        let mut in_chunks = in_chunks.into_bytes();
        in_chunks.extend(chunked(body.as_bytes(), 10_000));
        in_chunks.extend(b"\r\n");
        for request in [post(TEXT, &body), in_chunks] {
            let answer = fleet.envoy.ask(&request).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.decision(), "skipped;reason=too-large");
            answer.assert_arrived(body.as_bytes());
        }
    }
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}
