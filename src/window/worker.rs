//! One worker: what it is told by its surroundings, and what it hands out.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::guards::Guards;
use super::message::{Message, StreamId, open, send};
use super::owned::Owned;
use super::record::{Joined, Seat};
use super::{Arrival, GIVE_UP, Release, Request, Settings};
use crate::load::Total;
use crate::picker::{Decision, Listed, Pick, Picker, View};
use crate::workers::{Membership, Moment, Refused, Shared};

/// A request that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) arrived_at: Moment,
    pub(super) request: Request,
    pub(super) seat: Seat,
    /// When to look after it, if no answer came.
    pub(super) guard: Moment,
}

/// The filter in one VM.
#[derive(Debug)]
pub struct Worker {
    pub(super) settings: Settings,
    pub(super) membership: Membership,
    pub(super) picker: Picker,
    pub(super) held: HashMap<StreamId, Held>,
    pub(super) guards: Guards,
    pub(super) owned: Vec<Owned>,
    ready: VecDeque<Release>,
    pub(super) placed: Vec<u32>,
    in_flight: Option<u64>,
}

impl Worker {
    /// A worker that holds nothing. It takes a slot when its first request arrives.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            membership: Membership::default(),
            picker: Picker::new(settings.rules, &settings.source, settings.memory),
            held: HashMap::new(),
            guards: Guards::default(),
            owned: Vec::new(),
            ready: VecDeque::new(),
            placed: Vec::new(),
            in_flight: None,
            settings,
        }
    }

    /// What all workers of the window agree on.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of requests that wait for an answer.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The number of requests that were sent to a chosen replica and are not over.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.picker.book.in_flight()
    }

    /// What the filter has in flight, over all workers.
    pub fn total(&mut self, now: Moment, shared: &mut dyn Shared) -> Total {
        self.picker.total(now, self.membership.id(), shared)
    }

    /// The replicas that a request may go to now.
    pub fn candidates(
        &mut self,
        pool: &str,
        subset: Option<&[String]>,
        shared: &mut dyn Shared,
    ) -> Rc<Listed> {
        self.picker.candidates(pool, subset, shared)
    }

    /// A request arrived, complete.
    pub fn arrive(
        &mut self,
        now: Moment,
        stream: StreamId,
        request: Request,
        shared: &mut dyn Shared,
    ) -> Arrival {
        let (pool, subset) = (request.pool.as_str(), request.subset.as_deref());
        let view = self.picker.view(pool, subset, shared);
        let listed = self.picker.list(&view);
        if listed.is_empty() {
            return Arrival::Decided(Decision::NoReplicas, listed);
        }
        let arrival = self
            .decide_at_once(now, stream, &request, &view, shared)
            .unwrap_or_else(|| self.hold(now, stream, request, listed, shared));
        self.publish(now, shared);
        arrival
    }

    /// A request's client has left; it is neither counted nor placed any more. Nothing happens
    /// where it does not wait.
    pub fn gone(&mut self, now: Moment, stream: StreamId, shared: &mut dyn Shared) {
        if let Some(held) = self.held.remove(&stream) {
            self.withdraw(&held, shared);
        }
        self.ended(now, stream, shared);
    }

    /// A request is over, in whatever way. Nothing happens where it went to no chosen replica.
    pub fn ended(&mut self, now: Moment, stream: StreamId, shared: &mut dyn Shared) {
        self.picker.book.end(stream);
        self.publish(now, shared);
    }

    /// The time of [`Worker::wake_at`] has come.
    pub fn tick(&mut self, now: Moment, shared: &mut dyn Shared) {
        self.take_messages(now, shared);
        self.close_due(now, shared);
        self.place_complete(now, shared);
        self.guard(now, shared);
        self.publish(now, shared);
    }

    /// There are messages on this worker's queue.
    pub fn receive(&mut self, now: Moment, shared: &mut dyn Shared) {
        self.take_messages(now, shared);
        self.close_due(now, shared);
        self.place_complete(now, shared);
        self.publish(now, shared);
    }

    /// Up to `most` requests to release now. Where more are ready the worker has sent itself a
    /// message, so that [`Worker::receive`] is called again soon.
    pub fn take_ready(&mut self, most: usize, shared: &mut dyn Shared) -> Vec<Release> {
        let count = self.ready.len().min(most);
        let released = self.ready.drain(..count).collect();
        if !self.ready.is_empty()
            && let Some(me) = self.membership.id()
        {
            send(shared, me, Message::Continue);
        }
        released
    }

    /// The numbers of members of the windows that this worker placed since it was last asked.
    pub fn take_placed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.placed)
    }

    /// The requests in flight over all workers, where this one has looked since it was last asked:
    /// from time to time while any of its own are, and when the last of these is over.
    pub fn take_in_flight(&mut self) -> Option<u64> {
        self.in_flight.take()
    }

    /// When [`Worker::tick`] must be called next; none where nothing waits.
    pub fn wake_at(&mut self, now: Moment) -> Option<Moment> {
        let held = &self.held;
        let guard = self
            .guards
            .earliest(|moment, stream| held.get(&stream).is_some_and(|held| held.guard == moment));
        let owned = self.owned.iter().map(Owned::wake_at).min();
        // Should the message to itself get lost, the tick releases the rest.
        let ready = (!self.ready.is_empty()).then(|| now.plus(Duration::from_millis(1)));
        let beat = self.picker.book.wake_at();
        [guard, owned, ready, beat].into_iter().flatten().min()
    }

    /// The answer to a request that need not wait, if there is one.
    fn decide_at_once(
        &mut self,
        now: Moment,
        stream: StreamId,
        request: &Request,
        view: &View,
        shared: &mut dyn Shared,
    ) -> Option<Arrival> {
        if self.settings.memory.is_zero() {
            return None;
        }
        // Its load is told under the worker's own number.
        let me = self.membership.renewed(now, shared).ok();
        let picked = if self.settings.hold {
            Ok(self.picker.remembered(now, request, view, me, shared)?)
        } else {
            self.picker.at_once(now, request, view, me, shared)
        };
        Some(match picked {
            Ok((pick, listed)) => {
                self.begin(now, stream, pick);
                Arrival::Decided(pick.decision, listed)
            }
            Err(Refused) => Arrival::Unavailable,
        })
    }

    /// The request takes a seat in the window.
    fn hold(
        &mut self,
        now: Moment,
        stream: StreamId,
        request: Request,
        listed: Rc<Listed>,
        shared: &mut dyn Shared,
    ) -> Arrival {
        let close_by = now.plus(self.settings.window);
        let give_up = close_by.plus(GIVE_UP);
        let quiet = self.settings.quiet;
        match self.join(now, close_by, &request.pool, quiet, shared) {
            Ok(Joined::Seat(seat, sealed)) => {
                let held = Held {
                    arrived_at: now,
                    request,
                    seat,
                    guard: seat.guard(now).min(give_up),
                };
                self.offer(now, close_by, stream, &held, sealed, shared);
                self.guards.set(held.guard, stream);
                self.held.insert(stream, held);
                // It may have been the last that its window waited for.
                self.close_due(now, shared);
                self.place_complete(now, shared);
                Arrival::Held
            }
            Ok(Joined::Full) => Arrival::BatchFull(listed),
            Err(Refused) => Arrival::Unavailable,
        }
    }

    /// A request goes to a chosen replica: from now on it is in flight there.
    pub(super) fn begin(&mut self, now: Moment, stream: StreamId, pick: Pick) {
        if let Some(replica) = pick.replica {
            self.picker.book.begin(stream, replica, pick.charge);
            self.picker.placed(now, pick);
        }
    }

    pub(super) fn release(&mut self, stream: StreamId, decision: Decision, listed: Rc<Listed>) {
        if let Some(held) = self.held.remove(&stream) {
            self.ready.push_back(Release {
                stream,
                decision,
                listed,
                blocks: u32::try_from(held.request.blocks.len()).unwrap_or(u32::MAX),
                arrived_at: held.arrived_at,
                window: held.seat.window,
            });
        }
    }

    /// Tells the other workers of this one's load, and takes care to be known to them.
    fn publish(&mut self, now: Moment, shared: &mut dyn Shared) {
        let lively = self.picker.book.in_flight() > 0;
        let me = match self.membership.id() {
            Some(_) if lively => self.membership.renewed(now, shared).ok(),
            me => me,
        };
        let Some(me) = me else {
            return;
        };
        let beat = self.picker.book.publish(now, me, shared);
        if beat {
            self.in_flight = Some(self.total(now, shared).requests());
        }
    }

    pub(super) fn take_messages(&mut self, now: Moment, shared: &mut dyn Shared) {
        while let Some(bytes) = shared.receive() {
            // Messages to an earlier holder of the slot are dropped here.
            if let Some(message) = self.membership.id().and_then(|me| open(&bytes, me)) {
                self.take(now, message, shared);
            }
        }
    }
}
