//! The operations of filters, one trait per ability.
//!
//! These traits work on hashes; [`Keyed`](crate::Keyed) is the layer that takes keys. Every filter
//! also has inherent methods with the same names, so only generic code needs to import these
//! traits.

use crate::claim::Adaptation;
use crate::error::{AdaptError, InsertError, Invalid, RemoveError};
use crate::{Answer, Claim, Hash, Listing};
use core::ops::RangeInclusive;

/// Maximum number of times that [`check_or_repair`](Adaptive::check_or_repair) lists members. After
/// that it gives up, because other threads keep changing the members near the query.
const LISTINGS: usize = 8;

/// A set of hashes that never answers "absent" to a member, but may answer "maybe" to a hash that
/// is not a member.
pub trait Filter {
    /// Returns whether a key with this hash may be a member. The answer `false` is certain.
    fn contains(&self, hash: Hash) -> bool;

    /// Looks up many hashes: clears `answers`, and then pushes the answer of
    /// [`contains`](Self::contains) for each hash. If the filter is larger than the cache, this is
    /// faster than single lookups.
    fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>);

    /// Returns the number of members, each counted as often as it was inserted.
    fn len(&self) -> usize;

    /// Returns whether there are no members.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the filter's number of members, memory use, load and expected false-positive rate.
    fn stats(&self) -> Stats;

    /// Checks every invariant, in time proportional to the filter's size. For tests, and for
    /// diagnosing suspected corruption.
    ///
    /// # Errors
    /// Returns an error that names the broken invariant.
    fn validate(&self) -> Result<(), Invalid>;
}

/// A filter whose members change.
pub trait Dynamic: Filter {
    /// Inserts a member. A key that is inserted twice is a member twice.
    ///
    /// # Errors
    /// If there is no room for the member, or [`InsertError::NeedsMembers`] if the filter needs a
    /// list of the members near it to make room. The filter is unchanged in both cases.
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError>;

    /// Inserts many members, all or none.
    ///
    /// # Errors
    /// Returns the same errors as [`insert`](Self::insert). No member was inserted in that case.
    fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError>;

    /// Removes one copy of a key that the caller *knows* to be a member. If it is not a member, a
    /// different member that shares its fingerprint may be lost.
    ///
    /// # Errors
    /// If the key is certainly not a member, or [`RemoveError::Ambiguous`] if only
    /// [`Adaptive::remove`] can tell. The filter is unchanged in both cases.
    fn remove_trusting(&mut self, hash: Hash) -> Result<(), RemoveError>;
}

/// A filter that repairs its mistakes.
///
/// The [start page](crate#how-a-repair-works) explains how these methods work together.
pub trait Adaptive: Dynamic {
    /// Looks up a hash like [`contains`](Filter::contains). The answer "maybe" carries a claim.
    fn check(&self, hash: Hash) -> Answer;

