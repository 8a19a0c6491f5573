//! The adaptive quotient filter.

mod adapt;
mod batch;
mod builder;
mod construct;
mod count;
mod edit;
mod entry;
mod error;
mod grow;
mod insert;
mod insert_many;
mod lookup;
mod merge;
mod parts;
mod remove;
mod stream;
mod validate;

#[cfg(test)]
mod tests;

pub use crate::fingerprint::Fingerprint;
pub use crate::hash::remainders::Remainders;
#[doc(hidden)]
pub use builder::Options;
pub use builder::PlanDetails;
pub(crate) use builder::{GROWTH_LOADS, MOST_EXTENDED, expected_rate, extension_slots};
pub(crate) use construct::in_order;
pub use entry::Entry;
pub use error::{MergeError, ValueError};
pub(crate) use insert_many::Revived;
pub(crate) use parts::Tally;

use crate::Stats;
use crate::bits::machine::{Kept, Target};
use crate::builder::Builder;
use crate::claim::Versions;
use crate::fingerprint::Digits;
use crate::table::{Editor, QuotientTable, Usage};
use crate::traits::filter_traits;
use core::fmt;
use insert::{Insert, InsertAt};
use lookup::{Contains, LookClosely};

/// An adaptive quotient filter, which repairs its false positives.
///
/// The filter stores a *fingerprint* of each member, which is a prefix of the member's scaled hash.
/// It answers "maybe" if a stored fingerprint is a prefix of the query's scaled hash. If the answer
/// was a mistake, the caller reports which members caused it. The filter then lengthens their
/// fingerprints until they differ from the query.
///
/// The filter works on hashes; [`Keyed`](crate::Keyed) binds it to a key type and a secret. It does
/// no I/O: the caller lists the members.
///
/// # Guarantees
/// - There are no false negatives. An operation that fails returns an error and changes nothing.
/// - A random query is a false positive with probability `1 − exp(−len/slots · 2^-r)`, where r is
///   the number of bits in a remainder. Earlier queries don't change this.
/// - A repaired mistake stays repaired until a member that collides with it is inserted, or until
///   the filter is rebuilt without listing it. An insert collides with a given mistake with
///   probability below 2^-r. Three other operations can forget repairs: a rebuild in a different
///   size or with different remainders, a [merge](Self::merged) that cuts remainders, and the
///   removal of the member that caused the mistake. To keep a repair across a rebuild, list the
///   mistake.
/// - After a rebuild with [fresh remainders](Self::rotated), a mistake that wasn't listed comes
///   back with a probability of about (1 + α)·2^-r at load α.
///
/// # How it works
/// A hash is read as a fraction and multiplied by the number of slots. The whole part of the
/// product is the *quotient*. The rest is cut into digits of r bits: first the *remainder*, then
/// the *extension*. (A filter with fresh [`Remainders`] first changes the rest.) The remainder is
/// stored in a slot near slot number `quotient`, in a sorted *run* with all other remainders of
/// that quotient. Members with the same quotient and remainder are neighbours and form a *minirun*.
/// Each extension digit takes one more slot after its remainder, marked by a bit.
///
/// In a minirun, no fingerprint is a prefix of another one:
/// - A repair replaces the fingerprint that covers the mistake. Each of its members gets one digit
///   more than it shares with the mistake. That digit also distinguishes the member from those that
///   share more digits with the mistake.
/// - A new member that is covered by a fingerprint shares it, and the filter counts it. Any other
///   new member gets as many digits as it needs to differ from each neighbour. If nothing was
///   repaired, that is the remainder alone. If something was repaired, the extra digits keep the
///   new member from undoing the repair, except with the probability given above.
///
/// Counter slots may follow the fingerprint, marked by another bit. They hold the number of members
/// that share it, and a small value if the filter was built with values.
///
/// # Complexity
/// A lookup usually touches one cache line, and seldom more than two. With 9-bit remainders at 90 %
/// load, 93 % of lookups for absent keys touch one line. An insert moves the slots up to the next
/// unused one, which takes O(1/(1 − load)²) on average: it is fast up to 95 % load, and slow close
/// to 100 %.
///
/// # Papers
/// - Wen et al., *Adaptive Quotient Filters* (SIGMOD 2024): fingerprints lengthened in whole slots,
///   the extension bit, miniruns. This filter differs in three ways: the reverse map is any index
///   in hash order, not one by minirun rank; the filter can have any size; and an insert into a
///   repaired minirun stores enough digits to keep the repair.
/// - Pandey et al., *A General-Purpose Counting Filter* (SIGMOD 2017): the table of runs, located
///   by rank and select.
/// - Bender et al., *Bloom Filters, Adaptivity, and the Dictionary Problem* (FOCS 2018): what
///   adaptivity means, and why it needs the members.
///
/// # Examples
/// ```
/// use twiceshy::{QuotientFilter, Answer, Hash};
/// let mut filter = QuotientFilter::builder().remainder_bits(8).slots(1000).build()?;
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
pub struct QuotientFilter {
    shared: Shared,
    // The rest is the writer's state, which lookups don't see.
    usage: Usage,
    /// Versions for claims. [`check`](Self::check) reads one after the lookup, and the caller lists
    /// the members after that, so a change that the listing misses makes the claim stale.
    versions: Versions,
    pub(crate) tally: Tally,
    insert: Kept<Insert<'static>>,
    insert_at: Kept<InsertAt<'static>>,
}

