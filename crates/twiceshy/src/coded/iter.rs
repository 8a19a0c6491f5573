//! Going through all entries.

use super::scheme::Scheme;
use super::{CodedFilter, Entry};

/// What a [`CodedFilter`] stores of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct CodedEntry {
    /// The whole part of the member's scaled hash.
    pub quotient: u64,
    /// What is in its slot: a digit of the fraction, the remainder for a start.
    pub value: u64,
    /// How much has been done about it. In a [`TelescopingFilter`](super::TelescopingFilter), the
    /// number of the digit that is in the slot; in an
    /// [`ExtensionFilter`](super::ExtensionFilter), how many bits of the fraction are known
    /// behind the remainder.
    pub level: u32,
    /// These bits; 0 in a [`TelescopingFilter`](super::TelescopingFilter).
    pub extension: u32,
}

impl<S: Scheme> CodedFilter<S> {
    /// All entries, by quotient; those of one quotient in no order.
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
    pub fn iter(&self) -> impl Iterator<Item = CodedEntry> + use<'_, S> {
        let starts = (0..self.slots()).step_by(self.table.lanes() as usize);
        starts.flat_map(|start| {
            let homes = self.table.homes(self.home(start));
            self.entries(homes.start..=homes.end - 1).into_iter().map(CodedEntry::of::<S>)
        })
    }
}

impl CodedEntry {
    fn of<S: Scheme>(entry: Entry) -> Self {
        let Entry { quotient, spelt, .. } = entry;
        let (level, extension) = (S::level(spelt.symbol), S::extension(spelt.symbol));
        Self { quotient, value: spelt.value, level, extension }
    }
}
