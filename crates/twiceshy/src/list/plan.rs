//! Computes the size of the filter that two lists need.

use super::YesNoList;
use crate::builder::{
    Buildable, Builder, DEFAULT_RATE, Limits, PLANNED_LOAD, Plan, Plannable, sealed,
};
use crate::error::{BuildError, PlanError};
use crate::quotient::expected_rate;
use crate::table::WIDTHS;
use crate::{
    QuotientFilter,
    quotient::{Parameters, Remainders},
};

/// The default capacity of a list.
const LEAST_CAPACITY: usize = 16;

/// The part of a plan that is specific to a [`YesNoList`].
///
/// The plan's capacity is that of the yes list. Its memory is that of the filter alone, because
/// lookups don't read the lists.
///
/// # How it is computed
/// Let there be n yes-list keys and m no-list keys in s slots, with digits of r bits. A no-list key
/// shares the quotient and d more digits with a given yes-list key with probability 2^-rd/s. In that
/// case the yes-list key needs one more digit, so its extension has Σ 1 − exp(−m/s · 2^-rd) digits
/// on average. The sum runs over d ≥ 1, and s = (n + extensions)/0.95. The plan takes the r with the
/// smallest table that keeps the requested false-positive rate for unlisted keys.
///
/// # Examples
/// Bits per yes-list key for a million yes-list keys at a false-positive rate of 1/256, with 1/64, 1
/// and 64 no-list keys per yes-list key:
///
/// ```
/// use twiceshy::YesNoList;
///
/// # fn main() -> Result<(), twiceshy::error::PlanError> {
/// let builder = YesNoList::builder().false_positive_rate(1.0 / 256.0).capacity(1 << 20);
/// let mut per_key = Vec::new();
/// for no in [1 << 14, 1 << 20, 1 << 26] {
///     let plan = builder.clone().no_capacity(no).plan()?;
///     per_key.push(format!("{:.1}", plan.bytes as f64 * 8.0 / f64::from(1 << 20)));
/// }
/// assert_eq!(per_key, ["12.1", "12.1", "14.3"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanDetails {
    /// Number of keys on the no list that the filter is planned for.
    pub no_capacity: usize,
    /// Number of slots that extensions take.
    pub extension_slots: u64,
}

impl sealed::Sealed for YesNoList {}

impl Plannable for YesNoList {
    /// The number of no-list keys.
    type Options = Option<usize>;
    type Details = PlanDetails;
    const CAPACITY: Option<usize> = Some(LEAST_CAPACITY);

    fn limits(_: &Builder<Self>) -> Result<Limits, PlanError> {
        let most_bits = *WIDTHS.end();
        Ok(Limits { least_rate: expected_rate(PLANNED_LOAD, most_bits), most_bits })
    }

    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<PlanDetails>> {
        let rate = builder.rate().unwrap_or(DEFAULT_RATE);
        ListSize { yes: capacity, no: builder.options.unwrap_or(LEAST_CAPACITY), rate }.plan()
    }
}

impl Buildable for YesNoList {
    fn build_planned(builder: &Builder<Self>, plan: Plan<PlanDetails>) -> Result<Self, BuildError> {
        let rate = builder.rate().unwrap_or(DEFAULT_RATE);
        Self::empty(ListSize { yes: plan.capacity, no: plan.details.no_capacity, rate })
    }
}

impl Builder<YesNoList> {
    /// Sets the number of no-list keys that the filter is planned for. The filter grows if there
    /// are more.
    #[must_use]
    pub fn no_capacity(mut self, keys: usize) -> Self {
        self.options = Some(keys);
        self
    }
}

/// The numbers of yes-list and no-list keys that a filter is planned for, and its rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListSize {
    pub(super) yes: usize,
    pub(super) no: usize,
    pub(super) rate: f64,
}

impl ListSize {
    /// Returns a size for at least `yes` and `no` keys.
    pub(super) fn at_least(self, yes: usize, no: usize) -> Self {
        Self { yes: self.yes.max(yes), no: self.no.max(no), ..self }
    }

    /// Plans the smallest filter with this rate, which must be [possible](Plannable::limits).
    /// Returns `None` if the filter would be too large.
    pub(super) fn plan(self) -> Option<Plan<PlanDetails>> {
        let Self { yes, no, rate } = self;
        let [n, m] = [yes, no].map(|keys| keys as f64);
        // Among tables of the same size, take the one with the longest remainders.
        let tables = WIDTHS.rev().filter_map(|bits| {
            let by_rate = n / f64::from(bits).exp2() / -(-rate).ln_1p();
            let mut slots = (n / PLANNED_LOAD).max(by_rate).max(1.0);
            // More slots need fewer digits, so moving halfway in each step converges.
            for _ in 0..16 {
                let stored = n + extension_digits(n, m, slots, bits);
                slots = slots.midpoint((stored / PLANNED_LOAD).max(by_rate)).max(1.0);
            }
            let slots = slots.ceil() as u64;
            Some((QuotientFilter::memory_for(slots, bits)?, slots, bits))
        });
        let (bytes, slots, bits) = tables.min_by_key(|&(bytes, ..)| bytes)?;
        let extension_slots = extension_digits(n, m, slots as f64, bits).ceil() as u64;
        let details = PlanDetails { no_capacity: no, extension_slots };
        let rate = expected_rate(n / slots as f64, bits);
        Some(Plan::new(yes, (slots, bits), rate, bytes, details))
    }

    /// Returns the parameters of the smallest filter.
    pub(super) fn parameters(self) -> Result<Parameters, PlanError> {
        let plan = self.plan().ok_or(PlanError::Capacity(self.yes))?;
        Ok(Parameters {
            slots: plan.slots,
            remainder_bits: plan.remainder_bits,
            slot_bits: plan.remainder_bits,
            value_bits: 0,
            remainders: Remainders::PLAIN,
        })
    }

    /// Returns the maximum number of yes-list keys that a filter can hold at this rate.
    pub(super) fn most_yes_keys(self, parameters: Parameters) -> usize {
        let all = parameters.slots as f64 * f64::from(parameters.remainder_bits).exp2();
        (all * -(-self.rate).ln_1p()).round() as usize
    }
}

/// Returns the expected number of digits beyond the remainders that distinguish `keys` from
/// `others`.
fn extension_digits(keys: f64, others: f64, slots: f64, bits: u32) -> f64 {
    let colliding = |digits: u32| {
        let chance = (-f64::from(bits) * f64::from(digits)).exp2() / slots;
        -(-others * chance).exp_m1()
    };
    let most = 128 / bits + 1;
    keys * (1..=most).map(colliding).take_while(|&share| share > 1e-9).sum::<f64>()
}
