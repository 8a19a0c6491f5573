//! The answers of a filter, the claims that a "maybe" carries, and the versions that show whether a
//! claim is stale.

use crate::hash::first_hash_at;
use crate::{Hash, Member};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU64, Ordering};

/// A filter's answer to a query. `C` is the type of its claim: a [`range::Claim`](crate::range::Claim)
/// if a range filter answers, and a [`Claim`] otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<C = Claim> {
    /// The key is certainly not a member, or the range certainly contains no member.
    Absent,
    /// The key may be a member, or the range may contain one. If not, the claim lets the filter
    /// repair its mistake.
    Maybe(C),
}

impl<C> Answer<C> {
    /// Returns whether the answer is "maybe".
    pub const fn is_maybe(&self) -> bool {
        matches!(self, Answer::Maybe(_))
    }
}

/// A claim that a query may be a member.
///
/// To repair a mistake, list the members in [`suspects`](Self::suspects), and pass the list to the
/// filter together with the claim. If a member in that interval is inserted or removed in the
/// meantime, the claim becomes stale and the filter refuses it, because the filter cannot know
/// whether the list was made before or after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub(crate) query: Hash,
    pub(crate) cells: Cells,
    pub(crate) version: Version,
}

impl Claim {
    /// Returns the query that was answered "maybe".
    pub const fn query(&self) -> Hash {
        self.query
    }

    /// Returns an interval of hashes that contains the query and every member that may have caused
    /// the answer.
    ///
    /// For a quotient filter, these are the hashes that share the query's quotient, about two
    /// members on average. Some of these members may have nothing to do with the answer; the filter
    /// ignores them.
    pub fn suspects(&self) -> RangeInclusive<Hash> {
        self.cells.hashes()
    }

    /// Checks that the claim has the current version, that it covers at least the `needed` cells,
    /// and that all listed members are suspects.
    pub(crate) fn check(
        &self,
        current: Version,
        needed: Cells,
        listed: &[Member],
    ) -> Result<(), Mismatch> {
        if self.version != current || !self.cells.contain(needed) {
            return Err(Mismatch::Stale);
        }
        let suspects = self.suspects();
        let outside = listed.iter().find(|member| !suspects.contains(&member.hash));
        outside.map_or(Ok(()), |member| Err(Mismatch::Outside { member: member.hash }))
    }
}

/// Adjacent quotients of a table, or adjacent cells of a Bloom filter.
///
/// They stand for an interval of hashes, which is computed only on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Total number of cells.
    pub(crate) slots: u64,
}

impl Cells {
    #[inline(always)]
    pub(crate) fn one(quotient: u64, slots: u64) -> Self {
        Self { first: quotient, last: quotient, slots }
    }

    /// Returns the interval of hashes that belong to these cells.
    pub(crate) fn hashes(self) -> RangeInclusive<Hash> {
        let first = first_hash_at(self.first, 0, self.slots).unwrap_or(Hash::MAX);
        let next = first_hash_at(self.last + 1, 0, self.slots);
        let last = next.map_or(Hash::MAX, |hash| Hash::from_u128(hash.as_u128() - 1));
        first..=last
    }

    /// Returns whether these cells contain every hash of the `other` cells.
    pub(crate) fn contain(self, other: Self) -> bool {
        if self.slots == other.slots {
            return self.first <= other.first && other.last <= self.last;
        }
        let (hashes, others) = (self.hashes(), other.hashes());
        hashes.start() <= others.start() && others.end() <= hashes.end()
    }
}

/// The reason why a filter refuses a listing.
pub(crate) enum Mismatch {
    Stale,
    Outside {
        member: Hash,
    },
    /// The listing has members that the filter does not hold; the field is their number.
    Surplus {
        members: u64,
    },
}

/// The changes that a repair made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adaptation {
    /// Number of fingerprints that were lengthened; 0 if the mistake had been repaired already.
    pub lengthened: usize,
    /// Number of members that were dropped because the filter held them but the listing did not.
    pub ghosts: u64,
}

/// Identifies a filter, and the state of its members near one quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    filter: u64,
    changes: u64,
}

/// Counts the changes to a filter's members, with one count per stripe of quotients. So an insert
/// makes only the claims about its own stripe stale.
#[derive(Debug)]
pub(crate) struct Versions {
    filter: u64,
    stripes: Box<[u64]>,
}

/// The number of filters created so far. Each filter gets its own number, so that no filter accepts
/// a claim made by another.
static FILTERS: AtomicU64 = AtomicU64::new(0);

const MOST_STRIPES: u64 = 1024;

impl Versions {
    pub(crate) fn new(slots: u64) -> Self {
        Self::with_stripes(Self::stripes_for(slots))
    }

    fn stripes_for(slots: u64) -> usize {
        (slots / 2048).next_power_of_two().min(MOST_STRIPES) as usize
    }

    pub(crate) fn bytes_for(slots: u64) -> u64 {
        (Self::stripes_for(slots) * size_of::<u64>()) as u64
    }

    fn with_stripes(stripes: usize) -> Self {
        let filter = FILTERS.fetch_add(1, Ordering::Relaxed);
        Self { filter, stripes: vec![0; stripes].into() }
    }

    /// Returns the stripe of a quotient. All fingerprints of a minirun share a quotient, so a
    /// minirun lies in one stripe.
    #[inline(always)]
    fn stripe(&self, quotient: u64) -> usize {
        quotient as usize & (self.stripes.len() - 1)
    }

    pub(crate) fn at(&self, quotient: u64) -> Version {
        Version { filter: self.filter, changes: self.stripes[self.stripe(quotient)] }
    }

    /// Returns a version that covers the whole filter.
    pub(crate) fn all(&self) -> Version {
        let changes = self.stripes.iter().fold(0, |sum: u64, &stripe| sum.wrapping_add(stripe));
        Version { filter: self.filter, changes }
    }

    #[inline(always)]
    pub(crate) fn bump(&mut self, quotient: u64) {
        let stripe = self.stripe(quotient);
        self.stripes[stripe] = self.stripes[stripe].wrapping_add(1);
    }

    /// Increments the count of each quotient's stripe. If there are at least as many quotients as
    /// stripes, increments all counts.
    pub(crate) fn bump_each(&mut self, quotients: impl ExactSizeIterator<Item = u64>) {
        if quotients.len() < self.stripes.len() {
            return quotients.for_each(|quotient| self.bump(quotient));
        }
        for stripe in &mut self.stripes {
            *stripe = stripe.wrapping_add(1);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.stripes) as u64
    }
}

/// Gives the copy a new filter number, because the original and the copy may change independently.
impl Clone for Versions {
    fn clone(&self) -> Self {
        Self::with_stripes(self.stripes.len())
    }
}
