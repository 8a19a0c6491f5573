//! Plans range filters.

use super::boxes::Boxes;
use super::layout::{MOST_MEMENTO_BITS, Spelling};
use super::{AdaptiveRangeFilter, MementoFilter, Partitions, RangeKey};
use crate::builder::{Buildable, Builder, HasRepairs, HasSlots, Limits, Plan, Plannable, sealed};
use crate::error::{BuildError, PlanError};
use crate::quotient::extension_slots;
use crate::table::{QuotientTable, WIDTHS};

/// Builder options that only a range filter has.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    longest_range: u64,
    pub(super) expandable: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { longest_range: 32, expandable: false }
    }
}

/// The part of a plan that only range filters have.
///
/// The plan's capacity assumes that each member is alone in its partition. For an expandable
/// filter, it is the capacity before the filter grows. The expected rate is that of an empty range
/// that touches two partitions, which is the worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanDetails {
    /// Number of bits that encode a member's position in its partition.
    pub memento_bits: u32,
    /// Whether the filter grows.
    pub expandable: bool,
}

impl<K, const ADAPTIVE: bool> sealed::Sealed for MementoFilter<K, ADAPTIVE> {}
impl<K: RangeKey, const ADAPTIVE: bool> HasSlots for MementoFilter<K, ADAPTIVE> {}
impl<K: RangeKey> HasRepairs for AdaptiveRangeFilter<K> {}

impl<K: RangeKey, const ADAPTIVE: bool> Plannable for MementoFilter<K, ADAPTIVE> {
    type Options = Options;
    type Details = PlanDetails;

    fn limits(builder: &Builder<Self>) -> Result<Limits, PlanError> {
        let Options { longest_range, expandable } = builder.options;
        if !(1..=1 << MOST_MEMENTO_BITS).contains(&longest_range) {
            return Err(PlanError::LongestRange(longest_range));
        }
        if let Some(load) = builder.load.filter(|_| expandable) {
            return Err(PlanError::Load(load));
        }
        let most_bits = builder.most_bits();
        Ok(Limits { least_rate: builder.rate_of(most_bits), most_bits })
    }

    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<PlanDetails>> {
        let repairs = builder.repair_slots(capacity)?;
        let slots = (capacity as f64 + repairs as f64) / builder.load();
        builder.planned_with(capacity, slots.ceil().max(1.0) as u64)
    }

    fn plan_slots(builder: &Builder<Self>, slots: u64) -> Option<Plan<PlanDetails>> {
        let planned = (slots as f64 * builder.load()) as u64;
        let repairs = builder.repair_slots(planned as usize * 20 / 21)?;
        // A small filter is valid even if it has no room for the default number of repairs.
        let capacity = match builder.adaptations {
            Some(_) => planned.checked_sub(repairs)?,
            None => planned.saturating_sub(repairs),
        };
        builder.planned_with(capacity as usize, slots)
    }
}

impl<K: RangeKey, const ADAPTIVE: bool> Buildable for MementoFilter<K, ADAPTIVE> {
    fn build_planned(builder: &Builder<Self>, plan: Plan<PlanDetails>) -> Result<Self, BuildError> {
        let partitions = Partitions::new(builder.secret_or_fresh()?, plan.details.memento_bits);
        let boxes = Boxes::new(builder.spelling(plan.slots, plan.remainder_bits));
        let boxes = boxes.ok_or(BuildError::Memory { bytes: plan.bytes })?;
        Ok(Self::new(partitions, boxes, 0))
    }
}

impl<K: RangeKey, const ADAPTIVE: bool> Builder<MementoFilter<K, ADAPTIVE>> {
    /// Sets the length of the longest range for which the rate holds: 1 to 2^20 keys, 32 by
    /// default. It is rounded up to a power of two. Each doubling of the length costs one bit per
    /// member.
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
    /// assert!(plan.bits_per_member < 24.7);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn longest_range(mut self, keys: u64) -> Self {
        self.options.longest_range = keys;
        self
    }

    /// Makes the filter grow: it doubles its slots when 95 % of them are used, and keeps its rate
    /// however often it doubles. This costs one more bit per member, and makes remainders longer by
    /// about log₂ log₂(1/rate) bits.
    #[must_use]
    pub fn expandable(mut self) -> Self {
        self.options.expandable = true;
        self
    }

    fn most_bits(&self) -> u32 {
        WIDTHS.end() - self.memento_bits() - u32::from(self.options.expandable)
    }

    fn memento_bits(&self) -> u32 {
        // Keep at least one bit of the key for the partition, so that there is something to hash.
        self.options.longest_range.next_power_of_two().ilog2().min(K::BITS - 1)
    }

    fn rate_of(&self, remainder_bits: u32) -> f64 {
        expected_rate(remainder_bits, self.options.expandable, self.load())
    }

    /// Returns the smallest number of remainder bits that keeps the rate.
    fn planned_bits(&self) -> Option<u32> {
        let suffices = |bits: &u32| self.rate().is_none_or(|most| self.rate_of(*bits) <= most);
        self.widths(self.most_bits()).find(suffices)
    }

    fn spelling(&self, slots: u64, remainder_bits: u32) -> Spelling {
        Spelling::new(slots, remainder_bits, self.memento_bits(), self.options.expandable)
    }

    /// Returns the number of slots to keep free for repairs.
    fn repair_slots(&self, capacity: usize) -> Option<u64> {
        let width = self.spelling(1, self.planned_bits()?).digits.width;
        Some(if ADAPTIVE { extension_slots(self.repairs(capacity), width) } else { 0 })
    }

    fn planned_with(&self, capacity: usize, slots: u64) -> Option<Plan<PlanDetails>> {
        let bits = self.planned_bits()?;
        let table = QuotientTable::bytes_for(slots, self.spelling(slots, bits).digits.width)?;
        let bytes = table + MementoFilter::<K, ADAPTIVE>::bytes_beside_table(slots);
        let expandable = self.options.expandable;
        let details = PlanDetails { memento_bits: self.memento_bits(), expandable };
        Some(Plan::new(capacity, (slots, bits), self.rate_of(bits), bytes, details))
    }
}

/// Returns the probability that an empty range that touches two partitions is a mistake, at this
/// load.
pub(super) fn expected_rate(remainder_bits: u32, expandable: bool, load: f64) -> f64 {
    // A box of age 0 matches with probability 2^-r. From one age to the next, there are half as
    // many boxes, and each matches twice as often, so all ages contribute equally. Only the oldest
    // age, without remainder bits, contributes twice as much: it has as many boxes as the age
    // before it.
    let kinds = if expandable { f64::from(remainder_bits + 2) / 2.0 } else { 1.0 };
    (2.0 * load * kinds / f64::from(remainder_bits).exp2()).min(1.0)
}
