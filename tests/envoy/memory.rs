//! The bodies that one worker holds have a bound: past it requests go on without affinity.

use serde_json::json;

use crate::config::Config;
use crate::envoy::Envoy;
use crate::fleet::LONG_MS;
use crate::http1::post;
use crate::prompts::{TEXT, sized};
use crate::responder;
use crate::verdict::{assert_held, outcome};

/// What one worker holds at most, 256 MiB, in bodies of this size.
const BODIES_HELD: usize = 32;
const BODY_BYTES: usize = 8 << 20;
const CLIENTS: usize = 40;
/// For 320 MiB to come in, on a slow machine.
const WINDOW_MS: u32 = 3 * LONG_MS;

#[tokio::test]
async fn past_256_mebibytes_of_held_bodies_requests_pass() {
    let config = Config::shipped(&responder::start());
    let config = config
        .plugin(WINDOW_MS, &[("maxBodyBytes", json!(BODY_BYTES))])
        .buffer_limit(2 * BODY_BYTES);
    let envoy = Envoy::start(config.text(), &["--concurrency", "1"]).await;
    let body = sized("large", BODY_BYTES);
    let mut waiting = Vec::new();
    for _ in 0..CLIENTS {
        let mut connection = envoy.connect().await;
        connection.write(post(TEXT, &body)).await;
        waiting.push(tokio::spawn(connection.answer()));
    }
    for (place, answer) in waiting.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        if place < BODIES_HELD {
            assert_held(&envoy, &answer, &body, WINDOW_MS);
            assert_eq!(outcome(&answer), "assigned;group=32", "{answer:?}");
        } else {
            assert_eq!(answer.status, 200, "{answer:?}");
            answer.assert_arrived(body.as_bytes());
            assert_eq!(answer.decision(), "skipped;reason=memory", "{answer:?}");
        }
    }
    assert_eq!(envoy.faults(), [""; 0]);
}
