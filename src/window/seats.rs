//! How a worker's requests take seats in windows, give them back, and are looked after.

use std::time::Duration;

use super::message::{Message, StreamId, send};
use super::owned::{Member, Owned};
use super::record::{self, Joined, Joining};
use super::worker::{Held, Worker};
use super::{GIVE_UP, RESCUE_WINDOW};
use crate::picker::Decision;
use crate::workers::{Moment, Refused, Shared};

impl Worker {
    /// Takes a seat in the open window of a pool, or opens one that closes at `close_by`, or after
    /// a `quiet` time. A window whose members may wait longer than `close_by` is told to close
    /// earlier.
    pub(super) fn join(
        &mut self,
        now: Moment,
        close_by: Moment,
        pool: &str,
        quiet: Option<Duration>,
        shared: &mut dyn Shared,
    ) -> Result<Joined, Refused> {
        let me = self.membership.renewed(now, shared)?;
        let joining = Joining {
            me,
            now,
            close_by,
            max_batch: self.settings.max_batch,
            seal: self.settings.seal,
            lane: record::lane(pool),
        };
        let owned = &self.owned;
        let joined = record::join(shared, &joining, |id| {
            owned.iter().any(|window| window.id == id)
        })?;
        if let Joined::Seat(seat, _) = &joined
            && seat.owner == me
        {
            match self.owned_window(seat.window) {
                // The record may know of a member in a hurry whose message has not come.
                Some(window) => window.close_by(seat.closes_at),
                None => {
                    let window = Owned::new(seat.window, now, seat.closes_at, quiet);
                    self.owned.push(window);
                }
            }
        }
        Ok(joined)
    }

    /// Tells the owner of the window who took the seat; and, if the window is `sealed` by it, how
    /// many joined.
    pub(super) fn offer(
        &mut self,
        now: Moment,
        close_by: Moment,
        stream: StreamId,
        held: &Held,
        sealed: Option<u32>,
        shared: &mut dyn Shared,
    ) {
        let Some(me) = self.membership.id() else {
            return;
        };
        let (seat, request) = (held.seat, held.request.clone());
        if seat.owner == me {
            if let Some(window) = self.owned_window(seat.window) {
                let from = me;
                let member = Member {
                    from,
                    stream,
                    request,
                };
                window.joined(now);
                window.arrived(seat.index, member);
                if let Some(joined) = sealed {
                    window.close(joined, now);
                }
            }
        } else {
            let message = Message::Arrived {
                window: seat.window,
                index: seat.index,
                from: me,
                stream,
                close_by,
                sealed,
                request,
            };
            send(shared, seat.owner, message);
        }
    }

    /// Gives a request's seat back.
    pub(super) fn withdraw(&mut self, held: &Held, shared: &mut dyn Shared) {
        let seat = held.seat;
        if self.membership.id() == Some(seat.owner) {
            if let Some(window) = self.owned_window(seat.window) {
                window.left(seat.index);
            }
        } else {
            let (window, index) = (seat.window, seat.index);
            send(shared, seat.owner, Message::Gone { window, index });
        }
        // Where the count cannot be written the window only takes one member fewer.
        let _counted = record::leave(shared, seat.window);
    }

    /// Looks after the requests that should have had an answer.
    pub(super) fn guard(&mut self, now: Moment, shared: &mut dyn Shared) {
        for (moment, stream) in self.guards.due(now) {
            let Some(held) = self.held.get(&stream).filter(|held| held.guard == moment) else {
                continue;
            };
            let give_up = held.arrived_at.plus(self.settings.window).plus(GIVE_UP);
            if now >= give_up || !self.rescue(now, give_up, stream, shared) {
                self.give_up(now, stream, shared);
            }
        }
    }

    /// Releases a request whose time is up: after its unit, if that is remembered by now, else
    /// without affinity.
    fn give_up(&mut self, now: Moment, stream: StreamId, shared: &mut dyn Shared) {
        let Some(held) = self.held.get(&stream) else {
            return;
        };
        let request = &held.request;
        let (pool, subset) = (request.pool.as_str(), request.subset.as_deref());
        let view = self.picker.view(pool, subset, shared);
        let me = self.membership.id();
        match self.picker.remembered(now, request, &view, me, shared) {
            Some((pick, listed)) => {
                self.begin(now, stream, pick);
                self.release(stream, pick.decision, listed);
            }
            None => {
                let listed = self.picker.list(&view);
                self.release(stream, Decision::TimedOut, listed);
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
        let Some(mut held) = self.held.remove(&stream) else {
            return true;
        };
        self.withdraw(&held, shared);
        let close_by = now.plus(RESCUE_WINDOW).min(give_up);
        // Those of all workers shall meet, and their ticks come some milliseconds apart: it does
        // not close when it is quiet.
        let joined = match self.join(now, close_by, &held.request.pool, None, shared) {
            Ok(Joined::Seat(seat, sealed)) => Some((seat, sealed)),
            Ok(Joined::Full) | Err(Refused) => None,
        };
        held.guard = now.min(give_up);
        if let Some((seat, sealed)) = joined {
            held.seat = seat;
            held.guard = seat.guard(now).min(give_up);
            self.offer(now, close_by, stream, &held, sealed, shared);
            self.guards.set(held.guard, stream);
        }
        self.held.insert(stream, held);
        joined.is_some()
    }

    pub(super) fn owned_window(&mut self, id: u64) -> Option<&mut Owned> {
        self.owned.iter_mut().find(|window| window.id == id)
    }
}
