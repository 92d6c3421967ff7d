//! Burst prefix cache for Envoy.
//!
//! Many requests that share a prompt arrive at the same instant. This filter holds the requests
//! of a short window, over all of Envoy's workers, places them jointly, and sends each group to
//! one replica, where its prompt is prefilled once.
//!
//! ```text
//!  body ─▶ request ─▶ prefix ─▶ window ─▶ placement ─▶ match_info ─▶ headers, resume
//! ```
//!
//! Everything but the `filter` room is pure: it knows no proxy and no clock, and builds and
//! tests natively.

pub mod config;
pub mod load;
pub mod match_info;
pub mod memory;
pub mod metrics;
pub mod picker;
pub mod placement;
pub mod prefix;
pub mod replicas;
pub mod request;
pub mod window;
pub mod workers;

#[cfg(target_arch = "wasm32")]
mod filter;

#[cfg(target_arch = "wasm32")]
#[allow(
    missing_docs,
    reason = "the SDK's macro exports what Envoy calls first"
)]
mod start {
    proxy_wasm::main! {{
        crate::filter::start();
    }}
}
