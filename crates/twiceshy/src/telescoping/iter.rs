//! Finds runs, and reads their entries.

use super::scheme::{Scheme, Spelt};
use super::{CodedFilter, Shared};
use crate::bits::machine::{AnyShape, dispatched};
use crate::claim::Cells;
use crate::hash::Scaled;
use crate::table::QuotientTable;
use core::ops::Range;

/// The stored data of a member of a [`CodedFilter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Entry {
    /// The integer part of the member's scaled hash.
    pub quotient: u64,
    /// The value of its slot: a digit of the fraction. At level 0, this is the remainder.
    pub value: u64,
    /// The level: 0 at first, and repairs raise it. In a
    /// [`TelescopingFilter`](super::TelescopingFilter), it is the index of the digit in the slot.
    /// In an [`ExtensionFilter`](super::ExtensionFilter), it is the number of bits that are stored
    /// after the remainder.
    pub level: u32,
    /// The bits after the remainder; 0 in a [`TelescopingFilter`](super::TelescopingFilter).
    pub extension: u32,
}

/// An entry and its location.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocatedEntry {
    pub(super) quotient: u64,
    pub(super) position: u64,
    /// Index among the entries whose home is in the same block.
    pub(super) ordinal: usize,
    pub(super) spelt: Spelt,
    /// The member that the entry belongs to, if a [listing](CodedFilter::owned) names it.
    pub(super) owner: Option<Scaled>,
}

impl<S: Scheme> CodedFilter<S> {
    /// Iterates over all entries by quotient. Entries of the same quotient are not sorted.
    ///
    /// ```
    /// use twiceshy::{Hash, TelescopingFilter};
    ///
    /// let mut filter = TelescopingFilter::builder().remainder_bits(8).slots(16).build()?;
    /// filter.insert(Hash::from_u128(0x3a7 << 116))?;
    /// let entry = filter.iter().next().expect("one");
    /// assert_eq!((entry.quotient, entry.value, entry.level), (3, 0xa7, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Entry> + use<'_, S> {
        let starts = (0..self.slots()).step_by(self.shared.table.lanes() as usize);
        let blocks = starts.map(|start| entries(self, self.cells_of_block(self.home(start))));
        blocks.flatten().map(|LocatedEntry { quotient, spelt: Spelt { value, symbol }, .. }| {
            Entry { quotient, value, level: S::level(symbol), extension: S::extension(symbol) }
        })
    }
}

dispatched! {
    /// Returns the entries with these quotients, in order. The quotients must all be in one block.
    pub(super) fn entries<'a, S: Scheme>(
        filter: &'a CodedFilter<S>,
        cells: Cells,
    ) -> Vec<LocatedEntry> => filter.shared.table.target(), AnyShape, |machine| {
        let Shared { table, coding, .. } = &filter.shared;
        let home = table.home::<0>(cells.first);
        let occupied = (cells.first..=cells.last).filter(|&quotient| table.is_occupied(quotient));
        let mut entries: Vec<LocatedEntry> = Vec::new();
        for quotient in occupied {
            let run = table.run(machine, quotient);
            let first = match entries.last() {
                Some(before) => before.ordinal + 1,
                None => table.ordinal(machine, home, run.start),
            };
            for (position, ordinal) in run.zip(first..) {
                let spelt = Spelt { value: table.value(position), symbol: 0 };
                entries.push(LocatedEntry { quotient, position, ordinal, spelt, owner: None });
            }
        }
        if let Some(LocatedEntry { ordinal, .. }) = entries.first() {
            let symbols = coding.decode(table.code::<0>(home), table.code_bits()).skip(*ordinal);
            entries.iter_mut().zip(symbols).for_each(|(entry, symbol)| entry.spelt.symbol = symbol);
        }
        entries
    }
}

dispatched! {
    /// Returns the positions of a quotient's run, and the ordinal of its first entry. If the run is
    /// empty, the ordinal is that of the next entry.
    pub(super) fn run<'a>(table: &'a QuotientTable, quotient: u64) -> (Range<u64>, usize)
    => table.target(), AnyShape, |machine| {
        let run = table.run(machine, quotient);
        let ordinal = table.ordinal(machine, table.home::<0>(quotient), run.start);
        (run, ordinal)
    }
}
