//! The range filter of the crate `grafite`.

use super::{Keys, RangeContestant, RangeShape};
use grafite::{PairwiseIndependentHasher, RangeFilter};

/// The filter of the crate `grafite`. It is built from all members in one call. Until then, `filter` is
/// `None`.
pub(super) struct Grafite {
    hasher: PairwiseIndependentHasher,
    filter: Option<RangeFilter>,
}

impl Grafite {
    /// Creates a filter. Its false-positive rate is that of our filters with these remainders.
    pub(super) fn new(shape: &RangeShape) -> Result<Self, String> {
        let rate = f64::from(shape.remainder_bits).exp2().recip();
        let hasher =
            PairwiseIndependentHasher::new(shape.members as usize, rate, shape.longest_range);
        let hasher = hasher.map_err(|_| {
            format!(
                "Grafite can't hold {} members with ranges of {} keys at a rate of {rate:.1e}; \
                 choose fewer members, shorter ranges or a higher rate",
                shape.members, shape.longest_range
            )
        })?;
        Ok(Self { hasher, filter: None })
    }
}

impl RangeContestant for Grafite {
    fn insert_each(&mut self, _: &[u64]) {
        unreachable!("a static filter");
    }

    fn bulk(&mut self, sorted: &[u64]) {
        self.filter = Some(RangeFilter::new(sorted.iter().copied(), self.hasher));
    }

    fn contains(&self, range: &Keys) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.query(range.clone()))
    }

    fn count(&self, ranges: &[Keys]) -> usize {
        let Some(filter) = &self.filter else { return 0 };
        ranges.iter().filter(|range| filter.query((*range).clone())).count()
    }

    fn bits(&self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.ef.heap_size() as u64 * 8)
    }
}
