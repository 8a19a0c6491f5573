//! The records of repaired mistakes, and the queue in which they wait to be written.
//!
//! A [`Store`](crate::Store) keeps no mistakes in memory. The database keeps a *record* of each
//! repaired mistake, which is read in two cases: when a shard is rebuilt, and when a new member
//! lands where the filter [shows](twiceshy::concurrent::Shard::has_repairs_near) that something was
//! repaired. A repair queues its record in memory. A later put or delete, the background thread, or
//! closing writes the queue to the database, so a lookup never writes.
//!
//! # Invariants
//! 1. A repair queues its record *before* it changes the filter. If the queue is full, the repair
//!    isn't made. So every mistake that the current build of a shard has repaired has a record, in
//!    the queue or in the database, unless the record was forgotten to make room for others.
//! 2. A record leaves the queue only after it was written. A reader reads the queue first, and then the
//!    database, so it sees every record that moves in the meantime.
//! 3. Records are written and deleted by one thread at a time, which holds `moving`. A rebuild that thins
//!    out records first lists them as *doomed*, and deletes those that are still doomed after the swap. A
//!    record that is queued again isn't doomed any more, because the new filter may have repaired it. Nor is
//!    a record that a later rebuild of the same shard keeps: that rebuild may begin before the first one has
//!    deleted its records.
//! 4. A record is only a hint. Its key may be a member by now, so every reader subtracts the members. A
//!    crash may lose records, and each may then cost one lookup in the database.
//!
//! Nobody waits for `moving` while holding a stripe.

use super::{MaintainedFilter, Source};
use crate::stats::Count;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{PoisonError, TryLockError};
use twiceshy::{Hash, concurrent::Shard};

/// The maximum number of records in the queue.
const MOST: usize = 1024;

/// The approximate memory of a full queue, in bytes. Tree nodes are about two thirds full.
pub(super) const MOST_BYTES: u64 = (MOST * size_of::<Hash>() * 3 / 2) as u64;

/// The number of records of earlier builds that any rebuilt shard may keep. A larger shard may keep
/// one per `MEMBERS` members. With fresh remainders, few of these mistakes would come back, and all
/// take memory during a rebuild.
const FEW: usize = 64;
const MEMBERS: usize = 4;

/// Returns how many records of earlier builds a shard with `members` members keeps at most when it
/// is rebuilt. A shard that has more than twice as many records in all is rebuilt.
pub(super) fn most_old(members: usize) -> usize {
    (members / MEMBERS).max(FEW)
}

/// The number of records that are counted in one step.
const COUNTED_AT_ONCE: usize = 1 << 14;

/// The queue of records, and the number of those in the database.
pub(super) struct Records {
    state: Mutex<State>,
    /// The number of queued records.
    queued: AtomicUsize,
    /// A lock that is held while records are written or deleted. Until all records have been counted after
    /// the store was opened, it contains the first hash whose record may be uncounted.
    moving: Mutex<Option<Hash>>,
    /// The number of records in the database. After a failed write, it may be too low.
    written: AtomicUsize,
    /// Whether the database may have records.
    may_be_written: AtomicBool,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            queued: AtomicUsize::new(0),
            moving: Mutex::new(Some(Hash::MIN)),
            written: AtomicUsize::new(0),
            may_be_written: AtomicBool::new(true),
        }
    }
}

#[derive(Default)]
struct State {
    queue: BTreeSet<Hash>,
    /// Records to delete after a rebuild. The value holds the number of the rebuild, and why the
    /// record is deleted: because it is surplus (`true`), or because its key is a member (`false`).
    doomed: BTreeMap<Hash, (u32, bool)>,
    /// The number of the next rebuild.
    next: u32,
}

/// The result of queueing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    New,
    /// The record was queued before.
    Before,
    /// There is no room.
    Full,
}

impl Records {
    fn state(&self) -> MutexGuard<'_, State> {
        // Ignore poisoning, because no step under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a record.
    pub(super) fn push(&self, mistake: Hash) -> Queued {
        let mut state = self.state();
        if state.queue.contains(&mistake) {
            return Queued::Before;
        }
        if state.queue.len() >= MOST {
            return Queued::Full;
        }
        state.doomed.remove(&mistake);
        state.queue.insert(mistake);
        self.queued.store(state.queue.len(), Ordering::Release);
        Queued::New
    }

    /// Returns whether a record can be queued.
    pub(super) fn has_room(&self) -> bool {
        self.queued() < MOST
    }

    /// Takes back a record whose mistake was not repaired.
    pub(super) fn withdraw(&self, mistake: Hash) {
        self.remove(&[mistake]);
    }

