//! Parameters: how filters are planned, built empty, and restored from the parts of a snapshot.

use super::scheme::{CodedScheme, Coding, Scheme};
use super::{CodedFilter, Shared};
use crate::Hash;
use crate::bits::memory::Lines;
use crate::builder::{Buildable, Builder, FromMembers, HasSlots, Limits, Plan, Plannable, sealed};
use crate::claim::Versions;
use crate::error::{BuildError, PlanError};
use crate::fingerprint::Digits;
use crate::quotient::{Remainders, expected_rate};
use crate::table::{MOST_CODE_BITS, QuotientTable, SLOTS, Shape, USUAL_CODE_BITS, WIDTHS};
use core::ops::RangeInclusive;

/// The parameters of a [`CodedFilter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Number of home slots: 1 to 2^48.
    pub slots: u64,
    /// Bits per remainder: 1 to 56.
    pub remainder_bits: u32,
    /// Requested bits for repairs per 64 slots: 8 to 120. A
    /// [`PlainQuotientFilter`](super::PlainQuotientFilter) has none.
    pub code_bits: u32,
    /// The function that makes remainders from hashes. By default, remainders are
    /// [plain](Remainders::PLAIN).
    pub remainders: Remainders,
}

/// The load for which the odds of a code are computed. With these odds, codes are correct at any
/// load. A snapshot stores the odds of its codes.
const CODE_LOAD: f64 = 0.9;

impl Parameters {
    /// Returns an error if no filter can have these parameters.
    pub(crate) fn check<S: Scheme>(self) -> Result<(), PlanError> {
        if !WIDTHS.contains(&self.remainder_bits) {
            return Err(PlanError::RemainderBits {
                bits: self.remainder_bits,
                most: *WIDTHS.end(),
            });
        }
        if !SLOTS.contains(&self.slots) {
            return Err(PlanError::Slots(self.slots));
        }
        if S::REPAIRS && !CODE_BITS.contains(&self.code_bits) {
            return Err(PlanError::CodeBits(self.code_bits));
        }
        Ok(())
    }

    pub(super) fn shape<S: Scheme>(self) -> Shape {
        if S::REPAIRS {
            Shape::with_code(self.remainder_bits, self.code_bits)
        } else {
            Shape::bare(self.remainder_bits)
        }
    }

    /// Returns the number of lines of a table with [valid](Self::check) parameters.
    pub(crate) fn lines<S: Scheme>(self) -> Option<usize> {
        QuotientTable::blocks_for(self.slots, self.shape::<S>())
    }
}

/// The counters of a filter, except for the number of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodedTally {
    /// Number of mistakes that were repaired.
    pub(crate) adaptations: u64,
    /// See [`Details::forgotten`](super::Details::forgotten).
    pub(crate) forgotten: u64,
    /// See [`Details::unrepaired`](super::Details::unrepaired).
    pub(crate) unrepaired: u64,
}

