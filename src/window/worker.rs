//! One worker: the requests that it holds, the windows that it owns, its part in the protocol.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::guards::Guards;
use super::message::{Decision, Message, StreamId, blocks_from_bytes, blocks_to_bytes, open, send};
use super::owned::{Member, Owned};
use super::record::{self, Joined, Joining, Seat};
use super::{Arrival, GIVE_UP, RESCUE_WINDOW, Release, Request, Settings};
use crate::workers::{Membership, WorkerId};
use crate::workers::{Moment, Refused, Shared};

/// A request that waits.
#[derive(Debug)]
struct Held {
    arrived_at: Moment,
    request: Request,
    seat: Seat,
    /// When to look after it, if no answer came.
    guard: Moment,
}

/// The filter in one VM.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    membership: Membership,
    held: HashMap<StreamId, Held>,
    guards: Guards,
    owned: Vec<Owned>,
    ready: VecDeque<Release>,
    placed: Vec<u32>,
}

impl Worker {
    /// A worker that holds nothing. It takes a slot when its first request arrives.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            membership: Membership::default(),
            held: HashMap::new(),
            guards: Guards::default(),
            owned: Vec::new(),
            ready: VecDeque::new(),
            placed: Vec::new(),
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

    /// A request arrived, complete.
    pub fn arrive(
        &mut self,
        now: Moment,
        stream: StreamId,
        request: Request,
        shared: &mut dyn Shared,
    ) -> Arrival {
        let close_by = now.plus(self.settings.window);
        let give_up = close_by.plus(GIVE_UP);
        match self.join(now, close_by, shared) {
            Ok(Joined::Seat(seat)) => {
                self.offer(seat, close_by, stream, &request, shared);
                let held = Held {
                    arrived_at: now,
                    request,
                    seat,
                    guard: seat.guard(now).min(give_up),
                };
                self.guards.set(held.guard, stream);
                self.held.insert(stream, held);
                Arrival::Held
            }
            Ok(Joined::Full) => Arrival::BatchFull,
            Err(Refused) => Arrival::Unavailable,
        }
    }

    /// A request's client has left; it is neither counted nor placed any more. Nothing happens
    /// where it does not wait.
    pub fn gone(&mut self, stream: StreamId, shared: &mut dyn Shared) {
        if let Some(held) = self.held.remove(&stream) {
            self.withdraw(held.seat, shared);
        }
    }

    /// The time of [`Worker::wake_at`] has come.
    pub fn tick(&mut self, now: Moment, shared: &mut dyn Shared) {
        self.receive(now, shared);
        self.close_due(now, shared);
        self.place_complete(now, shared);
        self.guard(now, shared);
    }

