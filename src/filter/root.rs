//! The root context: the configuration, the ticks and the messages of one VM.

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

use super::host;
use super::plugin::Plugin;
use super::stream::Stream;
use crate::config::Config;

/// The root context. Envoy also makes one on its main thread, where no request ever comes: so
/// no queue is taken here, only at a first request. It does ask for the replicas, if the admin
/// tells them, like any other.
pub(super) struct Root {
    id: u32,
    plugin: Option<Rc<Plugin>>,
}

impl Root {
    pub(super) fn new(id: u32) -> Self {
        Self { id, plugin: None }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, _: usize, body_size: usize, _: usize) {
        if let Some(plugin) = &self.plugin {
            plugin.called_back(token, body_size);
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, size: usize) -> bool {
        let json = host::plugin_configuration(size).unwrap_or_default();
        match Config::parse(&json) {
            Ok(config) => {
                let plugin = Rc::new(Plugin::new(self.id, config));
                plugin.start();
                self.plugin = Some(plugin);
                true
            }
            Err(error) => {
                log::error!("configuration refused: {error}");
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(plugin) = &self.plugin {
            plugin.tick();
        }
    }

    fn on_queue_ready(&mut self, _queue: u32) {
        if let Some(plugin) = &self.plugin {
            plugin.messages();
        }
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(id, self.plugin.clone())))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
