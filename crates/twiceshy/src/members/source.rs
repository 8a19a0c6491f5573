//! Sources of the lists of members that repairs need.

use crate::{Hash, Member};
use core::borrow::Borrow;
use core::convert::Infallible;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;

/// A store that can list the members whose hashes lie in an interval, such as a `BTreeMap`, an LSM
/// tree, or an SQL table with an indexed hash column.
pub trait MemberSource {
    /// The type of a listed member. A [`Listing`](crate::Listing) can be made of
    /// [`Member`](crate::Member)s or of hashes.
    type Member;
    /// The error that listing members can return.
    type Error;

    /// Returns all members in the interval, in any order, each as often as it was inserted into
    /// the filter.
    ///
    /// # Errors
    /// If the members can't be listed. An incomplete list must be an error.
    fn members(&self, suspects: RangeInclusive<Hash>) -> Result<Vec<Self::Member>, Self::Error>;
}

/// An in-memory map from hashes to keys: the simplest [`MemberSource`], and an exact set of keys
/// that distinguishes mistakes from members.
///
/// Like a filter, it holds a key as often as it was inserted.
#[derive(Clone, Debug)]
pub struct MemoryMap<K> {
    /// The keys of each hash. Different keys can have the same hash.
    members: BTreeMap<Hash, Vec<K>>,
}

impl<K> Default for MemoryMap<K> {
    fn default() -> Self {
        Self { members: BTreeMap::new() }
    }
}

impl<K: PartialEq> MemoryMap<K> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a member.
    pub fn insert(&mut self, hash: Hash, key: K) {
        self.members.entry(hash).or_default().push(key);
    }

    /// Removes one copy of a member. Returns whether it was present.
    pub fn remove<Q: PartialEq + ?Sized>(&mut self, hash: Hash, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let Some(keys) = self.members.get_mut(&hash) else { return false };
        let found = keys.iter().position(|other| other.borrow() == key);
        found.map(|index| keys.swap_remove(index));
        if keys.is_empty() {
            self.members.remove(&hash);
        }
        found.is_some()
    }

    /// Returns whether a key is a member.
    pub fn contains<Q: PartialEq + ?Sized>(&self, hash: Hash, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.members.get(&hash).is_some_and(|keys| keys.iter().any(|other| other.borrow() == key))
    }
}

impl<K> MemberSource for MemoryMap<K> {
    type Member = Member;
    type Error = Infallible;

    fn members(&self, suspects: RangeInclusive<Hash>) -> Result<Vec<Member>, Infallible> {
        let listed = within(&self.members, suspects);
        Ok(listed.map(|(&hash, keys)| Member { hash, count: keys.len() as u64 }).collect())
    }
}

/// Lists the hashes of any map. No two members may share a hash.
impl<V> MemberSource for BTreeMap<Hash, V> {
    type Member = Member;
    type Error = Infallible;

    fn members(&self, suspects: RangeInclusive<Hash>) -> Result<Vec<Member>, Infallible> {
        Ok(within(self, suspects).map(|(&hash, _)| hash.into()).collect())
    }
}

/// Returns the part of a map in an interval. Unlike `BTreeMap::range`, it doesn't panic if the
/// interval ends before it begins.
fn within<V>(
    map: &BTreeMap<Hash, V>,
    hashes: RangeInclusive<Hash>,
) -> impl Iterator<Item = (&Hash, &V)> {
    (!hashes.is_empty()).then(|| map.range(hashes)).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_equal_hashes_are_stored_and_listed_separately() {
        let mut map = MemoryMap::new();
        let hash = Hash::from_u128(7);
        map.insert(hash, "a".to_owned());
        map.insert(hash, "b".to_owned());
        map.insert(hash, "b".to_owned());
        map.insert(Hash::from_u128(9), "c".to_owned());
        assert_eq!(map.members(hash..=hash), Ok(vec![Member { hash, count: 3 }]));
        assert!(map.contains(hash, "a") && !map.contains(hash, "c"));
        assert!(map.remove(hash, "b") && map.remove(hash, "b") && !map.remove(hash, "b"));
        assert!(map.remove(hash, "a") && !map.remove(hash, "a"));
        assert_eq!(map.members(Hash::MIN..=Hash::MAX), Ok(vec![Hash::from_u128(9).into()]));
    }

    #[test]
    fn interval_that_ends_before_it_begins_has_no_members() {
        let mut map = MemoryMap::new();
        map.insert(Hash::from_u128(7), "a");
        assert_eq!(map.members(Hash::MAX..=Hash::MIN), Ok(vec![]));
        let map = BTreeMap::from([(Hash::from_u128(7), "a")]);
        assert_eq!(map.members(Hash::MAX..=Hash::MIN), Ok(vec![]));
    }
}
