//! The dead cells, and the level that answers for each.
//!
//! Dead cells are few, so they are stored compactly in a quotient filter. Each cell maps to a hash
//! whose fingerprint has enough bits to distinguish all cells, so the filter's answers are exact.
//! It takes about log₂(cells / dead) + 4 bits per dead cell, but at least 10. The depth is the
//! fingerprint's value; the depth of most cells is 1, which takes no space.

use crate::builder::Builder;
use crate::error::{BuildError, Invalid};
use crate::quotient::Parameters;
use crate::{Hash, QuotientFilter};

/// Width of a depth in bits.
const DEPTH_BITS: u32 = 4;

/// The highest depth.
pub(super) const MOST_DEPTH: u32 = 1 << DEPTH_BITS;

/// The load at which the table doubles.
const GROWTH_LOAD: f64 = 0.95;

/// Minimum number of bits per slot. Fewer would save nothing, because a block would have no more
/// slots, and a depth would take several slots. With this many bits, the table can double until it
/// has at least half as many slots as there are cells.
const LEAST_BITS: u32 = 6;

/// The dead cells of function 0 of level 0, with their depths, which are at least 1.
#[derive(Clone)]
pub(super) struct DeadCells {
    /// Number of all cells, dead or alive.
    cells: u64,
    depths: QuotientFilter,
}

impl DeadCells {
    /// Creates an empty table with room for `dead` cells.
    pub(super) fn new(cells: u64, dead: u64) -> Result<Self, BuildError> {
        Ok(Self { cells, depths: Self::builder(cells, dead).build()? })
    }

    /// Makes the set from its table.
    ///
    /// # Errors
    /// If the table can't tell all cells apart, or can't store depths.
    pub(super) fn from_table(cells: u64, depths: QuotientFilter) -> Result<Self, Invalid> {
        let Parameters { slots, remainder_bits, value_bits, remainders, .. } = depths.parameters();
        let fingerprints = u128::from(slots) << remainder_bits;
        let is_exact = fingerprints >= cells.into() && remainders.is_plain();
        if !is_exact || value_bits != DEPTH_BITS || depths.tally.growth != Some(GROWTH_LOAD) {
            return Err(Invalid("the table of dead cells has wrong parameters".into()));
        }
        Ok(Self { cells, depths })
    }

    /// Returns the table.
    pub(super) fn table(&self) -> &QuotientFilter {
        &self.depths
    }

    /// Returns the builder of a table for an average of `dead` dead cells. There is room for four
    /// standard deviations more before the table doubles.
    ///
    /// `slots × 2^bits` is at least the number of cells, and the hashes of cells are equally
    /// spaced, so two cells never have the same fingerprint.
    fn builder(cells: u64, dead: u64) -> Builder<QuotientFilter> {
        let dead = dead as f64 + 4.0 * (dead as f64).sqrt();
        let slots = ((dead.min(cells as f64) / GROWTH_LOAD).ceil() as u64).max(1);
        let bits = cells.div_ceil(slots).next_power_of_two().trailing_zeros().max(LEAST_BITS);
        let builder = QuotientFilter::builder().slots(slots).remainder_bits(bits);
        builder.value_bits(DEPTH_BITS).grow_at(GROWTH_LOAD)
    }

    /// Returns the initial value of [`bytes`](Self::bytes), or `None` if the table is too large.
    pub(super) fn bytes_for(cells: u64, dead: u64) -> Option<u64> {
        let plan = Self::builder(cells, dead).plan().ok()?;
        Some(plan.bytes - size_of::<QuotientFilter>() as u64)
    }

    /// Returns the heap size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.depths.stats().memory - size_of::<QuotientFilter>() as u64
    }

    /// Returns the distance between the hashes of two neighbouring cells, rounded up.
    fn step(&self) -> u128 {
        (u128::MAX / u128::from(self.cells)).saturating_add(1)
    }

    /// Returns the hash that represents a cell: the cell's first hash, or one slightly above it.
    fn hash(&self, cell: u64) -> Hash {
        Hash::from_u128(u128::from(cell) * self.step())
    }

    pub(super) fn len(&self) -> u64 {
        self.depths.len() as u64
    }

    /// Returns the level that answers for a cell, or 0 if it is alive.
    #[inline]
    pub(super) fn depth(&self, cell: u64) -> u32 {
        // `is_empty` reads a count, which concurrent lookups must not do. It is allowed here,
        // because a Bloom filter is never a shard, so no lookup runs during a change.
        if self.depths.is_empty() {
            return 0;
        }
        let hash = self.hash(cell);
        let depth = self.depths.contains(hash).then(|| self.depths.value(hash)).flatten();
        depth.map_or(0, |value| value as u32 + 1)
    }

    /// Sets the depth of a cell, which becomes dead if it was alive. Returns whether there is room;
    /// without room, nothing changes.
    pub(super) fn set(&mut self, cell: u64, depth: u32) -> bool {
        let hash = self.hash(cell);
        let is_new = !self.depths.contains(hash);
        if is_new && self.depths.insert(hash).is_err() {
            return false;
        }
        let is_set = self.depths.set_value(hash, u64::from(depth) - 1).is_ok();
        if is_new && !is_set {
            self.depths.remove_trusting(hash).expect("it was inserted just now");
        }
        is_set
    }

    /// Makes a cell alive again.
    pub(super) fn revive(&mut self, cell: u64) {
        // The removal fails if the cell is alive already.
        let _ = self.depths.remove_trusting(self.hash(cell));
    }

    /// Iterates over the dead cells and their depths, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.depths.iter().map(|entry| {
            let first = entry.fingerprint.hashes().start().as_u128();
            (first.div_ceil(self.step()) as u64, entry.value as u32 + 1)
        })
    }

    /// Checks that the table is valid, and that its entries are existing cells, each once.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.depths.validate()?;
        for (entry, (cell, _)) in self.depths.iter().zip(self.iter()) {
            let is_cell = cell < self.cells && entry.fingerprint.covers(self.hash(cell));
            if !is_cell || entry.count != 1 {
                return Err(Invalid(format!("{entry:?} is not a dead cell")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::MOST_CELLS;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Adds far more dead cells than planned, both dense and sparse.
        #[test]
        fn dead_cells_behave_like_an_exact_map(
            cells in prop_oneof![1u64..50, 50u64..5000, MOST_CELLS - 9..=MOST_CELLS],
            planned in 1u64..40,
            changes in prop::collection::vec((any::<u64>(), 0u32..=MOST_DEPTH), 0..300),
        ) {
            let mut dead = DeadCells::new(cells, planned).unwrap();
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for (cell, depth) in changes {
                let cell = cell % cells;
                if depth == 0 {
                    dead.revive(cell);
                    model.remove(&cell);
                } else if dead.set(cell, depth) {
                    model.insert(cell, depth);
                }
                for cell in [cell, (cell + 1) % cells, cells - 1 - cell] {
                    prop_assert_eq!(dead.depth(cell), model.get(&cell).copied().unwrap_or(0));
                }
            }
            dead.validate()?;
            prop_assert!(dead.iter().eq(model.iter().map(|(&cell, &depth)| (cell, depth))));
            prop_assert_eq!(dead.len(), model.len() as u64);
        }
    }
}
