//! Who listens on which queue.
//!
//! A queue can never be removed and messages to a dead worker are never read, so queues are
//! numbered slots that are used again. A slot is leased: its worker renews the lease while it is
//! at work, and a slot whose lease ran out goes to the next worker that needs one. Each lease has
//! a number of its own, the incarnation, by which late messages to an earlier one are known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::shared::{Cell, Change, Moment, Refused, Shared, Slot, update};

/// A worker may rely on its slot for this long after a renewal. Far longer than the longest
/// window, so that no worker loses its slot while it holds requests.
const LEASE: Duration = Duration::from_secs(60);
/// A worker at work renews a lease that is older than this.
const RENEW_AFTER: Duration = Duration::from_secs(10);
/// The most slots; a worker past that holds nothing.
const MOST_SLOTS: usize = 512;

/// A worker, as other workers address it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// Its queue.
    pub slot: Slot,
    /// Which lease of that slot; never used twice.
    pub incarnation: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Slots {
    last_incarnation: u64,
    leases: Vec<Lease>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Lease {
    incarnation: u64,
    renewed_at: Moment,
}

/// This worker's own lease.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    current: Option<(WorkerId, Moment)>,
}

impl Membership {
    /// Who this worker is, if it has a slot, without a look at the others.
    pub(crate) fn id(&self) -> Option<WorkerId> {
        self.current.map(|(id, _)| id)
    }

    /// Who this worker is, with a lease that holds; takes a slot where it has none or lost it.
    ///
    /// # Errors
    /// All slots are taken, or the host did not give a queue.
    pub(crate) fn renewed(
        &mut self,
        now: Moment,
        shared: &mut dyn Shared,
    ) -> Result<WorkerId, Refused> {
        if let Some((id, renewed_at)) = self.current
            && now.since(renewed_at) < RENEW_AFTER
        {
            return Ok(id);
        }
        let before = self.id();
        let id = update(shared, Cell::Slots, |slots: Option<Slots>| {
            let mut slots = slots.unwrap_or_default();
            match before
                .filter(|id| slots.renew(*id, now))
                .or_else(|| slots.lease(now))
            {
                Some(id) => Change::Write(slots, Ok(id)),
                None => Change::Keep(Err(Refused)),
            }
        })??;
        if before != Some(id) {
            self.current = None;
            shared.listen(id.slot)?;
        }
        self.current = Some((id, now));
        Ok(id)
    }
}

/// All workers that have a slot, those that died since included.
pub(crate) fn leased(shared: &mut dyn Shared) -> Vec<WorkerId> {
    let stored = shared.read(Cell::Slots).value;
    let slots: Slots = stored
        .and_then(|bytes| postcard::from_bytes(&bytes).ok())
        .unwrap_or_default();
    let leases = slots.leases.into_iter().zip(0..).take(MOST_SLOTS);
    let ids = leases.map(|(lease, slot)| WorkerId {
        slot,
        incarnation: lease.incarnation,
    });
    ids.collect()
}

impl Slots {
    fn renew(&mut self, id: WorkerId, now: Moment) -> bool {
        match self.leases.get_mut(usize::from(id.slot)) {
            Some(lease) if lease.incarnation == id.incarnation => {
                lease.renewed_at = now;
                true
            }
            _ => false,
        }
    }

    fn lease(&mut self, now: Moment) -> Option<WorkerId> {
        let incarnation = self.last_incarnation.checked_add(1)?;
        let lease = Lease {
            incarnation,
            renewed_at: now,
        };
        let ran_out = |lease: &Lease| now.since(lease.renewed_at) > LEASE;
        let slot = self.leases.iter().position(ran_out);
        let slot = slot.unwrap_or(self.leases.len());
        if slot >= MOST_SLOTS {
            return None;
        }
        match self.leases.get_mut(slot) {
            Some(free) => *free = lease,
            None => self.leases.push(lease),
        }
        self.last_incarnation = incarnation;
        Some(WorkerId {
            slot: Slot::try_from(slot).ok()?,
            incarnation,
        })
    }
}
