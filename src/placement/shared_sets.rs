//! Sets of replicas that many name.

use super::bits::BitSets;
use super::intern::NONE;

/// Sets that many blocks name. A set that no block names any more makes room for another.
pub(super) struct SharedSets {
    sets: BitSets,
    /// How many name each set.
    uses: Vec<u32>,
    free: Vec<u32>,
    /// The set of each replica alone, once there is one. Most units go to one replica, and there
    /// are far more units than replicas.
    singles: Vec<u32>,
    scratch: Vec<u64>,
}

impl SharedSets {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            sets: BitSets::new(replicas),
            uses: Vec::new(),
            free: Vec::new(),
            singles: vec![NONE; replicas],
            scratch: Vec::new(),
        }
    }

    /// How many sets there are, those in use by nobody included.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }

    pub(super) fn get(&self, number: u32) -> &[u64] {
        self.sets.get(number)
    }

    /// A set of its own with this content, in use once.
    pub(super) fn add(&mut self, set: &[u64]) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.sets.get_mut(number).copy_from_slice(set);
                self.retain(number);
                number
            }
            None => {
                self.sets.push(set);
                self.uses.push(1);
                self.uses.len() as u32 - 1
            }
        }
    }

    /// The set of this replica alone, in use once more. It stays for the whole batch.
    pub(super) fn add_single(&mut self, rank: u32, set: &[u64]) -> u32 {
        let known = self.singles.get(rank as usize).copied().unwrap_or(NONE);
        if known != NONE {
            self.retain(known);
            return known;
        }
        let number = self.add(set);
        if let Some(single) = self.singles.get_mut(rank as usize) {
            *single = number;
            self.retain(number);
        }
        number
    }

    /// The number of a set that is the union of both: one of them where it can be. A new one is
    /// in use by nobody until it is retained.
    pub(super) fn union(&mut self, a: u32, b: u32) -> u32 {
        let mut union = std::mem::take(&mut self.scratch);
        union.clear();
        let words = self.get(a).iter().zip(self.get(b));
        union.extend(words.map(|(a, b)| a | b));
        let number = if union == self.get(a) {
            a
        } else if union == self.get(b) {
            b
        } else {
            let number = self.add(&union);
            if let Some(uses) = self.uses.get_mut(number as usize) {
                *uses = 0;
            }
            number
        };
        self.scratch = union;
        number
    }

    pub(super) fn retain(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(number as usize) {
            *uses += 1;
        }
    }

    pub(super) fn release(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(number as usize) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.free.push(number);
            }
        }
    }
}
