//! Limits on how far a lookup searches in a table that has not been validated.

/// Number of blocks in the largest cluster that a lookup always searches completely.
const BLOCKS: u64 = 1 << 16;

/// Number of times a lookup may pass through a cluster. It goes back to a block whose spill is
/// known and forward again, to the ends of all runs there, to its own run, and through that run.
/// The rest is a safety margin.
const PASSES: u64 = 8;

/// The number of blocks that a search may still visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    /// No limit, for valid tables, where every search ends.
    pub(crate) const ENDLESS: Self = Self(u64::MAX);
    /// The limit for one lookup in a table that may be invalid.
    pub(crate) const LOOKUP: Self = Self(BLOCKS * PASSES);

    #[cfg(test)]
    pub(crate) fn of(blocks: u64) -> Self {
        Self(blocks)
    }

    /// Returns this budget, enlarged for `lookups` lookups of which only a few search far.
    pub(crate) fn of_many(self, lookups: u64) -> Self {
        Self(self.0.saturating_add(lookups.saturating_mul(PASSES)))
    }

    /// Returns whether no block may be visited any more.
    #[inline(always)]
    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Spends one block. Returns `None` if the budget is spent.
    #[inline(always)]
    pub(super) fn spend(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}
