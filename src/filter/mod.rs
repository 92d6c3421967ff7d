//! The only room that knows the proxy: contexts, host calls, headers.
//!
//! [`root::Root`] reads the configuration and gets the ticks and messages; [`stream::Stream`] is
//! one request. Both hand over to [`plugin::Plugin`], which holds the worker's part of the window
//! and releases what it decided. [`poll::Polling`] asks Envoy for its replicas.

mod board;
mod headers;
mod host;
mod knob;
mod plugin;
mod poll;
mod root;
mod stats;
mod stream;

/// Called by the SDK's `_initialize` when Envoy has loaded the VM.
pub(crate) fn start() {
    // The level is Envoy's to choose: what it does not show it drops.
    proxy_wasm::set_log_level(proxy_wasm::types::LogLevel::Debug);
    // A panic's own message may quote what it stumbled over, and that may be a prompt.
    std::panic::set_hook(Box::new(|panic| match panic.location() {
        Some(place) => log::error!("a bug: panic at {}:{}", place.file(), place.line()),
        None => log::error!("a bug: panic"),
    }));
    proxy_wasm::set_root_context(|id| Box::new(root::Root::new(id)));
}
