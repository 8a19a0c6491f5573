//! How good and how large a filter should be.

use super::AdaptiveBloomFilter;
use super::level::Blueprint;
use crate::error::BuildError;
use crate::{Keyed, Secret};

/// The rate that is taken if none is asked for.
const DEFAULT_RATE: f64 = 0.001;

/// The best rate: that of the other filters.
const BEST_RATE: f64 = 1.0 / (1u64 << 56) as f64;

/// Builds an [`AdaptiveBloomFilter`]: say how good it should be, and how large.
///
/// - How good: [`false_positive_rate`](Self::false_positive_rate), 0.1 % if nothing is said.
/// - How large: one of [`capacity`](Self::capacity) and [`memory`](Self::memory).
/// - [`adaptations`](Self::adaptations): how many mistakes it should have room to repair before it
///   is rebuilt.
///
/// ```
/// use twiceshy::AdaptiveBloomFilter;
/// let builder = AdaptiveBloomFilter::builder().false_positive_rate(0.01).memory(1 << 20);
/// let plan = builder.plan()?;
/// assert!(plan.capacity > 800_000 && plan.bytes <= 1 << 20);
/// let filter = builder.build()?;
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BloomBuilder {
    rate: Option<f64>,
    capacity: Option<usize>,
    memory: Option<u64>,
    adaptations: Option<usize>,
    secret: Option<Secret>,
}

/// What a [`BloomBuilder`] is going to build.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BloomPlan {
    /// Members that it has room for.
    pub capacity: usize,
    /// Repairs that it has room for.
    pub adaptations: u64,
    /// Levels, the last one of whole hashes among them.
    pub levels: usize,
    /// The hash functions of level 0.
    pub functions: u32,
    /// Cells of each of them.
    pub cells: u64,
    /// The false-positive rate when it is full.
    pub rate: f64,
    /// Bytes of memory that it takes, after that many repairs.
    pub bytes: u64,
}

impl BloomBuilder {
    /// The probability with which an absent key may be answered "maybe", when the
    /// filter is full.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// How many members the filter has room for.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// The bytes that the filter may take; [`plan`](Self::plan) tells for how many
    /// members they are enough.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// How many mistakes there should be room to repair before the filter is
    /// [rebuilt](AdaptiveBloomFilter::rebuild). If nothing is said, those of as many queries as
    /// there are members: capacity × rate. More of them are repaired, too, but take more memory.
    #[must_use]
    pub fn adaptations(mut self, mistakes: usize) -> Self {
        self.adaptations = Some(mistakes);
        self
    }

    /// The secret for the keys' hashes, if a filter is to be built again over keys that
    /// are stored by their hashes; a fresh one if nothing is said. For
    /// [`build_keyed`](Self::build_keyed) only.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// What [`build`](Self::build) would build.
    ///
    /// # Errors
    /// If what was asked for is contradictory or impossible.
    pub fn plan(&self) -> Result<BloomPlan, BuildError> {
        let blueprint = self.blueprint()?;
        let first = blueprint.first;
        Ok(BloomPlan {
            capacity: first.room as usize,
            adaptations: blueprint.repairs,
            levels: blueprint.deeper.len() + 2,
            functions: first.shape.functions,
            cells: first.shape.cells,
            rate: first.shape.rate(first.room),
            bytes: blueprint.bytes,
        })
    }

    fn blueprint(&self) -> Result<Blueprint, BuildError> {
        if let Some(rate) = self.rate.filter(|rate| !(*rate >= BEST_RATE && *rate < 1.0)) {
            return Err(BuildError::Rate(rate));
        }
        match (self.capacity, self.memory) {
            (Some(capacity), None) => {
                let planned = self.blueprint_for(capacity as u64);
                planned.ok_or_else(|| match self.adaptations {
                    Some(count) if count > 0 && self.without_adaptations().plan().is_ok() => {
                        BuildError::Adaptations(count)
                    }
                    _ => BuildError::Capacity(capacity),
                })
            }
            (None, Some(bytes)) => self.blueprint_within(bytes),
            _ => Err(BuildError::BloomSize),
        }
    }

    fn without_adaptations(&self) -> Self {
        Self { adaptations: Some(0), ..self.clone() }
    }

    fn blueprint_for(&self, capacity: u64) -> Option<Blueprint> {
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        let mistakes = || (capacity as f64 * rate).ceil() as u64;
        let repairs = self.adaptations.map_or_else(mistakes, |count| count as u64);
        Blueprint::new(capacity, rate, repairs)
    }

    /// The most members whose filter fits the budget.
    fn blueprint_within(&self, bytes: u64) -> Result<Blueprint, BuildError> {
        let fits = |capacity: u64| {
            let planned = self.blueprint_for(capacity)?;
            (planned.bytes <= bytes).then_some(planned)
        };
        // Few cells hold many members if nearly every query may be a mistake.
        let (mut low, mut high) = (0, bytes.saturating_mul(1 << 10).min(1 << 48) + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        fits(low).filter(|plan| plan.first.room > 0).ok_or_else(|| match self.adaptations {
            Some(count) if count > 0 && self.without_adaptations().plan().is_ok() => {
                BuildError::Adaptations(count)
            }
            _ => BuildError::Budget(bytes),
        })
    }

    /// Builds an empty filter, with hash functions from a fresh secret.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), or if there is no memory or entropy for it.
    pub fn build(&self) -> Result<AdaptiveBloomFilter, BuildError> {
        AdaptiveBloomFilter::new(self.blueprint()?)
    }

    /// Builds an empty filter for keys of type `K`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_keyed<K: ?Sized>(&self) -> Result<Keyed<K, AdaptiveBloomFilter>, BuildError> {
        let secret = self.secret.clone().map_or_else(Secret::generate, Ok)?;
        Ok(Keyed::new(self.build()?, secret))
    }
}