impl<S: Scheme> CodedFilter<S> {
    /// Returns the parameters of the filter.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            slots: self.slots(),
            remainder_bits: self.shared.table.width(),
            code_bits: self.shared.table.shape().code,
            remainders: self.shared.coding.digits.remainders,
        }
    }

    pub(crate) fn empty(parameters: Parameters) -> Result<Self, BuildError> {
        parameters.check::<S>()?;
        let coding = Self::coding_of(parameters)?;
        let table = QuotientTable::new(parameters.slots, parameters.shape::<S>());
        let bytes = Self::memory_for(parameters).unwrap_or(u64::MAX);
        let table = table.ok_or(BuildError::Memory { bytes })?;
        Ok(Self::of_table(table, 0, coding, CodedTally::default()))
    }

    /// Returns the memory that a filter with these parameters takes, or `None` if it can't be
    /// addressed.
    pub(super) fn memory_for(parameters: Parameters) -> Option<u64> {
        let table = QuotientTable::bytes_for(parameters.slots, parameters.shape::<S>())?;
        let crowded = Self::crowded_words(parameters.lines::<S>()?) * size_of::<u64>();
        let apart = Versions::bytes_for(parameters.slots) + crowded as u64;
        Some(size_of::<Self>() as u64 + table + apart)
    }

    fn crowded_words(blocks: usize) -> usize {
        if S::MEMBERS_TO_FORGET { blocks.div_ceil(64) } else { 0 }
    }

    /// Returns the coding for [valid](Parameters::check) parameters, or an error if it has no
    /// levels for repairs.
    pub(super) fn coding_of(parameters: Parameters) -> Result<Coding<S>, PlanError> {
        let Parameters { slots, remainder_bits, remainders, .. } = parameters;
        let (lanes, code_bits) = parameters.shape::<S>().lanes_and_code_bits();
        let bits_per_entry = f64::from(code_bits) / (f64::from(lanes) * CODE_LOAD);
        let (remainder, width) = (remainder_bits, remainder_bits);
        let coding = Coding::new(Digits { slots, remainder, width, remainders }, bits_per_entry);
        if S::REPAIRS && coding.greatest == 0 {
            return Err(PlanError::NoRepairs { slots, remainder_bits });
        }
        Ok(coding)
    }

    fn of_table(table: QuotientTable, used: u64, coding: Coding<S>, tally: CodedTally) -> Self {
        let (lookups, inserts) = S::routines(table.target());
        let crowded = vec![0; Self::crowded_words(table.blocks())].into();
        let (usage, versions) = (table.usage(used), Versions::new(table.slots()));
        let shared = Shared { table, coding, lookups };
        Self { shared, usage, versions, crowded, tally, inserts }
    }

    /// Returns a filter with [valid](Parameters::check) parameters and the table `lines`. Returns
    /// `None` if the lines are too few, if the odds are invalid, or if remainders are so long that
    /// there are no levels for repairs. The filter must be [validated](Self::validate) before use.
    pub(crate) fn from_parts(
        parameters: Parameters,
        odds: u32,
        used: u64,
        tally: CodedTally,
        lines: Lines,
    ) -> Option<Self> {
        let shape = parameters.shape::<S>();
        let table = QuotientTable::over(lines, parameters.slots, shape)?;
        let coding = Self::coding_of(parameters).ok()?.with_odds(odds)?;
        Some(Self::of_table(table, used, coding, tally))
    }
}

/// The valid numbers of code bits per 64 slots.
pub(super) const CODE_BITS: RangeInclusive<u32> = 8..=MOST_CODE_BITS;

/// Builder options that only a filter with codes has.
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

impl<S: Scheme> Plannable for CodedFilter<S> {
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
}

impl<S: Scheme> Buildable for CodedFilter<S> {
    fn build_planned(_: &Builder<Self>, plan: Plan<Parameters>) -> Result<Self, BuildError> {
        Self::empty(plan.details)
    }
}

impl<S: Scheme> FromMembers for CodedFilter<S> {
    type Error = BuildError;

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

    fn with_position(
        error: BuildError,
        position: impl FnOnce(Hash) -> Option<usize>,
    ) -> BuildError {
        error.with_position(position)
    }
}

impl<S: CodedScheme> Builder<CodedFilter<S>> {
    /// Sets the bits for repairs per 64 slots, 8 to 120; 56 by default.
    ///
    /// A block uses all bits that its cache line has room for, so it may have more than requested,
    /// and many more if remainders are short.
    /// [`code_bits_per_slot`](super::Details::code_bits_per_slot) is the actual number.
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
        let code_bits = if S::REPAIRS { self.options.code_bits } else { 0 };
        let remainders = Remainders::PLAIN;
        let parameters = Parameters { slots, remainder_bits, code_bits, remainders };
        let bytes = CodedFilter::<S>::memory_for(parameters)?;
        let rate = expected_rate(capacity as f64 / slots as f64, remainder_bits);
        Some(Plan::new(capacity, (slots, remainder_bits), rate, bytes, parameters))
    }
}
