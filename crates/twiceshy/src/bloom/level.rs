//! Levels and their plans.

use super::AdaptiveBloomFilter;
use super::cells::{Cells, Functions, MOST_CELLS, Probes, Shape};
use super::dead::{DeadCells, MOST_DEPTH};
use crate::claim::Versions;
use crate::error::BuildError;
use crate::{Hash, hash::KeyedHasher};

/// Below this rate, whole hashes are smaller than a Bloom filter.
const LEAST_RATE: f64 = 1.0 / (1u128 << 64) as f64;

/// The plan of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LevelPlan {
    pub(super) shape: Shape,
    pub(super) rate: f64,
    /// Number of members that it has room for.
    pub(super) room: u64,
}

/// The plan of all levels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blueprint {
    pub(super) first: LevelPlan,
    /// All levels between the first and the last.
    pub(super) deeper: Vec<LevelPlan>,
    /// Number of cells that may die.
    pub(super) repairs: u64,
    /// Size of a filter in bytes when this many cells have died.
    pub(super) bytes: u64,
}

impl Blueprint {
    /// Returns the smallest plan for these numbers of members and repairs, or `None` if none is
    /// possible. The number of repairs decides whether another level of bits saves space compared
    /// with whole hashes.
    pub(super) fn new(capacity: u64, rate: f64, repairs: u64) -> Option<Self> {
        let plans =
            (0..MOST_DEPTH as usize).map(|deeper| Self::with(capacity, rate, repairs, deeper));
        plans.map_while(|plan| plan).min_by_key(|plan| plan.bytes)
    }

    /// Returns the plan with this many levels between the first and the last.
    fn with(capacity: u64, rate: f64, repairs: u64, levels: usize) -> Option<Self> {
        let shape = Shape::for_rate(capacity as f64, rate);
        if shape.cells > MOST_CELLS {
            return None;
        }
        // A cell that isn't empty has more than one member on average.
        let load = capacity as f64 / shape.cells as f64;
        let members_each = if load > 0.0 { load / -(-load).exp_m1() } else { 1.0 };
        let slack = 1.0 + (capacity as f64 + 2.0).log2().recip();
        // Only a part of the mistakes at one level are also mistakes at the next.
        let moved =
            |rate_above: f64| (repairs as f64 * members_each * slack * (rate_above / rate)).ceil();
        let (mut deeper, mut above) = (Vec::new(), rate);
        for _ in 0..levels {
            let room = moved(above);
            let next = above * above;
            if next < LEAST_RATE {
                return None;
            }
            let shape = Shape::for_rate(room, next);
            deeper.push(LevelPlan { shape, rate: next, room: room as u64 });
            above = next;
        }
        let first = LevelPlan { shape, rate, room: capacity };
        let shapes = core::iter::once(&first).chain(&deeper).map(|level| level.shape);
        let dead = DeadCells::bytes_for(shape.cells, repairs)?;
        let last = (moved(above) as u64).checked_mul(size_of::<Hash>() as u64)?;
        let own = size_of::<AdaptiveBloomFilter>() + deeper.len() * LEVEL_BYTES;
        let beside = [own as u64, dead, last, Versions::bytes_for(shape.cells)];
        let mut parts = shapes.map(Shape::bytes).chain(beside);
        let bytes = parts.try_fold(0, u64::checked_add)?;
        Some(Self { first, deeper, repairs, bytes })
    }
}

/// Size of a level in bytes without its cells: the struct and its plan.
pub(super) const LEVEL_BYTES: usize = size_of::<FilterLevel>() + size_of::<LevelPlan>();

/// A level other than the last: a Bloom filter.
#[derive(Clone)]
pub(super) struct FilterLevel {
    pub(super) number: u32,
    functions: Functions,
    pub(super) cells: Cells,
    /// Number of members that set at least one cell.
    pub(super) written: u64,
}

impl FilterLevel {
    pub(super) fn new(
        number: u32,
        plan: &LevelPlan,
        hasher: &KeyedHasher,
    ) -> Result<Self, BuildError> {
        let cells =
            Cells::new(plan.shape).ok_or(BuildError::Memory { bytes: plan.shape.bytes() })?;
        let functions = Functions::of_level(hasher, number);
        Ok(Self { number, functions, cells, written: 0 })
    }

    #[inline(always)]
    pub(super) fn probes(&self, hash: Hash) -> Probes {
        let cells = self.cells.shape().cells;
        if self.number == 0 {
            Probes::of_first(hash, self.functions, cells)
        } else {
            Probes::of_deeper(hash, self.functions, cells)
        }
    }

    pub(super) fn contains(&self, hash: Hash) -> bool {
        self.cells.contains(&self.probes(hash))
    }

    pub(super) fn insert(&mut self, probes: &Probes) {
        if !self.cells.contains(probes) {
            self.write(probes);
        }
    }

    /// Inserts a member that has at least one cell that is not set.
    pub(super) fn write(&mut self, probes: &Probes) {
        self.cells.set(probes);
        self.written += 1;
    }
}
