//! The adaptive quotient filter.

mod adapt;
mod batch;
mod builder;
mod bulk;
mod construct;
mod count;
mod entry;
mod grow;
mod insert;
mod insert_many;
mod listing;
mod lookup;
mod merge;
mod parts;
mod remove;
mod stream;
mod validate;

#[cfg(test)]
mod tests;

pub use builder::{Builder, Plan};
pub(crate) use builder::{GROWTH_LOADS, MOST_EXTENDED, PLANNED_LOAD, expected_rate};
pub use entry::Entry;
pub(crate) use parts::Tally;

use crate::bits::machine::Compiled;
use crate::claim::Versions;
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::fingerprint::Digits;
use crate::hash::HashScheme;
use crate::table::{QuotientTable, with_width};
use crate::{Adaptation, AdaptiveFilter, Answer, Claim, Dynamic, Filter, Hash, Member, Removable};
use core::fmt;
use insert::{Insert, InsertAt};
use lookup::{Contains, LookClosely};

/// A filter that repairs its mistakes: the adaptive quotient filter.
///
/// The filter keeps a *fingerprint* of each member, a prefix of its scaled hash, and answers
/// "maybe" if one of them is a prefix of the query's. Told that this was a mistake, and
/// which members caused it, it lengthens their fingerprints until they differ from the
/// query.
///
/// The filter knows only hashes; [`Keyed`](crate::Keyed) binds it to a key type and a
/// secret. It does no I/O: the caller lists the members.
///
/// # Guarantees
/// - No false negatives. An operation that can't be done returns an error and changes
///   nothing.
/// - A random query is a false positive with probability `1 − exp(−len/slots · 2^-r)`,
///   r being the remainder's bits, whatever was asked before.
/// - A repaired mistake stays repaired until a member that collides with it is inserted, or
///   the filter is rebuilt without it. An insert collides with a given mistake with
///   probability below 2^-r. A rebuild in a different size, a [merge](Self::merged) that cuts
///   remainders, and a removal of the member that caused the mistake can forget repairs too.
///   To keep a repair across a rebuild, list the mistake.
///
/// # How it works
/// A hash, read as a fraction and multiplied by the number of slots, has a whole part,
/// the *quotient*, and a rest that is cut into digits of r bits: the *remainder*, and
/// then the *extension*. The remainder is stored in a slot near slot number
/// `quotient`, in a *run* with all others of that quotient, sorted. Members with the
/// same quotient and remainder are neighbours: a *minirun*. An extension digit takes
/// one more slot behind its remainder, marked by a bit.
///
/// In a minirun no fingerprint is a prefix of another:
/// - a repair gives every member behind the fingerprint that covers the mistake one digit
///   more than it shares with the mistake, so it gets a digit that tells it from the longer
///   ones;
/// - a new member that is covered by a fingerprint shares it, and is counted; another takes
///   as many digits as tell it from each neighbour. Where nothing was repaired that is the
///   remainder alone; where something was, it keeps the newcomer from undoing the repair,
///   but for the chance above.
///
/// Members that share a fingerprint are counted in slots behind it, marked by another bit:
/// the same slots hold a small value, if the filter is built for that.
///
/// # Complexity
/// A lookup touches one cache line most of the time (with 9-bit remainders at 90 % load,
/// 93 times in 100 for absent keys), and seldom more than two; an insert moves the slots up
/// to the next unused one, O(1/(1 − load)²) on average: fast to 95 %, and slow close
/// to 100 %.
///
/// # Papers
/// - Wen et al., *Adaptive Quotient Filters* (SIGMOD 2024): fingerprints lengthened in
///   whole slots, the extension bit, miniruns. Ours differs in the reverse map, which
///   here is any index in hash order instead of one by minirun rank, in the size,
///   which can be any, and in what an insert into a repaired minirun stores.
/// - Pandey et al., *A General-Purpose Counting Filter* (SIGMOD 2017): the table of
///   runs, located by rank and select.
/// - Bender et al., *Bloom Filters, Adaptivity, and the Dictionary Problem* (FOCS
///   2018): what adaptivity means, and that it needs the members.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, Answer, Hash};
/// let mut filter = AdaptiveQuotientFilter::builder().remainder_bits(8).slots(1000).build()?;
/// let member = Hash::from_u128(0x1234_5678 << 96);
/// let query = Hash::from_u128(0x1234_5679 << 96);
/// filter.insert(member)?;
///
/// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 8 bits") };
/// assert!(claim.suspects().contains(&member));
/// filter.adapt(&claim, &[member])?;
///
/// assert!(!filter.contains(query));
/// assert!(filter.contains(member));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AdaptiveQuotientFilter {
    table: QuotientTable,
    digits: Digits,
    value_bits: u32,
    hash: HashScheme,
    versions: Versions,
    /// Members, each counted as often as it was inserted.
    len: u64,
    /// Slots in use that are not the first of their entry.
    extra_slots: u64,
    /// Entries without members; in a snapshot that is read in place they aren't known.
    tombstones: u64,
    /// The load at which the filter doubles by itself.
    growth: Option<f64>,
    adaptations: u64,
    contains: Compiled<Contains>,
    look_closely: Compiled<LookClosely>,
    insert: Compiled<Insert>,
    insert_at: Compiled<InsertAt>,
}

