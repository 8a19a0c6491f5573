//! Splits a filter into the parts that a snapshot stores, and puts them together again.

use super::{Parameters, QuotientFilter};
use crate::bits::memory::Lines;
use crate::claim::Version;
use crate::table::QuotientTable;

/// The counts of a filter, and the load at which it grows. The number of used slots is not among
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Number of members, each counted as often as it was inserted.
    pub(crate) len: u64,
    /// Number of used slots that are not the first slot of their entry.
    pub(crate) extra_slots: u64,
    /// Number of entries without members. Unknown in a snapshot that is read in place.
    pub(crate) tombstones: u64,
    pub(crate) adaptations: u64,
    /// Load at which the filter doubles automatically.
    pub(crate) growth: Option<f64>,
}

impl QuotientFilter {
    /// Returns the number of used slots.
    pub(crate) fn used(&self) -> u64 {
        self.usage.used
    }

    /// Returns a value that changes whenever the members change or a mistake is repaired.
    pub(crate) fn state(&self) -> (Version, u64) {
        (self.versions.all(), self.tally.adaptations)
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
    pub(crate) fn from_parts(
        parameters: Parameters,
        used: u64,
        tally: Tally,
        lines: Lines,
    ) -> Option<Self> {
        let Parameters { slots, slot_bits, .. } = parameters;
        let table = QuotientTable::over(lines, slots, slot_bits)?;
        let mut filter = Self::from_table(table, parameters);
        filter.usage.used = used;
        filter.tally = tally;
        filter.set_growth(tally.growth);
        Some(filter)
    }
}
