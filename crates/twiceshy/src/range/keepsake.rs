//! Keepsake boxes, and how they are written in slots.
//!
//! ```text
//!  one slot       │ remainder, r bits │ least memento, m bits │
//!  extensions     │ more of the fingerprint, r + m bits each  │
//!  counters       │ memento 1 │ memento 1 │ memento 1 │ 0 … 0 │
//! ```
//!
//! Behind the fingerprint come the other mementos, in *cells*: a bit that says that there is
//! one, and its m bits. Cells follow each other through the slots, from their low bits up, and
//! zeros fill the last one. So a member that is alone in its partition takes one slot, and each
//! of its neighbours m + 1 bits.

use crate::Fingerprint;
use crate::bits::word::low_bits;
use crate::fingerprint::Digits;
use crate::table::{Kind, Slot};

/// The most bits of a memento.
pub(super) const MOST_MEMENTO_BITS: u32 = 20;

/// A fingerprint, and the mementos of all members whose partitions it covers: at least one, in
/// order, each as often as it was inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keepsake {
    pub(super) fingerprint: Fingerprint,
    pub(super) mementos: Vec<u64>,
}

/// How boxes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    pub(super) digits: Digits,
    pub(super) memento_bits: u32,
}

impl Spelling {
    /// What the first slot of a box has.
    #[inline(always)]
    pub(super) fn first(self, remainder: u64, memento: u64) -> u64 {
        remainder << self.memento_bits | memento
    }

    /// The memento in the first slot of a box.
    #[inline(always)]
    pub(super) fn memento(self, first: u64) -> u64 {
        first & low_bits(self.memento_bits)
    }

    /// The slots of a box.
    pub(super) fn slots(self, keepsake: &Keepsake) -> Vec<Slot> {
        let (first, others) = keepsake.mementos.split_first().expect("a box has a memento");
        let fingerprint = self.digits.of(keepsake.fingerprint).enumerate();
        let mut slots: Vec<Slot> = fingerprint
            .map(|(index, digit)| match index {
                0 => Slot { value: self.first(digit, *first), kind: Kind::Remainder },
                _ => Slot { value: digit, kind: Kind::Extension },
            })
            .collect();
        let (width, cell_bits) = (self.digits.width, self.memento_bits + 1);
        let (mut bits, mut count) = (0u128, 0);
        for memento in others {
            bits |= u128::from(memento << 1 | 1) << count;
            count += cell_bits;
            while count >= width {
                slots.push(self.counter(bits));
                bits >>= width;
                count -= width;
            }
        }
        if count > 0 {
            slots.push(self.counter(bits));
        }
        slots
    }

    fn counter(self, bits: u128) -> Slot {
        Slot { value: bits as u64 & low_bits(self.digits.width), kind: Kind::Counter }
    }

    /// The mementos in the cells of these slots, in the order in which they are written.
    pub(super) fn cells(
        self,
        slots: impl Iterator<Item = u64>,
    ) -> Cells<impl Iterator<Item = u64>> {
        Cells { spelling: self, slots, bits: 0, count: 0 }
    }

    /// How many slots it takes to hold so many cells.
    pub(super) fn slots_of_cells(self, cells: u64) -> u64 {
        (cells * u64::from(self.memento_bits + 1)).div_ceil(self.digits.width.into())
    }
}

/// Reads mementos out of cells.
pub(super) struct Cells<I> {
    spelling: Spelling,
    slots: I,
    /// What was read, and not used yet.
    bits: u128,
    count: u32,
}

impl<I: Iterator<Item = u64>> Iterator for Cells<I> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let cell_bits = self.spelling.memento_bits + 1;
        while self.count < cell_bits {
            self.bits |= u128::from(self.slots.next()?) << self.count;
            self.count += self.spelling.digits.width;
        }
        if self.bits & 1 == 0 {
            return None;
        }
        let memento = (self.bits >> 1) as u64 & low_bits(self.spelling.memento_bits);
        self.bits >>= cell_bits;
        self.count -= cell_bits;
        Some(memento)
    }
}

impl<I: Iterator<Item = u64>> Cells<I> {
    /// Whether nothing but zeros is left.
    pub(super) fn ends_blank(self) -> bool {
        self.bits == 0 && self.slots.sum::<u64>() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hash;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            remainder in 1u32..=30, memento_bits in 0..=MOST_MEMENTO_BITS, digits in 1u32..4,
            hash in any::<u128>(), mementos in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let width = remainder + memento_bits;
            let spelling =
                Spelling { digits: Digits { slots: 1000, remainder, width }, memento_bits };
            let scaled = spelling.digits.scale(Hash::from_u128(hash));
            let digits = digits.min(spelling.digits.most());
            let mut mementos: Vec<u64> =
                mementos.into_iter().map(|memento| memento & low_bits(memento_bits)).collect();
            mementos.sort_unstable();
            let fingerprint = spelling.digits.fingerprint(scaled, digits);
            let slots = spelling.slots(&Keepsake { fingerprint, mementos: mementos.clone() });
            prop_assert!(slots.iter().all(|slot| slot.value <= low_bits(width)));
            let cells = slots.iter().filter(|slot| slot.kind == Kind::Counter);
            let others = mementos.len() as u64 - 1;
            prop_assert_eq!(cells.clone().count() as u64, spelling.slots_of_cells(others));
            let mut cells = spelling.cells(cells.map(|slot| slot.value));
            prop_assert!(cells.by_ref().eq(mementos[1..].iter().copied()));
            prop_assert!(cells.ends_blank());
            prop_assert_eq!(slots[0].value, spelling.first(
                spelling.digits.digit(scaled.fraction, 0), mementos[0]));
            prop_assert_eq!(slots.len() as u64,
                u64::from(digits) + spelling.slots_of_cells(others));
        }
    }
}
