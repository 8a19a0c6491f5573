//! Adaptive filters of fixed size: the telescoping filter and the extension filter.
//!
//! Both are quotient tables with one slot per entry. Each block has an arithmetic code (`coder.rs`)
//! with one *symbol* per entry, which records how the entry was repaired (`scheme.rs`).
//!
//! # Layout
//! The code of a block covers all entries whose home is in the block, in the order of their runs,
//! wherever the entries are stored (`table/mod.rs`), so an insert changes at most one code, that of
//! the new entry's home block, by inserting the symbol 0. To rewrite a code, the filter needs only
//! the members whose hashes lie in the interval of the block's quotients.
//!
//! # Invariants
//! 1. Each member has one entry in the run of its quotient for each time it was inserted. Each of
//!    these entries covers the member: its slot and symbol equal those that the member's hash gives
//!    at the entry's level.
//! 2. A code is the encoding of its symbols, and has no symbols for entries that don't exist.
//!
//! The entries of a run are not sorted, and the filter does not store which member an entry belongs
//! to. To rewrite an entry, it matches the members of the run with the entries (`matching.rs`), so
//! that each member gets an entry that covers it. Any such matching is correct.
//!
//! # When a code is full
//! When a code is full, a repair resets other entries of the block to level 0 until there is room.
//! A telescoping filter needs the members of all entries that it resets. If it expects to reset
//! entries, its claim names the interval of the whole block. If it did not expect to, it refuses
//! the repair, and the block's next claim names the whole interval. An insert also needs a little
//! room; it asks for the members before it changes anything.
//!
//! Which repairs should the filter forget? Suppose that every query of a set recurs, with c queries
//! per slot. At each level, some query collides with probability p = 1 - e^(-cε), so an entry
//! reaches level k with probability p^k. That takes H(p)/(1 - p) bits per entry, where H is the
//! entropy of one decision: 0.76 bits for 50 queries per member at ε = 1/256 and a load of 0.9. A
//! code has more room than that. But blocks differ, and about one in ten needs more bits than its
//! code has. In such a block, a few queries are always mistakes: one at a time for each repair that
//! doesn't fit.
//!
//! - If the filter forgets a *random* repair, its query recurs and displaces another repair, until
//!   all queries of the block have been mistakes.
//! - If it *always* forgets the highest repair, that repair alternates with the one that displaces
//!   it, and all others stay repaired. That is optimal while all queries recur. But when other
//!   queries stop, their repairs stay, and the two alternate forever.
//!
//! So the filter forgets the highest repair three times out of four, which also frees the most
//! room, and otherwise a random one. An attacker who keeps only the queries that were mistakes ends
//! up with none (`twiceshy-lab run whittling-fixed-space`). `run query-ratio` shows the effect on
//! query streams. A filter that is built from a list of mistakes gives up the repairs that bring
//! back the fewest of them (`build.rs`).

#![expect(private_bounds, reason = "schemes can be implemented only in this crate")]

mod adapt;
mod build;
mod change;
mod coder;
mod iter;
mod lookup;
mod matching;
mod parameters;
mod scheme;

#[cfg(test)]
mod tests;

pub(crate) use change::CodesBefore;
pub use iter::Entry;
pub(crate) use parameters::CodedTally;
#[doc(hidden)]
pub use parameters::Options;
pub use parameters::Parameters;
pub(crate) use scheme::Scheme;
pub use scheme::{CodedScheme, Extensions, Plain, Selectors};

use crate::bits::machine::{Kept, Target};
use crate::builder::Builder;
use crate::claim::{Cells, Versions};
use crate::error::Invalid;
use crate::table::{Editor, Place, QuotientTable, Usage};
use crate::traits::filter_traits;
use crate::{Hash, Stats};
use change::{Insert, InsertAt};
use core::fmt;
use iter::LocatedEntry;
use lookup::{Contains, LookClosely};
use scheme::{Coding, Symbol};

