//! Rebuilding and validating the filter.

use super::key::Span;
use super::open::builder;
use super::{Current, Filter, Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Keyspace};
use crate::census::Census;
use crate::error::{Result, StoreError};
use crate::layout;
use crate::maintained::retry_delay;
use crate::sizing::Sizing;
use crate::stats::Count;
use crate::stripes::Locked;
use crate::sync::atomic::Ordering;
use crate::two_maps::{self, Difference};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::time::Instant;
use twiceshy::{
    Answer, Hash,
    error::{AdaptError, InsertError},
    hash::KeyedHasher,
    range::{self, RangeKey},
};

/// The maximum load of a filter. Inserts into a fuller filter are slow.
pub(super) const FULL: f64 = 0.95;

/// The maximum load of a filter that was rebuilt because repairs had filled it.
const ROOMY: f64 = 0.8;

/// All hashes.
const ALL: RangeInclusive<Hash> = Hash::MIN..=Hash::MAX;

/// A rebuild that has failed.
pub(super) struct Failure {
    /// When a write may try again.
    retry: Instant,
    /// The number of rebuilds that have failed one after the other.
    failures: u32,
    reason: String,
}

/// The result of work that needs room in the filter. If there is too little room, nothing was done, and
/// the inner error says why.
pub(super) type Tried<T> = Result<Result<T>>;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Builds the filter from the backend.
    pub(super) fn recover(&self) -> Result<()> {
        let locked = self.stripes.lock([ALL]);
        let keys = self.count_keys()?;
        // Leave room for more members, so that the filter needn't grow immediately.
        let needed = keys.members as usize + self.mistakes.load(Ordering::Relaxed);
        let capacity = self.sizing.capacity.max(needed + needed / 4);
        if self.replace(&locked, capacity)? != keys {
            self.reconcile()?;
            self.replace(&locked, capacity)?;
        }
        Ok(())
    }

    /// Rebuilds the filter from the data in the backend. This clears *ghosts*, which are fingerprints without
    /// a key. If the map of keys and the reverse map differ, this first makes them equal. Writes wait in the
    /// meantime; lookups don't.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn rebuild(&self) -> Result<()> {
        // Without this, the next open would load the old filter.
        self.storage.invalidate_saved()?;
        let locked = self.stripes.lock([ALL]);
        self.reconcile()?;
        let is_due = self.take_due();
        self.replace_with_room(&locked, is_due)
    }

    /// Notes that repairs have filled the filter of a generation, so that the next write rebuilds it.
    pub(super) fn wants_room_in(&self, generation: u64) {
        self.due.store(generation + 1, Ordering::Relaxed);
    }

    /// Rebuilds the filter if repairs have filled it. If that fails, the old filter stays in use. Does
    /// nothing for a while after a rebuild has failed. Don't hold a stripe.
    pub(super) fn make_room_for_repairs(&self) {
        if self.due.load(Ordering::Relaxed) == 0 || self.recent_failure().is_some() {
            return;
        }
        let locked = self.stripes.lock([ALL]);
        if self.take_due() {
            // The failure is counted. The next repair that is skipped leads to another try.
            let _ = self.replace_with_room(&locked, true);
        }
    }

    /// Returns whether repairs have filled the current filter, and resets `due`. The caller holds
    /// all stripes.
    fn take_due(&self) -> bool {
        self.due.swap(0, Ordering::Relaxed) == self.filter().generation + 1
    }

    /// Replaces the filter by one in which forgotten repairs take no room. The capacity stays the
    /// same, unless repairs have filled the old filter (`is_due`), and the same capacity would not
    /// make room.
    fn replace_with_room(&self, locked: &Locked<'_, Mistakes>, is_due: bool) -> Result<()> {
        let state = || {
            let current = self.filter();
            (current.capacity, current.filter.stats().load)
        };
        let (capacity, load) = state();
        // If only one place in the filter is full, a new filter of the same size may be full there,
        // too, so double the capacity.
        let is_full_somewhere = is_due && load <= ROOMY;
        self.replace(locked, if is_full_somewhere { doubled(capacity) } else { capacity })?;
        let (capacity, load) = state();
        if is_due && load > ROOMY {
            self.replace(locked, doubled(capacity))?;
        }
        Ok(())
    }

    /// Checks every invariant of the filter, that the filter holds every key in the backend, and that
    /// the two maps are equal. Writes wait in the meantime; lookups don't. For tests, and for diagnosing
    /// suspected damage.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] says what is wrong. If the backend fails, its error.
    pub fn validate(&self) -> Result<()> {
        let invalid = |what: String| Err(StoreError::Invalid(what));
        let _locked = self.stripes.lock([ALL]);
        if let Err(broken) = self.filter().filter.validate() {
            return invalid(broken.to_string());
        }
        for key in two_maps::keys(&self.storage.backend, Keyspace::Keys) {
            let Some(number) = Number::<K>::from_bytes(&key?) else { continue };
            if !self.filter().filter.contains(number) {
                return invalid(format!("the filter lacks key {}", number.number()));
            }
        }
        for difference in self.compared() {
            let Some(Difference { key, is_unlisted, .. }) = difference? else { continue };
            let fault = if is_unlisted { "lacks" } else { "lists absent" };
            let number = Number::<K>::from_bytes(&key).map_or(0, RangeKey::number);
            return invalid(format!("the reverse map {fault} key {number}"));
        }
        Ok(())
    }

    /// Compares the map of keys and the reverse map.
    fn compared(&self) -> impl Iterator<Item = Result<Option<Difference>>> {
        two_maps::compared(&self.storage.backend, |key| {
            Some(self.partitions.hash_of(Number::from_bytes(key)?))
        })
    }

    /// Calls `work`. If there is no room in the filter, builds a larger one, and calls `work` again.
    pub(super) fn making_room<T>(&self, work: impl Fn() -> Tried<T>) -> Result<T> {
        const TRIES: u32 = 4;
        let mut tries = 0;
        loop {
            let generation = self.filter().generation;
            let error = match work()? {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            // A full filter doesn't count as a try, because the next try uses a larger filter, until memory
            // runs out.
            tries += u32::from(!is_full(&error));
            if tries > TRIES {
                return Err(error);
            }
            self.grow(generation, &error)?;
        }
    }

    /// Replaces the filter, unless another thread has done so. The new filter has twice the capacity if the
    /// old one is full, and otherwise the same capacity. If a rebuild has failed a short while ago, fails at
    /// once, because reading all members again would take long, and would probably fail again.
    fn grow(&self, generation: u64, error: &StoreError) -> Result<()> {
        if let Some(failure) = self.recent_failure() {
            return Err(failure);
        }
        let locked = self.stripes.lock([ALL]);
        let current = self.filter();
        let (capacity, is_current) = (current.capacity, current.generation == generation);
        drop(current);
        if !is_current {
            return Ok(());
        }
        self.replace(&locked, if is_full(error) { doubled(capacity) } else { capacity })?;
        Ok(())
    }

    /// Builds a filter for at least `capacity` members, and replaces the current filter with it. The current
    /// filter answers in the meantime. Returns the census of the members.
    fn replace(&self, locked: &Locked<'_, Mistakes>, capacity: usize) -> Result<Census> {
        let built = self.build(locked, capacity);
        self.rebuild_bytes.store(0, Ordering::Relaxed);
        let is_built = built.is_ok();
        self.counters.add(if is_built { Count::Rebuilds } else { Count::RebuildsFailed }, 1);
        self.note_failure(built.as_ref().err());
        let (filter, capacity, census) = built?;
        self.is_outdated.store(true, Ordering::Release);
        let mut current = self.filter_mut();
        let generation = current.generation + 1;
        *current = Current { filter, capacity, generation };
        Ok(census)
    }

    /// Notes why a rebuild has failed, or that it has succeeded. The more rebuilds have failed one after the
    /// other, the later the next write tries another one.
    fn note_failure(&self, error: Option<&StoreError>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = failure.as_ref().map_or(0, |failure| failure.failures);
        *failure = error.map(|error| Failure {
            retry: Instant::now() + retry_delay(failures),
            failures: failures.saturating_add(1),
            reason: error.to_string(),
        });
    }

    /// Returns the failure of the last rebuild, if it is too early to try again.
    fn recent_failure(&self) -> Option<StoreError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = failure.as_ref().filter(|failure| Instant::now() < failure.retry);
        recent.map(|failure| StoreError::RebuildFailed { reason: failure.reason.clone() })
    }

    /// Builds a filter for at least `capacity` members. Returns it with its capacity, and the census of the
    /// members.
    fn build(
        &self,
        locked: &Locked<'_, Mistakes>,
        mut capacity: usize,
    ) -> Result<(Filter<K>, usize, Census)> {
        loop {
            let sizing = Sizing { capacity, ..self.sizing };
            let longest_range = self.partitions.longest_range();
            let mut filter = builder(&sizing, longest_range, &self.secret).build()?;
            self.rebuild_bytes.store(filter.stats().memory, Ordering::Relaxed);
            match self.fill(&mut filter, locked) {
                Ok(census) => return Ok((filter, capacity, census)),
                Err(error) if is_full(&error) => capacity = doubled(capacity),
                Err(error) => return Err(error),
            }
        }
    }

    /// Inserts all members into an empty filter, and repairs all mistakes in it, in one pass over both.
    fn fill(&self, filter: &mut Filter<K>, locked: &Locked<'_, Mistakes>) -> Result<Census> {
        let hasher = KeyedHasher::new(&self.secret);
        let mut census = Census::default();
        let mut insert = |filter: &mut Filter<K>, member: Number<K>| {
            census = census + hasher.hash_bytes(&member.to_bytes()).into();
            insert(filter, member)
        };
        self.counters.add(Count::BackendScans, 1);
        let mut members = self.listed(&ALL).peekable();
        // Members that are already inserted, and that the filter may confuse with the next mistake.
        let mut near: VecDeque<(Hash, Number<K>)> = VecDeque::new();
        for mistake in locked.stripes(&ALL).flat_map(|mistakes| mistakes.within(&ALL)) {
            let suspects = filter.suspects(Number::new(mistake.first));
            let [first, last] =
                [suspects.start(), suspects.end()].map(|&hash| layout::prefix(hash));
            while near.pop_front_if(|(hash, _)| layout::prefix(*hash) < first).is_some() {}
            let is_next = |member: &Result<(Hash, Number<K>)>| {
                member.as_ref().map_or(true, |&(hash, _)| layout::prefix(hash) <= last)
            };
            while let Some(member) = members.next_if(is_next) {
                let (hash, member) = member?;
                insert(filter, member)?;
                if layout::prefix(hash) >= first {
                    near.push_back((hash, member));
                }
            }
            let listed = near.iter().filter(|(hash, _)| suspects.contains(hash));
            let listed: Vec<Number<K>> = listed.map(|&(_, member)| member).collect();
            adapt(filter, mistake, &listed)?;
        }
        for member in members {
            insert(filter, member?.1)?;
        }
        Ok(census)
    }

    /// Returns the census of the keys.
    fn count_keys(&self) -> Result<Census> {
        let hasher = KeyedHasher::new(&self.secret);
        let keys = two_maps::keys(&self.storage.backend, Keyspace::Keys);
        keys.map(|key| Ok(hasher.hash_bytes(&key?))).sum()
    }

    /// Makes the two maps equal. The caller holds all stripes.
    fn reconcile(&self) -> Result<()> {
        for difference in self.compared() {
            if let Some(difference) = difference? {
                self.storage.write(&difference.correction())?;
            }
        }
        Ok(())
    }
}

