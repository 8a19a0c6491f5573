//! Entries: a fingerprint, the number of members that share it, and a small value.
//!
//! After the slots of the fingerprint, a number may follow in counter slots. Each counter slot
//! holds one digit as wide as a slot, lowest digit first. The number is `count · 2^v + value` for
//! values of `v` bits. Most entries have one member and the value 0; they take no counter slot.
//! Since their number, 2^v, is never stored, larger numbers are stored minus one.

use super::Shared;
use crate::bits::word::low_bits;
use crate::fingerprint::Digits;
use crate::fingerprint::Fingerprint;
use crate::table::{Kind, Slot, Stored};
use core::ops::Range;

/// Maximum number of members that can share one fingerprint.
pub(crate) const MOST_MEMBERS: u64 = 1 << 40;

/// Maximum number of members in a filter, each counted as often as it was inserted. Single inserts
/// don't check it: no caller can make enough of them to overflow the count.
pub(crate) const MOST_IN_ALL: u64 = 1 << 62;

/// Maximum number of bits per value.
pub(crate) const MOST_VALUE_BITS: u32 = 16;

/// A fingerprint, and what the filter stores for the members that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Entry {
    /// A prefix of the members' scaled hashes. No fingerprint in a filter is a prefix of another
    /// one.
    pub fingerprint: Fingerprint,
    /// Number of members, each counted as often as it was inserted. An entry with count 0 is a
    /// tombstone.
    pub count: u64,
    /// Value of the members, 0 by default.
    pub value: u64,
}

/// Encoding of entries as slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub(crate) digits: Digits,
    pub(crate) value_bits: u32,
}

impl Entry {
    /// Returns the entry of one member.
    pub(crate) fn single(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, count: 1, value: 0 }
    }

    /// Returns the entry of one member with this quotient and remainder, without an extension.
    #[inline(always)]
    pub(super) fn bare(digits: Digits, (quotient, remainder): (u64, u64)) -> Self {
        Self::single(digits.spell(quotient, core::iter::once(remainder)))
    }

    /// Returns this entry with `count` members.
    pub(crate) fn of(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

impl Spelling {
    /// Encodes count and value as one number; `None` stands for one member with value 0.
    fn number(self, count: u64, value: u64) -> Option<u64> {
        let (number, usual) = (count << self.value_bits | value, 1 << self.value_bits);
        (number != usual).then(|| number - u64::from(number > usual))
    }

    /// Returns the count and the value, or `None` if the number is too large for a valid entry.
    fn count_and_value(self, number: Option<u64>) -> Option<(u64, u64)> {
        let usual = 1 << self.value_bits;
        let number = number.map_or(usual, |number| number + u64::from(number >= usual));
        let count = number >> self.value_bits;
        (count <= MOST_MEMBERS).then_some((count, number & low_bits(self.value_bits)))
    }

    /// Returns the slots of an entry's counter.
    pub(crate) fn counter(self, count: u64, value: u64) -> impl Iterator<Item = Slot> {
        let width = self.digits.width;
        let mut rest = self.number(count, value);
        core::iter::from_fn(move || {
            let number = rest?;
            let higher = number >> width;
            rest = (higher != 0).then_some(higher);
            Some(Slot { value: number & low_bits(width), kind: Kind::Counter })
        })
    }

    /// Returns the slots that an entry takes.
    pub(crate) fn slots(self, entry: Entry) -> impl Iterator<Item = Slot> {
        let fingerprint = self.digits.of(entry.fingerprint).enumerate().map(|(index, value)| {
            Slot { value, kind: if index == 0 { Kind::Remainder } else { Kind::Extension } }
        });
        fingerprint.chain(self.counter(entry.count, entry.value))
    }
}

impl Shared {
    pub(super) fn spelling(&self) -> Spelling {
        Spelling { digits: self.digits, value_bits: self.value_bits }
    }

    /// Returns the entry in these slots of the run of `quotient`, or `None` if it is malformed,
    /// which happens only in corrupted memory.
    pub(super) fn checked_entry(&self, quotient: u64, slots: Range<u64>) -> Option<Entry> {
        let table = &self.table;
        let mut behind = slots.clone().skip(1);
        let end = behind.find(|&slot| table.kind(slot) == Kind::Counter).unwrap_or(slots.end);
        if end - slots.start > self.digits.most().into() {
            return None;
        }
        let spelt = (slots.start..end).map(|slot| table.value(slot));
        let fingerprint = self.digits.spell(quotient, spelt);
        let (mut number, mut shift) = (None, 0);
        for slot in end..slots.end {
            let digit = table.value(slot);
            let superfluous = digit == 0 && shift > 0 && slot + 1 == slots.end;
            if table.kind(slot) != Kind::Counter || digit.leading_zeros() <= shift || superfluous {
                return None;
            }
            number = Some(number.unwrap_or(0) | digit << shift);
            shift += table.width();
        }
        let (count, value) = self.spelling().count_and_value(number)?;
        Some(Entry { fingerprint, count, value })
    }

    /// Returns the entry in these slots of the run of `quotient`.
    pub(super) fn entry_at(&self, quotient: u64, slots: Range<u64>) -> Entry {
        self.checked_entry(quotient, slots).expect("a valid filter")
    }

    /// Decodes an entry that was read from the table.
    #[inline(always)]
    pub(super) fn decode(&self, stored: Stored) -> Entry {
        let Stored { quotient, remainder, slots } = stored;
        if slots.end - slots.start > 1 {
            return self.entry_at(quotient, slots);
        }
        Entry::bare(self.digits, (quotient, remainder))
    }

    /// Iterates over the entries in these slots of the run of `quotient`.
    pub(super) fn entries(&self, quotient: u64, slots: Range<u64>) -> impl Iterator<Item = Entry> {
        self.table.entries(slots).map(move |entry| self.entry_at(quotient, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_and_values_round_trip(
            count in 0..=MOST_MEMBERS, value_bits in 0..=MOST_VALUE_BITS, value in any::<u64>(),
        ) {
            let digits = Digits::plain(1, 1, 1);
            let spelling = Spelling { digits, value_bits };
            let value = value & low_bits(value_bits);
            let number = spelling.number(count, value);
            prop_assert_eq!(spelling.count_and_value(number), Some((count, value)));
            prop_assert_eq!(number.is_none(), (count, value) == (1, 0));
        }
    }

    #[test]
    fn one_member_needs_no_counter_slot_and_two_need_one() {
        for width in 1..=56 {
            let digits = Digits::plain(1, width, width);
            let spelling = Spelling { digits, value_bits: 0 };
            let slots =
                |count| spelling.counter(count, 0).map(|slot| slot.value).collect::<Vec<_>>();
            assert_eq!(slots(1), []);
            assert_eq!(slots(0), [0]);
            assert_eq!(slots(2), [1]);
        }
    }
}
