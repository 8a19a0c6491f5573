//! Many hashes at once, on all cores: each shard is one task.
//!
//! A task holds one shard's lock and starts no other tasks while it does, so none can wait
//! for itself.

use super::ConcurrentAdaptiveQuotientFilter;
use super::builder::Part;
use super::many::Groups;
use crate::error::{BuildError, InsertManyError};
use crate::{Builder, Hash, Key, Keyed};
use core::borrow::Borrow;
use rayon::prelude::*;

impl ConcurrentAdaptiveQuotientFilter {
    /// As [`insert_many`](Self::insert_many), on all cores of rayon's current pool: for
    /// thousands of members and more.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().capacity(10_000).build_concurrent()?;
    /// let key = |number: u128| Hash::from_u128(number.wrapping_mul(u128::MAX / 9973));
    /// let hashes: Vec<Hash> = (0..10_000).map(key).collect();
    /// filter.par_insert_many(&hashes)?;
    /// let mut maybe = Vec::new();
    /// filter.par_contains_many(&hashes, &mut maybe);
    /// assert!(maybe.into_iter().all(|maybe| maybe));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    pub fn par_insert_many(&self, hashes: &[Hash]) -> Result<(), InsertManyError> {
        let groups = Groups::new(self.sharding, hashes);
        let groups = groups.to_vec();
        let refused = groups.par_iter().flat_map_iter(|group| self.insert_group(group)).collect();
        Self::inserted_but(refused)
    }

    /// As [`contains_many`](Self::contains_many), on all cores of rayon's current pool: for
    /// thousands of lookups and more.
    pub fn par_contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(hashes.len(), false);
        let groups = Groups::new(self.sharding, hashes);
        let groups = groups.to_vec();
        let look_up = |group| {
            let mut answers = Vec::new();
            self.look_up_group(group, &mut answers);
            answers
        };
        let answers: Vec<Vec<bool>> = groups.par_iter().map(look_up).collect();
        for (group, answers) in groups.iter().zip(&answers) {
            group.scatter(answers, maybe);
        }
    }
}

impl Builder {
    /// As [`build_concurrent_from`](Self::build_concurrent_from), on all cores of rayon's
    /// current pool: for thousands of members and more.
    ///
    /// # Errors
    /// As [`build_concurrent_from`](Self::build_concurrent_from).
    pub fn par_build_concurrent_from(
        &self,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> Result<ConcurrentAdaptiveQuotientFilter, BuildError> {
        let sharding = self.sharding()?;
        let parts: Vec<Part> = self.parts(sharding, members, mistakes).collect();
        // All of them, so that it is always the same error that is returned.
        let filters: Vec<_> = parts.into_par_iter().map(Part::build).collect();
        let filters = filters.into_iter().collect::<Result<_, _>>()?;
        Ok(ConcurrentAdaptiveQuotientFilter::of(sharding, filters))
    }
}

impl<K: Key + ?Sized> Keyed<K, ConcurrentAdaptiveQuotientFilter> {
    /// Inserts many members, on all cores; see
    /// [`par_insert_many`](ConcurrentAdaptiveQuotientFilter::par_insert_many).
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    pub fn par_insert_many<Q: Borrow<K> + Sync>(&self, keys: &[Q]) -> Result<(), InsertManyError> {
        self.filter().par_insert_many(&self.par_hashes(keys))
    }

    /// Answers many lookups, on all cores; see
    /// [`par_contains_many`](ConcurrentAdaptiveQuotientFilter::par_contains_many).
    pub fn par_contains_many<Q: Borrow<K> + Sync>(&self, keys: &[Q], maybe: &mut Vec<bool>) {
        self.filter().par_contains_many(&self.par_hashes(keys), maybe);
    }

    fn par_hashes<Q: Borrow<K> + Sync>(&self, keys: &[Q]) -> Vec<Hash> {
        keys.par_iter().map(|key| self.hash(key.borrow())).collect()
    }
}
