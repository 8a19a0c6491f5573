//! Lists of the keys near a query, which the caller of a repair or removal provides.

use super::RangeKey;
use core::ops::{Bound, RangeBounds};

/// A list of the keys in a claim's intervals, made by their owner: a [`Listing`](crate::Listing) of
/// keys instead of hashes. Any list of keys converts to it.
///
/// List *all* members whose [partition's hash](super::AdaptiveRangeFilter::hash_of) is in one of the
/// [suspects](super::Claim::suspects), in any order, each as often as it was inserted.
#[derive(Clone, Debug)]
pub struct Listing<'a, K> {
    pub(super) members: &'a [K],
    pub(super) mistakes: Vec<(Bound<K>, Bound<K>)>,
    pub(super) drops_ghosts: bool,
}

impl<K: RangeKey> Listing<'_, K> {
    /// Returns a listing of these keys, without mistakes.
    pub fn new(members: impl Into<Self>) -> Self {
        members.into()
    }

    /// Adds all repaired ranges that must stay repaired, in any order. A removal makes fingerprints
    /// near the key as short as these ranges allow.
    #[must_use]
    pub fn with_mistakes<R: RangeBounds<K>>(mut self, mistakes: &[R]) -> Self {
        let bounds = |range: &R| (range.start_bound().cloned(), range.end_bound().cloned());
        self.mistakes = mistakes.iter().map(bounds).collect();
        self
    }

    /// Allows a repair to drop members that are not listed; see
    /// [`Listing::dropping_ghosts`](crate::Listing::dropping_ghosts).
    ///
    /// Call this only if the listing is **complete and current**. Otherwise a member is taken for a
    /// ghost, and lost.
    #[must_use]
    pub fn dropping_ghosts(mut self) -> Self {
        self.drops_ghosts = true;
        self
    }
}

impl<'a, K, L: AsRef<[K]> + ?Sized> From<&'a L> for Listing<'a, K> {
    fn from(members: &'a L) -> Self {
        Self { members: members.as_ref(), mistakes: Vec::new(), drops_ghosts: false }
    }
}
