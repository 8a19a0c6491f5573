//! What determines a filter with codes, but for its members; and what it is made of.

use super::CodedFilter;
use super::crowded::Crowded;
use super::scheme::Scheme;
use crate::bits::memory::Lines;
use crate::claim::{Version, Versions};
use crate::error::BuildError;
use crate::table::{MOST_CODE_BITS, QuotientTable, SLOTS, Shape, WIDTHS};

/// What determines a [`CodedFilter`], but for its members and repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodedParameters {
    /// Home slots: 1 to 2^48.
    pub slots: u64,
    /// Bits of a remainder: 1 to 56.
    pub remainder_bits: u32,
    /// Bits for repairs, for 64 slots, as they were asked for: 8 to 120.
    pub code_bits: u32,
}

/// How full a filter is planned to be.
pub(crate) const PLANNED_LOAD: f64 = 0.9;

impl CodedParameters {
    /// Says what is wrong with parameters that no filter can have.
    pub(crate) fn check(self) -> Result<(), BuildError> {
        if !WIDTHS.contains(&self.remainder_bits) {
            return Err(BuildError::RemainderBits(self.remainder_bits));
        }
        if !SLOTS.contains(&self.slots) {
            return Err(BuildError::Slots(self.slots));
        }
        if !(8..=MOST_CODE_BITS).contains(&self.code_bits) {
            return Err(BuildError::CodeBits(self.code_bits));
        }
        Ok(())
    }

    fn shape(self) -> Shape {
        Shape::with_code(self.remainder_bits, self.code_bits)
    }

    /// Lines of a table of [possible](Self::check) parameters.
    pub(crate) fn lines(self) -> Option<usize> {
        QuotientTable::blocks_for(self.slots, self.shape())
    }
}

/// What a filter has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodedTally {
    pub(crate) len: u64,
    pub(crate) adaptations: u64,
    pub(crate) forgotten: u64,
    pub(crate) unrepaired: u64,
}

impl<S: Scheme> CodedFilter<S> {
    /// What determines it, but for its members and repairs.
    pub fn parameters(&self) -> CodedParameters {
        CodedParameters {
            slots: self.slots(),
            remainder_bits: self.table.width(),
            code_bits: self.table.shape().code(),
        }
    }

    pub(crate) fn empty(parameters: CodedParameters) -> Result<Self, BuildError> {
        parameters.check()?;
        let CodedParameters { slots, remainder_bits, .. } = parameters;
        let shape = S::shape(remainder_bits, parameters.code_bits);
        let table =
            QuotientTable::new(slots, shape).ok_or(BuildError::Memory { slots, remainder_bits })?;
        let entries = f64::from(table.lanes()) * PLANNED_LOAD;
        let bits_per_entry = f64::from(table.code_bits()) / entries;
        let scheme = S::new(slots, remainder_bits, bits_per_entry);
        if S::REPAIRS && scheme.greatest_level() == 0 {
            return Err(BuildError::NoRepairs { slots, remainder_bits });
        }
        Ok(Self::of_table(table, scheme, CodedTally::default()))
    }

    fn of_table(table: QuotientTable, scheme: S, tally: CodedTally) -> Self {
        let CodedTally { len, adaptations, forgotten, unrepaired } = tally;
        let (versions, routines) = (Versions::new(table.slots()), S::routines(&table));
        let crowded = Crowded::new(if S::MEMBERS_TO_FORGET { table.blocks() } else { 0 });
        Self { table, scheme, routines, versions, crowded, len, adaptations, forgotten, unrepaired }
    }

    /// A filter of [possible](CodedParameters::check) parameters whose table is in `lines`, or
    /// `None` if they are too few, if there are no such odds, or if remainders this long leave
    /// no level for repairs. It must not be used before it is
    /// [validated](Self::validate).
    pub(crate) fn from_parts(
        parameters: CodedParameters,
        odds: u32,
        tally: CodedTally,
        lines: Lines,
    ) -> Option<Self> {
        let CodedParameters { slots, remainder_bits, .. } = parameters;
        let table = QuotientTable::over(lines, slots, parameters.shape(), tally.len)?;
        let scheme = S::new(slots, remainder_bits, 1.0).with_odds(odds)?;
        if S::REPAIRS && scheme.greatest_level() == 0 {
            return None;
        }
        Some(Self::of_table(table, scheme, tally))
    }

    pub(crate) fn tally(&self) -> CodedTally {
        let &Self { len, adaptations, forgotten, unrepaired, .. } = self;
        CodedTally { len, adaptations, forgotten, unrepaired }
    }

    /// The state of all members.
    pub(crate) fn version(&self) -> Version {
        self.versions.all()
    }

    /// The odds that codes are written with, as a number.
    pub(crate) fn odds(&self) -> u32 {
        self.scheme.odds()
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.table.lines()
    }
}
