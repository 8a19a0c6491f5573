//! Reading a table in order.

use super::layout::{QuotientTable, Slot};
use core::ops::Range;

/// A run: its quotient and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) quotient: u64,
    pub(crate) slots: Range<u64>,
}

impl QuotientTable {
    /// All runs, in the order of their quotients.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        let mut end = 0;
        let mut from = 0;
        core::iter::from_fn(move || {
            let quotient = self.first_occupied(from, self.slots())?;
            let start = end.max(quotient);
            end = self.end_of_run_at(start);
            from = quotient + 1;
            Some(Run { quotient, slots: start..end })
        })
    }

    /// The entries in `slots`, which are whole ones: each one's slots.
    pub(crate) fn entries(&self, slots: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut start = slots.start;
        core::iter::from_fn(move || {
            if start == slots.end {
                return None;
            }
            let entry = start..self.skip_extensions(start + 1);
            start = entry.end;
            Some(entry)
        })
    }

    /// The slot at `position`, if an entry goes on there; in any table, and behind it.
    #[inline(always)]
    pub(crate) fn continuation(&self, position: u64) -> Option<Slot> {
        let goes_on = position <= self.end() && self.is_extension(position);
        goes_on.then(|| Slot { value: self.value(position), kind: self.kind(position) })
    }

    /// The end of the run that begins at `start`.
    fn end_of_run_at(&self, start: u64) -> u64 {
        let mut entry = start;
        while !self.is_run_end(entry) {
            entry = self.skip_extensions(entry + 1);
        }
        self.skip_extensions(entry + 1)
    }
}
