//! The *symbol* of an entry in a code, and its meaning for the slot.
//!
//! A symbol contains the *level* of an entry. The level is 0 at first, and repairs raise it. The
//! level and the hash of a member determine the value of its slot, and the symbol. So an entry
//! covers a hash if the hash gives the same value and symbol at the entry's level.

use super::coder::{Decoder, Encoder, Long, Middle, Odds, Short, Word};
use super::routines::Routines;
use crate::bits::machine::{Machine, Shapes, Target};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{CodedShapes, Shape, Wanted, Window};
use core::marker::PhantomData;

/// A symbol. It is 0 at level 0.
pub(crate) type Symbol = u32;

/// The stored data of a member: the value of its slot, and its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelt {
    pub(crate) value: u64,
    pub(crate) symbol: Symbol,
}

/// The numbers that determine what the entries and codes of a filter mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coding<S> {
    pub(super) digits: Digits,
    /// The highest possible level.
    pub(super) greatest: u32,
    /// The odds of a symbol that isn't 0.
    odds: Odds,
    scheme: PhantomData<S>,
}

/// A way of repairing entries. Its functions are those of [`Selectors`] by default.
pub(crate) trait Scheme: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// The common shapes of tables.
    type Shapes: Shapes;

    /// Whether resetting an entry to level 0 needs members. If not, levels don't change values.
    const MEMBERS_TO_FORGET: bool;

    /// Whether entries can be repaired at all.
    const REPAIRS: bool = true;

    /// Returns the operations of this scheme, compiled for a target.
    fn routines(target: Target) -> Routines<Self>;

    /// Returns the shape of a table with these sizes of remainders and codes.
    fn shape(remainder_bits: u32, code_bits: u32) -> Shape {
        Shape::with_code(remainder_bits, code_bits)
    }

    /// Returns the highest possible level if hashes have `fresh` bits after the quotient.
    fn greatest_level(fresh: u32, remainder_bits: u32) -> u32 {
        fresh / remainder_bits - 1
    }

    /// Returns the entropy of symbols in bits, if a symbol isn't 0 with probability `chance`.
    fn symbol_bits(chance: f64) -> f64 {
        // The entropy of a geometric distribution.
        entropy(chance) / (1.0 - chance)
    }

    #[inline(always)]
    fn level(symbol: Symbol) -> u32 {
        symbol
    }

    /// Returns the bits that a symbol adds to a remainder.
    fn extension(_symbol: Symbol) -> u32 {
        0
    }

    /// Returns the stored data of a hash at a level.
    #[inline(always)]
    fn spell(coding: &Coding<Self>, scaled: Scaled, level: u32) -> Spelt {
        Spelt { value: coding.digits.digit(scaled.fraction, level), symbol: level }
    }

    /// Returns the next level at which a member's entry doesn't cover a mistake.
    fn repaired(coding: &Coding<Self>, level: u32, member: Scaled, mistake: Scaled) -> Option<u32> {
        let value = |scaled, level| Self::spell(coding, scaled, level).value;
        (level + 1..=coding.greatest).find(|&level| value(member, level) != value(mistake, level))
    }

    fn write(coding: &Coding<Self>, symbol: Symbol, most: u32, encoder: &mut Encoder) {
        for _ in 0..symbol {
            encoder.decide(true, coding.odds);
        }
        if symbol < most {
            encoder.decide(false, coding.odds);
        }
    }

    #[inline(always)]
    fn read<W: Word>(coding: &Coding<Self>, most: u32, decoder: &mut Decoder<W>) -> Symbol {
        let mut symbol = 0;
        while symbol < most && decoder.decide(coding.odds) {
            symbol += 1;
        }
        symbol
    }

    /// Skips `count` symbols, or all that are left.
    ///
    /// All decisions have the same odds, so the end of a symbol needs no branch.
    #[inline(always)]
    fn skip<W: Word>(coding: &Coding<Self>, count: usize, most: u32, decoder: &mut Decoder<W>) {
        let (mut left, mut symbol) = (count, 0);
        while left > 0 && !decoder.is_done() {
            symbol = (symbol + 1) * u32::from(decoder.decide(coding.odds));
            symbol *= u32::from(symbol < most);
            left -= usize::from(symbol == 0);
        }
    }
}

impl<S: Scheme> Coding<S> {
    /// Returns the coding of a filter whose codes have this many bits per entry.
    pub(super) fn new(slots: u64, remainder_bits: u32, bits_per_entry: f64) -> Self {
        let fresh = 128 - (u64::BITS - (slots - 1).leading_zeros());
        Self {
            digits: Digits { slots, remainder: remainder_bits, width: remainder_bits },
            greatest: S::greatest_level(fresh, remainder_bits),
            odds: Odds::of_yes(solve(S::symbol_bits, bits_per_entry)),
            scheme: PhantomData,
        }
    }

