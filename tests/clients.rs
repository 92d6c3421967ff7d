//! The official Python clients of OpenAI and Anthropic against a stand-in replica.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

#[path = "support/replica.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

#[path = "support/clients.rs"]
mod clients;

use crate::clients::run;
use crate::support::Replica;

#[test]
fn the_openai_client_works() {
    let replica = Replica::quick();
    run("openai_sdk.py", &format!("http://{}", replica.address));
}

#[test]
fn the_anthropic_client_works() {
    let replica = Replica::quick();
    run("anthropic_sdk.py", &format!("http://{}", replica.address));
}
