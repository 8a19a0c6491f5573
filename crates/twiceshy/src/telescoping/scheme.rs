//! The *symbol* of an entry in a code, and its meaning for the slot.
//!
//! A symbol contains the *level* of an entry. The level is 0 at first, and repairs raise it. The
//! level and the hash of a member determine the value of its slot, and the symbol. So an entry
//! covers a hash if the hash gives the same value and symbol at the entry's level.

use super::coder::{Decoder, Encoder, Odds, Short, Word};
use crate::bits::machine::Machine;
use crate::bits::machine::Shapes;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{CodedShapes, Shape, Wanted, Window};

/// A symbol. It is 0 at level 0.
pub(crate) type Symbol = u32;

/// The stored data of a member: the value of its slot, and its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelt {
    pub(crate) value: u64,
    pub(crate) symbol: Symbol,
}

/// A way of repairing entries.
pub(crate) trait Scheme: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Values that slots are compared with in one step.
    type Quick: Wanted;

    /// The common shapes of tables.
    type Shapes: Shapes;

    /// Whether resetting an entry to level 0 needs members.
    const MEMBERS_TO_FORGET: bool;

    /// Whether entries can be repaired at all.
    const REPAIRS: bool = true;

    /// Returns the shape of a table with these sizes of remainders and codes.
    fn shape(remainder_bits: u32, code_bits: u32) -> Shape {
        Shape::with_code(remainder_bits, code_bits)
    }

    /// Returns the scheme for a filter whose codes have this many bits per entry.
    fn new(slots: u64, remainder_bits: u32, bits_per_entry: f64) -> Self;

    /// Returns the odds of a symbol that isn't 0 as a number. Snapshots store it, because machines
    /// might compute different odds.
    fn odds(&self) -> u32;

    /// Returns the scheme with different odds, if the number is valid.
    fn with_odds(self, number: u32) -> Option<Self>;

    fn digits(&self) -> Digits;

    /// Returns the highest possible level.
    fn greatest_level(&self) -> u32;

    fn level(symbol: Symbol) -> u32;

    /// Returns the bits that a symbol adds to a remainder.
    fn extension(symbol: Symbol) -> u32;

    /// Returns the stored data of a hash at a level.
    fn spell(&self, scaled: Scaled, level: u32) -> Spelt;

    /// Returns the next level at which a member's entry doesn't cover a mistake.
    fn repaired(&self, level: u32, member: Scaled, mistake: Scaled) -> Option<u32>;

    /// Returns the values of slots that may cover a hash, which is split into these digits.
    fn quick(&self, digits: Digits, fraction: u128) -> Self::Quick;

    /// Returns whether [`quick`](Self::quick) has all possible values for a block with this code.
    fn is_quick(&self, code: u128, bits: u32) -> bool;

    /// Writes the prefix of a code whose highest level is `highest`, and returns the highest level
    /// that symbols may have.
    fn begin(&self, highest: u32, encoder: &mut Encoder) -> u32;

    /// Reads the prefix of a code, and returns the highest level that symbols may have.
    fn begun<W: Word>(&self, decoder: &mut Decoder<W>) -> u32;

    fn write(&self, symbol: Symbol, most: u32, encoder: &mut Encoder);

    fn read<W: Word>(&self, most: u32, decoder: &mut Decoder<W>) -> Symbol;

    /// Skips `count` symbols, or all that are left.
    #[inline(always)]
    fn skip<W: Word>(&self, count: usize, most: u32, decoder: &mut Decoder<W>) {
        for _ in 0..count {
            if decoder.is_done() {
                break;
            }
            self.read(most, decoder);
        }
    }

    /// Returns whether an entry covers a hash.
    #[inline(always)]
    fn covers(&self, entry: Spelt, scaled: Scaled) -> bool {
        self.spell(scaled, Self::level(entry.symbol)) == entry
    }

    /// Encodes symbols, if there is room for them.
    fn encode(&self, symbols: &[Symbol], bits: u32) -> Option<u128> {
        let coded = symbols.iter().rposition(|&symbol| symbol != 0).map_or(0, |last| last + 1);
        let mut encoder = Encoder::new(bits);
        let highest = symbols.iter().map(|&symbol| Self::level(symbol)).max();
        let most = self.begin(highest.unwrap_or(0), &mut encoder);
        symbols[..coded].iter().for_each(|&symbol| self.write(symbol, most, &mut encoder));
        encoder.finish()
    }

    /// Decodes the symbols of a code, up to the last one that isn't 0.
    fn decode(&self, code: u128, bits: u32) -> Vec<Symbol> {
        let mut decoder = Decoder::<u128>::new(code, bits);
        let most = self.begun(&mut decoder);
        let mut symbols = Vec::new();
        // Without levels, a symbol takes no bits of the code, and the loop would never end.
        while most > 0 && !decoder.is_done() {
            symbols.push(self.read(most, &mut decoder));
        }
        symbols
    }

    /// Calls `each` with the symbols from index `from` on, until it returns `false`.
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

/// Hash selectors: a repair replaces the digit of an entry by the next digit of its member's hash.
/// The symbol counts the replacements.
///
/// All entries are equally likely to be repaired. If every query recurs, a selector grows until no
/// query collides with it, and the probability of a collision is the same each time. So selectors
/// are coded as if P(k + 1 or more | k or more) was the same for all k. It is chosen such that the
/// expected size fills a code.
#[derive(Clone, Copy, Debug)]
pub struct Selectors {
    digits: Digits,
    greatest: u32,
    odds: Odds,
}

/// Selectors of a block are usually less than this. The prefix of a code says whether it has others,
/// so slots seldom have to be compared with more digits of a hash.
const FEW: u32 = 4;

/// Odds of a block with higher selectors.
const RARELY: Odds = Odds::one_in(64);

impl Scheme for Selectors {
    type Quick = FirstDigits;
    type Shapes = CodedShapes;
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

    /// All decisions have the same odds, so the end of a symbol needs no branch.
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

/// Fingerprint extensions: a repair adds as many bits of the member's hash to an entry as it takes
/// to distinguish the member from the mistake.
///
/// A symbol is a 1 followed by these bits. After each common bit of two hashes, the next one is
/// also common with probability 1/2. All extensions of the same length are equally likely.
#[derive(Clone, Copy, Debug)]
pub struct Extensions {
    digits: Digits,
    greatest: u32,
    odds: Odds,
}

/// Maximum number of bits of an extension in a symbol.
const LONGEST: u32 = 30;

/// The entropy of an extension that isn't empty: two bits each for its length and its value.
const EXTENSION_BITS: f64 = 4.0;

impl Scheme for Extensions {
    type Quick = FirstDigit;
    type Shapes = CodedShapes;
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
        let rest = (scaled.fraction << self.digits.remainder) >> (128 - LONGEST);
        let bits = rest as u32 >> (LONGEST - level);
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

/// Any of the first digits of a hash.
#[derive(Clone, Copy)]
pub(crate) struct FirstDigits([u64; FEW as usize]);

impl Wanted for FirstDigits {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        window.equal_any(machine, self.0)
    }
}

/// Returns the entropy of a decision in bits.
fn entropy(chance: f64) -> f64 {
    let part = |chance: f64| if chance > 0.0 { -chance * chance.log2() } else { 0.0 };
    part(chance) + part(1.0 - chance)
}

/// Returns the probability, at most 1/2, at which an increasing function is closest to a value.
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