/// A filter that repairs a mistake by giving the member that caused it a different remainder: the
/// next bits of its hash. For each member, the filter stores only the number of such repairs, which
/// takes less than one bit on average.
///
/// # Guarantees
/// - No false negatives, whatever repairs are forgotten: an entry that is reset gets the first
///   remainder of its member again. If this needs members that aren't listed, the operation is
///   refused and changes nothing.
/// - The answer for a mistake is "absent" right after its repair.
/// - A query is a false positive with probability at most ε, whatever the earlier queries were, as
///   long as the codes have room. They have room for about n/(b√ε) different queries, each repeated
///   any number of times. Here b depends on the bits of code per member, which are
///   1/e + b/(b - 1)² (the telescoping filter's paper of 2021, theorem 4). With 56 bits per
///   64 slots and ε = 1/256, there is room for four queries per member.
/// - With more queries, repairs are forgotten and [counted](Details::forgotten). The filter may
///   then make a mistake again, and repair it again. A repair may also bring back a different
///   mistake with the same quotient, if the member's new digit equals that of the mistake.
///
/// # Where members are needed
/// These operations need a list of members:
/// - a repair ([`adapt`](CodedFilter::adapt)),
/// - an insert into a block whose code is full ([`insert_listed`](CodedFilter::insert_listed)),
/// - a removal where several entries may belong to the key ([`remove`](CodedFilter::remove)),
/// - growing and merging: build a new filter ([`from_sorted`](CodedFilter::from_sorted)).
///
/// ```
/// use std::collections::BTreeSet;
/// use twiceshy::{Hash, Secret, TelescopingFilter, error::InsertError, hash::KeyedHasher};
///
/// let hasher = KeyedHasher::new(&Secret::generate()?);
/// let mut filter = TelescopingFilter::builder().remainder_bits(7).slots(200).code_bits(8).build()?;
/// let mut members: BTreeSet<Hash> = BTreeSet::new();
/// for key in 0..150u64 {
///     let hash = hasher.hash(&key);
///     if let Err(InsertError::NeedsMembers(claim)) = filter.insert(hash) {
///         let listed: Vec<Hash> = members.range(claim.suspects()).copied().collect();
///         filter.insert_listed(&claim, listed)?;
///     }
///     members.insert(hash);
///     for query in 0..40 {
///         let query = hasher.hash(&(1000 + 40 * key + query));
///         let is_member = || Ok::<_, InsertError>(members.contains(&query));
///         let list = |hashes| Ok(members.range(hashes).copied().collect::<Vec<_>>());
///         // A mistake stays if the code has no room for its repair at all.
///         filter.check_or_repair(query, is_member, list)?;
///     }
/// }
/// assert!(members.iter().all(|&member| filter.contains(member)));
/// assert!(filter.stats().repairs > 0 && filter.details().forgotten > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type TelescopingFilter = CodedFilter<Selectors>;

/// A filter that repairs a mistake by storing more bits of the hash of the member that caused it,
/// like the broom filter, but in a code of fixed size.
///
/// Compared with a [`TelescopingFilter`], each repair also makes other mistakes less likely, but
/// takes more space, so this filter forgets repairs sooner. After repairs, its lookups of
/// absent keys are faster.
///
/// # Guarantees
/// The same as for a [`TelescopingFilter`], but for fewer queries: Θ(n) different queries with Θ(n)
/// bits of code; no paper gives the constants. A repair lasts until it is forgotten or a member
/// with the same quotient is inserted. An extension has at most 30 bits and must fit in a code by
/// itself; otherwise the mistake is not repaired, and the call returns an error.
///
/// Inserts and removals never need members: the shorter of two extensions covers everything that
/// the longer one covers, and an entry without an extension is the same as when it was inserted.
pub type ExtensionFilter = CodedFilter<Extensions>;

