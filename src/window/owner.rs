//! What a worker does for the windows that it owns, and with the answers of other owners.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::message::{Answer, Message, StreamId, send};
use super::owned::Member;
use super::record::{self, Closed};
use super::worker::Worker;
use crate::picker::{Decision, Listed};
use crate::workers::{Moment, Refused, Shared, WorkerId};

impl Worker {
    pub(super) fn take(&mut self, now: Moment, message: Message, shared: &mut dyn Shared) {
        match message {
            Message::Arrived {
                window,
                index,
                from,
                stream,
                close_by,
                sealed,
                request,
            } => match self.owned_window(window) {
                Some(owned) => {
                    owned.close_by(close_by);
                    owned.joined(now);
                    let member = Member {
                        from,
                        stream,
                        request,
                    };
                    owned.arrived(index, member);
                    if let Some(joined) = sealed {
                        owned.close(joined, now);
                    }
                }
                // Placed without it, or superseded: it shall not wait for its guard.
                None => self.send_too_late(now, window, from, stream, shared),
            },
            Message::Gone { window, index } => {
                if let Some(owned) = self.owned_window(window) {
                    owned.left(index);
                }
            }
            Message::Placed {
                window,
                from,
                number,
                lists,
                answers,
            } => {
                self.picker.book.hear(from.incarnation, number);
                let lists: Vec<Rc<Listed>> = lists.into_iter().map(Rc::new).collect();
                for answer in answers {
                    self.answer(window, answer, &lists, shared);
                }
            }
            Message::Continue => {}
        }
    }

    fn send_too_late(
        &mut self,
        now: Moment,
        window: u64,
        to: WorkerId,
        stream: StreamId,
        shared: &mut dyn Shared,
    ) {
        let Some(from) = self.membership.id() else {
            return;
        };
        let number = self.picker.book.send(now, to, std::iter::empty());
        let message = Message::Placed {
            window,
            from,
            number,
            lists: Vec::new(),
            answers: vec![Answer {
                stream,
                decision: Decision::TimedOut,
                list: 0,
                charge: 0,
            }],
        };
        send(shared, to, message);
    }

    /// An answer counts only for the window in which the request last took a seat.
    fn answer(
        &mut self,
        window: u64,
        answer: Answer,
        lists: &[Rc<Listed>],
        shared: &mut dyn Shared,
    ) {
        let Answer {
            stream,
            decision,
            list,
            charge,
        } = answer;
        let waits = self.held.get(&stream);
        let Some(held) = waits.filter(|held| held.seat.window == window) else {
            return;
        };
        let listed = match lists.get(list as usize) {
            Some(listed) => Rc::clone(listed),
            // Whoever sent it knows nothing of this request but that it came too late.
            None => {
                let (pool, subset) = (&held.request.pool, held.request.subset.as_deref());
                self.picker.candidates(pool, subset, shared)
            }
        };
        let name = decision
            .replica()
            .and_then(|index| listed.names.get(index as usize));
        if let Some(name) = name {
            let replica = crate::load::replica_hash(name);
            self.picker.book.begin(stream, replica, charge);
        }
        self.release(stream, decision, listed);
    }

    /// Closes the windows whose time has come.
    pub(super) fn close_due(&mut self, now: Moment, shared: &mut dyn Shared) {
        let Some(me) = self.membership.id() else {
            return;
        };
        self.owned.retain_mut(|window| {
            let Some(because) = window.due(now) else {
                return true;
            };
            match record::close(shared, window.id, me, now, because) {
                Ok(Closed::Now(joined)) => {
                    window.close(joined, now);
                    true
                }
                Ok(Closed::NotYet(joined_at)) => {
                    window.joined(joined_at);
                    true
                }
                // Somebody held this worker for dead and took over: the members are theirs, and
                // the guards bring this worker's own.
                Ok(Closed::TakenOver) => false,
                // Refused again and again: the next tick tries again.
                Err(Refused) => true,
            }
        });
    }

    /// Places the closed windows that wait for nobody, and answers their members.
    pub(super) fn place_complete(&mut self, now: Moment, shared: &mut dyn Shared) {
        let Some(me) = self.membership.id() else {
            return;
        };
        // Who is missing may be in the queue: a worker to which many requests come at once gets to
        // its messages late.
        if self.owned.iter().any(|window| window.lacks_members(now)) {
            self.take_messages(now, shared);
        }
        while let Some(position) = self.owned.iter().position(|window| window.complete(now)) {
            let window = self.owned.swap_remove(position);
            let id = window.id;
            let members = window.into_members();
            self.placed
                .push(u32::try_from(members.len()).unwrap_or(u32::MAX));
            self.place(now, id, &members, me, shared);
        }
    }

    fn place(
        &mut self,
        now: Moment,
        window: u64,
        members: &[Member],
        me: WorkerId,
        shared: &mut dyn Shared,
    ) {
        let requests: Vec<_> = members.iter().map(|member| &member.request).collect();
        let together = self.picker.together(now, &requests, Some(me), shared);
        let mut answers: BTreeMap<WorkerId, Vec<Answer>> = BTreeMap::new();
        let mut loads: BTreeMap<WorkerId, Vec<(u64, u64)>> = BTreeMap::new();
        for (member, (pick, list)) in members.iter().zip(together.picks) {
            let of_worker = answers.entry(member.from).or_default();
            of_worker.push(Answer {
                stream: member.stream,
                decision: pick.decision,
                list,
                charge: pick.charge,
            });
            if let Some(replica) = pick.replica {
                self.picker.placed(now, pick);
                let of_worker = loads.entry(member.from).or_default();
                of_worker.push((replica, pick.charge));
            }
        }
        for (worker, answers) in answers {
            if worker == me {
                let lists: Vec<Rc<Listed>> = together.lists.iter().cloned().map(Rc::new).collect();
                for answer in answers {
                    self.answer(window, answer, &lists, shared);
                }
            } else {
                let loads = loads.remove(&worker).unwrap_or_default();
                let number = self.picker.book.send(now, worker, loads.into_iter());
                let message = Message::Placed {
                    window,
                    from: me,
                    number,
                    lists: together.lists.clone(),
                    answers,
                };
                send(shared, worker, message);
            }
        }
    }
}
