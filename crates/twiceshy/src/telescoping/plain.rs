//! A quotient filter without repairs and codes, for comparison.

use super::coder::{Decoder, Encoder, Word};
use super::scheme::{FirstDigit, Scheme, Spelt, Symbol};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{BareShapes, Shape};

/// The scheme of a filter without repairs: all entries stay as they were inserted.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    digits: Digits,
}

impl Scheme for Plain {
    type Quick = FirstDigit;
    type Shapes = BareShapes;
    const MEMBERS_TO_FORGET: bool = false;
    const REPAIRS: bool = false;

    fn shape(remainder_bits: u32, _: u32) -> Shape {
        Shape::bare(remainder_bits)
    }

    fn new(slots: u64, remainder_bits: u32, _: f64) -> Self {
        Self { digits: Digits { slots, remainder: remainder_bits, width: remainder_bits } }
    }

    fn odds(&self) -> u32 {
        0
    }

    fn with_odds(self, _: u32) -> Option<Self> {
        Some(self)
    }

    fn extension(_: Symbol) -> u32 {
        0
    }

    #[inline(always)]
    fn digits(&self) -> Digits {
        self.digits
    }

    fn greatest_level(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn level(_: Symbol) -> u32 {
        0
    }

    #[inline(always)]
    fn spell(&self, scaled: Scaled, _: u32) -> Spelt {
        Spelt { value: self.digits.digit(scaled.fraction, 0), symbol: 0 }
    }

    fn repaired(&self, _: u32, _: Scaled, _: Scaled) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn quick(&self, digits: Digits, fraction: u128) -> FirstDigit {
        FirstDigit(digits.digit(fraction, 0))
    }

    #[inline(always)]
    fn is_quick(&self, _: u128, _: u32) -> bool {
        true
    }

    fn begin(&self, _: u32, _: &mut Encoder) -> u32 {
        0
    }

    #[inline(always)]
    fn begun<W: Word>(&self, _: &mut Decoder<W>) -> u32 {
        0
    }

    fn write(&self, _: Symbol, _: u32, _: &mut Encoder) {}

    #[inline(always)]
    fn read<W: Word>(&self, _: u32, _: &mut Decoder<W>) -> Symbol {
        0
    }
}
