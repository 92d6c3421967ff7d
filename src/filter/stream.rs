//! One request: from its headers to its place in the window.

use std::cell::Cell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use super::headers::{self, Hints, Outcome};
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
pub(super) struct Request {
    pub(super) id: StreamId,
    phase: Cell<Phase>,
    /// Bytes of its body that lie in Envoy's buffer because the filter stopped it.
    pub(super) held_bytes: Cell<usize>,
    /// The status as it was written, for the response.
    status: Cell<String>,
    /// The replica that was chosen, until a response shows which one served.
    chosen: Cell<Option<String>>,
    /// Whether it was sent to a chosen replica.
    placed: Cell<bool>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Request").field(&self.id).finish()
    }
}

impl Request {
    /// Whether it waits for its body.
    pub(super) fn reads(&self) -> bool {
        matches!(self.phase.get(), Phase::Reading(_))
    }

    /// It goes on, with this status, to a chosen replica if there is one.
    pub(super) fn pass(&self, status: String, chosen: Option<&str>) {
        self.phase.set(Phase::Passing);
        self.status.set(status);
        self.placed.set(chosen.is_some());
        self.chosen.set(chosen.map(str::to_owned));
    }
}

/// The stream context of one request.
pub(super) struct Stream {
    /// None where the plugin was refused: then the request passes untouched.
    plugin: Option<Rc<Plugin>>,
    request: Rc<Request>,
    /// Bytes of the body that have come.
    body_size: usize,
    /// What its headers say of where it may go, and with whom.
    asked: Asked,
}

impl Stream {
    pub(super) fn new(id: StreamId, plugin: Option<Rc<Plugin>>) -> Self {
        Self {
            plugin,
            request: Rc::new(Request {
                id,
                phase: Cell::new(Phase::Passing),
                held_bytes: Cell::new(0),
                status: Cell::default(),
                chosen: Cell::default(),
                placed: Cell::default(),
            }),
            body_size: 0,
            asked: Asked::default(),
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
        let encoding = host::all_of_header("content-encoding").unwrap_or_default();
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity") {
            return Err(Status::Skipped("encoding"));
        }
        let length: Option<u64> = text(&header("content-length")).parse().ok();
        if length.is_some_and(|length| length > u64::from(plugin.config.max_body_bytes)) {
            return Err(Status::Skipped("too-large"));
        }
        Ok(api)
    }

    /// Passes the request on with a status that needs no window.
    fn pass(&self, plugin: &Plugin, status: Status, blocks: u32) -> Action {
        let listed = match status {
            Status::NOT_OURS => Rc::default(),
            _ => plugin.candidates(&self.asked),
        };
        plugin.decide(&self.request, &Outcome::at_once(status, blocks, listed));
        Action::Continue
    }

    /// What its headers say of where it may go, and with whom.
    fn read_asked(&mut self, plugin: &Plugin) {
        let hints = Hints::read();
        plugin.count_ignored(hints.ignored);
        self.asked = Asked {
            group: hints.group,
            group_size: hints.group_size,
            ..plugin.bounds()
        };
    }

    /// The body is complete, and stands in Envoy's buffer.
    fn complete(&mut self, plugin: &Plugin, api: Api) -> Action {
        if self.body_size == 0 {
            return self.pass(plugin, Status::Skipped("no-body"), 0);
        }
        let Ok(body) = host::request_body(self.body_size) else {
            return self.pass(plugin, Status::Skipped("body"), 0);
        };
        match request::read(api, &body, plugin.config.layout) {
            Ok(prefix) => {
                self.asked.weight = prefix.weight;
                self.asked.blocks = prefix.blocks();
                self.asked.chained = prefix.is_chained();
            }
            Err(unreadable) => {
                plugin.count_unreadable(unreadable.token());
                return self.pass(plugin, Status::Skipped("unreadable"), 0);
            }
        }
        if self.asked.blocks.is_empty() {
            return self.pass(plugin, Status::NoPrefix, 0);
        }
        if plugin.arrive(&self.request, std::mem::take(&mut self.asked)) {
            self.request.phase.set(Phase::Held);
            Action::Pause
        } else {
            Action::Continue
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
            } else if self.request.placed.take() {
                plugin.ended(self.request.id);
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
        let Some(plugin) = self.plugin.clone() else {
            headers::remove_inbound(Headers::Request);
            return Action::Continue;
        };
        let api = Self::by_headers(&plugin, end_of_stream);
        if api != Err(Status::NOT_OURS) {
            self.read_asked(&plugin);
        }
        headers::remove_inbound(Headers::Request);
        match api {
            Ok(api) => {
                self.request.phase.set(Phase::Reading(api));
                plugin.watch(&self.request);
                Action::Pause
            }
            Err(status) => self.pass(&plugin, status, 0),
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
                    self.pass(&plugin, Status::Skipped("too-large"), 0)
                } else if !plugin.reserve(&self.request, body_size) {
                    self.pass(&plugin, Status::Skipped("memory"), 0)
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
        let Some(plugin) = &self.plugin else {
            return Action::Continue;
        };
        if let Some(chosen) = self.request.chosen.take()
            && headers::served().is_none_or(|served| served != chosen)
        {
            plugin.count_not_served();
        }
        let status = self.request.status.take();
        if plugin.config.debug_response_headers && !status.is_empty() {
            headers::write_response(&status);
        }
        Action::Continue
    }
}
