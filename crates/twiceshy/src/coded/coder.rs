//! Arithmetic coding of a few decisions in a number of fixed size, with integers alone.
//!
//! A code is a number below 2^bits. Every decision cuts the interval of numbers that are still
//! possible in two, the lower part for "no", the upper one for "yes", in proportion to how likely
//! they are; the code is the least number of the interval that is left. So "no" leaves the code
//! as it is: nothing but "no" is 0, and as soon as what is left of a code above its interval is
//! 0, all that follows is "no", and need not be decoded.
//!
//! What is between the last "yes" and the end costs nothing. Encoding fails when an interval
//! would be empty, and never otherwise, so that all that can be encoded is decoded exactly.

/// How likely "no" is, in 1/2^16; from 1 to 2^16 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Odds(u32);

impl Odds {
    pub(crate) const EVEN: Self = Self(1 << (Self::BITS - 1));
    const BITS: u32 = 16;

    /// The odds for a chance of "yes".
    pub(crate) fn of_yes(chance: f64) -> Self {
        let most = f64::from(1 << Self::BITS);
        Self(((1.0 - chance) * most).round().clamp(1.0, most - 1.0) as u32)
    }

    /// The odds for one "yes" in so many decisions, at most 2^16.
    pub(crate) const fn one_in(decisions: u32) -> Self {
        let all = 1 << Self::BITS;
        Self(all - all / decisions)
    }

    /// How likely "yes" is.
    #[cfg(test)]
    pub(crate) fn yes(self) -> f64 {
        1.0 - f64::from(self.0) / f64::from(1 << Self::BITS)
    }
}

/// A number that an interval's length fits.
pub(crate) trait Word: Copy + Ord {
    const ZERO: Self;

    fn minus(self, other: Self) -> Self;

    /// One of two, without a branch on which: that can't be foreseen.
    fn choose(is_first: bool, first: Self, second: Self) -> Self;

    /// The part of an interval that long that is for "no".
    fn share(self, odds: Odds) -> Self;

    fn from_code(code: u128) -> Self;

    /// The length of the interval of all codes of so many bits.
    fn all(bits: u32) -> Self;
}

/// The length of an interval of codes of at most [`Short::BITS`] bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Short(u64);

impl Short {
    /// So many, that a share takes one multiplication.
    pub(crate) const BITS: u32 = u64::BITS - Odds::BITS;
}

impl Word for Short {
    const ZERO: Self = Self(0);

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }

    #[inline(always)]
    fn choose(is_first: bool, first: Self, second: Self) -> Self {
        Self(u64::choose(is_first, first.0, second.0))
    }

    #[inline(always)]
    fn share(self, odds: Odds) -> Self {
        Self(self.0.wrapping_mul(odds.0.into()) >> Odds::BITS)
    }

    #[inline(always)]
    fn from_code(code: u128) -> Self {
        Self(code as u64)
    }

    #[inline(always)]
    fn all(bits: u32) -> Self {
        Self(1 << bits)
    }
}

impl Word for u64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[inline(always)]
    fn choose(is_first: bool, first: Self, second: Self) -> Self {
        second ^ (first ^ second) & Self::from(is_first).wrapping_neg()
    }

    #[inline(always)]
    fn share(self, odds: Odds) -> Self {
        ((u128::from(self) * u128::from(odds.0)) >> Odds::BITS) as u64
    }

    #[inline(always)]
    fn from_code(code: u128) -> Self {
        code as u64
    }

    #[inline(always)]
    fn all(bits: u32) -> Self {
        1 << bits
    }
}

impl Word for u128 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[inline(always)]
    fn choose(is_first: bool, first: Self, second: Self) -> Self {
        second ^ (first ^ second) & Self::from(is_first).wrapping_neg()
    }

    #[inline(always)]
    fn share(self, odds: Odds) -> Self {
        let (high, low) = (self >> 64, u128::from(self as u64));
        ((high * u128::from(odds.0)) << (64 - Odds::BITS))
            + ((low * u128::from(odds.0)) >> Odds::BITS)
    }

    #[inline(always)]
    fn from_code(code: u128) -> Self {
        code
    }

    #[inline(always)]
    fn all(bits: u32) -> Self {
        1 << bits
    }
}

