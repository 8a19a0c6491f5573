//! How good and how large a filter for ranges should be.

use super::boxes::Boxes;
use super::keepsake::{MOST_MEMENTO_BITS, Spelling};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::Secret;
use crate::error::BuildError;
use crate::table::{QuotientTable, SLOTS, WIDTHS};
use core::marker::PhantomData;

/// The share of slots that a filter is planned to use.
pub(super) const PLANNED_LOAD: f64 = 0.95;

const DEFAULT_RATE: f64 = 0.001;
const DEFAULT_RANGE: u64 = 32;

/// Builds a [`RangeFilter`] or an [`AdaptiveRangeFilter`].
///
/// - How good: [`false_positive_rate`](Self::false_positive_rate) (0.1 % if nothing is said) or
///   [`remainder_bits`](Self::remainder_bits), for ranges of up to
///   [`longest_range`](Self::longest_range) keys (32, if nothing is said).
/// - How large: one of [`capacity`](Self::capacity) and [`slots`](Self::slots), for good, or to
///   begin with, if it is [`expandable`](Self::expandable).
/// - The [`secret`](Self::secret) that partitions are hashed with; a new one, if nothing is said.
///
/// What comes of it can be seen before it is built:
/// ```
/// use twiceshy::RangeFilter;
/// let builder = RangeFilter::<u64>::builder().false_positive_rate(1.0 / 512.0).capacity(1_000_000);
/// let plan = builder.clone().plan()?;
/// assert_eq!((plan.remainder_bits, plan.memento_bits), (10, 5));
/// assert!(plan.bits_per_key < 19.7);
/// let plan = builder.expandable().plan()?;
/// assert_eq!((plan.remainder_bits, plan.memento_bits), (13, 5));
/// assert!(plan.bits_per_key < 24.6);
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RangeBuilder<K> {
    rate: Option<f64>,
    remainder_bits: Option<u32>,
    longest_range: u64,
    expandable: bool,
    load: Option<f64>,
    capacity: Option<usize>,
    slots: Option<u64>,
    pub(super) secret: Option<Secret>,
    keys: PhantomData<fn(K)>,
}

impl<K: RangeKey> RangeBuilder<K> {
    pub(super) fn new() -> Self {
        Self {
            rate: None,
            remainder_bits: None,
            longest_range: DEFAULT_RANGE,
            expandable: false,
            load: None,
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
    ///
    /// Members that are in one partition share a box, which each insert or removal there writes
    /// anew: where there are thousands in one, build the filter [at once](Self::build_from), or
    /// plan for shorter ranges.
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

    /// A filter that grows: it doubles its slots when 95 % of them are used, and its rate holds
    /// however often it does. That takes a bit more of every member, and remainders that are
    /// longer by log₂ log₂(1/rate) bits, about.
    #[must_use]
    pub fn expandable(mut self) -> Self {
        self.expandable = true;
        self
    }

    /// The share of slots that a filter of fixed size is planned to use, 0.5 to 0.99; 0.95, if
    /// nothing is said. The fuller it is, the smaller, and the slower: above 0.95 most lookups
    /// need more than a line, and inserts move more and more.
    #[must_use]
    pub fn planned_load(mut self, load: f64) -> Self {
        self.load = Some(load);
        self
    }

    /// What partitions are hashed with.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Whether a size was asked for.
    pub(super) fn is_sized(&self) -> bool {
        self.capacity.is_some() || self.slots.is_some()
    }

    /// Whether it may become larger than what was asked for.
    pub(super) fn is_expandable(&self) -> bool {
        self.expandable
    }

    pub(super) fn with_slots(mut self, slots: u64) -> Self {
        (self.capacity, self.slots) = (None, Some(slots));
        self
    }

    /// What the filter will be.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn plan(&self) -> Result<RangePlan, BuildError> {
        let memento_bits = self.memento_bits()?;
        let load = self.load()?;
        let remainder_bits = self.planned_remainder_bits(memento_bits, load)?;
        let slots = match (self.capacity, self.slots) {
            (Some(members), None) => (members as f64 / load).ceil().max(1.0) as u64,
            (None, Some(slots)) => slots,
            _ => return Err(BuildError::RangeSize),
        };
        if !SLOTS.contains(&slots) {
            return Err(BuildError::Slots(slots));
        }
        let expandable = self.expandable;
        let width = Spelling::new(slots, remainder_bits, memento_bits, expandable).digits.width;
        let bytes = QuotientTable::bytes_for(slots, width);
        let memory = bytes.ok_or(BuildError::Memory { slots, remainder_bits })?;
        let bits_per_key = 8.0 * memory as f64 / (slots as f64 * load);
        let capacity = (slots as f64 * load) as u64;
        Ok(RangePlan {
            slots,
            capacity,
            remainder_bits,
            memento_bits,
            expandable,
            expected_rate: expected_rate(remainder_bits, expandable, load),
            memory,
            bits_per_key,
        })
    }

    /// Builds a filter that doesn't adapt.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn build(self) -> Result<RangeFilter<K>, BuildError> {
        let RangePlan { slots, remainder_bits, memento_bits, expandable, .. } = self.plan()?;
        let secret = self.secret.map_or_else(Secret::generate, Ok)?;
        let spelling = Spelling::new(slots, remainder_bits, memento_bits, expandable);
        let boxes = Boxes::new(spelling).ok_or(BuildError::Memory { slots, remainder_bits })?;
        Ok(RangeFilter::new(secret, boxes))
    }

