//! How far a lookup goes, in a table that nobody has validated.

/// A cluster of so many blocks is searched through, whatever it holds.
const BLOCKS: u64 = 1 << 16;

/// How often a lookup may pass through a cluster: back to where spills are known and on
/// again, there to the ends of all its runs, to its own run, and through that; and to spare.
const PASSES: u64 = 8;

/// The blocks that may still be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    /// For tables that are valid, where every search ends.
    pub(crate) const ENDLESS: Self = Self(u64::MAX);
    /// For one lookup in any table.
    pub(crate) const LOOKUP: Self = Self(BLOCKS * PASSES);

    #[cfg(test)]
    pub(crate) fn of(blocks: u64) -> Self {
        Self(blocks)
    }

    /// The same for so many lookups, of which few need go far.
    pub(crate) fn of_many(self, lookups: u64) -> Self {
        Self(self.0.saturating_add(lookups.saturating_mul(PASSES)))
    }

    /// Whether nothing more may be looked at.
    #[inline(always)]
    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Looks at one more block, or gives up.
    #[inline(always)]
    pub(super) fn spend(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}
