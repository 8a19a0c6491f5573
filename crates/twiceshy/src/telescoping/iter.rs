//! Finds runs, and reads their entries.

use super::CodedFilter;
use super::scheme::{Scheme, Spelt};
use crate::bits::machine::{AnyShape, Machine, Operation};
use crate::table::QuotientTable;
use core::ops::{Range, RangeInclusive};

/// The stored data of a member of a [`CodedFilter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Entry {
    /// The integer part of the member's scaled hash.
    pub quotient: u64,
    /// The value of its slot: a digit of the fraction, at first the remainder.
    pub value: u64,
    /// The level that repairs have raised. In a [`TelescopingFilter`](super::TelescopingFilter), it
    /// is the index of the digit in the slot. In an [`ExtensionFilter`](super::ExtensionFilter), it
    /// is the number of bits that are stored after the remainder.
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
        let starts = (0..self.slots()).step_by(self.table.lanes() as usize);
        starts.flat_map(|start| {
            let homes = self.table.homes(self.home(start));
            self.entries(homes.start..=homes.end - 1).into_iter().map(Entry::of::<S>)
        })
    }

    /// Returns the entries with these quotients, in order. The quotients must all be in one block.
    pub(super) fn entries(&self, quotients: RangeInclusive<u64>) -> Vec<LocatedEntry> {
        self.table.target().run(Entries { filter: self, quotients })
    }

    /// Returns the positions of a quotient's run, and the ordinal of its first entry. If the run is
    /// empty, the ordinal is that of the next entry.
    pub(super) fn run(&self, quotient: u64) -> (Range<u64>, usize) {
        self.table.target().run(LocateRun { table: &self.table, quotient })
    }
}

impl Entry {
    fn of<S: Scheme>(entry: LocatedEntry) -> Self {
        let LocatedEntry { quotient, spelt, .. } = entry;
        let (level, extension) = (S::level(spelt.symbol), S::extension(spelt.symbol));
        Self { quotient, value: spelt.value, level, extension }
    }
}

struct Entries<'a, S: Scheme> {
    filter: &'a CodedFilter<S>,
    quotients: RangeInclusive<u64>,
}

impl<S: Scheme> Operation for Entries<'_, S> {
    type Argument = ();
    type Output = Vec<LocatedEntry>;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Vec<LocatedEntry> {
        let Self { filter, quotients } = self;
        let table = &filter.table;
        let home = filter.home(*quotients.start());
        let symbols = filter.symbols(home);
        let mut entries: Vec<LocatedEntry> = Vec::new();
        for quotient in quotients.filter(|&quotient| table.is_occupied(quotient)) {
            let run = table.run(machine, quotient);
            let first = match entries.last() {
                Some(before) => before.ordinal + 1,
                None => table.ordinal(machine, home, run.start),
            };
            for (position, ordinal) in run.zip(first..) {
                let symbol = symbols.get(ordinal).copied().unwrap_or(0);
                let spelt = Spelt { value: table.value(position), symbol };
                entries.push(LocatedEntry { quotient, position, ordinal, spelt });
            }
        }
        entries
    }
}

struct LocateRun<'a> {
    table: &'a QuotientTable,
    quotient: u64,
}

impl Operation for LocateRun<'_> {
    type Argument = ();
    type Output = (Range<u64>, usize);
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        let Self { table, quotient } = self;
        let run = table.run(machine, quotient);
        let ordinal = table.ordinal(machine, table.home::<0>(quotient), run.start);
        (run, ordinal)
    }
}
