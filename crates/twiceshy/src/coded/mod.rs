//! Adaptive filters of fixed space: the telescoping and the extension filter.
//!
//! Both are quotient tables whose entries are one slot each, and whose blocks have an
//! arithmetic [code](coder) that says for each entry what has been done about it, its *symbol*
//! ([`scheme`]). What a mistake costs is bits of a code, less than one for each member on the
//! average, and when a code is full, older repairs are forgotten.
//!
//! # Layout
//! The code of a block speaks of all entries whose home is in the block, in the order of their
//! runs, wherever these are ([`crate::table`]). So an insert changes at most one code, the one
//! of the newcomer's home: its symbol, 0, comes between others. And if a code has to be written
//! anew from members, these are the ones whose hashes lie in the interval of the block's
//! quotients, which depends on nothing else.
//!
//! # Invariants
//! 1. Each member has an entry in the run of its quotient, one for each time it was inserted,
//!    that covers it: that is what its hash is spelt like at the entry's level.
//! 2. Codes are what their symbols are encoded as; none speaks of an entry that isn't there.
//! 3. `len` is the number of entries.
//!
//! Entries of a run are in no order. Which is whose isn't stored: where one is to be rewritten,
//! the members of its run are [matched](matching) with its entries so that each has one that
//! covers it. There may be several ways, and any will do: in the end each member has an entry of
//! its own.
//!
//! # When a code is full
//! A repair then puts other entries of the block back to level 0 until there is room. A
//! telescoping filter needs the members of all entries that it puts back, so its claims name the
//! whole block's interval if it foresees that. If it foresaw too little, the repair is refused, and
//! the block's next claim names all of it. An insert, which needs a little room, too, asks
//! for them before it changes anything. What is forgotten is counted.
//!
//! Which are cheapest to lose? Say that every query of a set comes again and again, c of them for
//! each slot. At each level some query collides with a chance of p = 1 - e^(-cε), so an entry goes
//! on to level k with the chance p^k, and that takes H(p)/(1 - p) bits an entry, H being the
//! entropy of one decision. For 50 queries a member at ε = 1/256 and a load of 0.9 these are 0.76
//! bits, 0.68 a slot: less than there are. But blocks differ, and about one in ten needs more than
//! its code has. There a few queries will be mistakes whatever is done, one at a time for each
//! entry too many.
//!
//! - If *any* repair is forgotten, its query comes back and pushes out another, until all of the
//!   block's have been mistakes, though one or two entries are too many.
//! - If it is *always the same* one, the highest say, this and the one that pushes it out take
//!   turns, and all others stay repaired: the least that can be. But when other queries aren't
//!   asked any more, their repairs stay, and the two take turns for ever.
//!
//! So it is the highest three times of four, which makes most room, too, and else any: few come
//! back at a time, and what nobody asks for goes in the end. Of 2.9 millions of queries, 50 a
//! member, an adversary who drops what wasn't a mistake is left with nothing (`twiceshy-lab run
//! whittling-fixed-space`), which neither of the two alone achieves; `run query-ratio` shows streams.
//!
//! Who builds a filter from a list of mistakes knows which are still needed. So there, what is
//! given up is what brings back the fewest of them, entry by entry ([`build`]).

#![expect(private_bounds, reason = "nobody else can write a scheme")]

mod adapt;
mod build;
mod builder;
mod coder;
mod crowded;
mod insert;
mod iter;
mod lookup;
mod matching;
mod parameters;
mod plain;
mod remove;
mod routines;
mod scheme;
mod validate;

#[cfg(test)]
mod tests;

pub use builder::CodedBuilder;
pub use iter::CodedEntry;
pub use parameters::CodedParameters;
pub(crate) use parameters::{CodedTally, PLANNED_LOAD};
pub use plain::Plain;
pub(crate) use scheme::Scheme;
pub use scheme::{CodedScheme, Extensions, Selectors};

use crate::claim::Versions;
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::table::{Place, QuotientTable};
use crate::{
    Adaptation, AdaptiveFilter, Answer, Claim, Dynamic, Filter, Hash, HashScheme, Member, Removable,
};
use core::fmt;
use crowded::Crowded;
use routines::Routines;
use scheme::{Spelt, Symbol};

