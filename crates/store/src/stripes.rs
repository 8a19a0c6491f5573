//! Locks by hash interval, and the mistakes that they protect.
//!
//! A write or a repair holds the stripes of all hashes that the filter could confuse with its own. So
//! writes of one key happen one after the other, in the filter and in the backend, and the listing of a
//! repair stays true until the repair is done.

use crate::sync::{Mutex, MutexGuard, is_poisoned};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{PoisonError, TryLockError};
use twiceshy::{Hash, members::OrderedHashes};

/// Hash intervals of equal length, each with a lock and its mistakes.
pub(crate) struct Stripes<M = Mistakes> {
    stripes: Box<[Mutex<M>]>,
}

const BITS: u32 = 9;

/// The mistakes of a stripe that are kept in memory. An empty set takes only a pointer, because a
/// [`Store`](crate::Store) keeps its mistakes in the backend.
#[derive(Default)]
pub(crate) struct Mistakes(Option<Box<OrderedHashes>>);

impl Mistakes {
    pub(crate) fn memory_usage(&self) -> u64 {
        self.0.as_ref().map_or(0, |hashes| hashes.memory_usage())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |hashes| hashes.len())
    }

    /// Inserts a mistake. Returns whether it is new.
    pub(crate) fn insert(&mut self, mistake: Hash) -> bool {
        self.0.get_or_insert_default().insert(mistake)
    }

    /// Removes a mistake. Returns whether it was there.
    pub(crate) fn remove(&mut self, mistake: Hash) -> bool {
        let is_removed = self.0.as_mut().is_some_and(|hashes| hashes.remove(mistake));
        self.0.take_if(|hashes| hashes.is_empty());
        is_removed
    }

    /// Removes one mistake, if possible a different one than `mistake`.
    pub(crate) fn evict(&mut self, mistake: Hash) {
        let next = self.range(mistake..=Hash::MAX).find(|&other| other != mistake);
        let first = || self.range(Hash::MIN..=Hash::MAX).next();
        let other = next.or_else(first).unwrap_or(mistake);
        self.remove(other);
    }

    fn contains(&self, mistake: Hash) -> bool {
        self.0.as_ref().is_some_and(|hashes| hashes.contains(mistake))
    }

    fn range(&self, hashes: RangeInclusive<Hash>) -> impl Iterator<Item = Hash> {
        self.0.iter().flat_map(move |mistakes| mistakes.range(hashes.clone()))
    }
}

fn index(hash: Hash) -> usize {
    (hash.as_u128() >> (128 - BITS)) as usize
}

/// Returns the indices of the stripes that overlap any of these intervals, in ascending order.
fn indices(hashes: impl IntoIterator<Item = RangeInclusive<Hash>>) -> SmallVec<[usize; 2]> {
    let mut indices = SmallVec::new();
    for hashes in hashes {
        indices.extend(index(*hashes.start())..=index(*hashes.end()));
    }
    if indices.len() > 1 {
        indices.sort_unstable();
        indices.dedup();
    }
    indices
}

impl<M: Default> Stripes<M> {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..1 << BITS).map(|_| Mutex::default()).collect() }
    }

    /// Locks all stripes that overlap any of these intervals, always in ascending order, so that there are no
    /// deadlocks.
    pub(crate) fn lock(
        &self,
        hashes: impl IntoIterator<Item = RangeInclusive<Hash>>,
    ) -> Locked<'_, M> {
        let indices = indices(hashes);
        // Ignore poisoning, because the set of mistakes is valid even after a panic.
        let mut stripes = SmallVec::with_capacity(indices.len());
        for &index in &indices {
            let stripe = self.stripes[index].lock();
            stripes.push((index, stripe.unwrap_or_else(PoisonError::into_inner)));
        }
        Locked { stripes }
    }

    /// Returns the bytes of memory that the locks take.
    pub(crate) fn memory(&self) -> u64 {
        size_of_val(&*self.stripes) as u64
    }

    /// Locks stripes like [`lock`](Self::lock), but returns `None` if another thread holds one of them.
    pub(crate) fn try_lock(
        &self,
        hashes: impl IntoIterator<Item = RangeInclusive<Hash>>,
    ) -> Option<Locked<'_, M>> {
        let indices = indices(hashes);
        let mut stripes = SmallVec::with_capacity(indices.len());
        for &index in &indices {
            let stripe = match self.stripes[index].try_lock() {
                Ok(stripe) => stripe,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            stripes.push((index, stripe));
        }
        Some(Locked { stripes })
    }

    /// Returns whether a thread has panicked while it held a stripe. It may have left the filter half
    /// changed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.stripes.iter().any(is_poisoned)
    }
}

