//! One configuration in one VM: the worker's part of the window, and the release of what it
//! decided.
//!
//! A resume enters the VM again, nested, in the callbacks of the streams it touches. So nothing
//! is borrowed while a stream is resumed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::board::Board;
use super::headers::{self, Outcome};
use super::host;
use super::knob::Knob;
use super::poll::Polling;
use super::stats::Stats;
use super::stream::Request;
use crate::config::Config;
use crate::match_info::Status;
use crate::metrics;
use crate::window::{Arrival, Listed, Release, Request as Asked, StreamId, Worker};
use crate::workers::Moment;

/// The most streams that one callback resumes: each nests a call into the VM, and thousands in
/// one callback have overflowed its stack.
const MOST_RELEASES: usize = 64;

/// The most bytes of stopped bodies, in one VM: 256 MiB, or one body where `maxBodyBytes` is more.
const MOST_HELD_BYTES: usize = 256 << 20;

/// The tick runs, but not to any moment that was asked for.
const LAPSED: Moment = Moment(u64::MAX);

/// The filter with one configuration in one VM.
#[derive(Debug)]
pub(super) struct Plugin {
    root: u32,
    pub(super) config: Config,
    window: RefCell<(Worker, Board)>,
    /// The requests in the window.
    held: RefCell<HashMap<StreamId, Rc<Request>>>,
    knob: RefCell<Knob>,
    polling: Option<Polling>,
    stats: RefCell<Stats>,
    /// Bytes of all stopped bodies.
    held_bytes: Cell<usize>,
    /// The moment for which the tick is set; none where it is off.
    tick_at: Cell<Option<Moment>>,
}

impl Plugin {
    pub(super) fn new(root: u32, config: Config) -> Self {
        let window = (
            Worker::new(config.settings()),
            Board::new(config.fingerprint()),
        );
        let polling = Polling::new(&config.replicas, Board::new(config.fingerprint()));
        Self {
            root,
            config,
            polling,
            window: RefCell::new(window),
            held: RefCell::default(),
            knob: RefCell::default(),
            stats: RefCell::default(),
            held_bytes: Cell::new(0),
            tick_at: Cell::new(None),
        }
    }

    /// The configuration is taken. Where the admin tells the replicas, it is asked at once.
    pub(super) fn start(&self) {
        if self.polling.is_some() {
            self.set_tick(host::now());
        }
    }

    /// A call of this VM was answered; the current context is the root.
    pub(super) fn called_back(&self, token: u32, body_size: usize) {
        if let Some(polling) = &self.polling {
            let now = host::now();
            let total = || {
                let total = self.in_window(|worker, board| worker.total(now, board));
                total.unwrap_or_default()
            };
            polling.answered(now, token, body_size, total, &self.stats);
        }
    }

    /// A complete request arrives. True where it is held; else it has its outcome, and goes on.
    pub(super) fn arrive(&self, request: &Rc<Request>, asked: Asked) -> bool {
        let now = host::now();
        let blocks = u32::try_from(asked.blocks.len()).unwrap_or(u32::MAX);
        let (pool, subset) = (asked.pool.clone(), asked.subset.clone());
        let arrival = self.in_window(|worker, board| worker.arrive(now, request.id, asked, board));
        let (status, listed) = match arrival {
            Some(Arrival::Held) => {
                if let Ok(mut held) = self.held.try_borrow_mut() {
                    held.insert(request.id, Rc::clone(request));
                }
                self.set_tick(now);
                return true;
            }
            Some(Arrival::Decided(decision, listed)) => (Status::Decided(decision), listed),
            Some(Arrival::BatchFull(listed)) => (Status::BatchFull, listed),
            Some(Arrival::Unavailable) | None => {
                let of = |worker: &mut Worker, board: &mut Board| {
                    worker.candidates(&pool, subset.as_deref(), board)
                };
                let listed = self.in_window(of).unwrap_or_default();
                (Status::Skipped("shared-state"), listed)
            }
        };
        self.decide(request, &Outcome::at_once(status, blocks, listed));
        self.set_tick(now);
        false
    }

