//! Locks by hash interval, and the mistakes that they protect.
//!
//! A write or a repair holds the stripes of all hashes that the filter could confuse with its own. So
//! writes of one key happen one after the other, in the filter and in the backend, and the listing of a
//! repair stays true until the repair is done.

use smallvec::SmallVec;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use twiceshy::{Hash, members::OrderedHashes};

/// Hash intervals of equal length, each with a lock and its mistakes.
pub(crate) struct Stripes<M = OrderedHashes> {
    stripes: Box<[Mutex<M>]>,
}

const BITS: u32 = 12;

fn index(hash: Hash) -> usize {
    (hash.as_u128() >> (128 - BITS)) as usize
}

impl<M: Default> Stripes<M> {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..1 << BITS).map(|_| Mutex::default()).collect() }
    }

    /// Locks all stripes that have hashes in some intervals, always in ascending order, so that there are
    /// no deadlocks.
    pub(crate) fn lock(
        &self,
        hashes: impl IntoIterator<Item = RangeInclusive<Hash>>,
    ) -> Locked<'_, M> {
        let mut indices = SmallVec::<[usize; 2]>::new();
        for hashes in hashes {
            for index in index(*hashes.start())..=index(*hashes.end()) {
                indices.push(index);
            }
        }
        if indices.len() > 1 {
            indices.sort_unstable();
            indices.dedup();
        }
        // After a panic, the set of mistakes is still valid.
        let mut stripes = SmallVec::with_capacity(indices.len());
        for &index in &indices {
            let stripe = self.stripes[index].lock();
            stripes.push((index, stripe.unwrap_or_else(PoisonError::into_inner)));
        }
        Locked { stripes }
    }

    /// Returns whether a thread has panicked while it held a stripe. It may have left the filter half
    /// changed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.stripes.iter().any(Mutex::is_poisoned)
    }

    /// Returns the sum of a number over all stripes.
    pub(crate) fn sum(&self, count: impl Fn(&M) -> u64) -> u64 {
        let stripes = self.stripes.iter();
        stripes.map(|stripe| count(&stripe.lock().unwrap_or_else(PoisonError::into_inner))).sum()
    }
}

/// A set of locked stripes.
pub(crate) struct Locked<'a, M = OrderedHashes> {
    /// Sorted by index.
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

    /// Inserts a mistake. Returns whether it is new.
    pub(crate) fn insert_mistake(&mut self, mistake: Hash) -> bool {
        self.stripe_mut(mistake).insert(mistake)
    }

    /// Removes a mistake. Returns whether the stripe held it.
    pub(crate) fn remove_mistake(&mut self, mistake: Hash) -> bool {
        self.stripe_mut(mistake).remove(mistake)
    }

    pub(crate) fn has_mistake(&self, mistake: Hash) -> bool {
        self.stripe(mistake).contains(mistake)
    }

    /// Returns whether there are any mistakes in the locked stripes.
    pub(crate) fn has_mistakes(&self) -> bool {
        self.stripes.iter().any(|(_, mistakes)| !mistakes.is_empty())
    }

    /// Evicts a mistake from the same stripe, preferring one other than `mistake`, and returns it.
    pub(crate) fn evict(&mut self, mistake: Hash) -> Hash {
        let mistakes = self.stripe_mut(mistake);
        let next = mistakes.range(mistake..=Hash::MAX).find(|&other| other != mistake);
        let other = next.or(mistakes.iter().next()).unwrap_or(mistake);
        mistakes.remove(other);
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stripe: u128, low: u128) -> Hash {
        Hash::from_u128(stripe << (128 - BITS) | low)
    }

    #[test]
    fn whole_intervals_are_locked_and_their_mistakes_found() {
        let stripes: Stripes = Stripes::new();
        let mut locked =
            stripes.lock([at(5, 9)..=at(6, 3), at(5, 0)..=at(5, 1), at(9, 0)..=at(9, 0)]);
        assert!(locked.covers(&(at(5, 0)..=at(6, 7))) && locked.covers(&(at(9, 1)..=at(9, 2))));
        assert!(!locked.covers(&(at(6, 0)..=at(7, 0))) && !locked.covers(&(at(4, 0)..=at(5, 0))));
        let mistakes = [at(5, 3), at(5, 7), at(6, 1), at(9, 4)];
        assert!(mistakes.iter().all(|&mistake| locked.insert_mistake(mistake)));
        assert!(!locked.insert_mistake(at(5, 7)) && locked.has_mistake(at(5, 7)));
        assert_eq!(locked.mistakes(&(at(5, 4)..=at(6, 1))), [at(5, 7), at(6, 1)]);
        assert_eq!(locked.evict(at(5, 3)), at(5, 7));
        assert_eq!(locked.evict(at(5, 3)), at(5, 3));
        assert!(!locked.remove_mistake(at(5, 3)) && locked.remove_mistake(at(9, 4)));
        drop(locked);
        assert_eq!(
            stripes.lock([at(0, 0)..=Hash::MAX]).mistakes(&(Hash::MIN..=Hash::MAX)),
            [at(6, 1)]
        );
    }
}
