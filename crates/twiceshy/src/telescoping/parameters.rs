//! The parameters of a filter, and its parts for snapshots.

use super::CodedFilter;
use super::builder::CODE_BITS;
use super::crowded::Crowded;
use super::routines::Routines;
use super::scheme::{Coding, Scheme};
use crate::bits::memory::Lines;
use crate::claim::{Version, Versions};
use crate::error::{BuildError, PlanError};
use crate::table::{QuotientTable, SLOTS, Shape, WIDTHS};

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
}

/// The load that the odds of a code are computed for. Any odds are correct at any load, and a
/// snapshot stores the odds that it was written with.
const CODE_LOAD: f64 = 0.9;

impl Parameters {
    /// Says what is wrong with parameters that no filter can have.
    pub(crate) fn check<S: Scheme>(self) -> Result<(), PlanError> {
        if !WIDTHS.contains(&self.remainder_bits) {
            let (bits, most) = (self.remainder_bits, *WIDTHS.end());
            return Err(PlanError::RemainderBits { bits, most });
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
        S::shape(self.remainder_bits, self.code_bits)
    }

    /// Returns the number of lines of a table with [valid](Self::check) parameters.
    pub(crate) fn lines<S: Scheme>(self) -> Option<usize> {
        QuotientTable::blocks_for(self.slots, self.shape::<S>())
    }
}

/// The counters of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodedTally {
    /// Number of entries.
    pub(crate) len: u64,
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
            remainder_bits: self.table.width(),
            code_bits: self.table.shape().code,
        }
    }

    pub(crate) fn empty(parameters: Parameters) -> Result<Self, BuildError> {
        parameters.check::<S>()?;
        let coding = Self::coding_of(parameters)?;
        let bytes = || Self::memory_for(parameters).unwrap_or(u64::MAX);
        let table = QuotientTable::new(parameters.slots, parameters.shape::<S>());
        let table = table.ok_or_else(|| BuildError::Memory { bytes: bytes() })?;
        Ok(Self::of_table(table, coding, CodedTally::default()))
    }

    /// Returns the coding of [possible](Parameters::check) parameters, if it can repair.
    pub(super) fn coding_of(parameters: Parameters) -> Result<Coding<S>, PlanError> {
        let Parameters { slots, remainder_bits, .. } = parameters;
        let (lanes, code_bits) = parameters.shape::<S>().lanes_and_code_bits();
        let bits_per_entry = f64::from(code_bits) / (f64::from(lanes) * CODE_LOAD);
        let coding = Coding::new(slots, remainder_bits, bits_per_entry);
        if S::REPAIRS && coding.greatest == 0 {
            return Err(PlanError::NoRepairs { slots, remainder_bits });
        }
        Ok(coding)
    }

    fn of_table(table: QuotientTable, coding: Coding<S>, tally: CodedTally) -> Self {
        let (versions, routines) = (Versions::new(table.slots()), Routines::new(table.target()));
        let crowded = Crowded::new(if S::MEMBERS_TO_FORGET { table.blocks() } else { 0 });
        Self { table, coding, routines, versions, crowded, tally }
    }

    /// Returns a filter with [valid](Parameters::check) parameters and the table `lines`. Returns
    /// `None` if the lines are too few, if the odds are invalid, or if remainders are so long that
    /// there are no levels for repairs. It must be [validated](Self::validate) before use.
    pub(crate) fn from_parts(
        parameters: Parameters,
        odds: u32,
        tally: CodedTally,
        lines: Lines,
    ) -> Option<Self> {
        let shape = parameters.shape::<S>();
        let table = QuotientTable::over(lines, parameters.slots, shape, tally.len)?;
        let coding = Self::coding_of(parameters).ok()?.with_odds(odds)?;
        Some(Self::of_table(table, coding, tally))
    }

    pub(crate) fn tally(&self) -> CodedTally {
        self.tally
    }

    /// Returns the version of the whole filter.
    pub(crate) fn version(&self) -> Version {
        self.versions.all()
    }

    /// Returns the odds of the codes, as a number.
    pub(crate) fn odds(&self) -> u32 {
        self.coding.odds()
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.table.lines()
    }
}
