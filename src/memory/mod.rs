//! The memory of placed units, over all workers: requests with one prompt that come after its
//! unit was placed follow it.
//!
//! It is a store and no more; who is placed where is decided elsewhere. It is a hash table in the
//! cells that all workers share, a bucket of units a cell, changed by compare-and-swap:
//!
//! - A **key** says which unit a request is of, and the key's remainder which bucket it is in.
//! - A **change** reads a unit and writes it in one step: if another worker came between, it is
//!   asked again with what that one wrote. So of all that come first, one claims the replica, and
//!   the others follow it.
//! - A unit is **live** while less than the memory's life is over since it was last written. What
//!   is expired counts as absent, and goes whenever its bucket is written.
//! - A bucket has at most 48 units and 8 KiB: past that the least recently written go. Only the
//!   one that was just written may be longer; it is alone then.
//!
//! **Sizes.** A unit takes 30 bytes and 12 for each holder. 100,000 units with one holder take
//! 4.2 MB, and none goes early. However many units there are, with one holder they take at most
//! 8.3 MB; with more holders, 34 MB; and if all of them are on 1024 replicas, 51 MB.
//!
//! **Time.** A bucket is never decoded: a look-up steps from unit to unit, and a change copies
//! the bytes of the others. In a full bucket of 48 units a look-up takes about 2,000
//! instructions, copying the cell included, and a change 4,700. What a client sends decides the
//! bucket, and prompts that are made to meet in one cost no more than that either.

mod bucket;
mod key;

use std::time::Duration;

pub use crate::workers::Change;
use bucket::Bucket;
pub use key::{Key, replica_hash};

use crate::workers::{Cell, Moment, Refused, Shared, update_bytes};

/// What is known of a unit that was placed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unit {
    /// Requests that were placed over its whole life. Whoever adds to it should saturate.
    pub members: u32,
    /// The replicas that it was placed on, in the order in which they are given; past 1024 they
    /// are not kept.
    pub holders: Vec<Holder>,
}

/// A replica that a unit was placed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The [`replica_hash`] of its name. Places in a list would not do: lists change.
    pub replica: u64,
    /// Samples of the unit that were placed there.
    pub weight: u32,
}

/// The memory of placed units. All that it knows is in the shared cells; this is only how long
/// it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In nanoseconds.
    life: u64,
}

impl Memory {
    /// A memory in which a unit lives for `life` after it was last written; zero remembers
    /// nothing.
    #[must_use]
    pub fn new(life: Duration) -> Self {
        let life = u64::try_from(life.as_nanos()).unwrap_or(u64::MAX);
        Self { life }
    }

    /// The live unit of this key. This does not renew it.
    pub fn get(&self, now: Moment, key: Key, shared: &mut dyn Shared) -> Option<Unit> {
        self.look(now, key, &Bucket::read(shared.read(key.cell()).value))
    }

    /// Looks at the live unit of this key, or none, and changes it or not. What is written counts
    /// as used `now`.
    ///
    /// It is one step for all workers: where another one wrote in between, `change` is asked
    /// again, and only its last answer counts.
    ///
    /// # Errors
    /// The write was refused 64 times; nothing is changed.
    pub fn change<R>(
        &self,
        now: Moment,
        key: Key,
        shared: &mut dyn Shared,
        mut change: impl FnMut(Option<&Unit>) -> Change<Unit, R>,
    ) -> Result<R, Refused> {
        update(key.cell(), shared, |bucket| {
            match change(self.look(now, key, bucket).as_ref()) {
                Change::Write(unit, answer) => {
                    Change::Write(self.written(now, key, &unit, bucket), answer)
                }
                Change::Keep(answer) => Change::Keep(answer),
            }
        })
    }

    /// Changes many units as [`Memory::change`] does, reading and writing each bucket once where
    /// nobody comes between. It is one step for each bucket, not for all together.
    ///
    /// Changes of one key are made in the order in which they stand; for other keys `change` may
    /// be asked in any order.
    ///
    /// # Errors
    /// The write of a bucket was refused 64 times: nobody else competes like that, so the host
    /// takes nothing, and the buckets that were still to come are left alone as well.
    pub fn change_many<T>(
        &self,
        now: Moment,
        changes: &[(Key, T)],
        shared: &mut dyn Shared,
        mut change: impl FnMut(&T, Option<&Unit>) -> Change<Unit, ()>,
    ) -> Result<(), Refused> {
        let mut in_order: Vec<&(Key, T)> = changes.iter().collect();
        in_order.sort_by_key(|(key, _)| key.bucket());
        for of_bucket in in_order.chunk_by(|(a, _), (b, _)| a.bucket() == b.bucket()) {
            let Some((first, _)) = of_bucket.first() else {
                continue;
            };
            update(first.cell(), shared, |bucket| {
                let mut changed: Option<Bucket> = None;
                for (key, what) in of_bucket {
                    let before = changed.as_ref().unwrap_or(bucket);
                    if let Change::Write(unit, ()) =
                        change(what, self.look(now, *key, before).as_ref())
                    {
                        changed = Some(self.written(now, *key, &unit, before));
                    }
                }
                match changed {
                    Some(changed) => Change::Write(changed, ()),
                    None => Change::Keep(()),
                }
            })?;
        }
        Ok(())
    }

    fn look(&self, now: Moment, key: Key, bucket: &Bucket) -> Option<Unit> {
        bucket.get(key, |used_at| self.is_live(now, used_at))
    }

    fn written(&self, now: Moment, key: Key, unit: &Unit, bucket: &Bucket) -> Bucket {
        bucket.with(key, unit, now, |used_at| self.is_live(now, used_at))
    }

    /// Whether a unit that was used then is live. Another worker's clock may have been read a
    /// little later than this one's; a moment that is further ahead than that is none that a
    /// worker wrote, and must not live for ever.
    fn is_live(&self, now: Moment, used_at: Moment) -> bool {
        now.0.abs_diff(used_at.0) < self.life
    }
}

/// Reads a bucket, changes it and writes it back, again when somebody came between.
///
/// # Errors
/// The write was refused again and again.
fn update<R>(
    cell: Cell,
    shared: &mut dyn Shared,
    mut change: impl FnMut(&Bucket) -> Change<Bucket, R>,
) -> Result<R, Refused> {
    update_bytes(shared, cell, |bytes| match change(&Bucket::read(bytes)) {
        Change::Keep(answer) => Change::Keep(answer),
        Change::Write(bucket, answer) => Change::Write(bucket.into_bytes(), answer),
    })
}