    /// Repairs a mistake, so that the filter answers "absent" to the claim's query. The
    /// documentation of each filter says what can bring the mistake back.
    ///
    /// The query must not be a member, and `listing` must contain all members in
    /// [`claim.suspects()`](Claim::suspects).
    ///
    /// # Errors
    /// If the claim is stale, if the repair could lose a member, or if there is no room. No answer
    /// has changed in that case.
    fn adapt(&mut self, claim: &Claim, listing: Listing<'_>) -> Result<Adaptation, AdaptError>;

    /// Inserts the member that [`insert`](Dynamic::insert) refused with
    /// [`InsertError::NeedsMembers`]. `claim` is the claim in that error. `listing` must contain
    /// all members in the claim's interval, except the new one.
    ///
    /// # Errors
    /// If there is no room, or [`InsertError::Mismatch`] if the claim is stale or the listing does
    /// not match the filter. The filter is unchanged in both cases.
    fn insert_listed(&mut self, claim: &Claim, listing: Listing<'_>) -> Result<(), InsertError>;

    /// Removes one copy of the claim's query, if the query is one of the listed members.
    ///
    /// `listing` must contain all members in [`claim.suspects()`](Claim::suspects). If it lists no
    /// mistakes, the repairs of other members stay; otherwise see
    /// [`with_mistakes`](Listing::with_mistakes).
    ///
    /// # Errors
    /// If the query is not listed, if the claim is stale, or if the removal could lose a member.
    /// The filter is unchanged in that case.
    fn remove(&mut self, claim: &Claim, listing: Listing<'_>) -> Result<(), RemoveError>;

    /// Checks a hash, and repairs the filter if "maybe" was a mistake.
    ///
    /// If the filter answers "maybe", this calls `is_member`, which returns whether the key is a
    /// member. If it is not, this calls `members`, which lists all members in an interval of
    /// hashes, and repairs the mistake. If the members near the hash change in the meantime, this
    /// starts again, a few times at most.
    ///
    /// # Errors
    /// Returns the errors of the closures. A mistake that could not be repaired is not an error:
    /// the result is [`Checked::Unrepaired`].
    fn check_or_repair<'l, E, L: Into<Listing<'l>>>(
        &mut self,
        hash: Hash,
        is_member: impl FnMut() -> Result<bool, E>,
        mut members: impl FnMut(RangeInclusive<Hash>) -> Result<L, E>,
    ) -> Result<Checked, E>
    where
        Self: Sized,
    {
        let check = |filter: &Self| filter.check(hash);
        check_or_repair(self, check, is_member, |filter, claim| {
            let listing = members(claim.suspects())?;
            Ok(filter.adapt(claim, listing.into()))
        })
    }
}

/// Checks a filter, and repairs it if "maybe" was a mistake; see
/// [`Adaptive::check_or_repair`].
pub(crate) fn check_or_repair<F, C, E>(
    filter: &mut F,
    check: impl Fn(&F) -> Answer<C>,
    mut is_member: impl FnMut() -> Result<bool, E>,
    mut repair: impl FnMut(&mut F, &C) -> Result<Result<Adaptation, AdaptError>, E>,
) -> Result<Checked, E> {
    let mut refused = AdaptError::Stale;
    for _ in 0..LISTINGS {
        // Make the claim first, so that it becomes stale if anything changes afterwards.
        let Answer::Maybe(claim) = check(filter) else { return Ok(Checked::Absent) };
        if is_member()? {
            return Ok(Checked::Present);
        }
        match repair(filter, &claim)? {
            Ok(adaptation) => return Ok(Checked::Repaired(adaptation)),
            // Try again, because members have changed, or because the next claim may cover a wider
            // range.
            Err(error @ (AdaptError::Stale | AdaptError::Crowded | AdaptError::IsMember)) => {
                refused = error;
            }
            Err(error) => return Ok(Checked::Unrepaired(error)),
        }
    }
    Ok(Checked::Unrepaired(refused))
}

/// The result of [`check_or_repair`](crate::Adaptive::check_or_repair). For a range filter, read
/// "the range contains a member" for "the key is a member".
#[derive(Clone, Debug, PartialEq)]
pub enum Checked {
    /// The filter said "absent", so no closure was called.
    Absent,
    /// The filter said "maybe", and the key is a member.
    Present,
    /// The filter said "maybe", and the key is not a member. The mistake is repaired.
    Repaired(Adaptation),
    /// The filter said "maybe", and the key is not a member. The mistake could not be repaired, so
    /// the filter may make it again.
    Unrepaired(AdaptError),
}

impl Checked {
    /// Returns whether the key is a member.
    pub const fn is_present(&self) -> bool {
        matches!(self, Self::Present)
    }
}

/// The size, load, repairs and expected false-positive rate of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Number of members, each counted as often as it was inserted.
    pub members: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Share of the room for members and repairs that is in use, from 0 to 1.
    pub load: f64,
    /// Number of mistakes repaired, also in the filters that this one replaces, if it was built
    /// from them.
    pub repairs: u64,
    /// Probability that a random query is a false positive, ignoring the effect of repairs.
    pub expected_rate: f64,
}

/// Defines trait methods, each of which calls the method of the type `$methods` with the same name.
/// A type's own methods come before those of its traits, so `$methods` can be the implementing
/// type.
macro_rules! forward {
    ($methods:ty:) => {};
    (
        $methods:ty:
        fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $output:ty)?;
        $($rest:tt)*
    ) => {
        #[inline]
        fn $name(&self $(, $argument: $type)*) $(-> $output)? {
            <$methods>::$name(self $(, $argument)*)
        }

        $crate::traits::forward!($methods: $($rest)*);
    };
    (
        $methods:ty:
        fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $output:ty)?;
        $($rest:tt)*
    ) => {
        #[inline]
        fn $name(&mut self $(, $argument: $type)*) $(-> $output)? {
            <$methods>::$name(self $(, $argument)*)
        }

        $crate::traits::forward!($methods: $($rest)*);
    };
}