    /// There are messages on this worker's queue.
    pub fn receive(&mut self, now: Moment, shared: &mut dyn Shared) {
        while let Some(bytes) = shared.receive() {
            // Messages to an earlier holder of the slot are dropped here.
            if let Some(message) = self.membership.id().and_then(|me| open(&bytes, me)) {
                self.take(message, shared);
            }
        }
        self.place_complete(now, shared);
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

    /// When [`Worker::tick`] must be called next; none where nothing waits.
    pub fn wake_at(&mut self, now: Moment) -> Option<Moment> {
        let held = &self.held;
        let guard = self
            .guards
            .earliest(|moment, stream| held.get(&stream).is_some_and(|held| held.guard == moment));
        let owned = self.owned.iter().map(Owned::wake_at).min();
        // Should the message to itself get lost, the tick releases the rest.
        let ready = (!self.ready.is_empty()).then(|| now.plus(Duration::from_millis(1)));
        [guard, owned, ready].into_iter().flatten().min()
    }

    /// Takes a seat in the open window, or opens one that closes at `close_by`. A window whose
    /// members may wait longer than `close_by` is told to close earlier.
    fn join(
        &mut self,
        now: Moment,
        close_by: Moment,
        shared: &mut dyn Shared,
    ) -> Result<Joined, Refused> {
        let me = self.membership.renewed(now, shared)?;
        let joining = Joining {
            me,
            now,
            close_by,
            max_batch: self.settings.max_batch,
        };
        let owned = &self.owned;
        let joined = record::join(shared, &joining, |id| {
            owned.iter().any(|window| window.id == id)
        })?;
        if let Joined::Seat(seat) = &joined
            && seat.owner == me
        {
            match self.owned_window(seat.window) {
                // The record may know of a member in a hurry whose message has not come.
                Some(window) => window.close_by(seat.closes_at),
                None => self.owned.push(Owned::new(seat.window, seat.closes_at)),
            }
        }
        Ok(joined)
    }

    /// Tells the owner of the window who took the seat.
    fn offer(
        &mut self,
        seat: Seat,
        close_by: Moment,
        stream: StreamId,
        request: &Request,
        shared: &mut dyn Shared,
    ) {
        let Some(me) = self.membership.id() else {
            return;
        };
        if seat.owner == me {
            if let Some(window) = self.owned_window(seat.window) {
                let member = Member {
                    from: me,
                    stream,
                    blocks: request.blocks.clone(),
                    weight: request.weight,
                };
                window.arrived(seat.index, member);
            }
        } else {
            let message = Message::Arrived {
                window: seat.window,
                index: seat.index,
                from: me,
                stream,
                close_by,
                weight: request.weight,
                blocks: &blocks_to_bytes(&request.blocks),
            };
            send(shared, seat.owner, message);
        }
    }

    /// Gives a seat back.
    fn withdraw(&mut self, seat: Seat, shared: &mut dyn Shared) {
        if self.membership.id() == Some(seat.owner) {
            if let Some(window) = self.owned_window(seat.window) {
                window.left(seat.index);
            }
        } else {
            let Seat { window, index, .. } = seat;
            send(shared, seat.owner, Message::Gone { window, index });
        }
        // Where the count cannot be written the window only takes one member fewer.
        let _counted = record::leave(shared, seat.window);
    }

    fn take(&mut self, message: Message<'_>, shared: &mut dyn Shared) {
        match message {
            Message::Arrived {
                window,
                index,
                from,
                stream,
                close_by,
                weight,
                blocks,
            } => match self.owned_window(window) {
                Some(owned) => {
                    let blocks = blocks_from_bytes(blocks);
                    let member = Member {
                        from,
                        stream,
                        blocks,
                        weight,
                    };
                    owned.close_by(close_by);
                    owned.arrived(index, member);
                }
                // Placed without it, or superseded: it shall not wait for its guard.
                None => {
                    let answers = vec![(stream, Decision::TimedOut)];
                    send(shared, from, Message::Placed { window, answers });
                }
            },
            Message::Gone { window, index } => {
                if let Some(owned) = self.owned_window(window) {
                    owned.left(index);
                }
            }
            Message::Placed { window, answers } => {
                for (stream, decision) in answers {
                    self.answer(window, stream, decision);
                }
            }
            Message::Continue => {}
        }
    }

    /// An answer counts only for the window in which the request last took a seat.
    fn answer(&mut self, window: u64, stream: StreamId, decision: Decision) {
        if self
            .held
            .get(&stream)
            .is_some_and(|held| held.seat.window == window)
        {
            self.release(stream, decision);
        }
    }

    fn release(&mut self, stream: StreamId, decision: Decision) {
        if let Some(held) = self.held.remove(&stream) {
            self.ready.push_back(Release {
                stream,
                decision,
                blocks: u32::try_from(held.request.blocks.len()).unwrap_or(u32::MAX),
                arrived_at: held.arrived_at,
                window: held.seat.window,
            });
        }
    }

    /// Closes the windows whose time is up.
    fn close_due(&mut self, now: Moment, shared: &mut dyn Shared) {
        let Some(me) = self.membership.id() else {
            return;
        };
        self.owned.retain_mut(|window| {
            if !window.due(now) {
                return true;
            }
            match record::close(shared, window.id, me) {
                Ok(Some(joined)) => {
                    window.close(joined, now);
                    true
                }
                // Somebody held this worker for dead and took over: the members are theirs, and
                // the guards bring this worker's own.
                Ok(None) => false,
                // Refused again and again: the next tick tries again.
                Err(Refused) => true,
            }
        });
    }

    /// Places the closed windows that wait for nobody, and answers their members.
    fn place_complete(&mut self, now: Moment, shared: &mut dyn Shared) {
        let Some(me) = self.membership.id() else {
            return;
        };
        while let Some(position) = self.owned.iter().position(|window| window.complete(now)) {
            let window = self.owned.swap_remove(position);
            let id = window.id;
            let mut answers: BTreeMap<WorkerId, Vec<(StreamId, Decision)>> = BTreeMap::new();
            let members = window.place_members(&self.settings);
            self.placed
                .push(u32::try_from(members.len()).unwrap_or(u32::MAX));
            for (member, decision) in members {
                let of_worker = answers.entry(member.from).or_default();
                of_worker.push((member.stream, decision));
            }
            for (worker, answers) in answers {
                if worker == me {
                    for (stream, decision) in answers {
                        self.answer(id, stream, decision);
                    }
                } else {
                    let window = id;
                    send(shared, worker, Message::Placed { window, answers });
                }
            }
        }
    }

    /// Looks after the requests that should have had an answer.
    fn guard(&mut self, now: Moment, shared: &mut dyn Shared) {
        for (moment, stream) in self.guards.due(now) {
            let Some(held) = self.held.get(&stream).filter(|held| held.guard == moment) else {
                continue;
            };
            let give_up = held.arrived_at.plus(self.settings.window).plus(GIVE_UP);
            if now >= give_up || !self.rescue(now, give_up, stream, shared) {
                self.release(stream, Decision::TimedOut);
            }
        }
    }

    /// Offers a request again, in another window. False where there is none for it.
    fn rescue(
        &mut self,
        now: Moment,
        give_up: Moment,
        stream: StreamId,
        shared: &mut dyn Shared,
    ) -> bool {
        let Some(held) = self.held.remove(&stream) else {
            return true;
        };
        self.withdraw(held.seat, shared);
        let close_by = now.plus(RESCUE_WINDOW).min(give_up);
        let seat = match self.join(now, close_by, shared) {
            Ok(Joined::Seat(seat)) => Some(seat),
            Ok(Joined::Full) | Err(Refused) => None,
        };
        if let Some(seat) = seat {
            self.offer(seat, close_by, stream, &held.request, shared);
        }
        let held = Held {
            seat: seat.unwrap_or(held.seat),
            guard: seat.map_or(now, |seat| seat.guard(now)).min(give_up),
            ..held
        };
        if seat.is_some() {
            self.guards.set(held.guard, stream);
        }
        self.held.insert(stream, held);
        seat.is_some()
    }

    fn owned_window(&mut self, id: u64) -> Option<&mut Owned> {
        self.owned.iter_mut().find(|window| window.id == id)
    }
}
