//! The table of a [`Tree`](super::tree::Tree): what goes on behind each fork.

/// What a way from a fork leads to, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Fork(u32),
    Leaf(u32),
}

/// Ways by their hashes.
///
/// A slot is half of a hash and what it leads to, so that a look-up seldom reads anything but the
/// table, and the table is small.
pub(super) struct Ways {
    /// A power of two of them; 0 = vacant.
    slots: Vec<u64>,
    /// Bits of a hash that aren't needed to find its slot.
    shift: u32,
    filled: usize,
}

/// Slots in the beginning, as a power of two.
const FEWEST: u32 = 6;

impl Ways {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            slots: vec![0; 1 << FEWEST],
            shift: 64 - FEWEST,
            filled: 0,
        }
    }

    /// The place of the first way with this hash that `recognise` knows, and what it says of it;
    /// where there is none, a vacant place for one.
    #[inline]
    pub(super) fn find<T>(
        &self,
        hash: u64,
        recognise: impl Fn(Way) -> Option<T>,
    ) -> Result<(usize, T), usize> {
        let mut place = self.place(hash);
        loop {
            let slot = self.slots.get(place).copied().unwrap_or(0);
            if slot == 0 {
                return Err(place);
            }
            if slot >> 32 == hash >> 32
                && let Some(known) = recognise(way(slot))
            {
                return Ok((place, known));
            }
            place = self.next(place);
        }
    }

    /// Puts a way into a vacant place. From then on no place found before is valid.
    #[inline]
    pub(super) fn fill(&mut self, place: usize, hash: u64, way: Way) {
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = hash >> 32 << 32 | number(way);
            self.filled += 1;
        }
        if self.filled * 8 >= self.slots.len() * 6 {
            self.grow();
        }
    }

    /// Adds a way whatever others there are.
    pub(super) fn add(&mut self, hash: u64, way: Way) {
        if let Err(vacant) = self.find(hash, |_| None::<()>) {
            self.fill(vacant, hash, way);
        }
    }

    /// The way in this place leads to something else from now on.
    pub(super) fn turn(&mut self, place: usize, way: Way) {
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = *slot >> 32 << 32 | number(way);
        }
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    #[inline]
    fn next(&self, place: usize) -> usize {
        (place + 1) & self.slots.len().wrapping_sub(1)
    }

    /// Doubles the table. Places go by the upper bits of hashes, so both are gone through in order.
    fn grow(&mut self) {
        let length = self.slots.len() * 4;
        let slots = std::mem::replace(&mut self.slots, vec![0; length]);
        self.shift = 64 - length.trailing_zeros();
        for slot in slots.into_iter().filter(|&slot| slot != 0) {
            let mut place = self.place(slot);
            while let Some(there) = self.slots.get_mut(place) {
                if *there == 0 {
                    *there = slot;
                    break;
                }
                place = self.next(place);
            }
        }
    }
}

#[inline]
fn way(slot: u64) -> Way {
    let number = slot as u32;
    if number & 1 == 1 {
        Way::Leaf(number >> 1)
    } else {
        Way::Fork(number >> 1)
    }
}

/// Never 0, as no way leads back to the first fork.
#[inline]
fn number(way: Way) -> u64 {
    match way {
        Way::Fork(number) => u64::from(number << 1),
        Way::Leaf(number) => u64::from(number << 1 | 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_found_by_hash_and_recognised_in_a_table_that_grows() {
        let mut ways = Ways::new();
        // Hashes of which many are equal, and those at the end of the table go on at its start.
        let hash = |i: u32| u64::MAX - (u64::from(i / 3) << 33);
        for i in 0..1_000 {
            ways.add(hash(i), Way::Leaf(i));
        }
        for i in 0..1_000 {
            let is_it = |way| (way == Way::Leaf(i)).then_some(());
            let (place, ()) = ways.find(hash(i), is_it).unwrap();
            ways.turn(place, Way::Fork(i + 1));
            assert!(ways.find(hash(i), is_it).is_err());
        }
        assert!(ways.find(1 << 33, Some).is_err());
    }
}
