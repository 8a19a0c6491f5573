//! The static filter of a yes list and a no list.
//!
//! # How it works
//! The integer part of a hash times the number of quotients is the key's quotient. Keys are sorted
//! into *blocks* by quotient. The *remainder* of a key is a function of its whole hash and a
//! *seed*. A fingerprint is a quotient and a remainder; blocks store the fingerprints of all
//! yes-list keys ([`block`]).
//!
//! A few neighbouring quotients form a *group* and share a seed: the smallest one for which no
//! yes-list key of the group has the same remainder as a no-list key of the same quotient. So the
//! no list costs only the seeds. If a yes-list key collides with c no-list keys on average, a seed
//! works for k yes-list keys with probability e^-kc, and storing the first that works takes about
//! kc log₂ e bits. That is the lower bound (theorem 7 of the adaptive quotient filter paper). An
//! adaptive filter, which lengthens fingerprints instead, takes several times as much, but doesn't
//! need to know all no-list keys in advance.
//!
//! In a larger group, rounding a seed to whole bits wastes less, but more seeds have to be tried.
//! [`shape`] computes the smallest filter that needs few tries.
//!
//! # Invariants
//! 1. A block contains the fingerprint of each of its yes-list keys. It contains no fingerprint of a
//!    no-list key.
//! 2. The remainders of a quotient are sorted and different.
//! 3. There is only one way to write a block, so filters with the same lists, shape and secret are
//!    identical, bit for bit.
//!
//! All except the first can be checked without the lists.

mod block;
mod build;
mod delta;
mod lookup;
mod shape;

#[cfg(test)]
mod tests;

pub(super) use build::first_common;
pub use delta::{Delta, DeltaError};
pub(crate) use shape::Shape;

use crate::Stats;
use crate::bits::machine::Target;
use crate::bits::memory::{LINE, Lines};
use crate::builder::Builder;
use crate::error::Invalid;
use crate::traits::filter_traits;
use block::{Block, Group};
use core::fmt;

/// A static filter that is always right about the keys of two lists.
///
/// It answers yes for each key of the *yes list*, no for each key of the *no list*, and yes for any
/// other key with at most a given probability. [Deltas](Self::delta_to) update it without the
/// lists. A [`YesNoList`](crate::YesNoList) can change at any time, but is larger.
///
/// ```
/// use twiceshy::YesNoFilter;
///
/// # fn main() -> Result<(), twiceshy::list::ListError> {
/// let blocked = ["evil.example", "worse.example"];
/// let popular = ["good.example", "better.example"];
/// let filter = YesNoFilter::builder().build_keyed::<str, _>(&blocked, &popular)?;
/// assert!(filter.contains("evil.example") && filter.contains("worse.example"));
/// assert!(!filter.contains("good.example") && !filter.contains("better.example"));
/// # Ok(())
/// # }
/// ```
///
/// # Size
/// At a rate of ε, with |Y| yes-list keys and |N| no-list keys, it takes about
/// log₂ 1/ε + 2.2 + 1.44 ε |N|/|Y| bits per yes-list key. If |N|/|Y| is larger than about 1/ε, it
/// takes about log₂ |N|/|Y| + 4.6 bits instead. The lower bounds for any filter are 2.2 and 3.2 bits
/// less. Rates above 0.1 take a few tenths of a bit more.
///
/// # Complexity
/// A lookup takes constant time and reads at most three cache lines; it reads one if no yes-list
/// key is near. Building takes linear time and 33 bytes per key.
#[derive(Clone)]
pub struct YesNoFilter {
    shape: Shape,
    /// The index (the start of each block and the end of the last one, in words), then the blocks.
    lines: Lines,
    tally: Tally,
    target: Target,
}

/// The counts and settings of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) yes: u64,
    pub(crate) no: u64,
    pub(crate) fingerprints: u64,
    /// The requested rate.
    pub(crate) rate: f64,
    /// A number that the user chose.
    pub(crate) label: u32,
}

impl Tally {
    /// Returns whether a filter can have these counts.
    pub(crate) fn is_possible(&self) -> bool {
        let most = 1 << 62;
        self.yes <= most
            && self.no <= most
            && self.fingerprints <= self.yes
            && (0.0..1.0).contains(&self.rate)
    }
}

/// Filters are equal if they are identical, bit for bit.
impl PartialEq for YesNoFilter {
    fn eq(&self, other: &Self) -> bool {
        (self.shape, self.tally) == (other.shape, other.tally) && self.table() == other.table()
    }
}

/// Statistics that only a [`YesNoFilter`] and its plan have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Details {
    /// Number of keys on the no list, including repeated keys.
    pub no_keys: u64,
    /// The requested false-positive rate. The expected rate is the share of all possible
    /// fingerprints that are stored, which is at most this.
    pub planned_rate: f64,
    /// Bits per remainder.
    pub remainder_bits: u32,
    /// Number of quotients that share a seed.
    pub group_size: u32,
}