/// What a filter is made of; two filters can be compared or merged only if these are
/// compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Home slots of the table, any number.
    pub slots: u64,
    /// Bits of a remainder: at load 1, a query is a false positive about once in 2^bits.
    pub remainder_bits: u32,
    /// Bits of a slot, and of each digit of an extension or a counter: as many as of a
    /// remainder, or more, if the filter was [doubled](AdaptiveQuotientFilter::doubled).
    pub slot_bits: u32,
    /// Bits of the value that each fingerprint can have.
    pub value_bits: u32,
    /// The function that makes the hashes.
    pub hash: HashScheme,
}

/// What a filter holds, and what adapting has cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Members, counted as often as they were inserted.
    pub members: usize,
    /// Mistakes repaired since the filter was built.
    pub adaptations: u64,
    /// Different fingerprints, tombstones among them.
    pub fingerprints: u64,
    /// Slots that hold extensions, counters and values.
    pub extension_slots: u64,
    /// Slots in use, as a share of all.
    pub load: f64,
    /// Bytes of memory.
    pub bytes: u64,
    /// The probability that a random query is a false positive, as if no fingerprint were
    /// lengthened. Tombstones don't count.
    pub expected_rate: f64,
}

impl AdaptiveQuotientFilter {
    /// A builder: say how good and how large the filter should be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn from_table(table: QuotientTable, digits: Digits, value_bits: u32, hash: HashScheme) -> Self {
        let versions = Versions::new(table.slots());
        let level = table.level();
        with_width!(digits.constant(), WIDTH => Self {
            table,
            digits,
            value_bits,
            hash,
            versions,
            len: 0,
            extra_slots: 0,
            tombstones: 0,
            growth: None,
            adaptations: 0,
            contains: Compiled::new::<WIDTH>(level),
            look_closely: Compiled::new::<WIDTH>(level),
            insert: Compiled::new::<WIDTH>(level),
            insert_at: Compiled::new::<WIDTH>(level),
        })
    }

    /// What the filter is made of.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            slots: self.table.slots(),
            remainder_bits: self.digits.remainder,
            slot_bits: self.digits.width,
            value_bits: self.value_bits,
            hash: self.hash,
        }
    }

    /// Returns the number of members, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots in use, as a share of all: members and extensions.
    pub fn load(&self) -> f64 {
        self.table.used() as f64 / self.table.slots() as f64
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_usage(&self) -> u64 {
        size_of::<Self>() as u64 + self.table.bytes() + self.versions.bytes()
    }

    /// What [`memory_usage`](Self::memory_usage) is for that many slots of that width,
    /// or `None` if there is no such filter.
    pub(crate) fn memory_for(slots: u64, width: u32) -> Option<u64> {
        let table = QuotientTable::bytes_for(slots, width)?;
        Some(size_of::<Self>() as u64 + table + Versions::bytes_for(slots))
    }

    /// What the filter holds, and what adapting has cost.
    pub fn statistics(&self) -> Statistics {
        let fingerprints = self.table.used() - self.extra_slots;
        Statistics {
            members: self.len(),
            adaptations: self.adaptations,
            fingerprints,
            extension_slots: self.extra_slots,
            load: self.load(),
            bytes: self.memory_usage(),
            expected_rate: (fingerprints - self.tombstones) as f64
                / self.table.slots() as f64
                / f64::from(self.digits.remainder).exp2(),
        }
    }

    /// All entries, in hash order.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let mut filter = AdaptiveQuotientFilter::builder().remainder_bits(8).slots(16).build()?;
    /// filter.insert(Hash::from_u128(0xabc << 116))?;
    /// let entry = filter.iter().next().unwrap();
    /// assert_eq!((entry.fingerprint.quotient(), entry.fingerprint.prefix() >> 120), (0xa, 0xbc));
    /// assert_eq!(entry.count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.table.stored().map(move |stored| self.decode(stored))
    }
}

impl fmt::Debug for AdaptiveQuotientFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveQuotientFilter")
            .field("parameters", &self.parameters())
            .field("statistics", &self.statistics())
            .finish()
    }
}

impl Filter for AdaptiveQuotientFilter {
    #[inline]
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
        self.hash
    }
}

impl Dynamic for AdaptiveQuotientFilter {
    #[inline]
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.insert(hash)
    }
}

impl AdaptiveFilter for AdaptiveQuotientFilter {
    #[inline]
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

impl Removable for AdaptiveQuotientFilter {
    fn remove(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove(hash)
    }

    fn remove_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError> {
        self.remove_listed(claim, members, mistakes)
    }
}