pub(crate) use forward;

/// Implements the filter traits by calling the filter's own methods with the same names.
///
/// `$methods` is the type that has the methods; it differs from `$filter` for references.
macro_rules! filter_traits {
    (@Filter [$($generics:tt)*] $filter:ty, $methods:ty) => {
        impl<$($generics)*> $crate::Filter for $filter {
            $crate::traits::forward! { $methods:
                fn contains(&self, hash: $crate::Hash) -> bool;
                fn contains_many(&self, hashes: &[$crate::Hash], answers: &mut Vec<bool>);
                fn len(&self) -> usize;
                fn stats(&self) -> $crate::Stats;
            }

            fn validate(&self) -> Result<(), $crate::error::Invalid> {
                <$methods>::validate(self).map_err(Into::into)
            }
        }
    };
    (@Dynamic [$($generics:tt)*] $filter:ty, $methods:ty) => {
        impl<$($generics)*> $crate::Dynamic for $filter {
            $crate::traits::forward! { $methods:
                fn insert(&mut self, hash: $crate::Hash) -> Result<(), $crate::error::InsertError>;
                fn insert_many(
                    &mut self,
                    hashes: &[$crate::Hash]
                ) -> Result<(), $crate::error::InsertError>;
                fn remove_trusting(
                    &mut self,
                    hash: $crate::Hash
                ) -> Result<(), $crate::error::RemoveError>;
            }
        }
    };
    (@Adaptive [$($generics:tt)*] $filter:ty, $methods:ty) => {
        impl<$($generics)*> $crate::Adaptive for $filter {
            $crate::traits::forward! { $methods:
                fn check(&self, hash: $crate::Hash) -> $crate::Answer;
                fn adapt(
                    &mut self,
                    claim: &$crate::Claim,
                    listing: $crate::Listing<'_>
                ) -> Result<$crate::claim::Adaptation, $crate::error::AdaptError>;
                fn insert_listed(
                    &mut self,
                    claim: &$crate::Claim,
                    listing: $crate::Listing<'_>
                ) -> Result<(), $crate::error::InsertError>;
                fn remove(
                    &mut self,
                    claim: &$crate::Claim,
                    listing: $crate::Listing<'_>
                ) -> Result<(), $crate::error::RemoveError>;
            }
        }
    };
    // Inherent methods, so that callers need not import the trait.
    (@is_empty) => {
        /// Returns whether there are no members.
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    };
    (@check_or_repair) => {
        /// Checks a hash, and repairs the filter if "maybe" was a mistake; see
        /// [`Adaptive::check_or_repair`](crate::Adaptive::check_or_repair).
        ///
        /// # Errors
        /// Returns the errors of the closures.
        pub fn check_or_repair<'l, E, L: Into<$crate::Listing<'l>>>(
            &mut self,
            hash: $crate::Hash,
            is_member: impl FnMut() -> Result<bool, E>,
            members: impl FnMut(core::ops::RangeInclusive<$crate::Hash>) -> Result<L, E>,
        ) -> Result<$crate::Checked, E> {
            $crate::Adaptive::check_or_repair(self, hash, is_member, members)
        }
    };
    ($generics:tt $filter:ty, $methods:ty: $($trait:ident)+) => {
        $($crate::traits::filter_traits!(@$trait $generics $filter, $methods);)+
    };
}

pub(crate) use filter_traits;
