//! The *symbol* of an entry in a code, and its meaning for the slot.
//!
//! A symbol contains the *level* of an entry. The level is 0 at first, and repairs raise it. The
//! level and the hash of a member determine the value of its slot, and the symbol, so an entry
//! covers a hash if the hash gives the same value and symbol at the entry's level.

use super::coder::{Decoder, Encoder, Long, Middle, Odds, Short, Word};
use super::{Inserts, Lookups};
use crate::bits::machine::{Machine, Shapes, Target};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{BareShapes, CodedShapes, Wanted, Window};
use core::marker::PhantomData;

/// What a code stores about one entry: a number that is 0 at level 0.
pub(crate) type Symbol = u32;

/// The stored data of a member: the value of its slot, and its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// A way of repairing entries. The default functions are those of [`Selectors`].
pub(crate) trait Scheme: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// The common shapes of tables.
    type Shapes: Shapes;

    /// Whether resetting an entry to level 0 needs its member. If not, levels don't change values.
    const MEMBERS_TO_FORGET: bool;

    /// Whether entries can be repaired at all.
    const REPAIRS: bool = true;

    /// Returns the operations of this scheme, compiled for a target.
    fn routines(target: Target) -> (Lookups<Self>, Inserts<Self>);

    /// Returns the highest possible level if hashes have `fresh` bits after the quotient.
    fn greatest_level(fresh: u32, remainder_bits: u32) -> u32 {
        fresh / remainder_bits - 1
    }

    /// Returns the entropy of a symbol in bits. `chance` is the probability that it isn't 0.
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
    /// Returns the coding of a filter whose codes have `bits_per_entry` bits per entry.
    pub(super) fn new(digits: Digits, bits_per_entry: f64) -> Self {
        let Digits { slots, remainder: remainder_bits, .. } = digits;
        let fresh = 128 - (u64::BITS - (slots - 1).leading_zeros());
        Self {
            digits,
            greatest: if S::REPAIRS { S::greatest_level(fresh, remainder_bits) } else { 0 },
            odds: Odds::of_yes(solve(S::symbol_bits, bits_per_entry)),
            scheme: PhantomData,
        }
    }

    /// Returns the odds of a symbol that isn't 0 as a number, or 0 if the scheme has no repairs.
    /// Snapshots store this number, because machines might compute different odds.
    pub(crate) fn odds(&self) -> u32 {
        if S::REPAIRS { self.odds.number() } else { 0 }
    }

    /// Returns the coding with different odds, if the number is valid.
    pub(super) fn with_odds(self, number: u32) -> Option<Self> {
        let odds = if S::REPAIRS { Odds::of_number(number)? } else { self.odds };
        Some(Self { odds, ..self })
    }

    /// Writes the prefix of a code. `highest` is the highest level in the code. Returns the highest
    /// level that this prefix allows. Only schemes whose levels change values have a prefix.
    pub(super) fn begin(&self, highest: u32, encoder: &mut Encoder) -> u32 {
        let has_others = highest >= FEW;
        if S::MEMBERS_TO_FORGET {
            encoder.decide(has_others, RARELY);
        }
        self.most(has_others)
    }

    /// Reads the prefix of a code. Returns the highest level that this prefix allows.
    #[inline(always)]
    pub(super) fn begun<W: Word>(&self, decoder: &mut Decoder<W>) -> u32 {
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

    /// Returns whether one of several consecutive entries covers a hash. The first has the index
    /// `from` in the code, and `values` are the values of their slots.
    #[inline(always)]
    pub(super) fn any_covers(
        &self,
        (code, bits): (u128, u32),
        from: usize,
        values: impl Iterator<Item = u64>,
        scaled: Scaled,
    ) -> bool {
        if bits <= Short::BITS {
            self.any_covers_with(Decoder::<Short>::new(code, bits), from, values, scaled)
        } else if bits < u64::BITS {
            self.any_covers_with(Decoder::<Middle>::new(code, bits), from, values, scaled)
        } else {
            self.any_covers_with(Decoder::<Long>::new(code, bits), from, values, scaled)
        }
    }

    #[inline(always)]
    fn any_covers_with<W: Word>(
        &self,
        mut decoder: Decoder<W>,
        from: usize,
        mut values: impl Iterator<Item = u64>,
        scaled: Scaled,
    ) -> bool {
        let most = self.begun(&mut decoder);
        S::skip(self, from, most, &mut decoder);
        values.any(|value| {
            let symbol = if decoder.is_done() { 0 } else { S::read(self, most, &mut decoder) };
            self.covers(Spelt { value, symbol }, scaled)
        })
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
    pub(super) fn decode(&self, code: u128, bits: u32) -> impl Iterator<Item = Symbol> {
        let mut decoder = Decoder::<Long>::new(code, bits);
        let most = self.begun(&mut decoder);
        core::iter::from_fn(move || {
            // Without levels, a symbol takes no bits of the code, so decoding would never end.
            let is_coded = most > 0 && !decoder.is_done();
            is_coded.then(|| S::read(self, most, &mut decoder))
        })
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
/// query collides with it, and the probability of a collision is the same each time, so selectors
/// are coded as if P(k + 1 or more | k or more) was the same for all k. This probability is chosen
/// so that the expected size fills a code.
#[derive(Clone, Copy, Debug)]
pub struct Selectors;

/// In most blocks, all selectors are less than this. The prefix of a block's code says whether any
/// selector is higher, so a lookup seldom needs more than `FEW` digits of a hash.
const FEW: u32 = 4;

/// Odds that a block has a selector of [`FEW`] or more.
const RARELY: Odds = Odds::one_in(64);

impl Scheme for Selectors {
    type Shapes = CodedShapes;
    const MEMBERS_TO_FORGET: bool = true;

    fn routines(target: Target) -> (Lookups<Self>, Inserts<Self>) {
        super::routines(target)
    }
}

/// Fingerprint extensions: a repair adds as many bits of the member's hash to an entry as it takes
/// to distinguish the member from the mistake.
///
/// A symbol is a 1 followed by these bits. After each bit that two hashes share, they also share
/// the next one with probability 1/2. All extensions of the same length are equally likely.
#[derive(Clone, Copy, Debug)]
pub struct Extensions;

/// Maximum number of bits of an extension in a symbol.
const LONGEST: u32 = 30;

/// The entropy of an extension that isn't empty: two bits each for its length and its value.
const EXTENSION_BITS: f64 = 4.0;

impl Scheme for Extensions {
    type Shapes = CodedShapes;
    const MEMBERS_TO_FORGET: bool = false;

    fn routines(target: Target) -> (Lookups<Self>, Inserts<Self>) {
        super::routines(target)
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

/// The scheme of a filter without repairs: all entries stay at level 0.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Scheme for Plain {
    type Shapes = BareShapes;
    const MEMBERS_TO_FORGET: bool = false;
    const REPAIRS: bool = false;

    fn routines(target: Target) -> (Lookups<Self>, Inserts<Self>) {
        super::routines(target)
    }
}

/// The first [`FEW`] digits of a hash. As a [`Wanted`], it selects the entries whose value is one
/// of these digits.
#[derive(Clone, Copy)]
pub(super) struct FewDigits([u64; FEW as usize]);

impl FewDigits {
    /// Returns the first digits of a hash. It has `greatest + 1` digits in all.
    #[inline(always)]
    pub(super) fn new(digits: Digits, greatest: u32, fraction: u128) -> Self {
        let mut first = [digits.digit(fraction, 0); FEW as usize];
        for (digit, level) in first.iter_mut().zip(0..).skip(1) {
            if level <= greatest {
                *digit = digits.digit(fraction, level);
            }
        }
        Self(first)
    }

    /// Returns whether these digits are enough for a block with this code, because no level is
    /// higher.
    #[inline(always)]
    pub(super) fn suffice(code: u128, bits: u32) -> bool {
        Long::of(code) < Long::of(1 << bits).share(RARELY)
    }
}

impl Wanted for FewDigits {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        window.equal_any(machine, self.0)
    }
}

/// Returns the entropy in bits of a decision that is "yes" with probability `chance`.
fn entropy(chance: f64) -> f64 {
    let part = |chance: f64| if chance > 0.0 { -chance * chance.log2() } else { 0.0 };
    part(chance) + part(1.0 - chance)
}

/// Returns the probability, at most 1/2, at which the increasing function `bits` is closest to
/// `wanted`.
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
