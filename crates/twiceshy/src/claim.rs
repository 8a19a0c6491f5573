//! What a "maybe" carries, and what makes it stale.

use crate::error::{AdaptError, RemoveError};
use crate::{Fingerprint, Hash, Member};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU64, Ordering};

/// A filter's answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key is not a member, for certain.
    Absent,
    /// The key may be a member. Should it turn out to be none, the claim lets the
    /// filter repair itself.
    Maybe(Claim),
}

impl Answer {
    /// Whether the answer is "maybe".
    pub const fn is_maybe(&self) -> bool {
        matches!(self, Answer::Maybe(_))
    }
}

/// A claim that a query may be a member: the query, the interval of hashes that can
/// have caused it, and the version of the filter that made it.
///
/// To repair a mistake, list the members in [`suspects`](Self::suspects) and give
/// the list to the filter together with the claim. If a member came or went there in
/// between, the claim is stale, and the filter refuses it: it could not know whether
/// the list was made before or after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub(crate) query: Hash,
    /// The first of the cells whose hashes can have caused it, and the last.
    pub(crate) cell: Fingerprint,
    pub(crate) through: Fingerprint,
    pub(crate) version: Version,
}

impl Claim {
    /// The query that was answered "maybe".
    pub const fn query(&self) -> Hash {
        self.query
    }

    /// The hashes of all members that can be behind the answer.
    pub fn suspects(&self) -> RangeInclusive<Hash> {
        *self.cell.hashes().start()..=*self.through.hashes().end()
    }

    /// Whether it is of the current version, and all that are listed are suspects.
    pub(crate) fn check(&self, current: Version, listed: &[Member]) -> Result<(), Mismatch> {
        if self.version != current {
            return Err(Mismatch::Stale);
        }
        let suspects = self.suspects();
        let outside = listed.iter().find(|member| !suspects.contains(&member.hash));
        outside.map_or(Ok(()), |member| Err(Mismatch::Outside { member: member.hash }))
    }
}

/// Why a list is refused.
pub(crate) enum Mismatch {
    Stale,
    Outside {
        member: Hash,
    },
    /// So many are not in the filter.
    Surplus {
        members: u64,
    },
}

impl From<Mismatch> for AdaptError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Stale => AdaptError::Stale,
            Mismatch::Outside { member } => AdaptError::Outside { member },
            Mismatch::Surplus { members } => AdaptError::Surplus { members },
        }
    }
}

impl From<Mismatch> for RemoveError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Stale => RemoveError::Stale,
            Mismatch::Outside { member } => RemoveError::Outside { member },
            Mismatch::Surplus { members } => RemoveError::Surplus { members },
        }
    }
}

/// What a repair changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adaptation {
    /// Fingerprints that are longer than the one that they had in common before; 0 if the
    /// mistake was repaired already.
    pub lengthened: usize,
    /// Members that were stored but not listed, and were dropped.
    pub ghosts: u64,
}

/// The state of one filter's members around a quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    filter: u64,
    changes: u64,
}

/// Counts changes of a filter's members, by stripes of quotients, so that an insert
/// elsewhere doesn't make a claim stale.
#[derive(Debug)]
pub(crate) struct Versions {
    filter: u64,
    stripes: Box<[u64]>,
}

/// Every filter has its own number, so that no claim of one passes for another's.
static FILTERS: AtomicU64 = AtomicU64::new(0);

const MOST_STRIPES: u64 = 1024;

impl Versions {
    pub(crate) fn new(slots: u64) -> Self {
        Self::with_stripes(Self::stripes_for(slots))
    }

    fn stripes_for(slots: u64) -> usize {
        (slots / 64).next_power_of_two().min(MOST_STRIPES) as usize
    }

    pub(crate) fn bytes_for(slots: u64) -> u64 {
        (Self::stripes_for(slots) * size_of::<u64>()) as u64
    }

    fn with_stripes(stripes: usize) -> Self {
        let filter = FILTERS.fetch_add(1, Ordering::Relaxed);
        Self { filter, stripes: vec![0; stripes].into() }
    }

    /// A minirun has one quotient, so it lies in one stripe.
    #[inline(always)]
    fn stripe(&self, quotient: u64) -> usize {
        quotient as usize & (self.stripes.len() - 1)
    }

    pub(crate) fn at(&self, quotient: u64) -> Version {
        Version { filter: self.filter, changes: self.stripes[self.stripe(quotient)] }
    }

    /// The state of all members.
    pub(crate) fn all(&self) -> Version {
        let changes = self.stripes.iter().fold(0, |sum: u64, &stripe| sum.wrapping_add(stripe));
        Version { filter: self.filter, changes }
    }

    #[inline(always)]
    pub(crate) fn bump(&mut self, quotient: u64) {
        let stripe = self.stripe(quotient);
        self.stripes[stripe] = self.stripes[stripe].wrapping_add(1);
    }

    /// Bumps the stripes of some quotients; all, if there are more of these than stripes.
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

/// A copy is another filter: the two may part ways.
impl Clone for Versions {
    fn clone(&self) -> Self {
        Self::with_stripes(self.stripes.len())
    }
}
