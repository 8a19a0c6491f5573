//! Iterates over all entries.

use super::scheme::Scheme;
use super::{CodedFilter, LocatedEntry};

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
}

impl Entry {
    fn of<S: Scheme>(entry: LocatedEntry) -> Self {
        let LocatedEntry { quotient, spelt, .. } = entry;
        let (level, extension) = (S::level(spelt.symbol), S::extension(spelt.symbol));
        Self { quotient, value: spelt.value, level, extension }
    }
}