    /// Returns the odds of a symbol that isn't 0 as a number, or 0 without repairs. Snapshots store
    /// it, because machines might compute different odds.
    pub(super) fn odds(&self) -> u32 {
        if S::REPAIRS { self.odds.number() } else { 0 }
    }

    /// Returns the coding with different odds, if the number is valid.
    pub(super) fn with_odds(self, number: u32) -> Option<Self> {
        let odds = if S::REPAIRS { Odds::of_number(number)? } else { self.odds };
        Some(Self { odds, ..self })
    }

    /// Writes the prefix of a code whose highest level is `highest`, and returns the highest level
    /// that symbols may have. Only codes whose levels change values have a prefix.
    pub(super) fn begin(&self, highest: u32, encoder: &mut Encoder) -> u32 {
        let has_others = highest >= FEW;
        if S::MEMBERS_TO_FORGET {
            encoder.decide(has_others, RARELY);
        }
        self.most(has_others)
    }

    /// Reads the prefix of a code, and returns the highest level that symbols may have.
    #[inline(always)]
    fn begun<W: Word>(&self, decoder: &mut Decoder<W>) -> u32 {
        self.most(S::MEMBERS_TO_FORGET && decoder.decide(RARELY))
    }

    #[inline(always)]
    fn most(&self, has_others: bool) -> u32 {
        self.greatest.min(if S::MEMBERS_TO_FORGET && !has_others { FEW - 1 } else { u32::MAX })
    }

    /// Returns whether an entry covers a hash.
    #[inline(always)]
    pub(super) fn covers(&self, entry: Spelt, scaled: Scaled) -> bool {
        S::spell(self, scaled, S::level(entry.symbol)) == entry
    }

    /// Returns whether one of the entries from index `from` on covers a hash. `values` are theirs.
    #[inline(always)]
    pub(super) fn any_covers(
        &self,
        (code, bits): (u128, u32),
        from: usize,
        mut values: impl Iterator<Item = u64>,
        scaled: Scaled,
    ) -> bool {
        let mut is_covered = false;
        self.decode_from(code, bits, from, |symbol| {
            let Some(value) = values.next() else { return false };
            is_covered = self.covers(Spelt { value, symbol }, scaled);
            !is_covered
        });
        is_covered
    }

    /// Encodes symbols, if there is room for them.
    pub(super) fn encode(&self, symbols: &[Symbol], bits: u32) -> Option<u128> {
        let coded = symbols.iter().rposition(|&symbol| symbol != 0).map_or(0, |last| last + 1);
        let mut encoder = Encoder::new(bits);
        let highest = symbols.iter().map(|&symbol| S::level(symbol)).max();
        let most = self.begin(highest.unwrap_or(0), &mut encoder);
        symbols[..coded].iter().for_each(|&symbol| S::write(self, symbol, most, &mut encoder));
        encoder.finish()
    }

    /// Decodes the symbols of a code, up to the last one that isn't 0.
    pub(super) fn decode(&self, code: u128, bits: u32) -> Vec<Symbol> {
        let mut decoder = Decoder::<Long>::new(code, bits);
        let most = self.begun(&mut decoder);
        let mut symbols = Vec::new();
        // Without levels, a symbol takes no bits of the code, and the loop would never end.
        while most > 0 && !decoder.is_done() {
            symbols.push(S::read(self, most, &mut decoder));
        }
        symbols
    }

    /// Calls `each` with the symbols from index `from` on, until it returns `false`.
    #[inline(always)]
    pub(super) fn decode_from(
        &self,
        code: u128,
        bits: u32,
        from: usize,
        each: impl FnMut(Symbol) -> bool,
    ) {
        if bits <= Short::BITS {
            self.decode_as(Decoder::<Short>::new(code, bits), from, each);
        } else if bits < u64::BITS {
            self.decode_as(Decoder::<Middle>::new(code, bits), from, each);
        } else {
            self.decode_as(Decoder::<Long>::new(code, bits), from, each);
        }
    }

