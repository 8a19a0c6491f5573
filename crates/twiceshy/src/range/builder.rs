//! What a range filter is planned like.

use super::boxes::Boxes;
use super::layout::{MOST_MEMENTO_BITS, Spelling};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::builder::{Buildable, Builder, HasRepairs, HasSlots, Limits, Plan, sealed};
use crate::claim::Versions;
use crate::error::{BuildError, PlanError};
use crate::quotient::extension_slots;
use crate::table::{QuotientTable, WIDTHS};

/// The keys of the longest range by default.
const DEFAULT_RANGE: u64 = 32;

/// The words that only a range filter has.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    longest_range: u64,
    pub(super) expandable: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { longest_range: DEFAULT_RANGE, expandable: false }
    }
}

/// What a plan of a range filter says besides the common numbers.
///
/// The capacity is that of members of which each is alone in its partition; of an expandable filter
/// it is the capacity before it grows. The expected rate is that of empty ranges that touch two
/// partitions, which is the worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanDetails {
    /// Bits of a member's place in its partition.
    pub memento_bits: u32,
    /// Whether the filter grows.
    pub expandable: bool,
}

/// A [`RangeFilter`] or an [`AdaptiveRangeFilter`].
pub trait OfRanges: HasSlots + Buildable<Options = Options, Details = PlanDetails> {
    /// The keys of the filter.
    #[doc(hidden)]
    type Key: RangeKey;

    /// Returns the slots to keep free for repairs.
    #[doc(hidden)]
    fn repair_slots(builder: &Builder<Self>, capacity: usize, slot_bits: u32) -> u64;

    /// Returns the bytes that the filter takes beside its table.
    #[doc(hidden)]
    fn bytes_beside_table(slots: u64) -> u64;

    /// Wraps a filter that doesn't adapt.
    #[doc(hidden)]
    fn of_plain(filter: RangeFilter<Self::Key>) -> Self;
}

impl<K: RangeKey> OfRanges for RangeFilter<K> {
    type Key = K;

    fn repair_slots(_: &Builder<Self>, _: usize, _: u32) -> u64 {
        0
    }

    fn bytes_beside_table(_: u64) -> u64 {
        size_of::<Self>() as u64
    }

    fn of_plain(filter: Self) -> Self {
        filter
    }
}

impl<K: RangeKey> OfRanges for AdaptiveRangeFilter<K> {
    type Key = K;

    fn repair_slots(builder: &Builder<Self>, capacity: usize, slot_bits: u32) -> u64 {
        extension_slots(builder.repairs(capacity), slot_bits)
    }

    fn bytes_beside_table(slots: u64) -> u64 {
        size_of::<Self>() as u64 + Versions::bytes_for(slots)
    }

    fn of_plain(filter: RangeFilter<K>) -> Self {
        Self::new(filter)
    }
}

impl<K> sealed::Sealed for RangeFilter<K> {}
impl<K> sealed::Sealed for AdaptiveRangeFilter<K> {}
impl<K: RangeKey> HasSlots for RangeFilter<K> {}
impl<K: RangeKey> HasSlots for AdaptiveRangeFilter<K> {}
impl<K: RangeKey> HasRepairs for AdaptiveRangeFilter<K> {}

/// Implements [`Buildable`] for both filters: a blanket implementation would overlap with those of
/// other filters.
macro_rules! buildable {
    ($filter:ident) => {
        impl<K: RangeKey> Buildable for $filter<K> {
            type Options = Options;
            type Details = PlanDetails;

            fn limits(builder: &Builder<Self>) -> Result<Limits, PlanError> {
                builder.range_limits()
            }

            fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<PlanDetails>> {
                builder.plan_range_members(capacity)
            }

            fn plan_slots(builder: &Builder<Self>, slots: u64) -> Option<Plan<PlanDetails>> {
                builder.plan_range_slots(slots)
            }

            fn build_planned(
                builder: &Builder<Self>,
                plan: Plan<PlanDetails>,
            ) -> Result<Self, BuildError> {
                Ok(Self::of_plain(builder.build_plain(&plan)?))
            }
        }
    };
}

buildable!(RangeFilter);
buildable!(AdaptiveRangeFilter);