impl YesNoFilter {
    /// Returns a builder. By default, it builds the smallest filter that keeps the requested rate.
    pub fn builder() -> Builder<Self> {
        Builder::default()
    }

    /// Returns the filter's [label](Builder::label), or 0 if none was set.
    pub fn label(&self) -> u32 {
        self.tally.label
    }

    /// Returns the number of different keys on the yes list.
    pub fn len(&self) -> usize {
        self.tally.yes as usize
    }

    filter_traits!(@is_empty);

    /// Returns the filter's number of members, memory use and expected false-positive rate. Members
    /// are the keys of the yes list. The filter is always full, and never needs repairs.
    pub fn stats(&self) -> Stats {
        Stats {
            members: self.len(),
            memory: bytes_of(self.lines.len()),
            load: 1.0,
            repairs: 0,
            expected_rate: self.tally.fingerprints as f64 / self.shape.fingerprints(),
        }
    }

    /// Returns statistics that only this filter has.
    pub fn details(&self) -> Details {
        self.shape.details(self.tally)
    }

    /// Returns the bytes of the index and the blocks.
    fn table(&self) -> &[u8] {
        &self.lines.bytes()[..self.lines.len() * LINE]
    }

    /// Returns the offset and the size of a block, in bytes.
    fn place(&self, block: usize) -> (usize, usize) {
        let bytes = self.lines.bytes();
        let word = |number: usize| {
            let entry = bytes.get(4 * number..).and_then(|rest| rest.first_chunk());
            entry.map_or(0, |&entry| u32::from_le_bytes(entry) as usize)
        };
        let (start, end) = (word(block), word(block + 1));
        (index_bytes(self.shape.blocks) + 8 * start, 8 * end.saturating_sub(start))
    }

    /// Checks every invariant that doesn't depend on the lists.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let (mut found, Tally { yes, fingerprints, .. }) = (0, self.tally);
        self.each_group(|group| found += group.fingerprints.len() as u64)?;
        if found != fingerprints {
            return Err(Invalid(format!("there are {found} fingerprints, not {fingerprints}")));
        }
        if found > yes || (found == 0) != (yes == 0) {
            return Err(Invalid(format!("{yes} yes-list keys can't have {found} fingerprints")));
        }
        Ok(())
    }

    /// Calls `each` with every group, in order, and checks the format.
    fn each_group(&self, mut each: impl FnMut(Group)) -> Result<(), Invalid> {
        let (bytes, index) = (self.table(), index_bytes(self.shape.blocks));
        if bytes.len() < index {
            return Err(Invalid("the table is too short for the index".into()));
        }
        let mut next = index;
        for block in 0..self.shape.blocks as usize {
            let (first, size) = self.place(block);
            if first != next || size > bytes.len().saturating_sub(first) {
                return Err(Invalid(format!("block {block} has a wrong position or size")));
            }
            self.block(first).groups(size)?.into_iter().for_each(&mut each);
            next = first + size;
        }
        let unused = &bytes[4 * (self.shape.blocks as usize + 1)..index];
        if next.div_ceil(LINE) * LINE != bytes.len()
            || unused.iter().chain(&bytes[next..]).any(|&byte| byte != 0)
        {
            return Err(Invalid("unused bytes after the index or the last block are not 0".into()));
        }
        Ok(())
    }

    fn block(&self, first: usize) -> Block<'_> {
        Block { shape: &self.shape, bytes: self.lines.bytes().get(first..).unwrap_or_default() }
    }

    pub(crate) fn parts(&self) -> (Shape, Tally, &Lines) {
        (self.shape, self.tally, &self.lines)
    }

    /// Returns the filter with these parts. Lookups are safe whatever the lines contain, but are
    /// correct only if the filter is [valid](Self::validate).
    pub(crate) fn from_parts(shape: Shape, tally: Tally, lines: Lines) -> Self {
        Self { shape, tally, lines, target: Target::detect() }
    }
}

impl Shape {
    /// Returns the statistics of a filter with this shape.
    fn details(&self, tally: Tally) -> Details {
        Details {
            no_keys: tally.no,
            planned_rate: tally.rate,
            remainder_bits: self.remainder_bits,
            group_size: 1 << self.group_bits,
        }
    }
}

/// Returns the bytes of memory that a filter with `lines` lines takes.
fn bytes_of(lines: usize) -> u64 {
    (size_of::<YesNoFilter>() + (lines + 1) * LINE) as u64
}

/// Returns the size in bytes of an index of `blocks` blocks.
fn index_bytes(blocks: u64) -> usize {
    (4 * (blocks as usize + 1)).next_multiple_of(8)
}

filter_traits!([] YesNoFilter, YesNoFilter: Filter);

impl fmt::Debug for YesNoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YesNoFilter")
            .field("shape", &self.shape)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}
