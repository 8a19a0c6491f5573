//! The traits of filters.
//!
//! Those that change a filter take `&mut self`; they are implemented for references, as
//! `Write` is for `&File`, so that generic code can share the filter.

use super::ConcurrentAdaptiveQuotientFilter;
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::{
    Adaptation, AdaptiveFilter, Answer, Claim, Dynamic, Filter, Hash, HashScheme, Member, Removable,
};

impl Filter for ConcurrentAdaptiveQuotientFilter {
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        self.hash
    }
}

impl Filter for &ConcurrentAdaptiveQuotientFilter {
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        (**self).contains(hash)
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }

    fn memory_usage(&self) -> u64 {
        (**self).memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        self.hash
    }
}

impl Dynamic for &ConcurrentAdaptiveQuotientFilter {
    #[inline]
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        (**self).insert(hash)
    }
}

impl AdaptiveFilter for &ConcurrentAdaptiveQuotientFilter {
    #[inline]
    fn check(&self, hash: Hash) -> Answer {
        (**self).check(hash)
    }

    fn adapt(&mut self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        (**self).adapt(claim, members)
    }

    fn adapt_dropping_ghosts(
        &mut self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        (**self).adapt_dropping_ghosts(claim, members)
    }
}

impl Removable for &ConcurrentAdaptiveQuotientFilter {
    fn remove(&mut self, hash: Hash) -> Result<(), RemoveError> {
        (**self).remove(hash)
    }

    fn remove_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError> {
        (**self).remove_listed(claim, members, mistakes)
    }
}