impl<F: OfRanges> Builder<F> {
    /// Sets the keys of the longest range that the rate holds for, 1 to 2^20; 32 by default. A number
    /// that is not a power of two is rounded up to the next one. Each doubling costs a bit per member.
    ///
    /// Members in one partition share a box, and each insert or removal there writes the whole box.
    /// If there are thousands in one partition, build the filter at once, with `build_from`, or plan
    /// for shorter ranges.
    ///
    /// ```
    /// use twiceshy::RangeFilter;
    ///
    /// # fn main() -> Result<(), twiceshy::error::PlanError> {
    /// let builder = RangeFilter::<u64>::builder().false_positive_rate(1.0 / 512.0);
    /// let builder = builder.longest_range(32).capacity(1_000_000);
    /// let plan = builder.plan()?;
    /// assert_eq!((plan.remainder_bits, plan.details.memento_bits), (10, 5));
    /// assert!(plan.bits_per_member < 19.7);
    /// let plan = builder.expandable().plan()?;
    /// assert_eq!((plan.remainder_bits, plan.details.memento_bits), (13, 5));
    /// assert!(plan.bits_per_member < 24.6);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn longest_range(mut self, keys: u64) -> Self {
        self.options.longest_range = keys;
        self
    }

    /// Makes the filter grow: it doubles its slots when 95 % of them are used, and keeps its rate
    /// however often it does. That takes one bit more per member, and remainders that are longer by
    /// about log₂ log₂(1/rate) bits.
    #[must_use]
    pub fn expandable(mut self) -> Self {
        self.options.expandable = true;
        self
    }

    fn range_limits(&self) -> Result<Limits, PlanError> {
        let Options { longest_range, expandable } = self.options;
        if !(1..=1 << MOST_MEMENTO_BITS).contains(&longest_range) {
            return Err(PlanError::LongestRange(longest_range));
        }
        if let Some(load) = self.asked_load().filter(|_| expandable) {
            return Err(PlanError::Load(load));
        }
        let most_bits = self.most_bits();
        Ok(Limits { least_rate: expected_rate(most_bits, expandable, self.load()), most_bits })
    }

    fn most_bits(&self) -> u32 {
        WIDTHS.end() - self.memento_bits() - u32::from(self.options.expandable)
    }

    fn memento_bits(&self) -> u32 {
        // Where all keys are in one partition, there is nothing to hash.
        self.options.longest_range.next_power_of_two().ilog2().min(F::Key::BITS - 1)
    }

    /// Returns the fewest bits that keep the rate.
    fn planned_bits(&self) -> Option<u32> {
        let rate = |bits: u32| expected_rate(bits, self.options.expandable, self.load());
        let suffices = |bits: &u32| self.rate().is_none_or(|most| rate(*bits) <= most);
        self.widths(self.most_bits()).find(suffices)
    }

    fn spelling(&self, slots: u64, remainder_bits: u32) -> Spelling {
        Spelling::new(slots, remainder_bits, self.memento_bits(), self.options.expandable)
    }

    fn plan_range_members(&self, capacity: usize) -> Option<Plan<PlanDetails>> {
        let width = self.spelling(1, self.planned_bits()?).digits.width;
        let repairs = F::repair_slots(self, capacity, width);
        let slots = (capacity as f64 + repairs as f64) / self.load();
        self.planned_with(capacity, slots.ceil().max(1.0) as u64)
    }

    fn plan_range_slots(&self, slots: u64) -> Option<Plan<PlanDetails>> {
        let planned = (slots as f64 * self.load()) as u64;
        let width = self.spelling(1, self.planned_bits()?).digits.width;
        let repairs = F::repair_slots(self, planned as usize * 20 / 21, width);
        // A few slots may be too few for the default number of repairs, but are still a filter.
        let capacity = match self.adaptations {
            Some(_) => planned.checked_sub(repairs)?,
            None => planned.saturating_sub(repairs),
        };
        self.planned_with(capacity as usize, slots)
    }

    fn planned_with(&self, capacity: usize, slots: u64) -> Option<Plan<PlanDetails>> {
        let bits = self.planned_bits()?;
        let expandable = self.options.expandable;
        let table = QuotientTable::bytes_for(slots, self.spelling(slots, bits).digits.width)?;
        let rate = expected_rate(bits, expandable, self.load());
        let details = PlanDetails { memento_bits: self.memento_bits(), expandable };
        let bytes = table + F::bytes_beside_table(slots);
        Some(Plan::new(capacity, (slots, bits), rate, bytes, details))
    }

    pub(super) fn build_plain(
        &self,
        plan: &Plan<PlanDetails>,
    ) -> Result<RangeFilter<F::Key>, BuildError> {
        let secret = self.secret_or_fresh()?;
        let boxes = Boxes::new(self.spelling(plan.slots, plan.remainder_bits));
        let boxes = boxes.ok_or(BuildError::Memory { bytes: plan.bytes })?;
        Ok(RangeFilter::new(secret, boxes))
    }
}

/// How often an empty range is a mistake, at worst: if it touches two partitions, and the filter
/// is as full as planned.
pub(super) fn expected_rate(remainder_bits: u32, expandable: bool, load: f64) -> f64 {
    // A young box is met once in 2^r. Of those of age a there are half as many as of the age
    // before, and each is met twice as often; the last ones have no bits, and there are as many.
    let kinds = if expandable { f64::from(remainder_bits + 2) / 2.0 } else { 1.0 };
    (2.0 * load * kinds / f64::from(remainder_bits).exp2()).min(1.0)
}
