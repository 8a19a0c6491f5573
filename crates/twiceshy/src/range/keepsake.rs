//! Keepsake boxes, and how they are written in slots.
//!
//! ```text
//!  one slot       │ remainder, r bits       │ least memento, m bits │
//!  of age a       │ r - a bits │ 1 │ a × 0  │ least memento, m bits │
//!  extensions     │ more of the fingerprint, a whole slot each      │
//!  counters       │ memento 1 │ memento 1 │ memento 1 │ 0 … 0       │
//! ```
//!
//! Behind the fingerprint come the other mementos, in *cells*: a bit that says that there is
//! one, and its m bits. Cells follow each other through the slots, from their low bits up, and
//! zeros fill the last one. So a member that is alone in its partition takes one slot, and each
//! of its neighbours m + 1 bits.
//!
//! # Ages
//! A filter that expands takes one bit more. Each doubling moves the first bit of the remainder
//! to the quotient, and the rest moves up by one: the lowest bit that is set says where the
//! remainder ends, so how often that was done. Extensions stay as they are. Boxes are sorted by
//! this *heading*, so that doubling keeps their order, and all whose fingerprints begin alike
//! are neighbours.

use crate::Fingerprint;
use crate::bits::word::low_bits;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Kind, Slot};

/// The most bits of a memento.
pub(super) const MOST_MEMENTO_BITS: u32 = 20;

/// A fingerprint, and the mementos of all members whose partitions it covers: at least one, in
/// order, each as often as it was inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keepsake {
    pub(super) fingerprint: Fingerprint,
    /// How often it was doubled: so many bits its remainder lacks.
    pub(super) age: u32,
    pub(super) mementos: Vec<u64>,
}

/// How boxes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Of boxes that were never doubled.
    pub(super) digits: Digits,
    pub(super) memento_bits: u32,
    /// Whether there are ages.
    pub(super) has_ages: bool,
}

impl Keepsake {
    pub(super) fn covers(&self, scaled: Scaled) -> bool {
        self.fingerprint.covers_scaled(scaled)
    }
}

impl Spelling {
    /// As it is if a table has so many slots, and the first slot of a box has a remainder of so
    /// many bits.
    pub(super) fn new(slots: u64, remainder: u32, memento_bits: u32, has_ages: bool) -> Self {
        let width = remainder + u32::from(has_ages) + memento_bits;
        Self { digits: Digits { slots, remainder, width }, memento_bits, has_ages }
    }

    /// The age of a box without remainder.
    pub(super) fn greatest_age(self) -> u32 {
        if self.has_ages { self.digits.remainder } else { 0 }
    }

    /// The digits of a box of that age.
    pub(super) fn digits_at(self, age: u32) -> Digits {
        Digits { remainder: self.digits.remainder - age, ..self.digits }
    }

    /// The same in twice the slots.
    pub(super) fn doubled(self) -> Self {
        Self { digits: Digits { slots: 2 * self.digits.slots, ..self.digits }, ..self }
    }

    /// What the first slot of a box has, besides the memento.
    #[inline(always)]
    pub(super) fn heading(self, remainder: u64, age: u32) -> u64 {
        if self.has_ages { (remainder << 1 | 1) << age } else { remainder }
    }

    /// What the first slot of a box has that was never doubled.
    #[inline(always)]
    pub(super) fn first(self, remainder: u64, memento: u64) -> u64 {
        self.heading(remainder, 0) << self.memento_bits | memento
    }

    /// The memento in the first slot of a box.
    #[inline(always)]
    pub(super) fn memento(self, first: u64) -> u64 {
        first & low_bits(self.memento_bits)
    }

    /// The age that the first slot of a box says; more than the greatest, if it says nothing.
    #[inline(always)]
    pub(super) fn age(self, first: u64) -> u32 {
        if self.has_ages { (first >> self.memento_bits).trailing_zeros() } else { 0 }
    }

    /// The bits of a first slot that are behind the remainder of a box of that age.
    #[inline(always)]
    pub(super) fn bits_behind(self, age: u32) -> u32 {
        self.memento_bits + u32::from(self.has_ages) + age
    }

    /// Whether the remainder in the first slot of a box covers a partition that has this one.
    #[inline(always)]
    pub(super) fn begins_with(self, first: u64, remainder: u64) -> bool {
        let heading = first >> self.memento_bits;
        if self.has_ages {
            // All but the lowest bit that is set and those below it.
            let known = !(heading ^ heading.wrapping_sub(1));
            (heading ^ remainder << 1) & known == 0
        } else {
            heading == remainder
        }
    }

    /// Whether the first slot of a box has a memento within bounds, and a remainder that covers a
    /// partition.
    #[inline(always)]
    pub(super) fn shows(self, first: u64, remainder: u64, least: u64, most: u64) -> bool {
        let memento = self.memento(first);
        let is_there = u64::from(self.begins_with(first, remainder))
            & u64::from(memento >= least)
            & u64::from(memento <= most);
        is_there == 1
    }

    /// Boxes are sorted by this.
    pub(super) fn order(self, fingerprint: Fingerprint, age: u32) -> (u64, Fingerprint) {
        let remainder = self.digits_at(age).digit(fingerprint.prefix(), 0);
        (self.heading(remainder, age), fingerprint)
    }

    /// The slots of a box.
    pub(super) fn slots(self, keepsake: &Keepsake) -> Vec<Slot> {
        let (first, others) = keepsake.mementos.split_first().expect("a box has a memento");
        let fingerprint = self.digits_at(keepsake.age).of(keepsake.fingerprint).enumerate();
        let mut slots: Vec<Slot> = fingerprint
            .map(|(index, digit)| match index {
                0 => {
                    let value = self.heading(digit, keepsake.age) << self.memento_bits | first;
                    Slot { value, kind: Kind::Remainder }
                }
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
        fn what_is_written_is_read(
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
            let slots = spelling.slots(&Keepsake { fingerprint, age, mementos: mementos.clone() });
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
        fn a_remainder_covers_what_it_is_a_prefix_of(
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