    /// Where the current context's request may go, by its route and its headers.
    pub(super) fn bounds(&self) -> Asked {
        let replicas = &self.config.replicas;
        let routed = replicas.is_routed().then(headers::routed).flatten();
        let trusts = self.config.trust_subset_header;
        Asked {
            pool: replicas.pool_name(routed.as_deref()).to_owned(),
            subset: trusts.then(headers::subset).flatten(),
            ..Asked::default()
        }
    }

    /// The replicas that a request may go to now.
    pub(super) fn candidates(&self, asked: &Asked) -> Rc<Listed> {
        let of = |worker: &mut Worker, board: &mut Board| {
            worker.candidates(&asked.pool, asked.subset.as_deref(), board)
        };
        self.in_window(of).unwrap_or_default()
    }

    /// A held request has ended before it was released.
    pub(super) fn gone(&self, stream: StreamId) {
        if let Ok(mut held) = self.held.try_borrow_mut() {
            held.remove(&stream);
        }
        let now = host::now();
        self.in_window(|worker, board| worker.gone(now, stream, board));
        self.stat(|stats| stats.count(metrics::LEFT, 1));
    }

    /// A request that went on is over.
    pub(super) fn ended(&self, stream: StreamId) {
        let now = host::now();
        self.in_window(|worker, board| worker.ended(now, stream, board));
        self.set_tick(now);
    }

    /// The headers of a request were stopped, to wait for its body.
    pub(super) fn watch(&self, request: &Rc<Request>) {
        let now = host::now();
        if let Ok(mut knob) = self.knob.try_borrow_mut() {
            knob.watch(now, request);
        }
        self.set_tick(now);
    }

    /// A request's body reaches the filter.
    pub(super) fn body_came(&self) {
        if let Ok(mut knob) = self.knob.try_borrow_mut() {
            knob.prove();
        }
    }

    /// So many bytes of a request's body lie in Envoy's buffer. False where all stopped bodies
    /// together would be more than the filter takes.
    pub(super) fn reserve(&self, request: &Request, bytes: usize) -> bool {
        let one = usize::try_from(self.config.max_body_bytes).unwrap_or(usize::MAX);
        self.give_back(request);
        let all = self.held_bytes.get().saturating_add(bytes);
        if all > MOST_HELD_BYTES.max(one) {
            return false;
        }
        self.held_bytes.set(all);
        request.held_bytes.set(bytes);
        true
    }

    /// A request's body is not stopped any more.
    pub(super) fn give_back(&self, request: &Request) {
        let others = self
            .held_bytes
            .get()
            .saturating_sub(request.held_bytes.take());
        self.held_bytes.set(others);
    }

    /// A client's hints made no sense, so many of them.
    pub(super) fn count_ignored(&self, hints: u64) {
        if hints > 0 {
            self.stat(|stats| stats.count(metrics::IGNORED_HINTS, hints));
        }
    }

    /// A request was served by another replica than the one that it was placed on.
    pub(super) fn count_not_served(&self) {
        self.stat(|stats| stats.count(metrics::NOT_SERVED, 1));
    }

    /// The tick.
    pub(super) fn tick(&self) {
        let now = host::now();
        // The period runs again from here on: the tick is set, and for no moment that is wanted.
        self.tick_at.set(Some(LAPSED));
        if let Some(polling) = &self.polling {
            polling.tick(now, &self.stats);
        }
        self.in_window(|worker, board| worker.tick(now, board));
        self.pass_stuck(now);
        self.release_ready(now);
    }

    /// Messages have come.
    pub(super) fn messages(&self) {
        let now = host::now();
        self.in_window(|worker, board| worker.receive(now, board));
        self.release_ready(now);
    }

    /// Writes an outcome into the request of the current context, and counts it.
    pub(super) fn decide(&self, request: &Request, outcome: &Outcome) {
        if let Err(failed) = outcome.write(self.config.layout.block_size_tokens.get()) {
            log::warn!("a header was refused: {failed:?}");
        }
        request.pass(outcome.status.header(outcome.wait_ms), outcome.endpoint());
        self.give_back(request);
        self.stat(|stats| stats.outcome(outcome.status));
    }

    /// Counts a body that could not be read.
    pub(super) fn count_unreadable(&self, cause: &'static str) {
        self.stat(|stats| stats.unreadable(cause));
    }

