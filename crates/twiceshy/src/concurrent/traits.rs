//! The traits of filters, for generic code.
//!
//! The traits that change a filter take `&mut self`; they are implemented for references, as
//! `Write` is for `&File`, so that generic code can share the filter.

use super::{Concurrent, Shard};
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::{
    Adaptation, AdaptiveFilter, Answer, Claim, Dynamic, Filter, Hash, HashScheme, Member, Removable,
};

impl<F: Shard> Filter for Concurrent<F> {
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

impl<F: Shard> Filter for &Concurrent<F> {
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

impl<F: Shard> Dynamic for &Concurrent<F> {
    #[inline]
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        (**self).insert(hash)
    }
}

impl<F: Shard> AdaptiveFilter for &Concurrent<F> {
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

impl<F: Shard> Removable for &Concurrent<F> {
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
