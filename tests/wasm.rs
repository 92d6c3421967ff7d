//! The built filter under a simulated proxy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod harness;

use harness::{Client, Headers, MILLI, Part, Proxy, SECRET};

#[test]
fn one_request() {
    let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, SECRET.repeat(100));
    let client = Client {
        thread: 0,
        headers: Headers::new([(":method", "POST"), (":path", "/v1/completions")]),
        parts: [
            (1_000 * MILLI, Part::Headers { end: false }),
            (
                1_001 * MILLI,
                Part::Data {
                    bytes: body.into_bytes(),
                    end: true,
                },
            ),
        ]
        .into(),
        leaves: None,
    };
    let config = br#"{"replicas":{"static":["10.0.0.1:8000"]}}"#;
    let mut proxy = Proxy::new(1, 1, vec![config.to_vec()], vec![client]);
    proxy.run_until(2_000 * MILLI);
    let world = proxy.world();
    let told = world.witness.told();
    assert!(
        world.witness.wrong.is_empty(),
        "{:?}\n{told}",
        world.witness.wrong
    );
    let upstream = world.exchanges[0].upstream.as_ref().unwrap();
    let status = upstream.headers.text("x-burst-prefix-cache");
    assert_eq!(status.unwrap(), "alone;wait=100");
    let ticks = told.matches("Tick").count();
    assert!(ticks <= 3, "nothing waits, and it ticks on\n{told}");
}