    /// Builds a filter that adapts.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn build_adaptive(self) -> Result<AdaptiveRangeFilter<K>, BuildError> {
        Ok(AdaptiveRangeFilter::new(self.build()?))
    }

    fn load(&self) -> Result<f64, BuildError> {
        match self.load {
            None => Ok(PLANNED_LOAD),
            Some(load) if !self.expandable && (0.5..=0.99).contains(&load) => Ok(load),
            Some(load) => Err(BuildError::Load(load)),
        }
    }

    fn memento_bits(&self) -> Result<u32, BuildError> {
        let keys = self.longest_range;
        if keys == 0 || keys > 1 << MOST_MEMENTO_BITS {
            return Err(BuildError::Range(keys));
        }
        // Where all keys are in one partition, there is nothing to hash.
        Ok(keys.next_power_of_two().ilog2().min(K::BITS - 1))
    }

    /// As few bits as the rate allows.
    fn planned_remainder_bits(&self, memento_bits: u32, load: f64) -> Result<u32, BuildError> {
        let most = WIDTHS.end() - memento_bits - u32::from(self.expandable);
        let bits = match (self.remainder_bits, self.rate) {
            (Some(_), Some(_)) => return Err(BuildError::RateAndRemainderBits),
            (Some(bits), None) => bits,
            (None, rate) => {
                let rate = rate.unwrap_or(DEFAULT_RATE);
                if !(rate > 0.0 && rate < 1.0) {
                    return Err(BuildError::Rate(rate));
                }
                let suffices = |bits: &u32| expected_rate(*bits, self.expandable, load) <= rate;
                (1..=most).find(suffices).ok_or(BuildError::Rate(rate))?
            }
        };
        if bits == 0 || bits > most {
            return Err(BuildError::RemainderBits(bits));
        }
        Ok(bits)
    }
}

/// How often an empty range is a mistake, at worst: if it touches two partitions, and the filter
/// is as full as planned.
fn expected_rate(remainder_bits: u32, expandable: bool, load: f64) -> f64 {
    // A young box is met once in 2^r. Of those of age a there are half as many as of the age
    // before, and each is met twice as often; the last ones have no bits, and there are as many.
    let kinds = if expandable { f64::from(remainder_bits + 2) / 2.0 } else { 1.0 };
    (2.0 * load * kinds / f64::from(remainder_bits).exp2()).min(1.0)
}

/// What a [`RangeBuilder`] will build.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RangePlan {
    /// The slots of its table.
    pub slots: u64,
    /// The members that it is planned for, if each is alone in its partition; to begin with, if
    /// it is expandable.
    pub capacity: u64,
    /// Bits of a fingerprint's remainder.
    pub remainder_bits: u32,
    /// Bits of a member's place in its partition.
    pub memento_bits: u32,
    /// Whether it grows.
    pub expandable: bool,
    /// How often an empty range is a mistake, at worst.
    pub expected_rate: f64,
    /// Bytes of its table.
    pub memory: u64,
    /// Bits that each member takes, if there are as many as planned.
    pub bits_per_key: f64,
}
