//! What a code says of each entry, its *symbol*, and what that means for its slot.
//!
//! A symbol says at which *level* an entry is: 0, as all are for a start, and one that is higher
//! the more has been done about it. The level and the hash of a member determine the value of
//! its slot, and the symbol. So an entry covers a hash if the hash, at the entry's level, is
//! spelt the same.

use super::coder::{Decoder, Encoder, Odds, Short, Word};
use super::routines::Routines;
use crate::bits::machine::Machine;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{QuotientTable, Shape, Wanted, Window, with_shape};

/// A symbol: 0 at level 0.
pub(crate) type Symbol = u32;

/// What is stored of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelt {
    pub(crate) value: u64,
    pub(crate) symbol: Symbol,
}

/// A way of repairing entries.
pub(crate) trait Scheme: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Values that slots are compared with, all at once.
    type Quick: Wanted;

    /// Whether members are needed to put an entry back to level 0.
    const MEMBERS_TO_FORGET: bool;

    /// Whether entries can be repaired at all.
    const REPAIRS: bool = true;

    /// The shape of tables with remainders and codes of so many bits.
    fn shape(remainder_bits: u32, code_bits: u32) -> Shape {
        Shape::with_code(remainder_bits, code_bits)
    }

    /// The routines for a table.
    fn routines(table: &QuotientTable) -> Routines<Self> {
        with_shape!(table.shape(), Shape::coded, SHAPE => Routines::new::<SHAPE>(table.level()))
    }

    /// The scheme of filters of that shape, whose codes have so many bits for each entry.
    fn new(slots: u64, remainder_bits: u32, bits_per_entry: f64) -> Self;

    /// The odds of a symbol that isn't 0, as a number that goes with the codes into snapshots:
    /// not all machines may compute the same.
    fn odds(&self) -> u32;

    /// The same scheme with other odds, if there are such.
    fn with_odds(self, number: u32) -> Option<Self>;

    fn digits(&self) -> Digits;

    /// The highest level that there is.
    fn greatest_level(&self) -> u32;

    fn level(symbol: Symbol) -> u32;

    /// The bits that a symbol adds to a remainder.
    fn extension(symbol: Symbol) -> u32;

    /// What is stored of a hash at a level.
    fn spell(&self, scaled: Scaled, level: u32) -> Spelt;

    /// The next level at which a member's entry doesn't cover a mistake any more.
    fn repaired(&self, level: u32, member: Scaled, mistake: Scaled) -> Option<u32>;

    /// What slots of a block may have if an entry covers a hash, which is cut into these digits.
    fn quick(&self, digits: Digits, fraction: u128) -> Self::Quick;

    /// Whether [`quick`](Self::quick) is all that slots of a block with this code may have.
    fn is_quick(&self, code: u128, bits: u32) -> bool;

    /// Writes what comes before symbols whose greatest level is `highest`, and says how high their
    /// levels may be.
    fn begin(&self, highest: u32, encoder: &mut Encoder) -> u32;

    /// Reads that.
    fn begun<W: Word>(&self, decoder: &mut Decoder<W>) -> u32;

    fn write(&self, symbol: Symbol, most: u32, encoder: &mut Encoder);

    fn read<W: Word>(&self, most: u32, decoder: &mut Decoder<W>) -> Symbol;

    /// Reads so many symbols that nobody wants to know, or all that are left.
    #[inline(always)]
    fn skip<W: Word>(&self, count: usize, most: u32, decoder: &mut Decoder<W>) {
        for _ in 0..count {
            if decoder.is_done() {
                break;
            }
            self.read(most, decoder);
        }
    }

    /// Whether an entry covers a hash.
    #[inline(always)]
    fn covers(&self, entry: Spelt, scaled: Scaled) -> bool {
        self.spell(scaled, Self::level(entry.symbol)) == entry
    }

    /// The code of symbols, if it has room for them.
    fn encode(&self, symbols: &[Symbol], bits: u32) -> Option<u128> {
        let coded = symbols.iter().rposition(|&symbol| symbol != 0).map_or(0, |last| last + 1);
        let mut encoder = Encoder::new(bits);
        let highest = symbols.iter().map(|&symbol| Self::level(symbol)).max();
        let most = self.begin(highest.unwrap_or(0), &mut encoder);
        symbols[..coded].iter().for_each(|&symbol| self.write(symbol, most, &mut encoder));
        encoder.finish()
    }

    /// The symbols of a code, up to the last that isn't 0.
    fn decode(&self, code: u128, bits: u32) -> Vec<Symbol> {
        let mut decoder = Decoder::<u128>::new(code, bits);
        let most = self.begun(&mut decoder);
        let mut symbols = Vec::new();
        // Without levels, a symbol takes nothing from the code, and it would never end.
        while most > 0 && !decoder.is_done() {
            symbols.push(self.read(most, &mut decoder));
        }
        symbols
    }

    /// Calls `each` with the symbols from one on, as long as it says so.
    #[inline(always)]
    fn decode_from(&self, code: u128, bits: u32, from: usize, each: impl FnMut(Symbol) -> bool) {
        if bits <= Short::BITS {
            self.decode_as::<Short>(code, bits, from, each);
        } else if bits < u64::BITS {
            self.decode_as::<u64>(code, bits, from, each);
        } else {
            self.decode_as::<u128>(code, bits, from, each);
        }
    }

    #[inline(always)]
    fn decode_as<W: Word>(
        &self,
        code: u128,
        bits: u32,
        from: usize,
        mut each: impl FnMut(Symbol) -> bool,
    ) {
        let mut decoder = Decoder::<W>::new(code, bits);
        let most = self.begun(&mut decoder);
        self.skip(from, most, &mut decoder);
        loop {
            let symbol = if decoder.is_done() { 0 } else { self.read(most, &mut decoder) };
            if !each(symbol) {
                return;
            }
        }
    }
}