/// Writes decisions.
pub(crate) struct Encoder {
    code: u128,
    /// How long the interval is whose first number is the code.
    length: u128,
    /// Whether there was room for each "yes" so far.
    has_room: bool,
}

impl Encoder {
    pub(crate) fn new(bits: u32) -> Self {
        Self { code: 0, length: u128::all(bits), has_room: true }
    }

    pub(crate) fn decide(&mut self, yes: bool, odds: Odds) {
        let no = self.length.share(odds);
        if yes {
            // Else the code would be the same as with "no".
            self.has_room &= no > 0;
            self.code += no;
            self.length -= no;
        } else {
            self.length = no;
        }
    }

    /// The code, unless there was no room for it.
    pub(crate) fn finish(self) -> Option<u128> {
        self.has_room.then_some(self.code)
    }
}

/// Reads the decisions of a code.
pub(crate) struct Decoder<W> {
    /// The code's distance from the first number of the interval.
    above: W,
    length: W,
}

impl<W: Word> Decoder<W> {
    #[inline(always)]
    pub(crate) fn new(code: u128, bits: u32) -> Self {
        Self { above: W::from_code(code), length: W::all(bits) }
    }

    /// Whether there is no "yes" any more.
    #[inline(always)]
    pub(crate) fn is_done(&self) -> bool {
        self.above == W::ZERO
    }

    #[inline(always)]
    pub(crate) fn decide(&mut self, odds: Odds) -> bool {
        let no = self.length.share(odds);
        // Nothing but "no" is left, even where there would be no room for it.
        let yes = (self.above >= no) & !self.is_done();
        self.above = W::choose(yes, self.above.minus(no), self.above);
        self.length = W::choose(yes, self.length.minus(no), no);
        yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(bits: u32, decisions: &[(bool, Odds)]) -> Option<u128> {
        let mut encoder = Encoder::new(bits);
        for &(yes, odds) in decisions {
            encoder.decide(yes, odds);
        }
        encoder.finish()
    }

    fn agrees<W: Word>(bits: u32, code: u128, decisions: &[(bool, Odds)]) -> bool {
        let mut decoder = Decoder::<W>::new(code, bits);
        decisions.iter().all(|&(yes, odds)| decoder.decide(odds) == yes) && decoder.is_done()
    }

    fn decisions() -> impl Strategy<Value = Vec<(bool, Odds)>> {
        let odds = prop_oneof![Just(Odds::EVEN), (1u32..1 << 16).prop_map(Odds)];
        prop::collection::vec((any::<bool>(), odds), 0..150)
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bits in 1u32..=120, decisions in decisions()) {
            if let Some(code) = encoded(bits, &decisions) {
                prop_assert!(code < 1 << bits);
                prop_assert!(agrees::<u128>(bits, code, &decisions));
                prop_assert!(bits > 63 || agrees::<u64>(bits, code, &decisions));
                prop_assert!(bits > Short::BITS || agrees::<Short>(bits, code, &decisions));
                let is_no = decisions.iter().all(|&(yes, _)| !yes);
                prop_assert_eq!(code == 0, is_no);
            }
        }

        #[test]
        fn what_has_room_is_encoded(bits in 8u32..=120, yes in 0usize..8) {
            let decisions = [(true, Odds::EVEN)].repeat(yes);
            prop_assert_eq!(encoded(bits, &decisions).is_some(), true);
            let too_many = [(false, Odds::EVEN)].repeat(bits as usize + 2);
            prop_assert_eq!(encoded(bits, &too_many), Some(0));
            let late = [too_many, vec![(true, Odds::EVEN)]].concat();
            prop_assert_eq!(encoded(bits, &late), None);
        }
    }
}
