//! Arithmetic coding of a few decisions in a number of fixed size, using only integers.
//!
//! A code is a number below 2^bits. Every decision splits the current interval of numbers in two
//! parts, the lower for "no" and the upper for "yes", in proportion to the probabilities of "no"
//! and "yes". The code is the smallest number of the final interval, so a "no" doesn't change the
//! code, and the code is 0 if all decisions are "no". When the current interval starts at the code,
//! all remaining decisions are "no" and need not be decoded.
//!
//! Decisions after the last "yes" cost nothing. Encoding fails if an interval would be empty.
//! Otherwise decoding returns exactly the encoded decisions.

/// Probability of "no" in units of 2^-16: 1 to 2^16 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Odds(u32);

impl Odds {
    pub(crate) const EVEN: Self = Self(1 << (Self::BITS - 1));
    const BITS: u32 = 16;

    /// Returns the odds for a probability of "yes".
    pub(crate) fn of_yes(chance: f64) -> Self {
        let most = f64::from(1 << Self::BITS);
        Self(((1.0 - chance) * most).round().clamp(1.0, most - 1.0) as u32)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Converts a number to odds. Returns `None` if "no" would be less likely than "yes". With such
    /// odds, a decoder might never finish, because the share of "no" could be empty long before the
    /// interval is.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        (Self::EVEN.0..1 << Self::BITS).contains(&number).then_some(Self(number))
    }

    /// Returns the odds of one "yes" in `decisions` decisions. `decisions` must be at most 2^16.
    pub(crate) const fn one_in(decisions: u32) -> Self {
        let all = 1 << Self::BITS;
        Self(all - all / decisions)
    }
}

/// A number that can hold the length of an interval.
pub(crate) trait Word: Copy + Ord {
    /// Converts a number that fits in this type.
    fn of(number: u128) -> Self;

    fn minus(self, other: Self) -> Self;

    /// Selects one of two values without a branch, because a branch would be mispredicted.
    fn choose(is_first: bool, first: Self, second: Self) -> Self;

    /// Given an interval of length `self`, returns the length of the part that encodes "no".
    fn share(self, odds: Odds) -> Self;
}

