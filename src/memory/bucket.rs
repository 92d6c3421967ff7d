//! The bytes of a bucket: a format number, then its units, the most recently written first.
//!
//! | bytes of a unit | |
//! |---|---|
//! | 16 | its key |
//! | 8 | when it was last used, in nanoseconds |
//! | 4 | members |
//! | 2 | number of holders |
//! | 12 each | holders: 8 the replica, 4 the weight |
//!
//! All numbers are little-endian. Fields of fixed width take a few bytes more than the shortest
//! form would, and are what lets a change step over the units that it only copies.

use super::{Holder, Key, Unit};
use crate::workers::Moment;

/// Changes with the form of what follows; a bucket with another number counts as empty.
const FORMAT: u8 = 1;
/// A unit without its holders.
const HEAD: usize = 30;
/// A holder.
const HOLDER: usize = 12;

/// The most units of a bucket. 100,000 units are 24.4 a bucket on average, about 5 standard
/// deviations below this.
pub(super) const MOST_UNITS: usize = 48;
/// The most bytes of a bucket, unless it is one unit alone.
pub(super) const MOST_BYTES: usize = 8 << 10;
/// The most holders of a unit; more are forgotten.
pub(super) const MOST_HOLDERS: usize = 1024;
/// The most bytes of a bucket: one unit with all its holders.
const LONGEST: usize = 1 + HEAD + MOST_HOLDERS * HOLDER;

/// A bucket as it was read, or is to be written.
pub(super) struct Bucket(Vec<u8>);

impl Bucket {
    /// The bucket with this value; an empty one where there is none, or none that this version
    /// could have written.
    pub(super) fn read(value: Option<Vec<u8>>) -> Self {
        let read = value.map(Self).filter(Self::is_whole);
        read.unwrap_or_else(|| Self(vec![FORMAT]))
    }

    /// The value to write.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The unit of this key, unless it is expired.
    pub(super) fn get(&self, key: Key, is_live: impl Fn(Moment) -> bool) -> Option<Unit> {
        let found = self.entries().find(|entry| entry.key() == key)?;
        is_live(found.used_at()).then(|| found.unit())
    }

    /// This bucket once this unit was used `now`: without those that are expired, and without
    /// the least recently written where they are too many.
    pub(super) fn with(
        &self,
        key: Key,
        unit: &Unit,
        now: Moment,
        is_live: impl Fn(Moment) -> bool,
    ) -> Self {
        let room = self.0.len() + HEAD + unit.holders.len().min(MOST_HOLDERS) * HOLDER;
        let mut bytes = Vec::with_capacity(room);
        bytes.push(FORMAT);
        write_unit(&mut bytes, key, unit, now);
        let mut units = 1;
        // Few units go, so what stays is copied in few runs: `run` begins with `stays` bytes that
        // are not copied yet.
        let mut run = self.entries().0;
        let mut stays = 0;
        for entry in self.entries() {
            if entry.key() == key || !is_live(entry.used_at()) {
                bytes.extend_from_slice(run.get(..stays).unwrap_or_default());
                run = run.get(stays + entry.len()..).unwrap_or_default();
                stays = 0;
            } else if units < MOST_UNITS && bytes.len() + stays + entry.len() <= MOST_BYTES {
                stays += entry.len();
                units += 1;
            } else {
                break;
            }
        }
        bytes.extend_from_slice(run.get(..stays).unwrap_or_default());
        Self(bytes)
    }

    fn entries(&self) -> Entries<'_> {
        Entries(self.0.get(1..).unwrap_or_default())
    }

    /// Whether all bytes are units.
    fn is_whole(&self) -> bool {
        let mut entries = self.entries();
        entries.by_ref().for_each(drop);
        self.0.first() == Some(&FORMAT) && self.0.len() <= LONGEST && entries.0.is_empty()
    }
}

fn write_unit(bytes: &mut Vec<u8>, key: Key, unit: &Unit, now: Moment) {
    let holders = unit.holders.iter().take(MOST_HOLDERS);
    // At most MOST_HOLDERS, which is a u16.
    let count = u16::try_from(holders.len()).unwrap_or_default();
    bytes.extend_from_slice(&key.0.to_le_bytes());
    bytes.extend_from_slice(&now.0.to_le_bytes());
    bytes.extend_from_slice(&unit.members.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    for holder in holders {
        bytes.extend_from_slice(&holder.replica.to_le_bytes());
        bytes.extend_from_slice(&holder.weight.to_le_bytes());
    }
}

/// The units of a bucket, up to the first that is cut off.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (head, rest) = self.0.split_first_chunk()?;
        let holders = usize::from(u16::from_le_bytes(*head.last_chunk()?));
        let (holders, rest) = rest.split_at_checked(holders * HOLDER)?;
        self.0 = rest;
        Some(Entry { head, holders })
    }
}

/// A unit as it stands in the bytes.
struct Entry<'a> {
    head: &'a [u8; HEAD],
    holders: &'a [u8],
}

impl Entry<'_> {
    fn len(&self) -> usize {
        HEAD + self.holders.len()
    }

    fn key(&self) -> Key {
        Key(u128::from_le_bytes(self.field::<0, 16>()))
    }

    fn used_at(&self) -> Moment {
        Moment(u64::from_le_bytes(self.field::<16, 8>()))
    }

    fn unit(&self) -> Unit {
        let holders = self.holders.as_chunks::<HOLDER>().0;
        Unit {
            members: u32::from_le_bytes(self.field::<24, 4>()),
            holders: holders.iter().filter_map(holder).collect(),
        }
    }

    /// The bytes of the head from `AT`; both are constants, so that this is one load.
    fn field<const AT: usize, const LENGTH: usize>(&self) -> [u8; LENGTH] {
        let field = self.head.get(AT..).and_then(<[u8]>::first_chunk);
        field.copied().unwrap_or([0; LENGTH])
    }
}

fn holder(bytes: &[u8; HOLDER]) -> Option<Holder> {
    Some(Holder {
        replica: u64::from_le_bytes(*bytes.first_chunk()?),
        weight: u32::from_le_bytes(*bytes.last_chunk()?),
    })
}