/// A quotient filter that doesn't adapt, for members that can't be listed.
///
/// To repair a mistake, an adaptive filter needs a list of the members near it. If nobody can list
/// them, or if queries are not repeated, use this filter. It has no room for repairs, so it is
/// smaller than a [`TelescopingFilter`] with the same rate. Its mistakes stay: an attacker who finds a
/// few can repeat them as often as they like.
///
/// It has no `check`, no `adapt` and no `remove`. Use
/// [`remove_trusting`](CodedFilter::remove_trusting) to remove members. It relies on the caller: if
/// the key is not a member, a member that shares its fingerprint may be lost.
///
/// ```
/// use twiceshy::PlainQuotientFilter;
/// use twiceshy::{Keyed, Secret};
/// let filter = PlainQuotientFilter::builder().false_positive_rate(0.01).capacity(1000).build()?;
/// let mut seen = Keyed::<str, _>::new(filter, Secret::generate()?);
/// seen.insert_many(&["alice", "bob"])?;
/// assert!(seen.contains("alice"));
/// seen.remove_trusting("alice")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0599
/// use twiceshy::{Hash, PlainQuotientFilter};
/// let filter = PlainQuotientFilter::builder().capacity(1000).build().unwrap();
/// filter.check(Hash::MAX);
/// ```
pub type PlainQuotientFilter = CodedFilter<Plain>;

/// A quotient filter that stores its repairs in codes of fixed size: a [`TelescopingFilter`] or an
/// [`ExtensionFilter`]. A [`PlainQuotientFilter`] is the variant without repairs.
#[derive(Clone)]
pub struct CodedFilter<S: Scheme> {
    pub(crate) shared: Shared<S>,
    // The rest is the writer's state. Lookups don't see it; claims read `versions` and `crowded`.
    usage: Usage,
    /// Versions for claims. Blocks that share one of at most 1024 stripes share a version.
    pub(crate) versions: Versions,
    /// One bit per block, which is set if the block's code had no room for the last repair. In that
    /// case, the next claim names all members of the block, so that the filter can forget other
    /// repairs. Empty if forgetting a repair needs no members.
    crowded: Box<[u64]>,
    pub(crate) tally: CodedTally,
    inserts: Inserts<S>,
}

/// The stored entries: a header, which never changes, and a table. This is all that lookups read,
/// so they can't depend on the writer's state.
#[derive(Clone)]
pub(crate) struct Shared<S: Scheme> {
    pub(crate) table: QuotientTable,
    pub(crate) coding: Coding<S>,
    lookups: Lookups<S>,
}

/// Addresses of the lookups.
#[derive(Clone, Copy)]
pub(crate) struct Lookups<S: Scheme> {
    contains: Kept<Contains<'static, S, false>>,
    contains_coded: Kept<Contains<'static, S, true>>,
    contains_many: for<'a> fn(&'a Shared<S>, &'a [Hash], &'a mut [bool]),
    look_closely: Kept<LookClosely<'static, S>>,
}

/// Addresses of the inserts.
#[derive(Clone, Copy)]
pub(crate) struct Inserts<S: Scheme> {
    insert: Kept<Insert<'static, S>>,
    insert_at: Kept<InsertAt<'static, S>>,
}

/// Looks up the addresses of operations. Call this only for a concrete scheme
/// ([`Scheme::routines`]), so that the operations are compiled in this crate, and not again in each
/// crate that uses a filter.
fn routines<S: Scheme>(target: Target) -> (Lookups<S>, Inserts<S>) {
    let lookups = Lookups {
        contains: target.keep(),
        contains_coded: target.keep(),
        contains_many: lookup::contains_many,
        look_closely: target.keep(),
    };
    (lookups, Inserts { insert: target.keep(), insert_at: target.keep() })
}

/// Statistics about a filter's codes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Details {
    /// Number of repaired entries that were reset because a code was full.
    pub forgotten: u64,
    /// Number of mistakes that were listed when the filter was built, but were not repaired,
    /// because a code had no room or the mistake can't be distinguished from a member.
    pub unrepaired: u64,
    /// Number of entries at each level, level 0 first. The last number includes all higher levels.
    pub levels: [u64; 16],
    /// Bits of code per slot.
    pub code_bits_per_slot: f64,
}

impl<S: Scheme> CodedFilter<S> {
    /// Returns a builder that sets the filter's false-positive rate and size.
    pub fn builder() -> Builder<Self> {
        Builder::default()
    }