/// Defines types for the length of an interval. They differ in how they compute
/// [`share`](Word::share).
macro_rules! words {
    ($($(#[$doc:meta])* $word:ident($number:ty): |$length:ident, $odds:ident| $share:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $word($number);

        impl Word for $word {
            #[inline(always)]
            fn of(number: u128) -> Self {
                Self(number as $number)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                Self(self.0.wrapping_sub(other.0))
            }

            #[inline(always)]
            fn choose(is_first: bool, Self(first): Self, Self(second): Self) -> Self {
                Self(second ^ (first ^ second) & <$number>::from(is_first).wrapping_neg())
            }

            #[inline(always)]
            fn share(self, Odds($odds): Odds) -> Self {
                let $length = self.0;
                Self($share)
            }
        }
    )+};
}

words! {
    /// The length of an interval, for codes of at most [`Short::BITS`] bits.
    Short(u64): |length, odds| length.wrapping_mul(odds.into()) >> Odds::BITS;
    /// The length of an interval, for codes of at most 63 bits.
    Middle(u64): |length, odds| {
        ((u128::from(length) * u128::from(odds)) >> Odds::BITS) as u64
    };
    /// The length of an interval, for codes of at most 127 bits.
    Long(u128): |length, odds| {
        let (high, low, odds) = (length >> 64, u128::from(length as u64), u128::from(odds));
        ((high * odds) << (64 - Odds::BITS)) + ((low * odds) >> Odds::BITS)
    };
}

impl Short {
    /// Maximum number of bits of a code for which `share` takes a single multiplication.
    pub(crate) const BITS: u32 = u64::BITS - Odds::BITS;
}

/// Encodes decisions.
pub(crate) struct Encoder {
    code: u128,
    /// Length of the interval, which starts at the code.
    length: u128,
    /// Whether there was room for every "yes" so far.
    has_room: bool,
}

impl Encoder {
    pub(crate) fn new(bits: u32) -> Self {
        Self { code: 0, length: 1 << bits, has_room: true }
    }

    pub(crate) fn decide(&mut self, yes: bool, odds: Odds) {
        let Long(no) = Long(self.length).share(odds);
        if yes {
            // If the share of "no" is empty, "yes" and "no" would give the same code.
            self.has_room &= no > 0;
            self.code += no;
            self.length -= no;
        } else {
            self.length = no;
        }
    }

    /// Returns the code, unless there was no room for it.
    pub(crate) fn finish(self) -> Option<u128> {
        self.has_room.then_some(self.code)
    }
}

/// Decodes the decisions of a code.
pub(crate) struct Decoder<W> {
    /// Distance of the code from the start of the interval.
    above: W,
    length: W,
}

impl<W: Word> Decoder<W> {
    #[inline(always)]
    pub(crate) fn new(code: u128, bits: u32) -> Self {
        Self { above: W::of(code), length: W::of(1 << bits) }
    }

    /// Returns whether all remaining decisions are "no".
    #[inline(always)]
    pub(crate) fn is_done(&self) -> bool {
        self.above == W::of(0)
    }

    #[inline(always)]
    pub(crate) fn decide(&mut self, odds: Odds) -> bool {
        let no = self.length.share(odds);
        // After the last "yes", all decisions are "no", even if the share of "no" is empty.
        let yes = (self.above >= no) & !self.is_done();
        self.above = W::choose(yes, self.above.minus(no), self.above);
        self.length = W::choose(yes, self.length.minus(no), no);
        yes
    }
}

#[cfg(test)]
mod tests {
    use super::super::scheme::{Coding, Extensions, Scheme, Selectors, Symbol};
    use super::super::tests::random;
    use super::*;
    use crate::fingerprint::Digits;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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
        fn decoding_inverts_encoding(bits in 1u32..=120, decisions in decisions()) {
            if let Some(code) = encoded(bits, &decisions) {
                prop_assert!(code < 1 << bits);
                prop_assert!(agrees::<Long>(bits, code, &decisions));
                prop_assert!(bits > 63 || agrees::<Middle>(bits, code, &decisions));
                prop_assert!(bits > Short::BITS || agrees::<Short>(bits, code, &decisions));
                let is_no = decisions.iter().all(|&(yes, _)| !yes);
                prop_assert_eq!(code == 0, is_no);
            }
        }

        #[test]
        fn encoding_fails_only_if_the_code_has_no_room(bits in 8u32..=120, yes in 0usize..8) {
            let decisions = [(true, Odds::EVEN)].repeat(yes);
            prop_assert_eq!(encoded(bits, &decisions).is_some(), true);
            let too_many = [(false, Odds::EVEN)].repeat(bits as usize + 2);
            prop_assert_eq!(encoded(bits, &too_many), Some(0));
            let late = [too_many, vec![(true, Odds::EVEN)]].concat();
            prop_assert_eq!(encoded(bits, &late), None);
        }
    }

    /// Returns the average number of bits per symbol, computed from the length of the final
    /// interval relative to that of the first.
    fn bits_per_symbol<S: Scheme>(coding: &Coding<S>, mut draw: impl FnMut() -> Symbol) -> f64 {
        const BITS: u32 = 120;
        let (blocks, entries) = (20_000, 20);
        let mut bits = 0.0;
        for _ in 0..blocks {
            let symbols: Vec<Symbol> = (0..entries).map(|_| draw()).collect();
            let mut encoder = Encoder::new(BITS);
            let highest = symbols.iter().map(|&symbol| S::level(symbol)).max();
            let most = coding.begin(highest.unwrap_or(0), &mut encoder);
            for symbol in symbols {
                S::write(coding, symbol, most, &mut encoder);
            }
            bits += f64::from(BITS) - (encoder.length as f64).log2();
            assert!(encoder.finish().is_some());
        }
        bits / f64::from(blocks * entries)
    }

    /// Returns whether two numbers differ by less than 3 %.
    fn is_near(measured: f64, bound: f64) -> bool {
        (measured / bound - 1.0).abs() < 0.03
    }

    #[test]
    fn code_length_is_near_the_entropy() {
        let part = |chance: f64| -chance * chance.log2();
        let entropy = |chance: f64| part(chance) + part(1.0 - chance);
        let mut numbers = random(1);
        let mut happens = |chance: f64| (numbers.next().unwrap() as f64) < chance * 2f64.powi(64);
        for chance in [0.1, 0.2, 0.24] {
            // Each level is reached from the one below with the same probability.
            let bound = entropy(chance) / (1.0 - chance);
            let telescoping = Coding::<Selectors>::new(Digits::plain(1 << 20, 8, 8), bound);
            let draw = || (0..13).find(|_| !happens(chance)).unwrap_or(13);
            let bits = bits_per_symbol(&telescoping, draw);
            assert!(is_near(bits, bound), "{bits} bits per selector, entropy {bound}");
        }
        for chance in [0.05, 0.1, 0.15] {
            // An extension has at least one bit, and after each bit another one with probability
            // 1/2. So its length has 2 bits of entropy, and its content has 2 on average.
            let bound = entropy(chance) + 4.0 * chance;
            let extending = Coding::<Extensions>::new(Digits::plain(1 << 20, 8, 8), bound);
            let draw = || {
                if !happens(chance) {
                    return 0;
                }
                let length = 1 + (0..29).find(|_| happens(0.5)).unwrap_or(29);
                (0..length).fold(1, |symbol, _| symbol << 1 | Symbol::from(happens(0.5)))
            };
            let bits = bits_per_symbol(&extending, draw);
            assert!(is_near(bits, bound), "{bits} bits per extension, entropy {bound}");
        }
    }

    /// Returns all canonical codes by their symbols. A code is canonical if encoding its symbols
    /// gives the same code. All other codes are invalid.
    fn canonical<S: Scheme>(coding: &Coding<S>, bits: u32) -> BTreeMap<Vec<Symbol>, u128> {
        let mut codes = BTreeMap::new();
        for code in 0..1 << bits {
            let symbols: Vec<Symbol> = coding.decode(code, bits).collect();
            match coding.encode(&symbols, bits) {
                Some(written) if written == code => {
                    assert_eq!(codes.insert(symbols, code), None, "a code has one meaning");
                }
                Some(written) => {
                    assert!(written < code, "a code is the least number of its interval");
                    assert_eq!(codes.get(&symbols), Some(&written));
                }
                None => {}
            }
        }
        codes
    }

    #[test]
    fn most_codes_are_canonical() {
        for bits in 8..=13 {
            let telescoping =
                canonical(&Coding::<Selectors>::new(Digits::plain(1 << 20, 8, 8), 0.9), bits);
            let extending =
                canonical(&Coding::<Extensions>::new(Digits::plain(1 << 20, 8, 8), 0.9), bits);
            // Some codes aren't canonical: their prefix says that there is a high level, but there
            // is none.
            assert!(telescoping.len() < 1 << bits);
            for codes in [telescoping, extending] {
                assert!(codes[&vec![]] == 0 && codes.len() > 1 << (bits - 1));
            }
        }
    }
}