    fn release_ready(&self, now: Moment) {
        let ready = self.in_window(|worker, board| worker.take_ready(MOST_RELEASES, board));
        for release in ready.unwrap_or_default() {
            self.release(now, release);
        }
        let placed = self.in_window(|worker, _| worker.take_placed());
        for members in placed.unwrap_or_default() {
            self.stat(|stats| {
                stats.count(metrics::WINDOWS, 1);
                stats.record(metrics::WINDOW_REQUESTS, u64::from(members));
            });
        }
        // What follows acts on the plugin again; its root context is always there.
        let _acts = host::act_on(self.root);
        self.set_tick(now);
    }

    fn release(&self, now: Moment, release: Release) {
        let request = self
            .held
            .try_borrow_mut()
            .ok()
            .and_then(|mut held| held.remove(&release.stream));
        // A stream that has ended in the meantime needs nothing.
        let (Some(request), Ok(())) = (request, host::act_on(release.stream)) else {
            return;
        };
        let wait = now.since(release.arrived_at).as_millis();
        let wait_ms = u64::try_from(wait).unwrap_or(u64::MAX);
        let outcome = Outcome {
            status: Status::Decided(release.decision),
            wait_ms,
            blocks: release.blocks,
            listed: release.listed,
        };
        self.decide(&request, &outcome);
        self.stat(|stats| stats.record(metrics::WAIT_MS, wait_ms));
        if let Err(failed) = host::resume_request() {
            log::warn!("a request could not be resumed: {failed:?}");
        }
    }

    /// Passes on the requests whose bodies will never reach the filter.
    fn pass_stuck(&self, now: Moment) {
        let Some(stuck) = self.knob.try_borrow_mut().ok().map(|mut knob| {
            let stuck = knob.stuck(now);
            if !stuck.is_empty() {
                knob.warn();
            }
            stuck
        }) else {
            return;
        };
        for request in stuck {
            if host::act_on(request.id).is_ok() {
                let status = Status::Skipped("header-stop");
                let outcome = Outcome::at_once(status, 0, self.candidates(&self.bounds()));
                self.decide(&request, &outcome);
                self.stat(|stats| stats.count(metrics::KNOB_MISSING, 1));
                let _resumed = host::resume_request();
            }
        }
        let _acts = host::act_on(self.root);
    }

    /// Ticks when something waits, and only then.
    fn set_tick(&self, now: Moment) {
        let asked = self.in_window(|worker, _| (worker.wake_at(now), worker.take_in_flight()));
        let (window, in_flight) = asked.unwrap_or_default();
        if let Some(in_flight) = in_flight {
            self.stat(|stats| stats.set(metrics::IN_FLIGHT, in_flight));
        }
        let knob = self.knob.try_borrow().ok().and_then(|knob| knob.wake_at());
        let polling = self.polling.as_ref().and_then(Polling::wake_at);
        let wake_at = [window, knob, polling].into_iter().flatten().min();
        // A tick that comes too early does no harm, and is set right when it comes: with each
        // arrival a window may close a little later, and a call to the host costs more. One that
        // is overdue comes as soon as it can, and must not be put off.
        let is_set = match (self.tick_at.get(), wake_at) {
            (Some(at), Some(wanted)) => at <= wanted,
            (Some(at), None) => at != LAPSED,
            (None, wanted) => wanted.is_none(),
        };
        if !is_set {
            self.tick_at.set(wake_at);
            let period = wake_at.map_or(0, |moment| {
                let millis = moment.since(now).as_nanos().div_ceil(1_000_000);
                u32::try_from(millis).unwrap_or(u32::MAX).max(1)
            });
            host::set_tick(period);
        }
    }

    fn in_window<T>(&self, act: impl FnOnce(&mut Worker, &mut Board) -> T) -> Option<T> {
        let mut window = self.window.try_borrow_mut().ok()?;
        let (worker, board) = &mut *window;
        Some(act(worker, board))
    }

    fn stat(&self, act: impl FnOnce(&mut Stats)) {
        if let Ok(mut stats) = self.stats.try_borrow_mut() {
            act(&mut stats);
        }
    }
}
