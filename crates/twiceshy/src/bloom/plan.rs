//! The plan of a filter: how many levels it has, and how large each is.

use super::AdaptiveBloomFilter;
use super::dead::{DeadCells, MOST_DEPTH};
use super::level::Level;
use crate::Hash;
use crate::bits::memory::LINE;
use crate::builder::{Buildable, Builder, DEFAULT_RATE, HasRepairs, Limits, Plan, sealed};
use crate::claim::Versions;
use crate::error::{BuildError, PlanError};

/// The lowest rate: that of the other filters.
const LEAST_RATE: f64 = 1.0 / (1u64 << 56) as f64;

/// Below this rate, whole hashes are smaller than a Bloom filter.
const LEAST_LEVEL_RATE: f64 = 1.0 / (1u128 << 64) as f64;

/// Maximum number of cells per function. With more, one product could not distinguish dead cells.
pub(super) const MOST_CELLS: u64 = 1 << 40;

/// Maximum number of hash functions per level.
pub(super) const MOST_FUNCTIONS: u32 = 64;

/// The part of a plan that is specific to an [`AdaptiveBloomFilter`].
///
/// The memory of the plan is that of a filter with [`adaptations`](Self::adaptations) repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanDetails {
    /// Number of repairs that the filter has room for.
    pub adaptations: u64,
    /// Number of levels, including the last one of whole hashes.
    pub levels: usize,
    /// Number of hash functions of level 0.
    pub functions: u32,
}

impl sealed::Sealed for AdaptiveBloomFilter {}
impl HasRepairs for AdaptiveBloomFilter {}

impl Buildable for AdaptiveBloomFilter {
    type Options = ();
    type Details = PlanDetails;

    fn limits(_: &Builder<Self>) -> Result<Limits, PlanError> {
        Ok(Limits { least_rate: LEAST_RATE, most_bits: 0 })
    }

    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<PlanDetails>> {
        let Blueprint { levels, repairs, bytes } = builder.blueprint(capacity)?;
        let shape = levels[0].shape;
        let details = PlanDetails {
            adaptations: repairs,
            levels: levels.len() + 1,
            functions: shape.functions,
        };
        let rate = shape.rate(capacity as u64);
        Some(Plan::new(capacity, (shape.cells, 0), rate, bytes, details))
    }

    fn build_planned(builder: &Builder<Self>, plan: Plan<PlanDetails>) -> Result<Self, BuildError> {
        let blueprint = builder.blueprint(plan.capacity);
        let blueprint = blueprint.ok_or(PlanError::Capacity(plan.capacity))?;
        Self::new(blueprint.levels.into_iter(), blueprint.repairs)
    }
}

impl Builder<AdaptiveBloomFilter> {
    /// Returns the levels of a filter of this capacity. By default there is room to repair the
    /// mistakes of as many queries as there are members. More room would be wasted, because the
    /// deeper levels hold nothing but repairs; if there are more mistakes, the last level grows.
    fn blueprint(&self, capacity: usize) -> Option<Blueprint> {
        let rate = self.rate().unwrap_or(DEFAULT_RATE);
        let mistakes = || (capacity as f64 * rate).ceil() as u64;
        let repairs = self.adaptations.map_or_else(mistakes, |count| count as u64);
        Blueprint::new(capacity as u64, rate, repairs)
    }
}

/// The number of functions and of cells per function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) cells: u64,
    pub(super) functions: u32,
}

impl Shape {
    /// Returns the smallest shape with at most this false-positive rate for this many members.
    ///
    /// With `n` members and `c` cells per function, a cell is set with probability
    /// `1 − exp(−n/c)`. This is the k-th root of the rate if there are k functions.
    fn for_rate(members: f64, rate: f64) -> Self {
        let shape = |functions: u32| {
            let set = rate.powf(f64::from(functions).recip());
            let cells = (members / -(-set).ln_1p()).ceil().max(1.0) as u64;
            Self { cells, functions }
        };
        let shapes = (1..=MOST_FUNCTIONS).map(shape);
        shapes.min_by_key(|shape| shape.bits()).expect("there is at least one shape")
    }

    pub(super) fn bits(self) -> u64 {
        self.cells.saturating_mul(self.functions.into())
    }

    /// Returns the size in bytes, which is a whole number of lines.
    pub(super) fn bytes(self) -> u64 {
        self.bits().div_ceil(8 * LINE as u64) * LINE as u64
    }

    /// Returns the false-positive rate with this many members.
    pub(super) fn rate(self, members: u64) -> f64 {
        let set = -(-(members as f64) / self.cells as f64).exp_m1();
        set.powi(self.functions.cast_signed())
    }
}

/// The plan of a level other than the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LevelPlan {
    pub(super) shape: Shape,
    /// Number of members that it has room for.
    pub(super) room: u64,
}

/// The plan of all levels.
struct Blueprint {
    /// All levels except the last.
    levels: Vec<LevelPlan>,
    /// Number of cells that may die.
    repairs: u64,
    /// Size of a filter in bytes when this many cells have died.
    bytes: u64,
}

impl Blueprint {
    /// Returns the smallest plan for these numbers of members and repairs, or `None` if none is
    /// possible. The number of repairs decides whether another level of bits saves space compared
    /// with whole hashes.
    fn new(capacity: u64, rate: f64, repairs: u64) -> Option<Self> {
        let plans =
            (0..MOST_DEPTH as usize).map(|deeper| Self::with(capacity, rate, repairs, deeper));
        plans.map_while(|plan| plan).min_by_key(|plan| plan.bytes)
    }

    /// Returns the plan with this many levels between the first and the last.
    fn with(capacity: u64, rate: f64, repairs: u64, deeper: usize) -> Option<Self> {
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
        let mut levels = vec![LevelPlan { shape, room: capacity }];
        let mut above = rate;
        for _ in 0..deeper {
            let room = moved(above);
            above *= above;
            if above < LEAST_LEVEL_RATE {
                return None;
            }
            levels.push(LevelPlan { shape: Shape::for_rate(room, above), room: room as u64 });
        }
        let dead = DeadCells::bytes_for(shape.cells, repairs)?;
        let last = (moved(above) as u64).checked_mul(size_of::<Hash>() as u64)?;
        let own = size_of::<AdaptiveBloomFilter>() + deeper * size_of::<Level>();
        let beside = [own as u64, dead, last, Versions::bytes_for(shape.cells)];
        let mut parts = levels.iter().map(|level| level.shape.bytes()).chain(beside);
        let bytes = parts.try_fold(0, u64::checked_add)?;
        Some(Self { levels, repairs, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_keep_the_rate_and_are_near_the_optimum() {
        for rate in [0.9, 0.5, 0.25, 0.1, 0.01, 0.001, 1e-6, 1e-12] {
            let shape = Shape::for_rate(1e6, rate);
            assert!(shape.rate(1_000_000) <= rate * (1.0 + 1e-9), "{rate}");
            assert!(shape.rate(1_010_000) > rate, "{rate}");
            // One function needs at least one cell per member.
            let optimum = (rate.recip().log2() / core::f64::consts::LN_2).min(f64::MAX);
            let bits = shape.bits() as f64 / 1e6;
            assert!(rate > 0.5 || bits < 1.05 * optimum, "{rate}: {bits} of {optimum}");
        }
    }
}
