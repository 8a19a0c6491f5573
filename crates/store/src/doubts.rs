//! Writes in doubt: the database call failed, and the write may have happened, or may still happen.
//!
//! A time-out says nothing about the write: the commit may arrive a minute later. Until the caller
//! says that nothing is in flight for the key any more, the key must stay in the filter, whatever the
//! database shows. So a key in doubt
//!
//! - counts as present when a mistake near it is repaired, when a member near it is removed, and
//!   when its shard is rebuilt: [`within`](Doubts::within) completes every listing;
//! - is already in the filter while its shard is trusted, so a write of the same key doesn't insert
//!   it again, and a removal doesn't remove it;
//! - stays in doubt until it is settled. Neither a later write of the key nor a rebuild settles it,
//!   because the first write may still arrive after a retry and a removal have succeeded.
//!
//! # Invariants
//! - Keys are added and removed under the lock of their stripe. A writer records its doubt while
//!   its write is still in flight. A rebuild first reads the keys in flight, and then the keys in
//!   doubt, so it misses none.
//! - Every doubt has a number. Settling concerns only the doubts recorded before the caller asked for it
//!   ([`mark`](Doubts::mark)): a write that fails meanwhile stays in doubt.
//! - The set is bounded. A key for which there is no room makes its shard *overflow*: the keys in doubt in
//!   this shard are not all known, so the shard is not trusted, and answers "maybe". A rebuild may make it
//!   trusted again only if its listing begins after the caller has settled everything up to the latest key
//!   for which there was no room ([`may_trust`](Doubts::may_trust)).

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::PoisonError;
use twiceshy::Hash;

/// A bounded set of keys in doubt.
pub(crate) struct Doubts<K> {
    limit: usize,
    /// Whether `state` holds anything. While this is false, readers needn't lock `state`. It
    /// changes only while the stripe of the key concerned is held.
    is_any: AtomicBool,
    state: Mutex<State<K>>,
}

struct State<K> {
    /// The number of the next doubt.
    next: u64,
    keys: BTreeMap<Hash, (u64, K)>,
    /// Shards with keys in doubt that are not in `keys`.
    overflows: BTreeMap<usize, Overflow>,
}

struct Overflow {
    /// The number of the latest key for which there was no room.
    latest: u64,
    /// Keys numbered below this are settled.
    settled: u64,
}

impl Overflow {
    fn is_settled(&self) -> bool {
        self.latest < self.settled
    }
}

/// A moment in the sequence of doubts.
#[derive(Clone, Copy)]
pub(crate) struct Mark(u64);

