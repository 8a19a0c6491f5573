//! A filter taken apart, and put together again.

use super::{AdaptiveQuotientFilter, Parameters};
use crate::bits::memory::Lines;
use crate::claim::Version;
use crate::fingerprint::Digits;
use crate::table::QuotientTable;

/// What a filter counts, and when it grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tally {
    /// Members, each as often as it was inserted.
    pub(crate) len: u64,
    /// Used slots that are not the first of their entry.
    pub(crate) extra_slots: u64,
    /// Used slots.
    pub(crate) used: u64,
    pub(crate) adaptations: u64,
    /// The load at which it doubles by itself.
    pub(crate) growth: Option<f64>,
}

impl AdaptiveQuotientFilter {
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            len: self.len,
            extra_slots: self.extra_slots,
            used: self.table.used(),
            adaptations: self.adaptations,
            growth: self.growth,
        }
    }

    /// Another one after each change of members, and after each repair.
    pub(crate) fn state(&self) -> (Version, u64) {
        (self.versions.all(), self.adaptations)
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.table.lines()
    }

    /// How many lines the table of a filter has, or `None` if there is no such filter on
    /// this machine.
    pub(crate) fn lines_for(parameters: Parameters) -> Option<usize> {
        QuotientTable::blocks_for(parameters.slots, parameters.slot_bits)
    }

    /// A filter of [possible](Parameters::check) parameters whose table is in `lines`, or
    /// `None` if they aren't as many as it has. It may be asked, whatever they hold; it must
    /// not be changed before it is [validated](Self::validate).
    pub(crate) fn from_parts(parameters: Parameters, tally: Tally, lines: Lines) -> Option<Self> {
        let Parameters { slots, remainder_bits, slot_bits, value_bits, hash } = parameters;
        let table = QuotientTable::over(lines, slots, slot_bits, tally.used)?;
        let digits = Digits { slots, remainder: remainder_bits, width: slot_bits };
        let mut filter = Self::from_table(table, digits, value_bits, hash);
        filter.len = tally.len;
        filter.extra_slots = tally.extra_slots;
        filter.adaptations = tally.adaptations;
        filter.set_growth(tally.growth);
        Some(filter)
    }
}
