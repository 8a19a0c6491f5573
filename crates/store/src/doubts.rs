//! Writes in doubt: the database call failed, and the write may have happened, or may still happen.
//!
//! A time-out says nothing about the write: the commit may arrive a minute later. Until the caller
//! says that nothing is in flight for the key any more, the key must stay in the filter, whatever the
//! database shows. So a key in doubt
//!
//! - counts as present when a mistake near it is repaired, when a member near it is removed, and when
//!   its shard is rebuilt: [`within`](Doubts::within) completes every listing;
//! - is not inserted into the filter a second time by a write of the same key, and is not removed from
//!   it by a removal of the same key. While its shard is trusted, the filter holds it;
//! - stays in doubt until it is settled. Neither a later write of the key nor a rebuild settles it: a
//!   retry succeeds, a removal succeeds, and then the first write arrives.
//!
//! # Invariants
//! - A key comes and goes under the lock of its stripe. A writer records its doubt before it releases
//!   that lock, and a rebuild holds all stripes of its shard while it lists. So no listing misses a doubt.
//! - Every doubt has a number. Settling concerns only the doubts recorded before the caller asked for it
//!   ([`mark`](Doubts::mark)): a write that fails meanwhile stays in doubt.
//! - The set is bounded. A key that finds no room makes its shard *overflow*: nobody knows which keys are
//!   in doubt there, so the shard is not trusted, and answers "maybe". A rebuild may make it trusted
//!   again only if its listing begins after the caller has settled everything up to the latest key that
//!   found no room ([`may_trust`](Doubts::may_trust)).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use twiceshy::Hash;

/// A bounded set of keys in doubt.
pub(crate) struct Doubts<K> {
    limit: usize,
    /// Whether there is anything in `State`, so that nobody needs the lock while nothing is in doubt. It
    /// changes under the stripe of the key concerned, at least.
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
    /// The number of the latest key that found no room.
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

    /// Updates `is_any` after a removal.
    fn has_removed(&self, state: &State<K>) {
        let is_any = !state.keys.is_empty() || !state.overflows.is_empty();
        self.is_any.store(is_any, Ordering::Relaxed);
    }

    /// Records a key, or records it again. Returns `false` if there is no room for it: its shard must
    /// not be trusted any more.
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

    /// Returns whether a key is in doubt. The caller holds its stripe.
    pub(crate) fn contains(&self, hash: Hash) -> bool {
        self.is_any() && self.state().keys.contains_key(&hash)
    }

    /// Returns whether a key may be in doubt: it is, or its shard has overflowed. The caller holds its
    /// stripe.
    pub(crate) fn may_contain(&self, hash: Hash, shard: usize) -> bool {
        let is_in = |state: &State<K>| {
            state.keys.contains_key(&hash) || state.overflows.contains_key(&shard)
        };
        self.is_any() && is_in(&self.state())
    }

    /// Returns the hashes of the keys in doubt in an interval, in order. The caller holds its stripes.
    pub(crate) fn within(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        if !self.is_any() {
            return Vec::new();
        }
        self.state().keys.range(hashes.clone()).map(|(&hash, _)| hash).collect()
    }

    /// Returns the number of keys in doubt, without those that found no room.
    pub(crate) fn len(&self) -> usize {
        self.state().keys.len()
    }

    /// Returns copies of the keys in doubt, without those that found no room.
    pub(crate) fn keys(&self, copy: impl Fn(&K) -> K) -> Vec<K> {
        self.state().keys.values().map(|(_, key)| copy(key)).collect()
    }

    /// Returns the present moment. Settling with it concerns the doubts recorded before.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.state().next)
    }

    /// Ends a doubt that is older than a mark. Returns whether there was one. The caller holds its
    /// stripe.
    pub(crate) fn settle(&self, hash: Hash, mark: Mark) -> bool {
        let mut state = self.state();
        let is_settled = state.keys.get(&hash).is_some_and(|&(number, _)| number < mark.0);
        if is_settled {
            state.keys.remove(&hash);
            self.has_removed(&state);
        }
        is_settled
    }

    /// Settles the keys older than a mark that found no room. Returns their shards, which must be
    /// rebuilt.
    pub(crate) fn settle_overflows(&self, mark: Mark) -> Vec<usize> {
        let mut state = self.state();
        for overflow in state.overflows.values_mut() {
            overflow.settled = overflow.settled.max(mark.0);
        }
        state.overflows.keys().copied().collect()
    }

    /// Returns whether a shard may be trusted if it is rebuilt from a listing that begins now. The
    /// caller holds all stripes of the shard.
    pub(crate) fn may_trust(&self, shard: usize) -> bool {
        self.state().overflows.get(&shard).is_none_or(Overflow::is_settled)
    }

    /// Forgets that a shard has overflowed: the caller [may](Self::may_trust) trust it, has rebuilt it,
    /// and has held all its stripes since it asked.
    pub(crate) fn trust(&self, shard: usize) {
        if self.is_any() {
            let mut state = self.state();
            state.overflows.remove(&shard);
            self.has_removed(&state);
        }
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
    fn an_overflowed_shard_is_trusted_only_after_all_its_keys_are_settled() {
        let doubts = Doubts::new(1);
        assert!(doubts.record(hash(1), 0, ()) && doubts.may_trust(3));
        assert!(!doubts.record(hash(2), 3, ()) && doubts.record(hash(1), 0, ()));
        assert!(!doubts.may_trust(3) && doubts.may_trust(0));
        assert!(doubts.may_contain(hash(9), 3) && !doubts.may_contain(hash(9), 0));
        let mark = doubts.mark();
        assert!(!doubts.record(hash(3), 3, ()));
        assert_eq!(doubts.settle_overflows(mark), [3]);
        assert!(!doubts.may_trust(3), "a key found no room after the mark");
        assert_eq!(doubts.settle_overflows(doubts.mark()), [3]);
        assert!(doubts.may_trust(3));
        doubts.trust(3);
        assert!(doubts.may_trust(3) && doubts.settle_overflows(doubts.mark()).is_empty());
    }

    #[test]
    fn listings_are_completed_in_hash_order() {
        let doubts = Doubts::new(10);
        for value in [5, 1, 9, 3] {
            assert!(doubts.record(hash(value), 0, value));
        }
        assert_eq!(doubts.within(&(hash(2)..=hash(5))), [hash(3), hash(5)]);
    }
}