impl<K> Doubts<K> {
    pub(crate) fn new(limit: usize) -> Self {
        let state = State { next: 0, keys: BTreeMap::new(), overflows: BTreeMap::new() };
        Self { limit, is_any: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Updates `is_any` after something was removed from `state`.
    fn has_removed(&self, state: &State<K>) {
        let is_any = !state.keys.is_empty() || !state.overflows.is_empty();
        self.is_any.store(is_any, Ordering::Relaxed);
    }

    /// Records that a key is in doubt. If it was recorded before, it counts as recorded now.
    /// Returns `false` if there is no room; then the key's shard must not be trusted any more.
    #[must_use]
    pub(crate) fn record(&self, hash: Hash, shard: usize, key: K) -> bool {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        self.is_any.store(true, Ordering::Relaxed);
        if let Some(doubt) = state.keys.get_mut(&hash) {
            doubt.0 = number;
        } else if state.keys.len() < self.limit && !state.overflows.contains_key(&shard) {
            state.keys.insert(hash, (number, key));
        } else {
            let overflow = state.overflows.entry(shard);
            overflow.or_insert(Overflow { latest: 0, settled: 0 }).latest = number;
            return false;
        }
        true
    }

    /// Returns whether a key is in doubt. The caller holds the key's stripe.
    pub(crate) fn contains(&self, hash: Hash) -> bool {
        self.is_any() && self.state().keys.contains_key(&hash)
    }

    /// Returns whether a key may be in doubt, because it is recorded, or because its shard has had too many
    /// doubts to record them all. The caller holds the key's stripe.
    pub(crate) fn may_contain(&self, hash: Hash, shard: usize) -> bool {
        let is_in = |state: &State<K>| {
            state.keys.contains_key(&hash) || state.overflows.contains_key(&shard)
        };
        self.is_any() && is_in(&self.state())
    }

    /// Returns the hashes of the keys in doubt in an interval, in order. The caller holds the interval's
    /// stripes.
    pub(crate) fn within(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        if !self.is_any() {
            return Vec::new();
        }
        self.state().keys.range(hashes.clone()).map(|(&hash, _)| hash).collect()
    }

    /// Returns the number of keys in doubt, without those for which there was no room.
    pub(crate) fn len(&self) -> usize {
        self.state().keys.len()
    }

    /// Returns the approximate memory of the keys in doubt, in bytes. Tree nodes are about two
    /// thirds full.
    pub(crate) fn memory(&self) -> u64 {
        (self.len() * size_of::<(Hash, (u64, K))>() * 3 / 2) as u64
    }

    /// Returns copies of the keys in doubt, without those for which there was no room.
    pub(crate) fn keys(&self, copy: impl Fn(&K) -> K) -> Vec<K> {
        self.state().keys.values().map(|(_, key)| copy(key)).collect()
    }

    /// Returns a mark of the current moment. Settling with this mark ends only doubts recorded
    /// before it.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.state().next)
    }

    /// Ends the doubt about a key if the doubt is older than a mark. Returns whether there was such
    /// a doubt. The caller holds the key's stripe.
    pub(crate) fn settle(&self, hash: Hash, mark: Mark) -> bool {
        let mut state = self.state();
        let is_settled = state.keys.get(&hash).is_some_and(|&(number, _)| number < mark.0);
        if is_settled {
            state.keys.remove(&hash);
            self.has_removed(&state);
        }
        is_settled
    }

    /// Settles all keys that found no room and are older than a mark. Returns the overflowed
    /// shards, which must be rebuilt.
    pub(crate) fn settle_overflows(&self, mark: Mark) -> Vec<usize> {
        let mut state = self.state();
        for overflow in state.overflows.values_mut() {
            overflow.settled = overflow.settled.max(mark.0);
        }
        state.overflows.keys().copied().collect()
    }

    /// Returns whether a shard may be trusted if it is rebuilt from a listing that begins now.
    pub(crate) fn may_trust(&self, shard: usize) -> bool {
        self.state().overflows.get(&shard).is_none_or(Overflow::is_settled)
    }

    /// Forgets that a shard has overflowed, if all keys that found no room are settled. Returns
    /// whether the rebuilt shard may be trusted. [`may_trust`](Self::may_trust) was true when the
    /// rebuild began. A key that has found no room since then was in flight, so the rebuilt shard
    /// holds it. But the next rebuild would miss it, so the shard must not be trusted.
    pub(crate) fn trust(&self, shard: usize) -> bool {
        if !self.is_any() {
            return true;
        }
        let mut state = self.state();
        let is_trusted = state.overflows.get(&shard).is_none_or(Overflow::is_settled);
        if is_trusted {
            state.overflows.remove(&shard);
            self.has_removed(&state);
        }
        is_trusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: u128) -> Hash {
        Hash::from_u128(value)
    }

    #[test]
    fn settling_ends_only_doubts_recorded_before_the_mark() {
        let doubts = Doubts::new(10);
        assert!(doubts.record(hash(1), 0, "one"));
        let mark = doubts.mark();
        assert!(doubts.record(hash(2), 0, "two"));
        assert!(doubts.settle(hash(1), mark) && !doubts.settle(hash(2), mark));
        assert_eq!((doubts.keys(|&key| key), doubts.len()), (vec!["two"], 1));
        let mark = doubts.mark();
        assert!(doubts.record(hash(2), 0, "two"));
        assert!(!doubts.settle(hash(2), mark), "recorded again after the mark");
        assert!(doubts.settle(hash(2), doubts.mark()) && !doubts.contains(hash(2)));
    }

    #[test]
    fn shard_with_too_many_doubts_is_trusted_only_after_all_are_settled() {
        let doubts = Doubts::new(1);
        assert!(doubts.record(hash(1), 0, ()) && doubts.may_trust(3));
        assert!(!doubts.record(hash(2), 3, ()) && doubts.record(hash(1), 0, ()));
        assert!(!doubts.may_trust(3) && doubts.may_trust(0));
        assert!(doubts.may_contain(hash(9), 3) && !doubts.may_contain(hash(9), 0));
        let mark = doubts.mark();
        assert!(!doubts.record(hash(3), 3, ()));
        assert_eq!(doubts.settle_overflows(mark), [3]);
        assert!(!doubts.may_trust(3), "there was no room for a key after the mark");
        assert_eq!(doubts.settle_overflows(doubts.mark()), [3]);
        assert!(doubts.may_trust(3));
        doubts.trust(3);
        assert!(doubts.may_trust(3) && doubts.settle_overflows(doubts.mark()).is_empty());
    }

    #[test]
    fn doubts_in_an_interval_are_returned_in_hash_order() {
        let doubts = Doubts::new(10);
        for value in [5, 1, 9, 3] {
            assert!(doubts.record(hash(value), 0, value));
        }
        assert_eq!(doubts.within(&(hash(2)..=hash(5))), [hash(3), hash(5)]);
    }
}
