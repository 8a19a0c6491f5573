//! The size and rate of a store's filter.

use twiceshy::{BuildError, Concurrent, Shard};

/// How good and how large a filter should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Members, for a start.
    pub(crate) capacity: usize,
    /// How often a key that is no member is taken for one.
    pub(crate) false_positive_rate: f64,
    /// In how many shards.
    pub(crate) shards: usize,
}

impl Shape {
    /// Builds an empty filter of this shape.
    pub(crate) fn empty<F: Shard>(&self) -> Result<Concurrent<F>, BuildError> {
        F::build_concurrent(self.capacity, self.false_positive_rate, self.shards)
    }

    /// Builds a filter of this shape. If that fails, and the capacity isn't what was `asked` for,
    /// but what a store remembers, the filter starts with `fallback`, and grows: a store that was
    /// opened on a larger machine can be opened on this one.
    pub(crate) fn build<F>(
        mut self,
        asked: Option<usize>,
        fallback: usize,
        build: impl Fn(&Self) -> Result<F, BuildError>,
    ) -> Result<(F, Self), BuildError> {
        let built = match build(&self) {
            Err(_) if asked.is_none() && self.capacity > fallback => {
                self.capacity = fallback;
                build(&self)
            }
            built => built,
        };
        built.map(|filter| (filter, self))
    }
}

/// The share of a shard's slots that a rebuild keeps as they are, if the members fit.
pub(crate) const PLANNED_LOAD: f64 = 0.9;
