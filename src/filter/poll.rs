//! Asking Envoy's admin for its clusters, where it is this worker's turn.
//!
//! The call is made through the SDK, which must know its token: it panics on the answer to a call
//! of anybody else's.

use std::cell::RefCell;

use proxy_wasm::hostcalls::dispatch_http_call;
use proxy_wasm::types::Status;

use super::board::Board;
use super::host::{self, Headers};
use super::stats::Stats;
use crate::load::{Total, replica_hash};
use crate::metrics;
use crate::replicas::{Admin, Failure, Poller, Pools, Source, admin};
use crate::workers::Moment;

/// The worker's part in asking.
#[derive(Debug)]
pub(super) struct Polling {
    admin: Admin,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    poller: Poller,
    board: Board,
    /// The call that was made last, until its answer is there.
    call: Option<u32>,
}

impl Polling {
    /// None where nobody is to be asked.
    pub(super) fn new(source: &Source, board: Board) -> Option<Self> {
        let Source::Admin(admin) = source else {
            return None;
        };
        let state = State {
            poller: Poller::new(admin),
            board,
            call: None,
        };
        Some(Self {
            admin: admin.clone(),
            state: RefCell::new(state),
        })
    }

    /// When to wake next.
    pub(super) fn wake_at(&self) -> Option<Moment> {
        let state = self.state.try_borrow().ok()?;
        Some(state.poller.wake_at())
    }

    /// Asks, if it is time and nobody else does. The current context is the root.
    pub(super) fn tick(&self, now: Moment, stats: &RefCell<Stats>) {
        let Ok(mut state) = self.state.try_borrow_mut() else {
            return;
        };
        let State {
            poller,
            board,
            call,
        } = &mut *state;
        if poller.wake_at() > now {
            return;
        }
        if poller.claim(now, board) {
            match self.ask(poller) {
                Ok(token) => *call = Some(token),
                Err(failure) => self.ended(now, &Err(failure), &mut state, stats),
            }
        }
        tell(now, &state.poller, stats);
    }

    /// The answer to a call, whose headers and body can be read now. `total`: what the filter has
    /// in flight at this time, over all workers.
    pub(super) fn answered(
        &self,
        now: Moment,
        token: u32,
        body_size: usize,
        total: impl FnOnce() -> Total,
        stats: &RefCell<Stats>,
    ) {
        let Ok(mut state) = self.state.try_borrow_mut() else {
            return;
        };
        // A call that was given up may still be answered.
        if state.call != Some(token) {
            return;
        }
        state.call = None;
        let mut answer = self.read(body_size);
        if let Ok(pools) = &mut answer {
            let total = total();
            pools.without(|name| total.of(replica_hash(name)).requests);
        }
        self.ended(now, &answer, &mut state, stats);
        tell(now, &state.poller, stats);
    }

    fn ask(&self, poller: &Poller) -> Result<u32, Failure> {
        let headers = vec![
            (":method", "GET"),
            (":path", "/clusters?format=json"),
            (":authority", "envoy-admin"),
        ];
        let cluster = &self.admin.admin_cluster;
        dispatch_http_call(cluster, headers, None, Vec::new(), poller.timeout()).map_err(|status| {
            match status {
                Status::BadArgument => Failure::NoCluster(cluster.clone()),
                _ => Failure::Call,
            }
        })
    }

    fn read(&self, body_size: usize) -> Result<Pools, Failure> {
        // A call that failed has no headers.
        let status = host::header(Headers::CallResponse, ":status").ok_or(Failure::Call)?;
        let status = std::str::from_utf8(&status).unwrap_or_default();
        match status.parse().unwrap_or(0) {
            200 => {}
            // What Envoy itself answers when the time is up.
            504 => return Err(Failure::Timeout),
            status => return Err(Failure::Status(status)),
        }
        if body_size > admin::MOST_BYTES {
            return Err(Failure::TooLarge {
                found: body_size,
                most: admin::MOST_BYTES,
            });
        }
        let body = match body_size {
            // Nothing to ask the host for.
            0 => Vec::new(),
            size => host::call_response_body(size).map_err(|_| Failure::Call)?,
        };
        admin::read(&body, &self.admin.clusters)
    }

    fn ended(
        &self,
        now: Moment,
        answer: &Result<Pools, Failure>,
        state: &mut State,
        stats: &RefCell<Stats>,
    ) {
        let news = state.poller.answered(now, answer, &mut state.board);
        if let Err(failure) = answer {
            if news {
                log::warn!(
                    "the replicas stay as they were last known: asked Envoy's admin through the \
                     cluster {:?}: {failure}",
                    self.admin.admin_cluster
                );
            }
            if let Ok(mut stats) = stats.try_borrow_mut() {
                stats.poll_failed(failure.cause());
            }
        }
    }
}

fn tell(now: Moment, poller: &Poller, stats: &RefCell<Stats>) {
    if let (Some(age), Some(usable), Ok(mut stats)) =
        (poller.age(now), poller.usable(), stats.try_borrow_mut())
    {
        let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        stats.set(metrics::REPLICAS_AGE_MS, millis);
        stats.set(metrics::REPLICAS, u64::from(usable));
    }
}
