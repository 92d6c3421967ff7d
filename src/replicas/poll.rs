//! Who asks Envoy's admin, and when.
//!
//! No worker leads. Each wakes when the next question is due; the first one that finds so claims
//! it by compare-and-swap and asks, and the others see the claim and sleep on. So there is one
//! question at a time, over all workers, and any of them can die: a claim whose answer never came
//! runs out, later than the call itself.
//!
//! A good answer is written in two steps: first the list, then its version in the small record.
//! Whoever claims next can only do so after the claim before it ended, and the list is written
//! with the version that the cell had before the claim was looked at, so that a worker that slept
//! in between overwrites no newer one. A bad answer changes nothing but the record: the last good
//! list stays, and grows older.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::{Cause, Failure};
use super::{Admin, Pools};
use crate::workers::{Cell, Change, Moment, Shared, update};

/// The least and the most time that a question is given.
const TIMEOUT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// A claim runs out this much later than its call, whose end may come late.
const CLAIM_SLACK: Duration = Duration::from_secs(1);

/// What the workers know of the questions: the small cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The number of the last question, from 1.
    number: u64,
    /// When it was asked.
    asked_at: Moment,
    /// Whether its answer is still to come.
    in_flight: bool,
    /// The question whose answer is the list; 0 where there is no list yet.
    listed: u64,
    /// When that answer came; before the first one, when the first question was asked.
    fetched_at: Moment,
    /// Replicas in that list, over all pools.
    usable: u32,
    /// What was wrong with the last answer.
    trouble: Option<Cause>,
}

impl Record {
    /// The record, as it stands in its cell. What cannot be read counts as never written.
    pub(super) fn read(shared: &mut dyn Shared) -> Self {
        let value = shared.read(Cell::Poll).value.unwrap_or_default();
        postcard::from_bytes(&value).unwrap_or_default()
    }

    /// The version of the list; none where there is none.
    pub(super) fn version(&self) -> Option<u64> {
        (self.listed != 0).then_some(self.listed)
    }
}

/// A worker's part in asking.
#[derive(Debug)]
pub struct Poller {
    refresh: Duration,
    timeout: Duration,
    wake_at: Moment,
    /// The record as it was last seen.
    seen: Option<Record>,
    /// The number of the question that this worker asked, until its answer is there.
    own: Option<u64>,
}

impl Poller {
    /// A worker that wakes at once.
    #[must_use]
    pub fn new(admin: &Admin) -> Self {
        let (least, most) = TIMEOUT;
        Self {
            refresh: admin.refresh,
            timeout: admin.refresh.clamp(least, most),
            wake_at: Moment::default(),
            seen: None,
            own: None,
        }
    }

    /// How long a call may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// When to call [`Poller::claim`] next.
    #[must_use]
    pub fn wake_at(&self) -> Moment {
        self.wake_at
    }

    /// How old the last good list is, as far as this worker knows; before the first one, how long
    /// one has been asked for. None before the first look.
    #[must_use]
    pub fn age(&self, now: Moment) -> Option<Duration> {
        Some(now.since(self.seen?.fetched_at))
    }

    /// The number of replicas in the last good list, over all pools; 0 before the first one, none
    /// before the first look.
    #[must_use]
    pub fn usable(&self) -> Option<u32> {
        Some(self.seen?.usable)
    }

    /// This worker wakes. True where it is the one to ask now; then [`Poller::answered`] must
    /// follow, also if the call cannot be made.
    pub fn claim(&mut self, now: Moment, shared: &mut dyn Shared) -> bool {
        let (refresh, expiry) = (self.refresh, self.timeout + CLAIM_SLACK);
        let claimed = update(shared, Cell::Poll, |record: Option<Record>| {
            let mut record = record.unwrap_or_default();
            let waited = now.since(record.asked_at);
            let patience = if record.in_flight {
                refresh.max(expiry)
            } else {
                refresh
            };
            if record.number > 0 && waited < patience {
                return Change::Keep((record, false));
            }
            if record.number == 0 {
                record.fetched_at = now;
            }
            record.number = record.number.saturating_add(1);
            record.asked_at = now;
            record.in_flight = true;
            Change::Write(record, (record, true))
        });
        let Ok((record, claimed)) = claimed else {
            self.wake_at = now.plus(refresh);
            return false;
        };
        self.seen = Some(record);
        if claimed {
            self.own = Some(record.number);
        }
        let next = record.asked_at.plus(refresh);
        self.wake_at = if next > now {
            next
        } else {
            // Somebody still waits for an answer: the age is told all the same.
            now.plus(refresh).min(record.asked_at.plus(expiry))
        };
        claimed
    }

    /// The answer to this worker's question has come, or will not. True where it is bad in a way
    /// in which the last answer, whoever got it, was not: then it is worth a line in the log.
    pub fn answered(
        &mut self,
        now: Moment,
        answer: &Result<Pools, Failure>,
        shared: &mut dyn Shared,
    ) -> bool {
        let Some(own) = self.own.take() else {
            return false;
        };
        let trouble = match answer {
            Ok(pools) if self.publish(own, pools, shared) => None,
            // The host did not take the list: the next answer may fare better.
            Ok(_) => Some(Cause::Call),
            Err(failure) => Some(failure.cause()),
        };
        let listed = answer.as_ref().ok().filter(|_| trouble.is_none());
        let ended = update(shared, Cell::Poll, |record: Option<Record>| {
            let mut record = record.unwrap_or_default();
            if record.number != own || !record.in_flight {
                // The claim ran out, and somebody else asks now.
                return Change::Keep((record, false));
            }
            let news = trouble.is_some() && trouble != record.trouble;
            record.in_flight = false;
            record.trouble = trouble;
            if let Some(pools) = listed {
                record.listed = own;
                record.fetched_at = now;
                record.usable = u32::try_from(pools.usable()).unwrap_or(u32::MAX);
            }
            Change::Write(record, (record, news))
        });
        match ended {
            Ok((record, news)) => {
                self.seen = Some(record);
                news
            }
            Err(_) => false,
        }
    }

    /// Writes the list, unless the claim is lost.
    fn publish(&self, own: u64, pools: &Pools, shared: &mut dyn Shared) -> bool {
        let Ok(bytes) = postcard::to_allocvec(pools) else {
            return false;
        };
        // Before the look at the claim: a newer list has another version.
        let seen = shared.read(Cell::Replicas).version;
        let record = Record::read(shared);
        record.number == own
            && record.in_flight
            && shared.write(Cell::Replicas, &bytes, seen).is_ok()
    }
}