    /// Returns the number of members, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.usage.used as usize
    }

    filter_traits!(@is_empty);

    /// Returns the number of slots.
    pub fn slots(&self) -> u64 {
        self.shared.table.slots()
    }

    /// Returns the filter's number of members, memory use, load and expected false-positive rate.
    pub fn stats(&self) -> Stats {
        let load = self.load();
        Stats {
            members: self.len(),
            memory: Self::memory_for(self.parameters()).unwrap_or(u64::MAX),
            load,
            repairs: self.tally.adaptations,
            expected_rate: load / f64::from(self.shared.coding.digits.remainder).exp2(),
        }
    }

    /// Returns statistics about the codes. Takes time in proportion to the filter's size.
    pub fn details(&self) -> Details {
        let mut levels = [0; 16];
        for entry in self.iter() {
            levels[entry.level.min(15) as usize] += 1;
        }
        Details {
            forgotten: self.tally.forgotten,
            unrepaired: self.tally.unrepaired,
            levels,
            code_bits_per_slot: f64::from(self.shared.table.code_bits())
                / f64::from(self.shared.table.lanes()),
        }
    }

    /// Checks every invariant of the filter.
    ///
    /// # Errors
    /// Returns an error that names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let table = &self.shared.table;
        table.validate(self.usage.used, table.width(), |_| Ok(()))?;
        for block in 0..table.blocks() as u64 {
            let home = self.home(block * u64::from(table.lanes()));
            let code = table.code::<0>(home);
            if code == 0 {
                continue;
            }
            // Read no more symbols than there are entries, because an invalid code may have more.
            let entries = iter::entries(self, self.cells_of_block(home));
            let symbols: Vec<Symbol> = entries.iter().map(|entry| entry.spelt.symbol).collect();
            if self.encode(&symbols) != Some(code) {
                let count = entries.len();
                let error = format!("the code of block {block} doesn't match its {count} entries");
                return Err(Invalid(error));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn editor(&mut self) -> Editor<'_> {
        self.shared.table.editor(&mut self.usage)
    }

    fn load(&self) -> f64 {
        self.usage.used as f64 / self.shared.table.slots() as f64
    }

    fn home(&self, quotient: u64) -> Place {
        self.shared.table.home::<0>(quotient)
    }

    fn home_of(&self, hash: Hash) -> Place {
        self.home(self.shared.coding.digits.scale(hash).quotient)
    }

    /// Returns all quotients of a block.
    fn cells_of_block(&self, home: Place) -> Cells {
        let homes = self.shared.table.homes(home);
        Cells { first: homes.start, last: homes.end - 1, slots: self.shared.table.slots() }
    }

    fn cell(&self, quotient: u64) -> Cells {
        Cells::one(quotient, self.shared.table.slots())
    }

    /// Returns the symbols of a block's entries, up to the last one that isn't 0.
    fn symbols(&self, home: Place) -> Vec<Symbol> {
        let table = &self.shared.table;
        // Blocks seldom have more entries than lanes, and an insert adds one.
        let mut symbols = Vec::with_capacity(table.lanes() as usize + 1);
        symbols.extend(self.shared.coding.decode(table.code::<0>(home), table.code_bits()));
        symbols
    }

    /// Encodes symbols. Returns `None` if there is no room for them.
    fn encode(&self, symbols: &[Symbol]) -> Option<u128> {
        self.shared.coding.encode(symbols, self.shared.table.code_bits())
    }
}

impl<S: CodedScheme> CodedFilter<S> {
    filter_traits!(@check_or_repair);
}

impl<S: Scheme> fmt::Debug for CodedFilter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodedFilter")
            .field("slots", &self.slots())
            .field("len", &self.len())
            .field("stats", &self.stats())
            .field("details", &self.details())
            .finish_non_exhaustive()
    }
}

filter_traits!([S: Scheme] CodedFilter<S>, CodedFilter<S>: Filter Dynamic);
filter_traits!([S: CodedScheme] CodedFilter<S>, CodedFilter<S>: Adaptive);
