//! What an adaptive Bloom filter is planned like.

use super::AdaptiveBloomFilter;
use super::level::Blueprint;
use crate::builder::{Buildable, Builder, DEFAULT_RATE, HasRepairs, Limits, Plan, sealed};
use crate::error::{BuildError, PlanError};

/// The lowest rate: that of the other filters.
const LEAST_RATE: f64 = 1.0 / (1u64 << 56) as f64;

/// What a plan of an adaptive Bloom filter says besides the common numbers.
///
/// The memory of the plan is that of a filter with [`adaptations`](Self::adaptations) repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanDetails {
    /// Repairs that the filter has room for.
    pub adaptations: u64,
    /// Levels, including the last one of whole hashes.
    pub levels: usize,
    /// Hash functions of level 0.
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
        let blueprint = builder.blueprint(capacity)?;
        let shape = blueprint.first.shape;
        let details = PlanDetails {
            adaptations: blueprint.repairs,
            levels: blueprint.deeper.len() + 2,
            functions: shape.functions,
        };
        let rate = shape.rate(capacity as u64);
        Some(Plan::new(capacity, (shape.cells, 0), rate, blueprint.bytes, details))
    }

    fn build_planned(builder: &Builder<Self>, plan: Plan<PlanDetails>) -> Result<Self, BuildError> {
        let blueprint = builder.blueprint(plan.capacity);
        Self::new(blueprint.ok_or(PlanError::Capacity(plan.capacity))?)
    }
}

impl Builder<AdaptiveBloomFilter> {
    /// Returns the levels of a filter of this capacity. By default there is room to repair the
    /// mistakes of as many queries as there are members: levels below the first hold nothing but
    /// repairs, so that more room would be wasted, and where there are more mistakes, the last level
    /// grows.
    fn blueprint(&self, capacity: usize) -> Option<Blueprint> {
        let rate = self.rate().unwrap_or(DEFAULT_RATE);
        let mistakes = || (capacity as f64 * rate).ceil() as u64;
        let repairs = self.adaptations.map_or_else(mistakes, |count| count as u64);
        Blueprint::new(capacity as u64, rate, repairs)
    }
}
