//! Boxes, and their layout in slots.
//!
//! ```text
//!  one slot       │ remainder, r bits       │ least memento, m bits │
//!  of age a       │ r - a bits │ 1 │ a × 0  │ least memento, m bits │
//!  extensions     │ more of the fingerprint, a whole slot each      │
//!  counters       │ memento 1 │ memento 1 │ memento 1 │ 0 … 0       │
//! ```
//!
//! The other mementos follow the fingerprint, in *cells*. A cell is a bit that is 1, and the m bits
//! of a memento. Cells are packed into the slots from the low bits up, and zeros fill the last
//! slot. So a member that is alone in its partition takes one slot, and each further member of the
//! partition takes m + 1 bits.
//!
//! # Ages
//! An expandable filter takes one more bit per slot. Each doubling moves the first bit of the
//! remainder to the quotient, and shifts the rest up by one. The lowest set bit marks the end of
//! the remainder, and so records the number of doublings, the *age*. Extensions stay unchanged.
//! Remainder and mark together are the *heading*. Boxes are sorted by heading, so doubling keeps
//! their order, and boxes whose fingerprints have a common prefix are neighbours.

use crate::bits::word::low_bits;
use crate::fingerprint::{Digits, Fingerprint};
use crate::table::{Kind, Slot};

/// Maximum width of a memento in bits.
pub(super) const MOST_MEMENTO_BITS: u32 = 20;

/// A box: all members whose partitions share a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeBox {
    /// The first bits of the hashes of the members' partitions.
    pub fingerprint: Fingerprint,
    /// Number of doublings since the box was written. Its remainder is shorter by `age` bits.
    pub age: u32,
    /// The members' positions in their partitions, in order. There is at least one, and each
    /// occurs as often as it was inserted.
    pub mementos: Vec<u64>,
}

/// The layout of boxes in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// The digits of boxes of age 0.
    pub(super) digits: Digits,
    pub(super) memento_bits: u32,
    pub(super) has_ages: bool,
}

impl Spelling {
    /// Returns the layout for a table of `slots` slots, and remainders of `remainder` bits.
    pub(super) fn new(slots: u64, remainder: u32, memento_bits: u32, has_ages: bool) -> Self {
        let width = remainder + u32::from(has_ages) + memento_bits;
        Self { digits: Digits::plain(slots, remainder, width), memento_bits, has_ages }
    }

    /// Returns the age at which a box has no bits of its remainder left.
    pub(super) fn greatest_age(self) -> u32 {
        if self.has_ages { self.digits.remainder } else { 0 }
    }

    /// Returns the digits of a box of this age.
    pub(super) fn digits_at(self, age: u32) -> Digits {
        Digits { remainder: self.digits.remainder - age, ..self.digits }
    }

    /// Returns the heading of a box: its first slot without the memento.
    #[inline(always)]
    pub(super) fn heading(self, remainder: u64, age: u32) -> u64 {
        if self.has_ages { (remainder << 1 | 1) << age } else { remainder }
    }

    /// Returns the first slot of a box of age 0.
    #[inline(always)]
    pub(super) fn first(self, remainder: u64, memento: u64) -> u64 {
        self.heading(remainder, 0) << self.memento_bits | memento
    }

    /// Returns the memento in the first slot of a box.
    #[inline(always)]
    pub(super) fn memento(self, first: u64) -> u64 {
        first & low_bits(self.memento_bits)
    }

    /// Returns the age in the first slot of a box. The result is more than the greatest age if the
    /// slot is malformed.
    #[inline(always)]
    pub(super) fn age(self, first: u64) -> u32 {
        if self.has_ages { (first >> self.memento_bits).trailing_zeros() } else { 0 }
    }

    /// Returns the number of bits after the remainder in the first slot of a box of this age.
    #[inline(always)]
    pub(super) fn bits_after(self, age: u32) -> u32 {
        self.memento_bits + u32::from(self.has_ages) + age
    }

    /// Returns whether the remainder in the first slot of a box is a prefix of `remainder`.
    #[inline(always)]
    pub(super) fn begins_with(self, first: u64, remainder: u64) -> bool {
        let heading = first >> self.memento_bits;
        if self.has_ages {
            // Selects the bits above the lowest set bit.
            let known = !(heading ^ heading.wrapping_sub(1));
            (heading ^ remainder << 1) & known == 0
        } else {
            heading == remainder
        }
    }

    /// Returns whether the first slot of a box has a memento in `least..=most`, and a remainder
    /// that is a prefix of `remainder`.
    #[inline(always)]
    pub(super) fn shows(self, first: u64, remainder: u64, least: u64, most: u64) -> bool {
        let memento = self.memento(first);
        let is_there = u64::from(self.begins_with(first, remainder))
            & u64::from(memento >= least)
            & u64::from(memento <= most);
        is_there == 1
    }

