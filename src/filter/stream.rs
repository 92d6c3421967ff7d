//! One request: from its headers to its place in the window.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use super::headers::{self, Outcome};
use super::host::{self, Headers};
use super::plugin::Plugin;
use crate::match_info::Status;
use crate::request::{self, Api};
use crate::window::{Request as Asked, StreamId};

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It goes its way, and is none of the filter's business any more.
    Passing,
    /// Its headers are stopped until its body is complete.
    Reading(Api),
    /// It waits in a window.
    Held,
}

/// What the stream shares with the worker that releases it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: StreamId,
    phase: Cell<Phase>,
    /// Bytes of its body that lie in Envoy's buffer because the filter stopped it.
    pub(super) held_bytes: Cell<usize>,
    /// The status as it was written, for the response.
    status: RefCell<String>,
}

impl Request {
    /// Whether it waits for its body.
    pub(super) fn reads(&self) -> bool {
        matches!(self.phase.get(), Phase::Reading(_))
    }

    /// It goes on, with this status.
    pub(super) fn pass(&self, status: String) {
        self.phase.set(Phase::Passing);
        if let Ok(mut told) = self.status.try_borrow_mut() {
            *told = status;
        }
    }
}

/// The stream context of one request.
pub(super) struct Stream {
    /// None where the plugin was refused: then the request passes untouched.
    plugin: Option<Rc<Plugin>>,
    request: Rc<Request>,
    /// Bytes of the body that have come.
    body_size: usize,
}

impl Stream {
    pub(super) fn new(id: StreamId, plugin: Option<Rc<Plugin>>) -> Self {
        Self {
            plugin,
            request: Rc::new(Request {
                id,
                phase: Cell::new(Phase::Passing),
                held_bytes: Cell::new(0),
                status: RefCell::default(),
            }),
            body_size: 0,
        }
    }

    /// What to do with a request by its headers: its API if its body is to be read.
    fn by_headers(plugin: &Plugin, end_of_stream: bool) -> Result<Api, Status> {
        let header = |name| host::header(Headers::Request, name).unwrap_or_default();
        let api = request::identify(&text(&header(":method")), &text(&header(":path")))
            .ok_or(Status::NOT_OURS)?;
        if end_of_stream {
            return Err(Status::Skipped("no-body"));
        }
        // What is upgraded has no end, and so no body to wait for.
        if !header("upgrade").is_empty() {
            return Err(Status::Skipped("upgrade"));
        }
        let encoding = header("content-encoding");
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity") {
            return Err(Status::Skipped("encoding"));
        }
        let length: Option<u64> = text(&header("content-length")).parse().ok();
        if length.is_some_and(|length| length > u64::from(plugin.config.max_body_bytes)) {
            return Err(Status::Skipped("too-large"));
        }
        Ok(api)
    }

    /// Passes the request on with an outcome that needs no window.
    fn pass(&self, plugin: &Plugin, outcome: Outcome) -> Action {
        plugin.decide(&self.request, outcome);
        Action::Continue
    }

    /// The body is complete, and stands in Envoy's buffer.
    fn complete(&self, plugin: &Plugin, api: Api) -> Action {
        let skipped = |reason| Outcome::at_once(Status::Skipped(reason), 0);
        if self.body_size == 0 {
            return self.pass(plugin, skipped("no-body"));
        }
        let Ok(body) = host::request_body(self.body_size) else {
            return self.pass(plugin, skipped("body"));
        };
        let asked = match request::read(api, &body, plugin.config.layout) {
            Ok(prefix) => Asked {
                weight: prefix.weight,
                blocks: prefix.blocks(),
            },
            Err(unreadable) => {
                plugin.count_unreadable(unreadable.token());
                return self.pass(plugin, skipped("unreadable"));
            }
        };
        if asked.blocks.is_empty() {
            return self.pass(plugin, Outcome::at_once(Status::NoPrefix, 0));
        }
        match plugin.arrive(&self.request, asked) {
            Ok(()) => {
                self.request.phase.set(Phase::Held);
                Action::Pause
            }
            Err(outcome) => self.pass(plugin, outcome),
        }
    }
}

/// What is no UTF-8 is none of the texts that the filter knows.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

impl Context for Stream {
    /// The stream has ended, in whatever way. The log callback would not do: Envoy can be told to
    /// log a request also when it begins, and while it lasts.
    fn on_done(&mut self) -> bool {
        let phase = self.request.phase.replace(Phase::Passing);
        if let Some(plugin) = &self.plugin {
            plugin.give_back(&self.request);
            if phase == Phase::Held {
                plugin.gone(self.request.id);
            }
        }
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _headers: usize, end_of_stream: bool) -> Action {
        #[cfg(feature = "test-trap")]
        if host::header(Headers::Request, "x-test-trap").is_some() {
            std::process::abort();
        }
        headers::remove_inbound(Headers::Request);
        let Some(plugin) = self.plugin.clone() else {
            return Action::Continue;
        };
        match Self::by_headers(&plugin, end_of_stream) {
            Ok(api) => {
                self.request.phase.set(Phase::Reading(api));
                plugin.watch(&self.request);
                Action::Pause
            }
            Err(status) => self.pass(&plugin, Outcome::at_once(status, 0)),
        }
    }

    fn on_http_request_body(&mut self, body_size: usize, end_of_stream: bool) -> Action {
        let Some(plugin) = self.plugin.clone() else {
            return Action::Continue;
        };
        match self.request.phase.get() {
            Phase::Passing => Action::Continue,
            Phase::Held => Action::Pause,
            Phase::Reading(api) => {
                plugin.body_came();
                self.body_size = body_size;
                let most = usize::try_from(plugin.config.max_body_bytes).unwrap_or(usize::MAX);
                if body_size > most {
                    self.pass(&plugin, Outcome::at_once(Status::Skipped("too-large"), 0))
                } else if !plugin.reserve(&self.request, body_size) {
                    self.pass(&plugin, Outcome::at_once(Status::Skipped("memory"), 0))
                } else if end_of_stream {
                    self.complete(&plugin, api)
                } else {
                    Action::Pause
                }
            }
        }
    }

    /// With trailers the body never says that it ends.
    fn on_http_request_trailers(&mut self, _trailers: usize) -> Action {
        headers::remove_inbound(Headers::RequestTrailers);
        let Some(plugin) = self.plugin.clone() else {
            return Action::Continue;
        };
        match self.request.phase.get() {
            Phase::Passing => Action::Continue,
            Phase::Held => Action::Pause,
            Phase::Reading(api) => self.complete(&plugin, api),
        }
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        if let Some(plugin) = &self.plugin
            && plugin.config.debug_response_headers
            && let Ok(status) = self.request.status.try_borrow()
            && !status.is_empty()
        {
            headers::write_response(&status);
        }
        Action::Continue
    }
}