/// A way of repairing entries: [`Selectors`] or [`Extensions`].
pub trait CodedScheme: Scheme {}

impl CodedScheme for Selectors {}

impl CodedScheme for Extensions {}

/// Hash selectors: an entry that was a mistake gets the next digit of its member's hash, instead
/// of the one it has; how often, is its symbol.
///
/// Nothing is known of the chances of each entry but that all are equal. If every query comes
/// again and again, a selector goes on until no query collides with it, and each time the chance
/// that one does is the same: so selectors are coded as if P(k + 1 or more | k or more) was the
/// same for all k, and what fills a code just so.
#[derive(Clone, Copy, Debug)]
pub struct Selectors {
    digits: Digits,
    greatest: u32,
    odds: Odds,
}

/// Selectors that a block has as a rule: a code tells at its beginning if it has others, so
/// that hardly any slot has to be compared with more digits of a hash.
const FEW: u32 = 4;

/// How likely it is that a block has others.
const RARELY: Odds = Odds::one_in(64);

impl Scheme for Selectors {
    type Quick = FirstDigits;
    const MEMBERS_TO_FORGET: bool = true;

    fn new(slots: u64, remainder_bits: u32, bits_per_entry: f64) -> Self {
        let fresh = 128 - (u64::BITS - (slots - 1).leading_zeros());
        let digits = Digits { slots, remainder: remainder_bits, width: remainder_bits };
        // The entropy of a geometric distribution.
        let bits = |chance: f64| entropy(chance) / (1.0 - chance);
        let odds = Odds::of_yes(solve(bits, bits_per_entry));
        Self { digits, greatest: fresh / remainder_bits - 1, odds }
    }

    fn odds(&self) -> u32 {
        self.odds.number()
    }

    fn with_odds(self, number: u32) -> Option<Self> {
        Some(Self { odds: Odds::of_number(number)?, ..self })
    }

    #[inline(always)]
    fn digits(&self) -> Digits {
        self.digits
    }

    fn greatest_level(&self) -> u32 {
        self.greatest
    }

    #[inline(always)]
    fn level(symbol: Symbol) -> u32 {
        symbol
    }

    fn extension(_: Symbol) -> u32 {
        0
    }

    #[inline(always)]
    fn spell(&self, scaled: Scaled, level: u32) -> Spelt {
        Spelt { value: self.digits.digit(scaled.fraction, level), symbol: level }
    }

    fn repaired(&self, level: u32, member: Scaled, mistake: Scaled) -> Option<u32> {
        let differs = |&level: &u32| {
            let [one, other] = [member, mistake].map(|scaled| self.spell(scaled, level));
            one != other
        };
        (level + 1..=self.greatest).find(differs)
    }

    #[inline(always)]
    fn quick(&self, digits: Digits, fraction: u128) -> FirstDigits {
        let mut first = [digits.digit(fraction, 0); FEW as usize];
        for (digit, level) in first.iter_mut().zip(0..).skip(1) {
            if level <= self.greatest {
                *digit = digits.digit(fraction, level);
            }
        }
        FirstDigits(first)
    }

    #[inline(always)]
    fn is_quick(&self, code: u128, bits: u32) -> bool {
        code < u128::all(bits).share(RARELY)
    }

    fn begin(&self, highest: u32, encoder: &mut Encoder) -> u32 {
        let has_others = highest >= FEW;
        encoder.decide(has_others, RARELY);
        self.greatest.min(if has_others { u32::MAX } else { FEW - 1 })
    }

    #[inline(always)]
    fn begun<W: Word>(&self, decoder: &mut Decoder<W>) -> u32 {
        let has_others = decoder.decide(RARELY);
        self.greatest.min(if has_others { u32::MAX } else { FEW - 1 })
    }

    fn write(&self, symbol: Symbol, most: u32, encoder: &mut Encoder) {
        for _ in 0..symbol {
            encoder.decide(true, self.odds);
        }
        if symbol < most {
            encoder.decide(false, self.odds);
        }
    }

    #[inline(always)]
    fn read<W: Word>(&self, most: u32, decoder: &mut Decoder<W>) -> Symbol {
        let mut symbol = 0;
        while symbol < most && decoder.decide(self.odds) {
            symbol += 1;
        }
        symbol
    }