fn is_full(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Filter(InsertError::Full { .. }) | StoreError::Repair(AdaptError::Full { .. })
    )
}

fn doubled(capacity: usize) -> usize {
    capacity.max(1).saturating_mul(2)
}

/// Inserts a member if there is room.
pub(super) fn insert<K: StoredKey>(
    filter: &mut Filter<K>,
    member: Number<K>,
) -> Result<(), InsertError> {
    let load = filter.stats().load;
    if load > FULL { Err(InsertError::Full { load }) } else { filter.insert(member) }
}

/// Repairs the filter's answer to a span, unless a member is in the span. `members` are all members
/// that the filter could confuse with the span. Returns the number of ghosts that were cleared, or
/// `None` if there was nothing to repair.
pub(super) fn adapt<K: StoredKey>(
    filter: &mut Filter<K>,
    span: Span,
    members: &[Number<K>],
) -> Result<Option<u64>, AdaptError> {
    // A write that failed may have made a kept mistake a member.
    if members.iter().any(|member| span.contains(member.number())) {
        return Ok(None);
    }
    match filter.check_range(span.numbers()) {
        Answer::Absent => Ok(None),
        Answer::Maybe(claim) => {
            let listing = range::Listing::new(members).dropping_ghosts();
            Ok(Some(filter.adapt(&claim, listing)?.ghosts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FaultyBackend;
    use crate::{MemoryBackend, OpenOptions};
    use std::sync::Arc;
    use std::thread::sleep;
    use std::time::Duration;
    use twiceshy_deadline::Deadline;

    type Faulty = Arc<FaultyBackend<MemoryBackend>>;

    /// More failures than this would take many minutes, because the delay doubles with each of them.
    const MANY: u64 = 15;

    fn open() -> (RangeStore<u64, Faulty>, Faulty) {
        let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let options = OpenOptions::new().capacity(8);
        (options.open_ranges_with(Arc::clone(&backend), None).unwrap(), backend)
    }

    /// Calls `work` until it succeeds, which takes as long as the delay.
    fn succeed(work: impl Fn() -> bool) {
        while !work() {
            sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn failed_growth_is_not_retried_by_every_put() {
        let _deadline = Deadline::new();
        let (store, backend) = open();
        backend.fail_scans(true);
        let refused =
            (0..5000).map(|n| n * 1001).find(|&key| store.put(key, b"").is_err()).unwrap();
        for _ in 0..2000 {
            let error = store.put(refused, b"").unwrap_err();
            assert!(matches!(error, StoreError::RebuildFailed { .. } | StoreError::Backend(_)));
        }
        let stats = store.stats();
        assert!((1..MANY).contains(&stats.rebuilds_failed), "{stats:?}");
        backend.heal();
        succeed(|| store.put(refused, b"").is_ok());
        assert!(store.get(refused).unwrap().is_some());
        store.validate().unwrap();
    }

    #[test]
    fn failed_rebuild_for_repairs_is_not_retried_by_every_write() {
        let _deadline = Deadline::new();
        let (store, backend) = open();
        store.put(7, b"").unwrap();
        backend.fail_scans(true);
        let delete = || {
            store.wants_room_in(store.filter().generation);
            assert!(!store.delete(u64::MAX).unwrap());
            store.stats()
        };
        for _ in 0..2000 {
            delete();
        }
        let stats = delete();
        assert!((1..MANY).contains(&stats.rebuilds_failed) && stats.rebuilds == 0, "{stats:?}");
        backend.heal();
        succeed(|| delete().rebuilds > 0);
        store.validate().unwrap();
    }

    #[test]
    fn rebuild_by_the_caller_is_tried_at_once() {
        let (store, backend) = open();
        backend.fail_scans(true);
        let refused =
            (0..5000).map(|n| n * 1001).find(|&key| store.put(key, b"").is_err()).unwrap();
        store.rebuild().unwrap_err();
        backend.heal();
        store.rebuild().unwrap();
        store.put(refused, b"").unwrap();
    }
}
