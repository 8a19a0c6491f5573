//! The size and the false-positive rate of a store's filter.

use twiceshy::{Concurrent, builder::Builder, concurrent::Shard, error::BuildError};

/// The capacity of a new filter, unless the options say otherwise.
pub(crate) const DEFAULT_CAPACITY: usize = 1 << 20;

/// The share of its slots that a shard is planned to use, as in the core.
pub(crate) const PLANNED_LOAD: f64 = 0.95;

/// The size and the false-positive rate of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizing {
    /// Members to plan for.
    pub(crate) capacity: usize,
    pub(crate) false_positive_rate: f64,
    pub(crate) shards: usize,
}

impl Default for Sizing {
    fn default() -> Self {
        Self { capacity: DEFAULT_CAPACITY, false_positive_rate: 0.001, shards: 64 }
    }
}

impl Sizing {
    /// Builds an empty filter.
    pub(crate) fn build_empty<F: Shard>(&self) -> Result<Concurrent<F>, BuildError> {
        let builder = Builder::default().capacity(self.capacity).shards(self.shards);
        builder.false_positive_rate(self.false_positive_rate).build_concurrent()
    }
}
