//! Plans telescoping, extension and plain filters.

use super::parameters::Parameters;
use super::scheme::{CodedScheme, Scheme};
use super::{CodedFilter, Crowded};
use crate::Hash;
use crate::builder::{Buildable, Builder, FromMembers, HasSlots, Limits, Plan, sealed};
use crate::claim::Versions;
use crate::error::{BuildError, PlanError};
use crate::quotient::expected_rate;
use crate::table::{MOST_CODE_BITS, QuotientTable, USUAL_CODE_BITS, WIDTHS};
use core::ops::RangeInclusive;

/// The bits of code that a filter can have for 64 slots.
pub(super) const CODE_BITS: RangeInclusive<u32> = 8..=MOST_CODE_BITS;

/// The options that only a filter with codes has.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    code_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { code_bits: USUAL_CODE_BITS }
    }
}

impl<S: Scheme> sealed::Sealed for CodedFilter<S> {}
impl<S: Scheme> HasSlots for CodedFilter<S> {}

impl<S: Scheme> Buildable for CodedFilter<S> {
    type Options = Options;
    type Details = Parameters;

    fn limits(builder: &Builder<Self>) -> Result<Limits, PlanError> {
        let code_bits = builder.options.code_bits;
        if !CODE_BITS.contains(&code_bits) {
            return Err(PlanError::CodeBits(code_bits));
        }
        let most_bits = *WIDTHS.end();
        Ok(Limits { least_rate: expected_rate(builder.load(), most_bits), most_bits })
    }

    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<Parameters>> {
        let slots = (capacity as f64 / builder.load()).ceil().max(1.0) as u64;
        builder.planned_with(capacity, slots)
    }

    fn plan_slots(builder: &Builder<Self>, slots: u64) -> Option<Plan<Parameters>> {
        builder.planned_with((slots as f64 * builder.load()) as usize, slots)
    }

    fn check(plan: &Plan<Parameters>) -> Result<(), PlanError> {
        Self::coding_of(plan.details).map(drop)
    }

    fn build_planned(_: &Builder<Self>, plan: Plan<Parameters>) -> Result<Self, BuildError> {
        Self::empty(plan.details)
    }
}

impl<S: Scheme> FromMembers for CodedFilter<S> {
    fn from_members(
        builder: &Builder<Self>,
        mut members: Vec<Hash>,
        mut mistakes: Vec<Hash>,
    ) -> Result<Self, BuildError> {
        members.sort_unstable();
        mistakes.sort_unstable();
        let sized = builder.clone();
        let sized = if builder.is_sized() { sized } else { sized.capacity(members.len()) };
        Self::from_sorted(sized.plan()?.details, members, mistakes)
    }
}

impl<S: CodedScheme> Builder<CodedFilter<S>> {
    /// Sets the bits for repairs per 64 slots, 8 to 120; 56 by default.
    ///
    /// A block has as many as there is room for in its cache line, which may be more, and many more
    /// where remainders are short: see [`code_bits_per_slot`](super::Details::code_bits_per_slot).
    #[must_use]
    pub fn code_bits(mut self, bits: u32) -> Self {
        self.options.code_bits = bits;
        self
    }
}

impl<S: Scheme> Builder<CodedFilter<S>> {
    fn planned_with(&self, capacity: usize, slots: u64) -> Option<Plan<Parameters>> {
        let rate = |bits: u32| expected_rate(self.load(), bits);
        let suffices = |bits: &u32| self.rate().is_none_or(|most| rate(*bits) <= most);
        let remainder_bits = self.widths(*WIDTHS.end()).find(suffices)?;
        let parameters = Parameters { slots, remainder_bits, code_bits: self.options.code_bits };
        let bytes = CodedFilter::<S>::memory_for(parameters)?;
        let rate = expected_rate(capacity as f64 / slots as f64, remainder_bits);
        Some(Plan::new(capacity, (slots, remainder_bits), rate, bytes, parameters))
    }
}

impl<S: Scheme> CodedFilter<S> {
    /// Returns the memory that a filter with these parameters takes, or `None` if there is no such
    /// filter.
    pub(super) fn memory_for(parameters: Parameters) -> Option<u64> {
        let slots = parameters.slots;
        let crowded = if S::MEMBERS_TO_FORGET { parameters.lines::<S>()? } else { 0 };
        let table = QuotientTable::bytes_for(slots, parameters.shape::<S>())?;
        let apart = Versions::bytes_for(slots) + Crowded::bytes_for(crowded);
        Some(size_of::<Self>() as u64 + table + apart)
    }
}
