//! How good and how large a filter is to be.

use super::CodedFilter;
use super::parameters::{CodedParameters, PLANNED_LOAD};
use super::scheme::Scheme;
use crate::error::BuildError;
use crate::table::USUAL_CODE_BITS;
use core::marker::PhantomData;

/// Builds a [`CodedFilter`].
#[derive(Clone, Debug)]
pub struct CodedBuilder<S> {
    size: Option<Size>,
    remainder_bits: Option<u32>,
    false_positive_rate: Option<f64>,
    code_bits: u32,
    pub(crate) shards: Option<usize>,
    scheme: PhantomData<fn() -> S>,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    Capacity(usize),
    Slots(u64),
}

impl<S> Default for CodedBuilder<S> {
    fn default() -> Self {
        Self {
            size: None,
            remainder_bits: None,
            false_positive_rate: None,
            code_bits: USUAL_CODE_BITS,
            shards: None,
            scheme: PhantomData,
        }
    }
}

impl<S: Scheme> CodedBuilder<S> {
    /// For so many members, at a load of 90 %.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.size = Some(Size::Capacity(members));
        self
    }

    /// So many slots, one for each member: any number.
    #[must_use]
    pub fn slots(mut self, slots: u64) -> Self {
        self.size = Some(Size::Slots(slots));
        self
    }

    /// How often a key that is no member is taken for one, at most.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = Some(rate);
        self
    }

    /// Bits of a remainder, instead of a rate.
    #[must_use]
    pub fn remainder_bits(mut self, bits: u32) -> Self {
        self.remainder_bits = Some(bits);
        self
    }

    /// Bits for repairs, for 64 slots: 8 to 120; 56, if nothing is said. A block has as many as
    /// there is room for in its cache line, which may be more, and many more where remainders are
    /// short: see [`code_bits_per_slot`](super::CodedStatistics::code_bits_per_slot).
    #[must_use]
    pub fn code_bits(mut self, bits: u32) -> Self {
        self.code_bits = bits;
        self
    }

    /// Sets the number of shards of a [concurrent](Self::build_concurrent) filter: 1 to 4096, rounded
    /// up to a power of two. By default there are four for each thread that the machine runs at once.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Builds an empty filter.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn build(self) -> Result<CodedFilter<S>, BuildError> {
        CodedFilter::empty(self.parameters()?)
    }

    pub(super) fn has_size(&self) -> bool {
        self.size.is_some()
    }

    pub(crate) fn parameters(&self) -> Result<CodedParameters, BuildError> {
        let remainder_bits = self.width()?;
        let slots = match self.size.ok_or(BuildError::Size)? {
            Size::Capacity(members) => (members as f64 / PLANNED_LOAD).ceil().max(1.0) as u64,
            Size::Slots(slots) => slots,
        };
        Ok(CodedParameters { slots, remainder_bits, code_bits: self.code_bits })
    }

    fn width(&self) -> Result<u32, BuildError> {
        let bits = match (self.remainder_bits, self.false_positive_rate) {
            (Some(_), Some(_)) => return Err(BuildError::RateAndRemainderBits),
            (Some(bits), None) => bits,
            (None, rate) => {
                let rate = rate.unwrap_or(0.01);
                if !(f64::exp2(-56.0)..1.0).contains(&rate) {
                    return Err(BuildError::Rate(rate));
                }
                (PLANNED_LOAD / rate).log2().ceil().max(1.0) as u32
            }
        };
        Ok(bits)
    }
}
