//! Lists that are never wrong: every key of a *yes list* is answered yes, every key of a *no
//! list* no, and any other key yes with a chance of at most a given rate.
//!
//! # The static filter
//! [`YesNoFilter`] is a file to ship: small, complete, unchanging. A hash times the number of
//! quotients has a whole part, the quotient, by which keys are sorted into *blocks*, and a
//! *remainder*, which is a function of the whole hash and a *seed*. A fingerprint is a quotient
//! and a remainder, and what is stored are those of all yes-keys ([`block`]).
//!
//! The quotients of a few neighbours make up a *group*, and have a seed of their own: the
//! smallest by which no yes-key of the group has the same remainder as a no-key of its quotient.
//! So the no list costs nothing but the seeds. If a yes-key is confused with c no-keys on the
//! average, the chance that a seed does for k yes-keys is e^-kc, and to name the first that does
//! takes some kc log₂ e bits: c log₂ e a yes-key, which is just what no filter can do without (the
//! adaptive quotient filter's paper, theorem 7). Longer fingerprints, as filters that adapt have
//! them, would take several times as much; but these needn't know all no-keys beforehand.
//!
//! The larger a group, the less is lost by writing a seed in whole bits, and the more seeds have
//! to be tried. Sizes are those of the smallest filter that takes a few tries, by a model of what
//! each bit is for ([`shape`]).
//!
//! # Invariants
//! 1. Each yes-key's fingerprint is in its block, and no no-key's is.
//! 2. Remainders of a quotient are in order, and none is there twice.
//! 3. Blocks are written one way only, so that filters of the same lists, shape and secret are
//!    the same, bit for bit. What a [delta](Delta) makes of a filter is just what it would be
//!    if it was built anew.
//!
//! Only the first can't be checked without the lists.

mod block;
mod build;
mod delta;
mod lookup;
mod seed;
mod shape;
mod validate;

#[cfg(test)]
mod tests;

pub use build::YesNoFilterBuilder;
pub use delta::{Delta, DeltaError};
pub(crate) use shape::Shape;

use crate::bits::machine::Level;
use crate::bits::memory::{LINE, Lines};
use crate::{BuildError, Filter, Hash, HashScheme, Key, Keyed};
use block::{BLOCK, Block};
use core::borrow::Borrow;
use core::fmt;

/// A filter that is right about all keys of two lists: yes for each of the *yes list*, no for each
/// of the *no list*; and yes for any other with a chance of at most its rate.
///
/// It is built at once, and doesn't change; [deltas](Self::delta_to) make another of it, where the
/// lists aren't known. Filters of yes and no lists that change at any time are larger.
///
/// ```
/// use twiceshy::{Keyed, YesNoFilter};
/// let blocked = ["evil.example", "worse.example"];
/// let popular = ["good.example", "better.example"];
/// let filter = Keyed::<str, YesNoFilter>::build(&blocked, &popular, 0.01)?;
/// assert!(filter.contains("evil.example") && filter.contains("worse.example"));
/// assert!(!filter.contains("good.example") && !filter.contains("better.example"));
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
///
/// # What it takes
/// At a rate of ε, with |N| no-keys for each |Y| yes-keys, about log₂ 1/ε + 2.2 bits a yes-key, and
/// 1.44 ε |N|/|Y| more, or a little more than that; from |N|/|Y| ≈ 1/ε on it is about log₂ |N|/|Y| + 4.6
/// instead. What no filter can do without is 2.2 bits less than that, or 3.2. Rates above a tenth
/// take a few tenths of a bit more.
///
/// # Complexity
/// A lookup takes constant time, and reads three lines of memory, one if there is nothing near.
/// Building takes linear time, and 32 bytes a key.
#[derive(Clone)]
pub struct YesNoFilter {
    shape: Shape,
    /// The index: where each block begins, in words, and where the last one ends; then blocks.
    lines: Lines,
    tally: Tally,
    level: Level,
}

/// What is counted of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) yes: u64,
    pub(crate) no: u64,
    pub(crate) fingerprints: u64,
    /// The rate that was asked for.
    pub(crate) rate: f64,
    /// The user's own.
    pub(crate) label: u32,
}

impl Tally {
    /// Whether there can be a filter with such counts.
    pub(crate) fn is_possible(&self) -> bool {
        let most = 1 << 62;
        self.yes <= most
            && self.no <= most
            && self.fingerprints <= self.yes
            && (0.0..1.0).contains(&self.rate)
    }
}

