//! What filters and reverse maps can do, by ability.
//!
//! Everything here speaks of hashes; [`Keyed`](crate::Keyed) puts keys in front.

use crate::error::{AdaptError, InsertError, RemoveError};
use crate::{Adaptation, Answer, Claim, Hash, HashScheme, Member};
use core::ops::RangeInclusive;

/// A set of hashes that may say "maybe" of one it doesn't hold, but never "absent" of
/// one it does.
pub trait Filter {
    /// Whether a key of this hash may be a member. "No" is certain.
    fn contains(&self, hash: Hash) -> bool;

    /// How many members there are.
    fn len(&self) -> usize;

    /// Whether there are no members.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the filter takes.
    fn memory_usage(&self) -> u64;

    /// The function that makes the hashes.
    fn hash_scheme(&self) -> HashScheme;
}

/// A filter that takes new members.
pub trait Dynamic: Filter {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then.
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError>;
}

/// A filter that repairs its mistakes.
///
/// The dance is: [`check`](Self::check); if "maybe", ask the store; if it has no such
/// key, list the members in the claim's interval from a [`ReverseMap`], and
/// [`adapt`](Self::adapt).
pub trait AdaptiveFilter: Filter {
    /// As [`contains`](Filter::contains), but "maybe" carries a claim.
    fn check(&self, hash: Hash) -> Answer;

    /// Repairs a mistake: the claim's query is no member, `members` are all members in
    /// the claim's interval.
    ///
    /// # Errors
    /// If obeying could lose a member, or if there is no room; nothing has changed
    /// then.
    fn adapt(&mut self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError>;

    /// As [`adapt`](Self::adapt), but drops fingerprints that no listed member
    /// explains: the caller says that the list is complete and current.
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt).
    fn adapt_dropping_ghosts(
        &mut self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError>;
}

/// A filter whose members can be removed.
pub trait Removable: AdaptiveFilter {
    /// Removes a key that is known to be a member, once. If it is none, a member that
    /// shares its fingerprint may be lost.
    ///
    /// # Errors
    /// If it is certainly no member; nothing has changed then.
    fn remove(&mut self, hash: Hash) -> Result<(), RemoveError>;

    /// Removes the claim's query, once, if it is one of `members`, which are all members in
    /// the claim's interval. If `mistakes` are listed, all in that interval, what nothing
    /// needs any more is shortened.
    ///
    /// # Errors
    /// If it is none of them, or if obeying could lose a member; nothing has changed then.
    fn remove_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError>;
}

/// Anything that lists the members whose hash lies in an interval: a `BTreeMap`, an
/// LSM tree, an SQL table with an indexed hash column.
pub trait ReverseMap {
    /// What can go wrong when members are listed.
    type Error;

    /// All members in the interval, in any order, with how often each was inserted into
    /// the filter.
    ///
    /// # Errors
    /// If they can't be listed. A partial list must be an error.
    fn members(&self, suspects: RangeInclusive<Hash>) -> Result<Vec<Member>, Self::Error>;
}
