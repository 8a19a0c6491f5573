//! A filter taken apart, and put together again.

use super::boxes::Boxes;
use super::keepsake::{MOST_MEMENTO_BITS, Spelling};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::Secret;
use crate::bits::memory::Lines;
use crate::table::{Budget, QuotientTable, SLOTS, WIDTHS};
use core::ops::RangeInclusive;

/// What a filter is, besides the lines of its table and its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeShape {
    pub(crate) slots: u64,
    pub(crate) remainder_bits: u32,
    pub(crate) memento_bits: u32,
    pub(crate) has_ages: bool,
    /// No box is older.
    pub(crate) oldest: u32,
    /// Members, each as often as it was inserted.
    pub(crate) len: u64,
    /// Used slots.
    pub(crate) used: u64,
    pub(crate) adaptations: u64,
}

impl RangeShape {
    /// Whether there can be such a filter of keys that have so many bits. How many members it has
    /// isn't looked at, nor how often it was repaired.
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

    /// How many lines the table of a [possible](Self::is_possible) filter may have, or `None` if
    /// there is no such filter on this machine. A tail that was
    /// [lengthened](QuotientTable::lengthen_tail) holds no more than all slots, and is hardly
    /// longer than that takes.
    pub(crate) fn lines(&self) -> Option<RangeInclusive<usize>> {
        let least = QuotientTable::blocks_for(self.slots, self.slot_bits())?;
        Some(least..=least.checked_mul(3)?)
    }
}

impl<K: RangeKey> RangeFilter<K> {
    pub(crate) fn shape(&self) -> RangeShape {
        let Spelling { digits, memento_bits, has_ages } = self.boxes.spelling;
        RangeShape {
            slots: digits.slots,
            remainder_bits: digits.remainder,
            memento_bits,
            has_ages,
            oldest: self.boxes.oldest,
            len: self.boxes.len,
            used: self.boxes.table.used(),
            adaptations: 0,
        }
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.boxes.table.lines()
    }

    /// A filter of a [possible](RangeShape::is_possible) shape whose table is in `lines`, or
    /// `None` if they are too few. It must not be used before it is [validated](Self::validate).
    pub(crate) fn from_parts(shape: RangeShape, lines: Lines, secret: Secret) -> Option<Self> {
        let RangeShape { slots, used, len, oldest, .. } = shape;
        let table = QuotientTable::over(lines, slots, shape.slot_bits(), used)?;
        let boxes =
            Boxes { table, spelling: shape.spelling(), len, oldest, budget: Budget::ENDLESS };
        Some(Self::new(secret, boxes))
    }

    /// Makes lookups end soon, whatever the lines hold. The filter must never be changed then.
    pub(crate) fn limit_lookups(&mut self) {
        self.boxes.budget = Budget::LOOKUP;
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    pub(crate) fn shape(&self) -> RangeShape {
        RangeShape { adaptations: self.adaptations, ..self.filter.shape() }
    }

    /// The filter that has the boxes.
    pub(crate) fn plain(&self) -> &RangeFilter<K> {
        &self.filter
    }

    /// The same filter as one that adapts, and did so often.
    pub(crate) fn of(filter: RangeFilter<K>, adaptations: u64) -> Self {
        Self { adaptations, ..Self::new(filter) }
    }
}