/// Filters are equal if they are the same, bit for bit.
impl PartialEq for YesNoFilter {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape
            && self.tally == other.tally
            && self.lines.bytes() == other.lines.bytes()
    }
}

impl YesNoFilter {
    /// The smallest filter that says yes to one list and no to the other, and to any other key yes
    /// with a chance of at most `rate`. Lists may be in any order; what is on a list twice is on
    /// it once.
    ///
    /// To say more of it, use a [builder](Self::builder).
    ///
    /// # Errors
    /// [`BuildError::OnBothLists`] names a hash that is on both. Else if the rate is impossible,
    /// or there is no memory.
    pub fn build(yes: &[Hash], no: &[Hash], rate: f64) -> Result<Self, BuildError> {
        Self::builder().false_positive_rate(rate).build(yes, no)
    }

    /// Builds one, and lets one say more of it.
    pub fn builder() -> YesNoFilterBuilder {
        YesNoFilterBuilder::default()
    }

    /// How many different keys the yes list had.
    pub fn yes_keys(&self) -> u64 {
        self.tally.yes
    }

    /// How many keys the no list had, the same ones counted again.
    pub fn no_keys(&self) -> u64 {
        self.tally.no
    }

    /// The chance that a key that is on neither list is answered yes: what share of all
    /// fingerprints there are.
    pub fn false_positive_rate(&self) -> f64 {
        let possible = self.shape.quotients() as f64 * f64::from(self.remainder_bits()).exp2();
        self.tally.fingerprints as f64 / possible
    }

    /// The rate that was asked for.
    pub fn planned_rate(&self) -> f64 {
        self.tally.rate
    }

    /// The number that it was [labelled](YesNoFilterBuilder::label) with, or 0.
    pub fn label(&self) -> u32 {
        self.tally.label
    }

    /// Bits of a remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.shape.remainder_bits
    }

    /// Quotients that share a seed.
    pub fn group_size(&self) -> u32 {
        1 << self.shape.group_bits
    }

    /// Bytes of memory.
    pub fn memory_usage(&self) -> u64 {
        (size_of::<Self>() + (self.lines.len() + 1) * LINE) as u64
    }

    /// Where a block is: its first byte, and how many it has.
    fn place(&self, block: usize) -> (usize, usize) {
        let bytes = self.lines.bytes();
        let word = |number: usize| {
            let entry = bytes.get(4 * number..).and_then(|rest| rest.first_chunk());
            entry.map_or(0, |&entry| u32::from_le_bytes(entry) as usize)
        };
        let (start, end) = (word(block), word(block + 1));
        (index_bytes(self.shape.blocks) + 8 * start, 8 * end.saturating_sub(start))
    }

    fn block(&self, first: usize) -> Block<'_> {
        Block { shape: &self.shape, bytes: self.lines.bytes().get(first..).unwrap_or_default() }
    }

    pub(crate) fn parts(&self) -> (Shape, Tally, &Lines) {
        (self.shape, self.tally, &self.lines)
    }

    /// The filter of these parts. It may be asked, whatever the lines hold; its answers are right
    /// only if it is [valid](Self::validate).
    pub(crate) fn from_parts(shape: Shape, tally: Tally, lines: Lines) -> Self {
        Self { shape, tally, lines, level: Level::detect() }
    }
}

/// Bytes of the index of so many blocks.
fn index_bytes(blocks: u64) -> usize {
    (4 * (blocks as usize + 1)).next_multiple_of(8)
}

impl<K: Key + ?Sized> Keyed<K, YesNoFilter> {
    /// As [`YesNoFilter::build`], of keys, hashed with a fresh secret.
    ///
    /// # Errors
    /// As there, or if the system gives no secret.
    pub fn build<Q: Borrow<K>>(yes: &[Q], no: &[Q], rate: f64) -> Result<Self, BuildError> {
        YesNoFilter::builder().false_positive_rate(rate).build_keyed(yes, no)
    }

    /// Answers many lookups; see [`YesNoFilter::contains_many`].
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], answers: &mut Vec<bool>) {
        self.filter().contains_each(keys, |key| self.hash(key.borrow()), answers);
    }
}

impl Filter for YesNoFilter {
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn len(&self) -> usize {
        self.tally.yes as usize
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        HashScheme::Aes128SipHash13
    }
}

impl fmt::Debug for YesNoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YesNoFilter")
            .field("shape", &self.shape)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}
