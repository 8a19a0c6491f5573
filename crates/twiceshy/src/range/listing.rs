//! What the caller of a repair or a removal knows of the keys near it.

use super::RangeKey;
use core::ops::{Bound, RangeBounds};
use std::borrow::Cow;

/// The keys in a claim's intervals, as their owner lists them: a [`Listing`](crate::Listing) of keys
/// instead of hashes.
///
/// List *all* members whose [partition's hash](super::AdaptiveRangeFilter::hash_of) is in one of the
/// [suspects](super::Claim::suspects), in any order, each as often as it was inserted.
#[derive(Clone, Debug)]
pub struct Listing<'a, K: Clone> {
    pub(super) members: Cow<'a, [K]>,
    pub(super) mistakes: Vec<(Bound<K>, Bound<K>)>,
    pub(super) drops_ghosts: bool,
}

impl<K: RangeKey> Listing<'_, K> {
    /// Returns a listing of these keys, without mistakes.
    pub fn new(members: impl Into<Self>) -> Self {
        members.into()
    }

    /// Adds all repaired ranges that are to stay repaired, in any order. A removal makes what is left
    /// near the key as short as they allow.
    #[must_use]
    pub fn with_mistakes<R: RangeBounds<K>>(mut self, mistakes: &[R]) -> Self {
        let bounds = |range: &R| (range.start_bound().cloned(), range.end_bound().cloned());
        self.mistakes = mistakes.iter().map(bounds).collect();
        self
    }

    /// Allows a repair to drop what no listed key explains; see
    /// [`Listing::dropping_ghosts`](crate::Listing::dropping_ghosts).
    ///
    /// By calling this you say that the listing is **complete and current**. If it is not, a member
    /// is taken for a ghost, and lost.
    #[must_use]
    pub fn dropping_ghosts(mut self) -> Self {
        self.drops_ghosts = true;
        self
    }
}

impl<'a, K: RangeKey> From<&'a [K]> for Listing<'a, K> {
    fn from(members: &'a [K]) -> Self {
        Self { members: Cow::Borrowed(members), mistakes: Vec::new(), drops_ghosts: false }
    }
}

impl<'a, K: RangeKey, const N: usize> From<&'a [K; N]> for Listing<'a, K> {
    fn from(members: &'a [K; N]) -> Self {
        members.as_slice().into()
    }
}

impl<'a, K: RangeKey> From<&'a Vec<K>> for Listing<'a, K> {
    fn from(members: &'a Vec<K>) -> Self {
        members.as_slice().into()
    }
}

impl<K: RangeKey> From<Vec<K>> for Listing<'_, K> {
    fn from(members: Vec<K>) -> Self {
        Self { members: Cow::Owned(members), mistakes: Vec::new(), drops_ghosts: false }
    }
}
