//! Which cells are dead, and which level answers for each.
//!
//! Few are, so they are kept as numbers of few bits. The table of the quotient filter is good at
//! that: a cell is made a hash, and its fingerprint, made of as many bits as tell all cells apart,
//! is the cell itself: what such a filter says of a cell is exact. It takes log₂(cells / dead) + 4
//! bits for a dead cell or thereabouts, but not less than 10, finds it within a cache line, and doubles from what it
//! holds. The depth is the fingerprint's value; that of most is 1, and takes no room.

use crate::{AdaptiveQuotientFilter, BuildError, Hash};

/// Bits of a depth.
const DEPTH_BITS: u32 = 4;

/// The greatest depth.
pub(super) const MOST_DEPTH: u32 = 1 << DEPTH_BITS;

/// The load at which the table doubles.
const GROWTH_LOAD: f64 = 0.95;

/// The least bits of a slot. Fewer would save nothing, as a block has no more slots for it, and
/// would make a depth take several. With so many, the table can double until it has at least half as
/// many slots as there are cells.
const LEAST_BITS: u32 = 6;

/// There is no room for one more dead cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeadFull;

/// The dead cells of function 0 of level 0, with their depths, from 1 on.
#[derive(Clone)]
pub(super) struct DeadCells {
    /// Cells, dead or not.
    cells: u64,
    depths: AdaptiveQuotientFilter,
}

/// How many slots of how many bits are needed for that many dead cells on average, such that all
/// cells differ.
///
/// `slots × 2^bits` is no less than the number of cells, so two cells, which are that fraction of
/// the hashes apart, never have the same fingerprint. There may be more dead cells by chance: the
/// table doesn't double unless there are four standard deviations more.
fn slots_and_bits(cells: u64, dead: u64) -> (u64, u32) {
    let dead = dead as f64 + 4.0 * (dead as f64).sqrt();
    let slots = ((dead.min(cells as f64) / GROWTH_LOAD).ceil() as u64).max(1);
    let bits = cells.div_ceil(slots).next_power_of_two().trailing_zeros();
    (slots, bits.max(LEAST_BITS))
}

impl DeadCells {
    /// None yet, with room for some.
    pub(super) fn new(cells: u64, dead: u64) -> Result<Self, BuildError> {
        Ok(Self { cells, depths: Self::builder(cells, dead).build()? })
    }

    fn builder(cells: u64, dead: u64) -> crate::Builder {
        let (slots, bits) = slots_and_bits(cells, dead);
        let builder = AdaptiveQuotientFilter::builder().slots(slots).remainder_bits(bits);
        builder.value_bits(DEPTH_BITS).grow_at(GROWTH_LOAD)
    }

    /// What [`bytes`](Self::bytes) is at first, or `None` if there is no such memory.
    pub(super) fn bytes_for(cells: u64, dead: u64) -> Option<u64> {
        let plan = Self::builder(cells, dead).plan().ok()?;
        Some(plan.bytes - size_of::<AdaptiveQuotientFilter>() as u64)
    }

    /// Bytes beside the structure itself.
    pub(super) fn bytes(&self) -> u64 {
        self.depths.memory_usage() - size_of::<AdaptiveQuotientFilter>() as u64
    }

    /// The distance of two cells' hashes: the least that is more than that of the cells.
    fn step(&self) -> u128 {
        (u128::MAX / u128::from(self.cells)).saturating_add(1)
    }

    /// The hash that stands for a cell: hardly above its first one.
    fn hash(&self, cell: u64) -> Hash {
        Hash::from_u128(u128::from(cell) * self.step())
    }

    pub(super) fn len(&self) -> u64 {
        self.depths.len() as u64
    }

    /// The level that answers for a cell; 0 if it is alive.
    #[inline]
    pub(super) fn depth(&self, cell: u64) -> u32 {
        if self.depths.is_empty() {
            return 0;
        }
        let hash = self.hash(cell);
        if self.depths.contains(hash) { self.depth_of(hash) } else { 0 }
    }

    fn depth_of(&self, hash: Hash) -> u32 {
        self.depths.value(hash).map_or(0, |value| value as u32 + 1)
    }

    /// Makes a cell dead, or more so.
    pub(super) fn set(&mut self, cell: u64, depth: u32) -> Result<(), DeadFull> {
        let hash = self.hash(cell);
        let is_new = !self.depths.contains(hash);
        if is_new {
            self.depths.insert(hash).map_err(|_| DeadFull)?;
        }
        let set = self.depths.set_value(hash, u64::from(depth) - 1);
        if set.is_err() && is_new {
            self.depths.remove(hash).expect("it was inserted just now");
        }
        set.map(drop).map_err(|_| DeadFull)
    }

    /// Makes a cell alive again.
    pub(super) fn revive(&mut self, cell: u64) {
        // It may be alive already.
        let _ = self.depths.remove(self.hash(cell));
    }

    /// All dead cells in order, with their depths.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.depths.iter().map(|entry| {
            let first = entry.fingerprint.hashes().start().as_u128();
            (first.div_ceil(self.step()) as u64, entry.value as u32 + 1)
        })
    }

    /// Whether the table is valid, and holds cells, each once.
    pub(super) fn validate(&self) -> Result<(), crate::Invalid> {
        self.depths.validate()?;
        for (entry, (cell, _)) in self.depths.iter().zip(self.iter()) {
            let is_cell = cell < self.cells && entry.fingerprint.covers(self.hash(cell));
            if !is_cell || entry.count != 1 {
                return Err(crate::Invalid(format!("{entry:?} is no dead cell")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Far more than there is room for at first, dense and sparse.
        #[test]
        fn it_is_an_exact_map(
            cells in prop_oneof![1u64..50, 50u64..5000, super::super::cells::MOST_CELLS - 9..=super::super::cells::MOST_CELLS],
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
                } else if dead.set(cell, depth).is_ok() {
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
