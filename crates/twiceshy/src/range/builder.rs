//! How good and how large a filter for ranges should be.

use super::boxes::Boxes;
use super::keepsake::MOST_MEMENTO_BITS;
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::error::BuildError;
use crate::table::{SLOTS, WIDTHS};
use crate::{KeyedHasher, Secret};
use core::marker::PhantomData;

/// The share of slots that a filter is planned to use.
const PLANNED_LOAD: f64 = 0.95;

const DEFAULT_RATE: f64 = 0.001;
const DEFAULT_RANGE: u64 = 32;

/// Builds a [`RangeFilter`] or an [`AdaptiveRangeFilter`].
///
/// - How good: [`false_positive_rate`](Self::false_positive_rate) (0.1 % if nothing is said) or
///   [`remainder_bits`](Self::remainder_bits), for ranges of up to
///   [`longest_range`](Self::longest_range) keys (32, if nothing is said).
/// - How large: one of [`capacity`](Self::capacity) and [`slots`](Self::slots).
/// - The [`secret`](Self::secret) that partitions are hashed with; a new one, if nothing is said.
#[derive(Clone, Debug)]
pub struct RangeBuilder<K> {
    rate: Option<f64>,
    remainder_bits: Option<u32>,
    longest_range: u64,
    capacity: Option<usize>,
    slots: Option<u64>,
    secret: Option<Secret>,
    keys: PhantomData<fn(K)>,
}

impl<K: RangeKey> RangeBuilder<K> {
    pub(super) fn new() -> Self {
        Self {
            rate: None,
            remainder_bits: None,
            longest_range: DEFAULT_RANGE,
            capacity: None,
            slots: None,
            secret: None,
            keys: PhantomData,
        }
    }

    /// The probability with which an empty range may be answered "maybe", at worst: if it touches
    /// two partitions, and the filter holds as many members as it is planned for.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The bits of a remainder instead of a rate: one more than log₂(1/rate).
    #[must_use]
    pub fn remainder_bits(mut self, bits: u32) -> Self {
        self.remainder_bits = Some(bits);
        self
    }

    /// The keys of the longest range that the rate is to hold for, 1 to 2^20; a power of two, or
    /// the next one is taken. Each doubling takes a bit of every member.
    #[must_use]
    pub fn longest_range(mut self, keys: u64) -> Self {
        self.longest_range = keys;
        self
    }

    /// How many members the filter is planned for.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// The slots of the filter, any number; plan to use 95 % of them.
    #[must_use]
    pub fn slots(mut self, slots: u64) -> Self {
        self.slots = Some(slots);
        self
    }

    /// What partitions are hashed with.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Builds a filter that doesn't adapt.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn build(self) -> Result<RangeFilter<K>, BuildError> {
        let memento_bits = self.memento_bits()?;
        let remainder_bits = self.planned_remainder_bits(memento_bits)?;
        let slots = match (self.capacity, self.slots) {
            (Some(members), None) => (members as f64 / PLANNED_LOAD).ceil().max(1.0) as u64,
            (None, Some(slots)) => slots,
            _ => return Err(BuildError::RangeSize),
        };
        if !SLOTS.contains(&slots) {
            return Err(BuildError::Slots(slots));
        }
        let secret = self.secret.map_or_else(Secret::generate, Ok)?;
        let boxes = Boxes::new(slots, remainder_bits, memento_bits);
        let boxes = boxes.ok_or(BuildError::Memory { slots, remainder_bits })?;
        Ok(RangeFilter::new(KeyedHasher::new(&secret), boxes))
    }

    /// Builds a filter that adapts.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn build_adaptive(self) -> Result<AdaptiveRangeFilter<K>, BuildError> {
        Ok(AdaptiveRangeFilter::new(self.build()?))
    }

    fn memento_bits(&self) -> Result<u32, BuildError> {
        let keys = self.longest_range;
        if keys == 0 || keys > 1 << MOST_MEMENTO_BITS {
            return Err(BuildError::Range(keys));
        }
        // Where all keys are in one partition, there is nothing to hash.
        Ok(keys.next_power_of_two().ilog2().min(K::BITS - 1))
    }

    /// Two boxes are looked at, at worst, and a full table meets one of 2^r of them.
    fn planned_remainder_bits(&self, memento_bits: u32) -> Result<u32, BuildError> {
        let bits = match (self.remainder_bits, self.rate) {
            (Some(_), Some(_)) => return Err(BuildError::RateAndRemainderBits),
            (Some(bits), None) => bits,
            (None, rate) => {
                let rate = rate.unwrap_or(DEFAULT_RATE);
                if !(rate > 0.0 && rate < 1.0) {
                    return Err(BuildError::Rate(rate));
                }
                ((PLANNED_LOAD / rate).log2().ceil().max(0.0) as u32).saturating_add(1)
            }
        };
        let most = WIDTHS.end() - memento_bits;
        if bits == 0 || bits > most {
            return Err(BuildError::RemainderBits(bits));
        }
        Ok(bits)
    }
}