/// A filter that repairs a mistake by giving the member behind it another remainder: the next
/// bits of its hash. How often it did so for each member is all that it has to keep, in less than
/// one bit a member.
///
/// # Guarantees
/// - No member is ever missed, whatever is forgotten: an entry that is put back gets the remainder
///   of its member again. Where the members that this takes aren't listed, an operation is refused,
///   and changes nothing.
/// - A mistake that is repaired is "absent" right afterwards.
/// - A query is a false positive with a chance of at most ε whatever was asked before, as long as
///   the codes have room: that is for some n/(b√ε) different queries, asked as often as you like,
///   where 1/e + b/(b - 1)² is how many bits of code a member has (the telescoping filter's paper of
///   2021, theorem 4). With 56 bits for 64 slots and ε = 1/256 that is four for each member.
/// - Beyond that, repairs are forgotten, which is [counted](CodedStatistics::forgotten): a mistake
///   may be made again, and be repaired again. A repair may also bring back another mistake of the
///   same quotient, because the digit that a member gets now may be that one's.
///
/// # Where members are needed
/// Besides [`adapt`](CodedFilter::adapt), an insert into a block whose code is full
/// ([`insert_listed`](CodedFilter::insert_listed)), a removal where several entries may be the
/// key's ([`remove_listed`](CodedFilter::remove_listed)), growing
/// ([`resized`](CodedFilter::resized)) and [`merged`](CodedFilter::merged).
///
/// ```
/// use twiceshy::{Answer, Hash, TelescopingFilter};
///
/// let mut filter = TelescopingFilter::builder().remainder_bits(8).slots(1000).build()?;
/// let [member, stranger] = [7u128 << 100, (7 << 100) + (1 << 90)].map(Hash::from_u128);
/// filter.insert(member)?;
/// if let Answer::Maybe(claim) = filter.check(stranger) {
///     filter.adapt(&claim, &[member])?;
/// }
/// assert!(filter.contains(member) && !filter.contains(stranger));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An insert may ask for members, most often where there is little room for repairs:
///
/// ```
/// use std::collections::BTreeSet;
/// use twiceshy::{Answer, Hash, InsertError, TelescopingFilter};
///
/// let golden = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// let random = |number: u128| {
///     let mixed = number.wrapping_mul(golden);
///     Hash::from_u128((mixed ^ mixed >> 67).wrapping_mul(golden))
/// };
/// let mut filter = TelescopingFilter::builder().remainder_bits(7).slots(200).code_bits(8).build()?;
/// let mut members = BTreeSet::new();
/// for number in 0..150 {
///     for query in 0..40 {
///         let Answer::Maybe(claim) = filter.check(random(40 * number + query + 1000)) else { continue };
///         let listed: Vec<Hash> = members.range(claim.suspects()).copied().collect();
///         // Where there is no room at all, the mistake is not repaired.
///         let _ = filter.adapt(&claim, &listed);
///     }
///     if let Err(InsertError::Crowded) = filter.insert(random(number)) {
///         let claim = filter.claim_to_insert(random(number));
///         let listed: Vec<Hash> = members.range(claim.suspects()).copied().collect();
///         filter.insert_listed(&claim, &listed)?;
///     }
///     members.insert(random(number));
/// }
/// assert!(members.iter().all(|&member| filter.contains(member)));
/// assert!(filter.statistics().forgotten > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type TelescopingFilter = CodedFilter<Selectors>;

/// A filter that repairs a mistake by keeping more bits of the hash of the member behind it, as
/// the broom filter does, in a code of fixed size.
///
/// Each repair also makes other mistakes less likely, but takes more room than those of a
/// [`TelescopingFilter`], so that this forgets sooner; lookups and inserts are faster.
///
/// # Guarantees
/// Those of a [`TelescopingFilter`], for fewer queries: Θ(n) different ones for Θ(n) bits of code
/// in all, too, but no paper says how many just so. What is repaired stays so until it is forgotten
/// or a member of its quotient comes. An extension has 30 bits at most, and must fit a code beside
/// nothing else; else the mistake isn't repaired, and that is reported.
///
/// To insert, and to remove, it never needs members: the shorter of two extensions covers whatever
/// the longer one does, and without any, an entry is what it was at first.
pub type ExtensionFilter = CodedFilter<Extensions>;

