//! Plans quotient filters, and builds them from lists.

use super::entry::MOST_VALUE_BITS;
use super::{Parameters, QuotientFilter};
use crate::builder::{
    Buildable, Builder, FromMembers, HasRepairs, HasSlots, Limits, Plan, Plannable, sealed,
};
use crate::error::{BuildError, PlanError};
use crate::hash::Remainders;
use crate::table::WIDTHS;
use crate::{Hash, Member};
use core::ops::RangeInclusive;

/// Loads at which a filter can grow. At a smaller load, a few members would double it again and
/// again, until there is no memory.
pub(crate) const GROWTH_LOADS: RangeInclusive<f64> = 0.1..=1.0;

/// Maximum number of extension slots per member. A build that needs more fails. That happens only
/// if the hashes are far from random.
pub(crate) const MOST_EXTENDED: u64 = 64;

/// Builder options that only a quotient filter has.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    value_bits: u32,
    pub(crate) growth: Option<f64>,
}

/// The part of a plan that only quotient filters have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanDetails {
    /// Parameters of the filter.
    pub parameters: Parameters,
    /// Number of slots that stay free for extensions when the filter is filled to its capacity.
    pub extension_slots: u64,
}

/// Returns the probability that a random query is a false positive, at `density` members per slot.
pub(crate) fn expected_rate(density: f64, remainder_bits: u32) -> f64 {
    -(-density * f64::from(remainder_bits).exp2().recip()).exp_m1()
}

/// Returns the expected number of slots that the repairs of `mistakes` mistakes take. A mistake
/// collides with at least one member, and each of these members needs at least one digit.
pub(crate) fn extension_slots(mistakes: usize, bits: u32) -> u64 {
    let collision = f64::from(bits).exp2().recip();
    let members_each = collision / expected_rate(1.0, bits);
    let digits_each = (1.0 - collision).recip();
    (mistakes as f64 * members_each * digits_each).ceil() as u64
}

impl sealed::Sealed for QuotientFilter {}
impl HasSlots for QuotientFilter {}
impl HasRepairs for QuotientFilter {}

impl Plannable for QuotientFilter {
    type Options = Options;
    type Details = PlanDetails;

    fn limits(builder: &Builder<Self>) -> Result<Limits, PlanError> {
        let Options { value_bits, growth } = builder.options;
        if let Some(load) = growth.filter(|load| !GROWTH_LOADS.contains(load)) {
            return Err(PlanError::Growth(load));
        }
        if value_bits > MOST_VALUE_BITS {
            return Err(PlanError::ValueBits(value_bits));
        }
        let most_bits = *WIDTHS.end();
        Ok(Limits { least_rate: expected_rate(builder.load(), most_bits), most_bits })
    }

    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<PlanDetails>> {
        builder.plan_extended(capacity, 0)
    }

    fn plan_slots(builder: &Builder<Self>, slots: u64) -> Option<Plan<PlanDetails>> {
        let suffices = |bits: &u32| {
            builder.rate().is_none_or(|rate| expected_rate(builder.load(), *bits) <= rate)
        };
        let bits = builder.widths(*WIDTHS.end()).find(suffices)?;
        let planned = (slots as f64 * builder.load()) as u64;
        let extensions = match builder.adaptations {
            Some(count) => extension_slots(count, bits),
            None => planned - planned * 20 / 21,
        };
        let capacity = usize::try_from(planned.checked_sub(extensions)?).unwrap_or(usize::MAX);
        builder.planned_with(capacity, extensions, slots, bits)
    }
}

impl Buildable for QuotientFilter {
    fn build_planned(builder: &Builder<Self>, plan: Plan<PlanDetails>) -> Result<Self, BuildError> {
        Ok(builder.with_growth(Self::empty(plan.details.parameters)?))
    }
}

impl FromMembers for QuotientFilter {
    type Error = BuildError;

    /// Builds a filter. If there are no mistakes, sorts only the fingerprints, which is twice as
    /// fast.
    fn from_members(
        builder: &Builder<Self>,
        mut members: Vec<Hash>,
        mut mistakes: Vec<Hash>,
    ) -> Result<Self, BuildError> {
        if mistakes.is_empty() {
            let is_fixed = builder.memory.is_some() || builder.slots.is_some();
            let mut sized = builder.clone();
            if !is_fixed {
                sized.capacity = Some(builder.capacity.unwrap_or(0).max(members.len()));
            }
            let mut filter = sized.build()?;
            if filter.insert_many(&members).is_ok() {
                return Ok(filter);
            }
            if is_fixed {
                return Err(BuildError::Full { slots: filter.parameters().slots });
            }
            // The hashes are uneven, so the filter has to be larger.
        }
        members.sort_unstable();
        mistakes.sort_unstable();
        builder.build_sorted(|| members.iter().copied(), || mistakes.iter().copied())
    }

    fn with_position(
        error: BuildError,
        position: impl FnOnce(Hash) -> Option<usize>,
    ) -> BuildError {
        error.with_position(position)
    }
}

impl Builder<QuotientFilter> {
    /// Sets the number of bits per value, from 0 to 16. Each fingerprint can have one value. The
    /// default is 0: no values. See [`set_value`](QuotientFilter::set_value).
    #[must_use]
    pub fn value_bits(mut self, bits: u32) -> Self {
        self.options.value_bits = bits;
        self
    }

