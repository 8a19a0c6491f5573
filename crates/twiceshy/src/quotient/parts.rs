//! Splits a filter into the parts that a snapshot stores, and puts them together again.

use super::{Parameters, QuotientFilter};
use crate::bits::memory::Lines;
use crate::claim::Version;
use crate::table::QuotientTable;

/// The counts of a filter, and the load at which it grows; see the fields of [`QuotientFilter`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) len: u64,
    pub(crate) extra_slots: u64,
    /// Number of used slots.
    pub(crate) used: u64,
    pub(crate) adaptations: u64,
    pub(crate) growth: Option<f64>,
}

impl QuotientFilter {
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            len: self.len,
            extra_slots: self.extra_slots,
            used: self.usage.used,
            adaptations: self.adaptations,
            growth: self.growth,
        }
    }

    /// Returns a value that changes whenever the members change or a mistake is repaired.
    pub(crate) fn state(&self) -> (Version, u64) {
        (self.versions.all(), self.adaptations)
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.shared.table.lines()
    }

    /// Returns the number of lines in the table of a filter with these parameters, or `None` if
    /// such a filter is impossible on this machine.
    pub(crate) fn lines_for(parameters: Parameters) -> Option<usize> {
        QuotientTable::blocks_for(parameters.slots, parameters.slot_bits)
    }

    /// Returns a filter with these parameters whose table is in `lines`. The parameters must pass
    /// their [check](Parameters::check). Returns `None` if the number of lines doesn't match.
    /// Lookups are safe for any contents of `lines`. The filter must not be changed before it is
    /// [validated](Self::validate).
    pub(crate) fn from_parts(parameters: Parameters, tally: Tally, lines: Lines) -> Option<Self> {
        let Parameters { slots, slot_bits, .. } = parameters;
        let table = QuotientTable::over(lines, slots, slot_bits)?;
        let mut filter = Self::from_table(table, parameters);
        filter.usage.used = tally.used;
        filter.len = tally.len;
        filter.extra_slots = tally.extra_slots;
        filter.adaptations = tally.adaptations;
        filter.set_growth(tally.growth);
        Some(filter)
    }
}