    #[inline(always)]
    fn decode_as<W: Word>(
        &self,
        mut decoder: Decoder<W>,
        from: usize,
        mut each: impl FnMut(Symbol) -> bool,
    ) {
        let most = self.begun(&mut decoder);
        S::skip(self, from, most, &mut decoder);
        loop {
            let symbol = if decoder.is_done() { 0 } else { S::read(self, most, &mut decoder) };
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
pub struct Selectors;

/// Selectors of a block are usually less than this. The prefix of a code says whether it has others,
/// so slots seldom have to be compared with more digits of a hash.
const FEW: u32 = 4;

/// Odds of a block with higher selectors.
const RARELY: Odds = Odds::one_in(64);

impl Scheme for Selectors {
    type Shapes = CodedShapes;
    const MEMBERS_TO_FORGET: bool = true;

    fn routines(target: Target) -> Routines<Self> {
        Routines::new(target)
    }
}

/// Fingerprint extensions: a repair adds as many bits of the member's hash to an entry as it takes
/// to distinguish the member from the mistake.
///
/// A symbol is a 1 followed by these bits. After each common bit of two hashes, the next one is
/// also common with probability 1/2. All extensions of the same length are equally likely.
#[derive(Clone, Copy, Debug)]
pub struct Extensions;

/// Maximum number of bits of an extension in a symbol.
const LONGEST: u32 = 30;

/// The entropy of an extension that isn't empty: two bits each for its length and its value.
const EXTENSION_BITS: f64 = 4.0;

impl Scheme for Extensions {
    type Shapes = CodedShapes;
    const MEMBERS_TO_FORGET: bool = false;

    fn routines(target: Target) -> Routines<Self> {
        Routines::new(target)
    }

    fn greatest_level(fresh: u32, remainder_bits: u32) -> u32 {
        (fresh - remainder_bits).min(LONGEST)
    }

    fn symbol_bits(chance: f64) -> f64 {
        entropy(chance) + chance * EXTENSION_BITS
    }

    #[inline(always)]
    fn level(symbol: Symbol) -> u32 {
        if symbol == 0 { 0 } else { symbol.ilog2() }
    }

    fn extension(symbol: Symbol) -> u32 {
        if symbol == 0 { 0 } else { symbol ^ 1 << Self::level(symbol) }
    }

    #[inline(always)]
    fn spell(coding: &Coding<Self>, scaled: Scaled, level: u32) -> Spelt {
        let value = coding.digits.digit(scaled.fraction, 0);
        let rest = (scaled.fraction << coding.digits.remainder) >> (128 - LONGEST);
        let bits = rest as u32 >> (LONGEST - level);
        Spelt { value, symbol: if level == 0 { 0 } else { 1 << level | bits } }
    }

    fn repaired(coding: &Coding<Self>, level: u32, member: Scaled, mistake: Scaled) -> Option<u32> {
        let shared = (member.fraction ^ mistake.fraction).leading_zeros();
        let needed = (shared + 1).saturating_sub(coding.digits.remainder).max(level);
        (needed <= coding.greatest).then_some(needed)
    }

    fn write(coding: &Coding<Self>, symbol: Symbol, most: u32, encoder: &mut Encoder) {
        let length = Self::level(symbol);
        encoder.decide(length > 0, coding.odds);
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
    fn read<W: Word>(coding: &Coding<Self>, most: u32, decoder: &mut Decoder<W>) -> Symbol {
        if !decoder.decide(coding.odds) {
            return 0;
        }
        let mut length = 1;
        while length < most && decoder.decide(Odds::EVEN) {
            length += 1;
        }
        (0..length).fold(1, |symbol, _| symbol << 1 | Symbol::from(decoder.decide(Odds::EVEN)))
    }

    #[inline(always)]
    fn skip<W: Word>(coding: &Coding<Self>, count: usize, most: u32, decoder: &mut Decoder<W>) {
        for _ in 0..count {
            if decoder.is_done() {
                break;
            }
            Self::read(coding, most, decoder);
        }
    }
}

/// Any of the first digits of a hash.
#[derive(Clone, Copy)]
pub(super) struct FirstDigits<const COUNT: usize>([u64; COUNT]);

impl<const COUNT: usize> FirstDigits<COUNT> {
    /// Returns the first digits of a hash, which has `greatest + 1` digits.
    #[inline(always)]
    pub(super) fn new(digits: Digits, greatest: u32, fraction: u128) -> Self {
        let mut first = [digits.digit(fraction, 0); COUNT];
        for (digit, level) in first.iter_mut().zip(0..).skip(1) {
            if level <= greatest {
                *digit = digits.digit(fraction, level);
            }
        }
        Self(first)
    }
}

/// Any of the first [`FEW`] digits of a hash.
pub(super) type FewDigits = FirstDigits<{ FEW as usize }>;

impl FewDigits {
    /// Returns whether the entries of a block with this code can have no other digits.
    #[inline(always)]
    pub(super) fn suffice(code: u128, bits: u32) -> bool {
        Long::from_code(code) < Long::all(bits).share(RARELY)
    }
}

impl<const COUNT: usize> Wanted for FirstDigits<COUNT> {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        if COUNT == 1 {
            window.equal(machine, self.0[0])
        } else {
            window.equal_any(machine, self.0)
        }
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
