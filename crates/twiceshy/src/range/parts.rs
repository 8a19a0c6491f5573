//! Splits a range filter into the parts that a snapshot stores, and puts them together again.

use super::boxes::Boxes;
use super::layout::{MOST_MEMENTO_BITS, Spelling};
use super::{MementoFilter, Partitions, RangeKey};
use crate::Secret;
use crate::bits::memory::Lines;
use crate::table::{Budget, QuotientTable, SLOTS, WIDTHS};
use core::ops::RangeInclusive;

/// The sizes and counters of a filter: all of it except its secret and the lines of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeShape {
    pub(crate) slots: u64,
    pub(crate) remainder_bits: u32,
    pub(crate) memento_bits: u32,
    pub(crate) has_ages: bool,
    /// An upper bound for the age of boxes.
    pub(crate) oldest: u32,
    /// Number of members, each counted as often as it was inserted.
    pub(crate) len: u64,
    /// Number of used slots.
    pub(crate) used: u64,
    pub(crate) adaptations: u64,
}

impl RangeShape {
    /// Returns whether a filter of keys with `key_bits` bits can have this shape. Doesn't check the
    /// numbers of members and repairs.
    pub(crate) fn is_possible(&self, key_bits: u32) -> bool {
        let most_memento_bits = MOST_MEMENTO_BITS.min(key_bits.saturating_sub(1));
        SLOTS.contains(&self.slots)
            && WIDTHS.contains(&self.remainder_bits)
            && self.memento_bits <= most_memento_bits
            && WIDTHS.contains(&self.slot_bits())
            && self.oldest <= self.spelling().greatest_age()
            && self.used <= self.slots
    }

    pub(crate) fn slot_bits(&self) -> u32 {
        self.spelling().digits.width
    }

    fn spelling(&self) -> Spelling {
        Spelling::new(self.slots, self.remainder_bits, self.memento_bits, self.has_ages)
    }

    /// Returns the least and the greatest number of lines in the table of a
    /// [possible](Self::is_possible) filter, or `None` if this machine can't address them. The
    /// greatest number allows for a [lengthened](QuotientTable::lengthen_tail) tail, which takes
    /// little more space than the home slots.
    pub(crate) fn lines(&self) -> Option<RangeInclusive<usize>> {
        let least = QuotientTable::blocks_for(self.slots, self.slot_bits())?;
        Some(least..=least.checked_mul(3)?)
    }
}

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    pub(crate) fn shape(&self) -> RangeShape {
        let Spelling { digits, memento_bits, has_ages } = self.boxes.spelling;
        RangeShape {
            slots: digits.slots,
            remainder_bits: digits.remainder,
            memento_bits,
            has_ages,
            oldest: self.boxes.oldest,
            len: self.boxes.len,
            used: self.boxes.usage.used,
            adaptations: self.adaptations,
        }
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.boxes.table.lines()
    }

    /// Returns a filter of a [possible](RangeShape::is_possible) shape with the table `lines`, or
    /// `None` if there are too few lines. The filter must be [validated](Self::validate) before
    /// use.
    pub(crate) fn from_parts(shape: RangeShape, lines: Lines, secret: Secret) -> Option<Self> {
        let RangeShape { slots, used, len, oldest, memento_bits, .. } = shape;
        let table = QuotientTable::over(lines, slots, shape.slot_bits())?;
        let boxes = Boxes { len, oldest, ..Boxes::over(table, shape.spelling(), used) };
        let adaptations = if ADAPTIVE { shape.adaptations } else { 0 };
        Some(Self::new(Partitions::new(secret, memento_bits), boxes, adaptations))
    }

    /// Limits the number of lines that a lookup reads, whatever the table contains. The filter must
    /// not be changed afterwards.
    pub(crate) fn limit_lookups(&mut self) {
        self.boxes.shared.budget = Budget::LOOKUP;
    }
}