/// A quotient filter that can't adapt: what the others' repairs cost is measured against it.
#[doc(hidden)]
pub type PlainFilter = CodedFilter<Plain>;

/// A quotient filter whose repairs are in a code of fixed size: a [`TelescopingFilter`] or an
/// [`ExtensionFilter`].
#[derive(Clone)]
pub struct CodedFilter<S: Scheme> {
    table: QuotientTable,
    scheme: S,
    routines: Routines<S>,
    /// By block.
    versions: Versions,
    /// Empty, if repairs are forgotten without members.
    crowded: Crowded,
    len: u64,
    adaptations: u64,
    forgotten: u64,
    unrepaired: u64,
}

/// What a filter with codes has done so far, and how full it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CodedStatistics {
    /// Slots in use, as a share of all.
    pub load: f64,
    /// Mistakes that were repaired.
    pub adaptations: u64,
    /// Repaired entries that were put back because a code was full.
    pub forgotten: u64,
    /// Mistakes that it was built with and that are "maybe" all the same, because a code had no
    /// room; so many there were at the time.
    pub unrepaired: u64,
    /// Entries that are repaired now, by how high their level is; those of level 0 first.
    pub levels: [u64; 16],
    /// Bits of code for each slot.
    pub code_bits_per_slot: f64,
}

impl<S: Scheme> CodedFilter<S> {
    /// To build one: say how good and how large it should be.
    pub fn builder() -> CodedBuilder<S> {
        CodedBuilder::default()
    }

    /// How many members there are, each as often as it was inserted.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory.
    pub fn memory_usage(&self) -> u64 {
        let apart = self.table.bytes() + self.versions.bytes() + self.crowded.bytes();
        size_of::<Self>() as u64 + apart
    }

    /// Slots of the table.
    pub fn slots(&self) -> u64 {
        self.table.slots()
    }

    /// What it has done so far, and how full it is.
    pub fn statistics(&self) -> CodedStatistics {
        let mut levels = [0; 16];
        for block in 0..self.table.slots().div_ceil(self.table.lanes().into()) {
            for symbol in self.symbols(self.home(block * u64::from(self.table.lanes()))) {
                levels[S::level(symbol).min(15) as usize] += u64::from(symbol != 0);
            }
        }
        levels[0] = self.len - levels.iter().sum::<u64>();
        CodedStatistics {
            load: self.load(),
            adaptations: self.adaptations,
            forgotten: self.forgotten,
            unrepaired: self.unrepaired,
            levels,
            code_bits_per_slot: f64::from(self.table.code_bits()) / f64::from(self.table.lanes()),
        }
    }

    fn load(&self) -> f64 {
        self.table.used() as f64 / self.table.slots() as f64
    }

    fn home(&self, quotient: u64) -> Place {
        self.table.home::<0>(quotient)
    }

    /// The symbols of a block's entries, up to the last that isn't 0.
    fn symbols(&self, home: Place) -> Vec<Symbol> {
        self.scheme.decode(self.table.code::<0>(home), self.table.code_bits())
    }

    /// The code of symbols, if it has room for them.
    fn encode(&self, symbols: &[Symbol]) -> Option<u128> {
        self.scheme.encode(symbols, self.table.code_bits())
    }
}

/// An entry, and where it is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    quotient: u64,
    position: u64,
    /// Its number among those of its home's block.
    ordinal: usize,
    spelt: Spelt,
}

impl<S: Scheme> fmt::Debug for CodedFilter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodedFilter")
            .field("slots", &self.slots())
            .field("len", &self.len)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl<S: Scheme> Filter for CodedFilter<S> {
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        HashScheme::Aes128SipHash13
    }
}

impl<S: Scheme> Dynamic for CodedFilter<S> {
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.insert(hash)
    }
}

impl<S: Scheme> AdaptiveFilter for CodedFilter<S> {
    fn check(&self, hash: Hash) -> Answer {
        self.check(hash)
    }

    fn adapt(&mut self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        self.adapt(claim, members)
    }

    fn adapt_dropping_ghosts(
        &mut self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_dropping_ghosts(claim, members)
    }
}

impl<S: Scheme> Removable for CodedFilter<S> {
    fn remove(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove(hash)
    }

    /// Mistakes don't matter: the repairs of other entries stay as they are.
    fn remove_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        _mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError> {
        self.remove_listed(claim, members)
    }
}