/// The stored fingerprints: a header, which never changes, and a table. This is all that lookups
/// read, so they can't depend on the writer's state.
#[derive(Clone)]
struct Shared {
    table: QuotientTable,
    digits: Digits,
    value_bits: u32,
    contains: Kept<Contains<'static>>,
    look_closely: Kept<LookClosely<'static>>,
}

/// Parameters of a filter. Filters can be compared or merged only if their parameters are
/// compatible. `Debug` doesn't show the numbers of fresh remainders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Number of home slots in the table. It need not be a power of two.
    pub slots: u64,
    /// Bits per remainder. At load 1, about one query in 2^bits is a false positive.
    pub remainder_bits: u32,
    /// Bits per slot, and per digit of an extension or a counter. At least `remainder_bits`, and
    /// more if the filter was [doubled](QuotientFilter::doubled).
    pub slot_bits: u32,
    /// Bits per value. Each fingerprint can have one value.
    pub value_bits: u32,
    /// The function that makes remainders from hashes. By default, remainders are
    /// [plain](Remainders::PLAIN).
    pub remainders: Remainders,
}

/// Numbers of slots that a quotient filter uses for fingerprints and for extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Details {
    /// Number of different fingerprints, including tombstones.
    pub fingerprints: u64,
    /// Number of slots that hold extensions, counters and values.
    pub extension_slots: u64,
}

impl QuotientFilter {
    /// Returns a builder, which sets the false-positive rate and the size of the filter.
    pub fn builder() -> Builder<Self> {
        Builder::default()
    }

    fn from_table(table: QuotientTable, parameters: Parameters) -> Self {
        let (digits, versions) = (parameters.digits(), Versions::new(parameters.slots));
        let target = Target { shape: digits.shape(), ..table.target() };
        let shared = Shared {
            table,
            digits,
            value_bits: parameters.value_bits,
            contains: target.keep(),
            look_closely: target.keep(),
        };
        Self {
            usage: shared.table.usage(0),
            shared,
            versions,
            tally: Tally::default(),
            insert: target.keep(),
            insert_at: target.keep(),
        }
    }

    #[inline(always)]
    fn editor(&mut self) -> Editor<'_> {
        self.shared.table.editor(&mut self.usage)
    }

    /// Returns the parameters of the filter.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            slots: self.shared.table.slots(),
            remainder_bits: self.shared.digits.remainder,
            slot_bits: self.shared.digits.width,
            value_bits: self.shared.value_bits,
            remainders: self.shared.digits.remainders,
        }
    }

    /// Returns the number of members, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        usize::try_from(self.tally.len).unwrap_or(usize::MAX)
    }

    filter_traits!(@is_empty);

    /// Returns the share of slots that are in use. Used slots hold members or extensions.
    pub(crate) fn load(&self) -> f64 {
        self.usage.used as f64 / self.shared.table.slots() as f64
    }

    /// Returns the number of bytes that a filter with `slots` slots of `width` bits takes, or
    /// `None` if such a filter is impossible.
    pub(crate) fn memory_for(slots: u64, width: u32) -> Option<u64> {
        let table = QuotientTable::bytes_for(slots, width)?;
        Some(size_of::<Self>() as u64 + table + Versions::bytes_for(slots))
    }

    /// Returns the filter's size, load, repairs and expected false-positive rate.
    pub fn stats(&self) -> Stats {
        let fingerprints = self.usage.used - self.tally.extra_slots - self.tally.tombstones;
        Stats {
            members: self.len(),
            memory: size_of::<Self>() as u64 + self.shared.table.bytes() + self.versions.bytes(),
            load: self.load(),
            repairs: self.tally.adaptations,
            expected_rate: fingerprints as f64
                / self.shared.table.slots() as f64
                / f64::from(self.shared.digits.remainder).exp2(),
        }
    }

    /// Returns the number of slots that the filter uses for each purpose.
    pub fn details(&self) -> Details {
        Details {
            fingerprints: self.usage.used - self.tally.extra_slots,
            extension_slots: self.tally.extra_slots,
        }
    }

    filter_traits!(@check_or_repair);

    /// Iterates over all entries, ordered by quotient and remainder.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let mut filter = QuotientFilter::builder().remainder_bits(8).slots(16).build()?;
    /// filter.insert(Hash::from_u128(0xabc << 116))?;
    /// let entry = filter.iter().next().unwrap();
    /// assert_eq!((entry.fingerprint.quotient(), entry.fingerprint.prefix() >> 120), (0xa, 0xbc));
    /// assert_eq!(entry.count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.shared.table.stored().map(move |stored| self.shared.decode(stored))
    }
}

impl Shared {
    fn target(&self) -> Target {
        Target { shape: self.digits.shape(), ..self.table.target() }
    }
}

impl fmt::Debug for QuotientFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotientFilter")
            .field("parameters", &self.parameters())
            .field("stats", &self.stats())
            .field("details", &self.details())
            .finish()
    }
}

filter_traits!([] QuotientFilter, QuotientFilter: Filter Dynamic Adaptive);