    /// Sets the load, from 0.1 to 1, at which the filter [doubles](QuotientFilter::doubled)
    /// automatically. Each doubling makes remainders one bit shorter. By default, the filter never
    /// doubles. A filter with [fresh remainders](QuotientFilter::rotated) never doubles either.
    ///
    /// ```
    /// use twiceshy::{Hash, QuotientFilter};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut filter =
    ///     QuotientFilter::builder().slots(64).remainder_bits(16).grow_at(0.9).build()?;
    /// for key in 0..1000u128 {
    ///     filter.insert(Hash::from_u128(key.wrapping_mul(u128::MAX / 997)))?;
    /// }
    /// assert_eq!(filter.parameters().remainder_bits, 11);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn grow_at(mut self, load: f64) -> Self {
        self.options.growth = Some(load);
        self
    }

    fn planned_with(
        &self,
        capacity: usize,
        extension_slots: u64,
        slots: u64,
        bits: u32,
    ) -> Option<Plan<PlanDetails>> {
        let bytes = QuotientFilter::memory_for(slots, bits)?;
        let parameters = Parameters {
            slots,
            remainder_bits: bits,
            slot_bits: bits,
            value_bits: self.options.value_bits,
            remainders: Remainders::PLAIN,
        };
        let rate = expected_rate(capacity as f64 / slots as f64, bits);
        let details = PlanDetails { parameters, extension_slots };
        Some(Plan::new(capacity, (slots, bits), rate, bytes, details))
    }

    /// Plans the smallest table that has room for `capacity` members, and in which `extended`
    /// extension slots are used from the start. Wider remainders need fewer slots for the same
    /// rate, but never fewer than the load allows.
    fn plan_extended(&self, capacity: usize, extended: u64) -> Option<Plan<PlanDetails>> {
        let plans = self.widths(*WIDTHS.end()).filter_map(|bits| {
            let extensions = extension_slots(self.repairs(capacity), bits).saturating_add(extended);
            let by_load = (capacity as f64 + extensions as f64) / self.load();
            let by_rate = self
                .rate()
                .map_or(0.0, |rate| capacity as f64 / f64::from(bits).exp2() / -(-rate).ln_1p());
            let slots = by_load.max(by_rate).ceil().max(1.0) as u64;
            self.planned_with(capacity, extensions, slots, bits)
        });
        plans.min_by_key(|plan| plan.bytes)
    }

    fn with_growth(&self, mut filter: QuotientFilter) -> QuotientFilter {
        filter.set_growth(self.options.growth);
        filter
    }

    /// Builds a filter that has these members and answers "absent" to each of these mistakes. Each
    /// closure returns its list in hash order, and may be called more than once: to count the
    /// members if no size was given, and to start again with a larger filter if members and repairs
    /// need more room than estimated.
    ///
    /// # Errors
    /// The same as for [`build`](Self::build), or if a list is out of order, if a hash is on both
    /// lists, if the lists don't fit a size that was given in bytes or slots, or if the hashes are
    /// so uneven that they fit no reasonable size.
    pub fn build_sorted<I, J>(
        &self,
        members: impl Fn() -> I,
        mistakes: impl Fn() -> J,
    ) -> Result<QuotientFilter, BuildError>
    where
        I: IntoIterator<Item: Into<Member>>,
        J: IntoIterator<Item = Hash>,
    {
        if self.memory.is_some() || self.slots.is_some() {
            let parameters = self.plan()?.details.parameters;
            let built = QuotientFilter::from_sorted(parameters, members(), mistakes());
            return built.map(|filter| self.with_growth(filter));
        }
        self.check_options()?;
        let count = || members().into_iter().count();
        let mut capacity = self.capacity.unwrap_or_else(count);
        let mut extended = 0;
        loop {
            let plan = self.plan_extended(capacity, extended);
            let plan = plan.ok_or(PlanError::Capacity(capacity))?;
            let mut listed = 0;
            let counted = members().into_iter().inspect(|_| listed += 1);
            match QuotientFilter::from_sorted(plan.details.parameters, counted, mistakes()) {
                Ok(filter) => {
                    // With more fingerprints than planned, the rate would be too high. With more
                    // extensions, there would be too little room for later repairs. Members that
                    // share a fingerprint need fewer slots. Their counter may use the saved ones.
                    let details = filter.details();
                    let fingerprints = details.fingerprints as usize;
                    let shared = listed.min(capacity).saturating_sub(fingerprints) as u64;
                    let used = details.extension_slots.saturating_sub(shared);
                    if fingerprints <= capacity && used <= extended {
                        return Ok(self.with_growth(filter));
                    }
                    capacity = capacity.max(fingerprints);
                    extended = extended.max(used + used / 64 + 8);
                }
                Err(BuildError::Full { slots }) => {
                    let count = count();
                    if count <= capacity {
                        if extended > MOST_EXTENDED * (count as u64 + 1) {
                            return Err(BuildError::Full { slots });
                        }
                        extended += extended / 2 + count as u64 / 8 + 64;
                    }
                    capacity = capacity.max(count);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
