//! The built filter in the real Envoy, between real clients and the stand-in replicas.
//!
//! `make test` builds and installs what these tests need. Each test starts an Envoy of its own
//! with four workers, from the shipped `envoy/envoy.yaml`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

#[path = "envoy/answers.rs"]
mod answers;
#[path = "envoy/bodies.rs"]
mod bodies;
#[path = "envoy/burst.rs"]
mod burst;
#[path = "envoy/configuration.rs"]
mod configuration;
#[path = "envoy/discovery.rs"]
mod discovery;
#[path = "envoy/first.rs"]
mod first;
#[path = "envoy/flat.rs"]
mod flat;
#[path = "envoy/forged.rs"]
mod forged;
#[path = "envoy/hints.rs"]
mod hints;
#[path = "envoy/hostile.rs"]
mod hostile;
#[path = "envoy/hosts.rs"]
mod hosts;
#[path = "envoy/ill.rs"]
mod ill;
#[path = "envoy/leaving.rs"]
mod leaving;
#[path = "envoy/load.rs"]
mod load;
#[path = "envoy/memory.rs"]
mod memory;
#[path = "envoy/metrics.rs"]
mod metrics;
#[path = "envoy/passing.rs"]
mod passing;
#[path = "envoy/pools.rs"]
mod pools;
#[path = "envoy/privacy.rs"]
mod privacy;
#[path = "envoy/quiet.rs"]
mod quiet;
#[path = "envoy/recommended.rs"]
mod recommended;
#[path = "envoy/remembered.rs"]
mod remembered;
#[path = "envoy/replicas.rs"]
mod replicas;
#[path = "envoy/rollout.rs"]
mod rollout;
#[path = "envoy/running.rs"]
mod running;
#[path = "envoy/sdks.rs"]
mod sdks;
#[path = "envoy/seal.rs"]
mod seal;
#[path = "envoy/slow.rs"]
mod slow;
#[path = "envoy/step.rs"]
mod step;
#[path = "envoy/subset.rs"]
mod subset;
#[path = "envoy/thousands.rs"]
mod thousands;
#[path = "envoy/trap.rs"]
mod trap;
#[path = "envoy/unheld.rs"]
mod unheld;
#[path = "envoy/unreadable.rs"]
mod unreadable;
#[path = "envoy/update.rs"]
mod update;
#[path = "envoy/window.rs"]
mod window;

#[path = "support/admin.rs"]
mod admin;
#[path = "support/clients.rs"]
mod clients;
#[path = "support/config.rs"]
mod config;
#[path = "support/discovered.rs"]
mod discovered;
#[path = "support/envoy.rs"]
mod envoy;
#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/http1.rs"]
mod http1;
#[path = "support/http2.rs"]
mod http2;
#[path = "support/prompts.rs"]
mod prompts;
#[path = "support/replica.rs"]
#[allow(dead_code, reason = "shared with the tests of the replica itself")]
mod replica;
#[path = "support/responder.rs"]
mod responder;
#[path = "support/rows.rs"]
#[allow(dead_code, reason = "shared with the tests of the request room")]
mod rows;
#[path = "support/spread.rs"]
mod spread;
#[path = "support/verdict.rs"]
mod verdict;
#[path = "support/watched.rs"]
mod watched;
#[path = "support/wire.rs"]
mod wire;
#[path = "support/workers.rs"]
mod workers;