impl Stripes {
    /// Returns the mistakes in an interval. Locks one stripe after the other.
    pub(crate) fn mistakes(&self, hashes: &RangeInclusive<Hash>) -> BTreeSet<Hash> {
        let mut mistakes = BTreeSet::new();
        for stripe in &self.stripes[index(*hashes.start())..=index(*hashes.end())] {
            let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            mistakes.extend(stripe.range(hashes.clone()));
        }
        mistakes
    }
}

/// A set of locked stripes.
pub(crate) struct Locked<'a, M = Mistakes> {
    /// The locked stripes with their indices, sorted by index.
    stripes: SmallVec<[(usize, MutexGuard<'a, M>); 2]>,
}

impl<M> Locked<'_, M> {
    /// Returns whether a whole interval is locked.
    pub(crate) fn covers(&self, hashes: &RangeInclusive<Hash>) -> bool {
        let mut indices = index(*hashes.start())..=index(*hashes.end());
        indices.all(|index| self.position(index).is_ok())
    }

    fn position(&self, index: usize) -> Result<usize, usize> {
        self.stripes.binary_search_by_key(&index, |(index, _)| *index)
    }

    /// Returns the mistakes in the stripe of a hash, which must be locked.
    pub(crate) fn stripe(&self, hash: Hash) -> &M {
        let position = self.position(index(hash)).expect("a locked stripe");
        &self.stripes[position].1
    }

    pub(crate) fn stripe_mut(&mut self, hash: Hash) -> &mut M {
        let position = self.position(index(hash)).expect("a locked stripe");
        &mut self.stripes[position].1
    }

    /// Returns the mistakes in the stripes of an interval, which must be locked.
    pub(crate) fn stripes(&self, hashes: &RangeInclusive<Hash>) -> impl Iterator<Item = &M> {
        let indices = index(*hashes.start())..=index(*hashes.end());
        let within = self.stripes.iter().filter(move |(index, _)| indices.contains(index));
        within.map(|(_, mistakes)| &**mistakes)
    }
}

impl Locked<'_> {
    /// Returns the mistakes in a locked interval, in order.
    pub(crate) fn mistakes(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        let stripes = self.stripes(hashes);
        stripes.flat_map(|mistakes| mistakes.range(hashes.clone())).collect()
    }

    pub(crate) fn has_mistake(&self, mistake: Hash) -> bool {
        self.stripe(mistake).contains(mistake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stripe: u128, low: u128) -> Hash {
        Hash::from_u128(stripe << (128 - BITS) | low)
    }

    #[test]
    fn lock_covers_all_stripes_of_its_intervals_and_finds_their_mistakes() {
        let stripes: Stripes = Stripes::new();
        let mut locked =
            stripes.lock([at(5, 9)..=at(6, 3), at(5, 0)..=at(5, 1), at(9, 0)..=at(9, 0)]);
        assert!(locked.covers(&(at(5, 0)..=at(6, 7))) && locked.covers(&(at(9, 1)..=at(9, 2))));
        assert!(!locked.covers(&(at(6, 0)..=at(7, 0))) && !locked.covers(&(at(4, 0)..=at(5, 0))));
        let mistakes = [at(5, 3), at(5, 7), at(6, 1), at(9, 4)];
        assert!(mistakes.iter().all(|&mistake| locked.stripe_mut(mistake).insert(mistake)));
        assert!(!locked.stripe_mut(at(5, 7)).insert(at(5, 7)) && locked.has_mistake(at(5, 7)));
        assert_eq!(locked.mistakes(&(at(5, 4)..=at(6, 1))), [at(5, 7), at(6, 1)]);
        locked.stripe_mut(at(5, 3)).evict(at(5, 3));
        assert!(!locked.has_mistake(at(5, 7)) && locked.has_mistake(at(5, 3)));
        locked.stripe_mut(at(5, 3)).evict(at(5, 3));
        assert!(!locked.has_mistake(at(5, 3)) && locked.stripe_mut(at(9, 4)).remove(at(9, 4)));
        let overlapping = || stripes.try_lock([at(6, 0)..=at(7, 0)]);
        assert!(overlapping().is_none() && stripes.try_lock([at(7, 0)..=at(8, 0)]).is_some());
        drop(locked);
        assert!(overlapping().is_some());
        assert_eq!(
            stripes.lock([at(0, 0)..=Hash::MAX]).mistakes(&(Hash::MIN..=Hash::MAX)),
            [at(6, 1)]
        );
    }
}