    fn remove(&self, records: &[Hash]) {
        let mut state = self.state();
        for record in records {
            state.queue.remove(record);
        }
        self.queued.store(state.queue.len(), Ordering::Release);
    }

    fn queued_within(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        if self.queued.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.state().queue.range(hashes.clone()).copied().collect()
    }

    /// Returns the number of queued records.
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Returns the bytes of memory that queued records take.
    pub(super) fn memory(&self) -> u64 {
        self.queued() as u64 * MOST_BYTES / MOST as u64
    }

    /// Returns the number of records in the queue and in the database.
    pub(super) fn len(&self) -> usize {
        self.written.load(Ordering::Relaxed) + self.queued()
    }

    /// Returns whether there are so many records that they should be written.
    pub(super) fn are_many(&self) -> bool {
        self.queued() >= MOST / 4
    }

    fn lock_moving(&self) -> MutexGuard<'_, Option<Hash>> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the records that a rebuild has doomed. Afterwards they are no longer doomed.
    fn take_doomed(&self, rebuild: u32) -> Vec<(Hash, bool)> {
        let mut state = self.state();
        let taken = state.doomed.extract_if(.., |_, (number, _)| *number == rebuild);
        taken.map(|(hash, (_, is_surplus))| (hash, is_surplus)).collect()
    }

    /// Starts an empty list of doomed records for a rebuild.
    fn start_dooming(&self) -> Doomed<'_> {
        let mut state = self.state();
        let rebuild = state.next;
        state.next = state.next.wrapping_add(1);
        Doomed { records: self, rebuild, count: 0 }
    }

    /// Makes sure that no rebuild deletes these records.
    fn spare(&self, records: &BTreeSet<Hash>) {
        let mut state = self.state();
        if !state.doomed.is_empty() {
            state.doomed.retain(|record, _| !records.contains(record));
        }
    }
}

/// The records that a rebuild will delete. If the rebuild fails, the records stay.
pub(super) struct Doomed<'a> {
    records: &'a Records,
    rebuild: u32,
    /// The number of doomed records.
    count: usize,
}

impl Doomed<'_> {
    /// Adds a record, unless it is queued.
    fn add(&mut self, record: Hash, is_surplus: bool) {
        let mut state = self.records.state();
        if !state.queue.contains(&record) {
            state.doomed.insert(record, (self.rebuild, is_surplus));
            self.count += 1;
        }
    }

    /// Returns the approximate bytes of memory that the list takes. Tree nodes are about two thirds full.
    pub(super) fn bytes(&self) -> u64 {
        (self.count * (size_of::<Hash>() + size_of::<(u32, bool)>()) * 3 / 2) as u64
    }
}

impl Drop for Doomed<'_> {
    fn drop(&mut self) {
        self.records.take_doomed(self.rebuild);
    }
}