    /// All decisions are alike, so where one symbol ends need not be a branch.
    #[inline(always)]
    fn skip<W: Word>(&self, count: usize, most: u32, decoder: &mut Decoder<W>) {
        let (mut left, mut symbol) = (count, 0);
        while left > 0 && !decoder.is_done() {
            symbol = (symbol + 1) * u32::from(decoder.decide(self.odds));
            symbol *= u32::from(symbol < most);
            left -= usize::from(symbol == 0);
        }
    }
}

/// Fingerprint extensions: an entry that was a mistake gets as many more bits of its member's
/// hash as it takes to tell them apart.
///
/// A symbol is these bits behind a 1. Every bit that two hashes share is followed by one that
/// they share with a chance of one half, and all extensions of a length are equally likely.
#[derive(Clone, Copy, Debug)]
pub struct Extensions {
    digits: Digits,
    greatest: u32,
    odds: Odds,
}

/// Bits of the longest extension that a symbol can be.
const LONGEST: u32 = 30;

/// The entropy of an extension that isn't empty: two bits each for its length and its value.
const EXTENSION_BITS: f64 = 4.0;

impl Scheme for Extensions {
    type Quick = FirstDigit;
    const MEMBERS_TO_FORGET: bool = false;

    fn new(slots: u64, remainder_bits: u32, bits_per_entry: f64) -> Self {
        let fresh = 128 - (u64::BITS - (slots - 1).leading_zeros());
        let digits = Digits { slots, remainder: remainder_bits, width: remainder_bits };
        let bits = |chance: f64| entropy(chance) + chance * EXTENSION_BITS;
        let odds = Odds::of_yes(solve(bits, bits_per_entry));
        Self { digits, greatest: (fresh - remainder_bits).min(LONGEST), odds }
    }

    fn odds(&self) -> u32 {
        self.odds.number()
    }

    fn with_odds(self, number: u32) -> Option<Self> {
        Some(Self { odds: Odds::of_number(number)?, ..self })
    }

    #[inline(always)]
    fn digits(&self) -> Digits {
        self.digits
    }

    fn greatest_level(&self) -> u32 {
        self.greatest
    }

    #[inline(always)]
    fn level(symbol: Symbol) -> u32 {
        if symbol == 0 { 0 } else { symbol.ilog2() }
    }

    fn extension(symbol: Symbol) -> u32 {
        if symbol == 0 { 0 } else { symbol ^ 1 << Self::level(symbol) }
    }

    #[inline(always)]
    fn spell(&self, scaled: Scaled, level: u32) -> Spelt {
        let value = self.digits.digit(scaled.fraction, 0);
        let behind = (scaled.fraction << self.digits.remainder) >> (128 - LONGEST);
        let bits = behind as u32 >> (LONGEST - level);
        Spelt { value, symbol: if level == 0 { 0 } else { 1 << level | bits } }
    }

    fn repaired(&self, level: u32, member: Scaled, mistake: Scaled) -> Option<u32> {
        let shared = (member.fraction ^ mistake.fraction).leading_zeros();
        let needed = (shared + 1).saturating_sub(self.digits.remainder).max(level);
        (needed <= self.greatest).then_some(needed)
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
        self.greatest
    }

    #[inline(always)]
    fn begun<W: Word>(&self, _: &mut Decoder<W>) -> u32 {
        self.greatest
    }

    fn write(&self, symbol: Symbol, most: u32, encoder: &mut Encoder) {
        let length = Self::level(symbol);
        encoder.decide(length > 0, self.odds);
        for longer in 1..=length {
            if longer < most {
                encoder.decide(longer < length, Odds::EVEN);
            }
        }
        for bit in (0..length).rev() {
            encoder.decide(symbol >> bit & 1 == 1, Odds::EVEN);
        }
    }

    #[inline(always)]
    fn read<W: Word>(&self, most: u32, decoder: &mut Decoder<W>) -> Symbol {
        if !decoder.decide(self.odds) {
            return 0;
        }
        let mut length = 1;
        while length < most && decoder.decide(Odds::EVEN) {
            length += 1;
        }
        (0..length).fold(1, |symbol, _| symbol << 1 | Symbol::from(decoder.decide(Odds::EVEN)))
    }
}

/// The first digit of a hash.
#[derive(Clone, Copy)]
pub(crate) struct FirstDigit(pub(crate) u64);

impl Wanted for FirstDigit {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        window.equal(machine, self.0)
    }
}

/// The first digits of a hash, any of them.
#[derive(Clone, Copy)]
pub(crate) struct FirstDigits([u64; FEW as usize]);

impl Wanted for FirstDigits {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        window.equal_any(machine, self.0)
    }
}

/// The entropy of a decision.
fn entropy(chance: f64) -> f64 {
    let part = |chance: f64| if chance > 0.0 { -chance * chance.log2() } else { 0.0 };
    part(chance) + part(1.0 - chance)
}

/// The chance, of at most one half, at which a rising function has a value, or is next to it.
fn solve(bits: impl Fn(f64) -> f64, wanted: f64) -> f64 {
    let (mut low, mut high) = (0.0, 0.5);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if bits(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
