//! The plan of a filter: how many levels it has, and how large each is.

use super::AdaptiveBloomFilter;
use super::dead::{DeadCells, MOST_DEPTH};
use super::level::Level;
use crate::Hash;
use crate::bits::memory::LINE;
use crate::builder::{
    Buildable, Builder, DEFAULT_RATE, HasRepairs, Limits, Plan, Plannable, sealed,
};
use crate::claim::Versions;
use crate::error::{BuildError, PlanError};

/// The lowest rate that can be requested.
const LEAST_RATE: f64 = 1.0 / (1u64 << 56) as f64;

/// The lowest rate of a level. Below it, whole hashes are smaller than a Bloom filter.
const LEAST_LEVEL_RATE: f64 = 1.0 / (1u128 << 64) as f64;

/// Maximum number of cells per function.
pub(super) const MOST_CELLS: u64 = 1 << 40;

/// Maximum number of hash functions per level.
pub(super) const MOST_FUNCTIONS: u32 = 64;

/// The part of a plan that is specific to an [`AdaptiveBloomFilter`].
///
/// The plan's memory is that of a filter after [`adaptations`](Self::adaptations) repairs.
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

impl Plannable for AdaptiveBloomFilter {
    type Options = ();
    type Details = PlanDetails;

    fn limits(_: &Builder<Self>) -> Result<Limits, PlanError> {
        Ok(Limits { least_rate: LEAST_RATE, most_bits: 0 })
    }

    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<PlanDetails>> {
        let (levels, bytes) = builder.smallest_levels(capacity)?;
        let LevelPlan { cells, functions, .. } = levels[0];
        let rate = levels[0].rate(capacity as u64);
        let adaptations = builder.planned_repairs(capacity);
        let details = PlanDetails { adaptations, levels: levels.len() + 1, functions };
        Some(Plan::new(capacity, (cells, 0), rate, bytes, details))
    }
}

impl Buildable for AdaptiveBloomFilter {
    fn build_planned(builder: &Builder<Self>, plan: Plan<PlanDetails>) -> Result<Self, BuildError> {
        let levels = builder.smallest_levels(plan.capacity);
        let (levels, _) = levels.ok_or(PlanError::Capacity(plan.capacity))?;
        Self::new(levels.into_iter(), plan.details.adaptations)
    }
}

impl Builder<AdaptiveBloomFilter> {
    /// Returns the number of repairs to plan for. By default, this is the expected number of
    /// mistakes if there are as many queries as members. More room would be wasted, because the
    /// deeper levels contain nothing but repairs. If there are more mistakes, the last level grows.
    fn planned_repairs(&self, capacity: usize) -> u64 {
        let mistakes = || (capacity as f64 * self.rate().unwrap_or(DEFAULT_RATE)).ceil() as u64;
        self.adaptations.map_or_else(mistakes, |count| count as u64)
    }

    /// Returns all levels except the last, and the size of the filter in bytes after all planned
    /// repairs. Returns `None` if the filter would be too large. The number of repairs decides
    /// whether another level of bits saves space compared with whole hashes.
    fn smallest_levels(&self, capacity: usize) -> Option<(Vec<LevelPlan>, u64)> {
        let rate = self.rate().unwrap_or(DEFAULT_RATE);
        let plan = |deeper| levels(capacity as u64, rate, self.planned_repairs(capacity), deeper);
        (0..MOST_DEPTH as usize).map_while(plan).min_by_key(|&(_, bytes)| bytes)
    }
}

/// The plan of a level other than the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LevelPlan {
    /// Number of cells per function.
    pub(super) cells: u64,
    pub(super) functions: u32,
    /// Number of members that the level has room for.
    pub(super) room: u64,
}

impl LevelPlan {
    /// Returns the smallest level whose false-positive rate is at most `rate` when it has `room`
    /// members.
    ///
    /// With `n` members and `c` cells per function, a cell is set with probability
    /// `1 − exp(−n/c)`. This is the k-th root of the rate if there are k functions.
    fn for_rate(room: u64, rate: f64) -> Self {
        let plan = |functions: u32| {
            let set = rate.powf(f64::from(functions).recip());
            let cells = (room as f64 / -(-set).ln_1p()).ceil().max(1.0) as u64;
            Self { cells, functions, room }
        };
        let plans = (1..=MOST_FUNCTIONS).map(plan);
        plans.min_by_key(|plan| plan.bits()).expect("there is at least one plan")
    }

    pub(super) fn bits(self) -> u64 {
        self.cells.saturating_mul(self.functions.into())
    }

    /// Returns the size in bytes, which is a whole number of lines.
    pub(super) fn bytes(self) -> u64 {
        self.bits().div_ceil(8 * LINE as u64) * LINE as u64
    }

    /// Returns the false-positive rate with `members` members.
    pub(super) fn rate(self, members: u64) -> f64 {
        let set = -(-(members as f64) / self.cells as f64).exp_m1();
        set.powi(self.functions.cast_signed())
    }
}

/// Returns all levels except the last, and the size of the filter in bytes. `deeper` is the number
/// of levels between the first and the last.
fn levels(capacity: u64, rate: f64, repairs: u64, deeper: usize) -> Option<(Vec<LevelPlan>, u64)> {
    let first = LevelPlan::for_rate(capacity, rate);
    if first.cells > MOST_CELLS {
        return None;
    }
    // A repair moves all members of a cell to the next level. On average, a cell that isn't empty
    // has more than one.
    let load = capacity as f64 / first.cells as f64;
    let members_each = if load > 0.0 { load / -(-load).exp_m1() } else { 1.0 };
    let slack = 1.0 + (capacity as f64 + 2.0).log2().recip();
    // Only some of the mistakes at one level are also mistakes at the next.
    let moved = |rate_above: f64| {
        (repairs as f64 * members_each * slack * (rate_above / rate)).ceil() as u64
    };
    let mut levels = vec![first];
    let mut above = rate;
    for _ in 0..deeper {
        let room = moved(above);
        above *= above;
        if above < LEAST_LEVEL_RATE {
            return None;
        }
        levels.push(LevelPlan::for_rate(room, above));
    }
    let dead = DeadCells::bytes_for(first.cells, repairs)?;
    let last = moved(above).checked_mul(size_of::<Hash>() as u64)?;
    let own = size_of::<AdaptiveBloomFilter>() + deeper * size_of::<Level>();
    let beside = [own as u64, dead, last, Versions::bytes_for(first.cells)];
    let mut parts = levels.iter().map(|level| level.bytes()).chain(beside);
    let bytes = parts.try_fold(0, u64::checked_add)?;
    Some((levels, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_plans_keep_the_rate_at_nearly_optimal_size() {
        for rate in [0.9, 0.5, 0.25, 0.1, 0.01, 0.001, 1e-6, 1e-12] {
            let shape = LevelPlan::for_rate(1_000_000, rate);
            assert!(shape.rate(1_000_000) <= rate * (1.0 + 1e-9), "{rate}");
            assert!(shape.rate(1_010_000) > rate, "{rate}");
            // The optimum has log2(1/rate) functions. At rates above 0.5 that is less than one, so
            // no level reaches it.
            let optimum = rate.recip().log2() / core::f64::consts::LN_2;
            let bits = shape.bits() as f64 / 1e6;
            assert!(rate > 0.5 || bits < 1.05 * optimum, "{rate}: {bits} of {optimum}");
        }
    }
}