impl<F: Shard> MaintainedFilter<F> {
    /// Counts some of the records in the database after a store was opened, and deletes those beyond the
    /// limit. Returns whether there are more to count. Until all are counted, the database may have more
    /// records than are counted.
    pub(crate) fn count_some_records<S: Source>(&self, source: &S) -> Result<bool, S::Error> {
        let mut uncounted = self.records.lock_moving();
        let Some(start) = *uncounted else { return Ok(false) };
        let rest = start..=Hash::MAX;
        let some = source.recorded(&rest).take(COUNTED_AT_ONCE);
        let some = some.collect::<Result<Vec<Hash>, S::Error>>()?;
        let written = self.records.written.load(Ordering::Relaxed);
        let room = self.policy.kept().saturating_sub(written).min(some.len());
        let (kept, forgotten) = some.split_at(room);
        if !forgotten.is_empty() {
            source.write_records(&[], forgotten)?;
            let is_forgotten = |record: &Hash| forgotten.binary_search(record).is_ok();
            self.records.state().doomed.retain(|record, _| !is_forgotten(record));
        }
        self.records.written.fetch_add(kept.len(), Ordering::Relaxed);
        for &record in kept {
            // If the shard has been rebuilt (epoch > 0), the rebuild has counted its records.
            if self.writes(record).epoch == 0 {
                self.upkept(record).records.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.counters.add(Count::MistakesForgotten, forgotten.len() as u64);
        let after = some.last().and_then(|last| last.as_u128().checked_add(1));
        *uncounted = after.filter(|_| some.len() == COUNTED_AT_ONCE).map(Hash::from_u128);
        if uncounted.is_none() && self.records.written.load(Ordering::Relaxed) == 0 {
            // After a failed write, the database may have records that weren't counted. They are
            // still queued, so no reader misses them.
            self.records.may_be_written.store(false, Ordering::Release);
        }
        Ok(uncounted.is_some())
    }

    /// Counts all records in the database, unless they were counted before.
    pub(crate) fn count_records<S: Source>(&self, source: &S) -> Result<(), S::Error> {
        while self.count_some_records(source)? {}
        Ok(())
    }

    /// Writes all queued records to the database, without syncing it. If that fails, they stay queued.
    /// Call this from time to time, and before the database is synced or closed. Don't hold a stripe.
    ///
    /// If the database already has a queued record, the mistake came back, which is counted.
    pub(crate) fn flush_records<S: Source>(&self, source: &S) -> Result<(), S::Error> {
        if self.records.queued.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let uncounted = self.records.lock_moving();
        self.flush_moving(source, *uncounted)
    }

    /// Writes the queued records if there are many, unless another thread does so.
    pub(super) fn flush_many_records<S: Source>(&self, source: &S) {
        if !self.records.are_many() {
            return;
        }
        let uncounted = match self.records.moving.try_lock() {
            Ok(uncounted) => uncounted,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // The records stay queued. The next write tries again.
        let _ = self.flush_moving(source, *uncounted);
    }

    /// Writes all queued records. The caller holds `moving`, which says that the records from
    /// `uncounted` on weren't counted.
    fn flush_moving<S: Source>(&self, source: &S, uncounted: Option<Hash>) -> Result<(), S::Error> {
        let queued = self.records.queued_within(&(Hash::MIN..=Hash::MAX));
        let most = self.policy.kept();
        // If the queued records alone exceed the limit, some of them are never written.
        let (dropped, new) = queued.split_at(queued.len().saturating_sub(most));
        let mut repeated = Vec::new();
        for &record in &queued {
            if source.is_recorded(record)? {
                repeated.push(record);
            }
        }
        let counted = |records: &[Hash]| count_before(uncounted, records);
        let written = self.records.written.load(Ordering::Relaxed);
        let written = written.saturating_sub(counted(&repeated)) + counted(new);
        let forgotten = to_forget(source, &queued, written.saturating_sub(most))?;
        self.records.may_be_written.store(true, Ordering::Release);
        source.write_records(new, &[dropped, &forgotten].concat())?;
        self.records.state().doomed.retain(|record, _| forgotten.binary_search(record).is_err());
        let written = written.saturating_sub(counted(&forgotten));
        self.records.written.store(written, Ordering::Relaxed);
        self.records.remove(&queued);
        for &record in &repeated {
            // The record was counted when it was queued for the first time.
            let records = &self.upkept(record).records;
            let _ =
                records.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        }
        let lost = dropped.len() + forgotten.len();
        self.counters.add(Count::MistakesForgotten, lost as u64);
        self.counters.add(Count::RepeatedFalsePositives, repeated.len() as u64);
        Ok(())
    }

    /// Returns the records in an interval, in order.
    pub(super) fn records_within<S: Source>(
        &self,
        source: &S,
        hashes: &RangeInclusive<Hash>,
    ) -> Result<Vec<Hash>, S::Error> {
        let mut records = self.records.queued_within(hashes);
        if self.records.may_be_written.load(Ordering::Acquire) {
            self.counters.add(Count::BackendScans, 1);
            for record in source.recorded(hashes) {
                records.push(record?);
            }
            records.sort_unstable();
            records.dedup();
        }
        Ok(records)
    }

    /// Returns the records that a rebuild of a shard keeps, and those that it dooms. The rebuild
    /// keeps all queued records and some of the others, and repairs their mistakes from the start.
    /// It dooms the remaining records, and the records of members. Call this after the rebuild has
    /// begun to take notes.
    pub(super) fn records_to_repair<S: Source>(
        &self,
        source: &S,
        hashes: &RangeInclusive<Hash>,
        members: &super::notes::Roll,
    ) -> Result<(BTreeSet<Hash>, Doomed<'_>), S::Error> {
        let _moving = self.records.lock_moving();
        let queued = self.records.queued_within(hashes);
        let mut records: BTreeSet<Hash> = queued.iter().copied().collect();
        let mut doomed = self.records.start_dooming();
        let is_queued = |record| queued.binary_search(&record).is_ok();
        let most = most_old(members.len());
        let mut old = 0;
        if self.records.may_be_written.load(Ordering::Acquire) {
            self.counters.add(Count::BackendScans, 1);
            for record in source.recorded(hashes) {
                let record = record?;
                if members.contains(record) {
                    doomed.add(record, false);
                } else if !is_queued(record) {
                    old += 1;
                    if old <= most {
                        records.insert(record);
                    }
                }
            }
        }
        if old > most {
            // A list of all these records would take too much memory, so read them from the
            // database again. The records don't change while `moving` is held.
            records.retain(|&record| is_queued(record));
            self.counters.add(Count::BackendScans, 1);
            let (surplus, mut at) = (old - most, 0);
            for record in source.recorded(hashes) {
                let record = record?;
                if members.contains(record) || is_queued(record) {
                    continue;
                }
                // Spread the surplus evenly.
                if at * surplus / old == (at + 1) * surplus / old {
                    records.insert(record);
                } else {
                    doomed.add(record, true);
                }
                at += 1;
            }
        }
        // An earlier rebuild of the shard may have doomed some of these records, and not have deleted them
        // yet. The new filter repairs these mistakes, so their records must stay.
        self.records.spare(&records);
        Ok((records, doomed))
    }

    /// Deletes the doomed records of a shard after the new filter was swapped in. Records of
    /// mistakes that the new filter has `repaired` stay. If deleting fails, all stay.
    pub(super) fn forget_doomed<S: Source>(
        &self,
        source: &S,
        doomed: &Doomed<'_>,
        repaired: &BTreeSet<Hash>,
    ) {
        let uncounted = self.records.lock_moving();
        let mut taken = self.records.take_doomed(doomed.rebuild);
        taken.retain(|(hash, _)| !repaired.contains(hash));
        let hashes: Vec<Hash> = taken.iter().map(|&(hash, _)| hash).collect();
        if hashes.is_empty() || source.write_records(&[], &hashes).is_err() {
            return;
        }
        let written = self.records.written.load(Ordering::Relaxed);
        let written = written.saturating_sub(count_before(*uncounted, &hashes));
        self.records.written.store(written, Ordering::Relaxed);
        let surplus = taken.iter().filter(|&&(_, is_surplus)| is_surplus).count();
        self.counters.add(Count::MistakesForgotten, surplus as u64);
    }
}

/// Returns how many of these records have been counted. Those from `uncounted` on have not.
fn count_before(uncounted: Option<Hash>, records: &[Hash]) -> usize {
    records.iter().filter(|&&record| uncounted.is_none_or(|first| record < first)).count()
}

/// Chooses `count` records to delete from the database. None of them is `new`. Prefers records that
/// follow the new ones in hash order.
fn to_forget<S: Source>(source: &S, new: &[Hash], count: usize) -> Result<Vec<Hash>, S::Error> {
    let mut chosen = BTreeSet::new();
    for &start in new.iter().cycle().take(count) {
        let is_free = |record: &Result<Hash, S::Error>| match record {
            Ok(record) => new.binary_search(record).is_err() && !chosen.contains(record),
            Err(_) => true,
        };
        let after = source.recorded(&(start..=Hash::MAX)).find(is_free);
        let next = after.or_else(|| source.recorded(&(Hash::MIN..=start)).find(is_free));
        match next.transpose()? {
            Some(record) => chosen.insert(record),
            None => break,
        };
    }
    Ok(chosen.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: RangeInclusive<Hash> = Hash::MIN..=Hash::MAX;

    fn hash(number: u128) -> Hash {
        Hash::from_u128(number)
    }

    #[test]
    fn queue_is_bounded_and_has_no_duplicates() {
        let records = Records::default();
        assert!((0..MOST as u128).all(|number| records.push(hash(number)) == Queued::New));
        assert_eq!(records.push(hash(7)), Queued::Before);
        assert_eq!(records.push(hash(1 << 20)), Queued::Full);
        assert!(records.are_many() && records.len() == MOST);
        records.withdraw(hash(7));
        assert_eq!(records.push(hash(1 << 20)), Queued::New);
        records.remove(&records.queued_within(&ALL));
        assert_eq!((records.len(), records.queued_within(&ALL)), (0, Vec::new()));
    }

    #[test]
    fn record_queued_again_during_a_rebuild_is_no_longer_doomed() {
        let records = Records::default();
        let rebuild = |number| if (3..=5).contains(&number) { 1 } else { 2 };
        let doomed = (0..10).map(|number| (hash(number), (rebuild(number), true)));
        records.state().doomed.extend(doomed);
        assert_eq!(records.push(hash(4)), Queued::New);
        assert_eq!(records.take_doomed(1), [(hash(3), true), (hash(5), true)]);
        drop(Doomed { records: &records, rebuild: 1, count: 3 });
        assert_eq!(records.take_doomed(2).len(), 7);
        assert!(records.take_doomed(2).is_empty());
    }
}