    /// Encodes a box as slots.
    pub(super) fn slots(self, range_box: &RangeBox) -> Vec<Slot> {
        let (first, others) = range_box.mementos.split_first().expect("a box has a memento");
        let digits = self.digits_at(range_box.age).of(range_box.fingerprint);
        let mut slots: Vec<Slot> =
            digits.map(|value| Slot { value, kind: Kind::Extension }).collect();
        let heading = self.heading(slots[0].value, range_box.age);
        slots[0] = Slot { value: heading << self.memento_bits | first, kind: Kind::Remainder };
        let (width, cell_bits) = (self.digits.width, self.memento_bits + 1);
        let counter =
            |bits: u128| Slot { value: bits as u64 & low_bits(width), kind: Kind::Counter };
        let (mut bits, mut count) = (0u128, 0);
        for memento in others {
            bits |= u128::from(memento << 1 | 1) << count;
            count += cell_bits;
            while count >= width {
                slots.push(counter(bits));
                bits >>= width;
                count -= width;
            }
        }
        if count > 0 {
            slots.push(counter(bits));
        }
        slots
    }

    /// Iterates over the mementos in the cells of these slots.
    pub(super) fn cells(
        self,
        slots: impl Iterator<Item = u64>,
    ) -> Cells<impl Iterator<Item = u64>> {
        Cells { spelling: self, slots, bits: 0, count: 0 }
    }

    /// Returns the number of slots that `cells` cells take.
    pub(super) fn slots_of_cells(self, cells: u64) -> u64 {
        (cells * u64::from(self.memento_bits + 1)).div_ceil(self.digits.width.into())
    }
}

/// Reads mementos out of cells.
pub(super) struct Cells<I> {
    spelling: Spelling,
    slots: I,
    /// Bits that were read, but not used yet.
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
    /// Returns whether only zeros are left.
    pub(super) fn ends_blank(mut self) -> bool {
        self.bits == 0 && self.slots.all(|slot| slot == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hash;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn box_survives_encoding_and_decoding(
            remainder in 1u32..=30, memento_bits in 0..=MOST_MEMENTO_BITS, digits in 1u32..4,
            has_ages in any::<bool>(), age in any::<u32>(),
            hash in any::<u128>(), mementos in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let spelling = Spelling::new(1000, remainder, memento_bits, has_ages);
            let age = age % (spelling.greatest_age() + 1);
            let scaled = spelling.digits.scale(Hash::from_u128(hash));
            let digits = digits.min(spelling.digits_at(age).most());
            let mut mementos: Vec<u64> =
                mementos.into_iter().map(|memento| memento & low_bits(memento_bits)).collect();
            mementos.sort_unstable();
            let fingerprint = spelling.digits_at(age).fingerprint(scaled, digits);
            let slots = spelling.slots(&RangeBox { fingerprint, age, mementos: mementos.clone() });
            let width = spelling.digits.width;
            prop_assert!(slots.iter().all(|slot| slot.value <= low_bits(width)));
            let cells = slots.iter().filter(|slot| slot.kind == Kind::Counter);
            let others = mementos.len() as u64 - 1;
            prop_assert_eq!(cells.clone().count() as u64, spelling.slots_of_cells(others));
            let mut cells = spelling.cells(cells.map(|slot| slot.value));
            prop_assert!(cells.by_ref().eq(mementos[1..].iter().copied()));
            prop_assert!(cells.ends_blank());
            prop_assert_eq!(spelling.age(slots[0].value), age);
            prop_assert_eq!(spelling.memento(slots[0].value), mementos[0]);
            prop_assert_eq!(slots.len() as u64,
                u64::from(digits) + spelling.slots_of_cells(others));
        }

        #[test]
        fn shortened_remainder_matches_partitions_with_same_prefix(
            remainder in 1u32..=12, age in any::<u32>(), has_ages in any::<bool>(),
            [member, other] in any::<[u64; 2]>(), shared in 0u32..=12,
        ) {
            let spelling = Spelling::new(1000, remainder, 3, has_ages);
            let age = age % (spelling.greatest_age() + 1);
            let [member, other] = [member, other].map(|bits| bits & low_bits(remainder));
            let differing = low_bits(remainder.saturating_sub(shared));
            let other = member & !differing | other & differing;
            let first = spelling.heading(member >> age, age) << 3 | 5;
            prop_assert_eq!(spelling.begins_with(first, other), member >> age == other >> age);
            prop_assert_eq!(spelling.shows(first, other, 3, 5), member >> age == other >> age);
            prop_assert!(!spelling.shows(first, other, 6, 7));
            prop_assert!(!spelling.shows(first, other, 0, 4));
        }
    }
}
