//! Deciding when a shard is rebuilt, and by which thread.
//!
//! A shard grows, shrinks, and gets room for new repairs in one way: it is [rebuilt](super::rebuild) from its
//! members. A change that leaves a shard too full or too empty makes it *due*. A background thread rebuilds
//! due shards one after the other. It works only a share of the time, unless a writer waits. A filter without
//! such a thread is tended by its callers: a write rebuilds a shard that is full, and
//! [`tend`](MaintainedFilter::tend) rebuilds all that are due. A lookup never rebuilds anything.
//!
//! # Rules
//! - Nobody waits for room while holding a stripe, or the lock of a shard's writes.
//! - Writers slow down before a shard is full. While a shard is due and nearly full, each write to
//!   it is delayed: the fuller the shard, the longer, but at most by [`LONGEST_DELAY`]. A batch is
//!   delayed once, not once per shard. So writers rarely find a shard full. If they do, they wait until
//!   it is rebuilt, which is counted. They wait at most for [`LONGEST_STALL`]. After that, the shard
//!   answers "maybe" and takes the write, as after a rebuild that has failed. (A list returns an error
//!   after a few such waits.) A writer that rebuilds a shard itself doesn't wait for another thread's rebuild.
//! - Each write to a shard is also delayed while a rebuild of the shard can't keep up with its notes.
//! - A rebuild that fails is tried again, after a delay that doubles each time. If its shard has no room for a
//!   new member in the meantime, the shard answers "maybe" to every query, and takes any number of writes.
//! - If the background thread ends, callers do its work.
//! - If memory is limited, and a full shard would not fit even with the shortest remainders, the
//!   shard is *given up*: it answers "maybe", and isn't listed again before many members were
//!   removed.

use super::records::most_old;
use super::{MaintainedFilter, Source, Upkept};
use crate::sizing::{CROWDED, Reason};
use crate::stats::Count;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, sleep};
use scopeguard::ScopeGuard;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};
use twiceshy::{
    Hash,
    builder::Builder,
    concurrent::{Fill, Shard},
};

/// The name of the background thread.
pub(crate) const THREAD: &str = "twiceshy-upkeep";

/// The longest time that a write is delayed because its shard is nearly full.
pub(super) const LONGEST_DELAY: Duration = Duration::from_millis(1);

/// The time after which a rebuild that has failed is tried again. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// Returns the delay after `failures` failures, not counting the last one.
pub(crate) fn retry_delay(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LAST_RETRY)
}

/// Returns how long the background thread rests after work, so that it works this share of the time.
pub(super) fn rest_after(work: Duration, share: f64) -> Duration {
    work.mul_f64((share.recip() - 1.0).clamp(0.0, 1e6))
}

/// The pause of the background thread if other threads hold the stripes of all deferred repairs.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// The longest time that a writer waits before it checks again whether its shard has room. Some
/// rebuilds don't wake the writer.
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// The longest time that a writer waits for a rebuild of its full shard, because the thread that rebuilds
/// shards may hang in the database. (A writer that does the rebuild itself waits for its own calls of the
/// database.)
const LONGEST_STALL: Duration = Duration::from_secs(5);

/// The minimum number of entries that a full shard gets room for.
pub(super) const LEAST_ROOM: usize = 64;

/// The shards that are due, and the state of the background thread.
pub(super) struct Upkeep {
    work: Mutex<Work>,
    /// Wakes the background thread.
    has_work: Condvar,
    /// Wakes writers that wait for a rebuild.
    has_rebuilt: Condvar,
    /// Held during a rebuild, except while all shards are rebuilt and memory isn't limited.
    pub(super) one_at_a_time: Mutex<()>,
    /// Bytes that running rebuilds take.
    pub(super) rebuild_bytes: AtomicU64,
    /// [`LONGEST_STALL`], except in tests.
    pub(super) longest_stall: Duration,
    /// Duration of all rebuilds, and of the longest one, in nanoseconds.
    pub(super) rebuild_time: AtomicU64,
    pub(super) longest_rebuild: AtomicU64,
}

/// A change that fills or empties a shard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A member or a repair was added, or a new member was taken back.
    Addition,
    /// A member was removed from the database.
    Removal,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
struct Work {
    due: VecDeque<usize>,
    /// Shards whose rebuild has failed, and when to try again.
    failed: Vec<(Instant, usize)>,
    /// When to try again to make the listing of members complete, and how often that has failed.
    completion: Option<(Instant, u32)>,
    /// Whether a thread is making the listing complete. It may be the background thread. Writers
    /// must not wait for it, because it is a writer itself.
    is_completing: bool,
    /// Number of writers that wait for a rebuild.
    waiting: usize,
    /// Number of rebuilds that were tried.
    tried: u64,
    /// Whether lookups have left repairs or records to the background thread.
    has_repairs: bool,
    /// Whether the last task was `Repairs`.
    was_repairing: bool,
    /// Whether all records in the database were counted, or counting them has failed.
    has_counted: bool,
    has_thread: bool,
    is_stopping: bool,
}

/// A piece of background work.
enum Task {
    Rebuild(usize),
    /// Make the listing of members complete; the field is the number of failures so far.
    Complete(u32),
    /// Make deferred repairs, and write records.
    Repairs,
    /// Count records, when there is nothing else to do.
    Count,
}

/// The maximum number of deferred repairs that the background thread makes before it rests.
const REPAIRS_AT_ONCE: usize = 64;

impl Upkeep {
    pub(super) fn new() -> Self {
        Self {
            work: Mutex::default(),
            has_work: Condvar::new(),
            has_rebuilt: Condvar::new(),
            one_at_a_time: Mutex::new(()),
            rebuild_bytes: AtomicU64::new(0),
            longest_stall: LONGEST_STALL,
            rebuild_time: AtomicU64::new(0),
            longest_rebuild: AtomicU64::new(0),
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_thread(&self) -> bool {
        self.work().has_thread
    }

    /// Returns whether a thread is rebuilding a shard, and others must wait for it.
    fn is_rebuilding(&self) -> bool {
        matches!(self.one_at_a_time.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Adds a shard to those that are due, which it isn't yet.
    fn schedule(&self, shard: usize) {
        self.work().due.push_back(shard);
        self.has_work.notify_one();
    }

    /// Wakes the writers that wait for a rebuild, because one was tried.
    fn announce_rebuild(&self) {
        self.work().tried += 1;
        self.has_rebuilt.notify_all();
    }

    /// Counts the memory of a filter that is being built, until the result is dropped.
    pub(super) fn count_building<F: Shard>(&self, slots: u64, bits: u32) -> impl Drop + '_ {
        let plan = Builder::<F>::default().slots(slots).remainder_bits(bits).plan();
        let bytes = plan.map_or(0, |plan| plan.bytes);
        self.rebuild_bytes.fetch_add(bytes, Ordering::Relaxed);
        scopeguard::guard(bytes, |bytes| {
            self.rebuild_bytes.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    /// Adds the duration of a rebuild to the statistics.
    pub(super) fn count(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.rebuild_time.fetch_add(nanoseconds, Ordering::Relaxed);
        self.longest_rebuild.fetch_max(nanoseconds, Ordering::Relaxed);
    }
}

impl Work {
    /// Takes the next shard to rebuild, if one is due by now.
    fn next(&mut self) -> Option<usize> {
        let now = Instant::now();
        if let Some(at) = self.failed.iter().position(|&(time, _)| time <= now) {
            let (_, shard) = self.failed.swap_remove(at);
            self.due.push_back(shard);
        }
        self.due.pop_front()
    }

    /// Takes the task of making the listing of members complete, if it should be tried by now.
    /// Returns the number of failures.
    fn take_completion(&mut self) -> Option<u32> {
        let now = Instant::now();
        self.completion.take_if(|(time, _)| *time <= now).map(|(_, failures)| failures)
    }

    /// Removes a shard from those that are due or have failed. Returns whether it was one of them.
    fn take(&mut self, shard: usize) -> bool {
        let before = self.due.len() + self.failed.len();
        self.due.retain(|&due| due != shard);
        self.failed.retain(|&(_, failed)| failed != shard);
        self.due.len() + self.failed.len() < before
    }

    /// Returns whether the rebuild of a shard may be tried by now.
    fn may_try(&self, shard: usize) -> bool {
        let retry = self.failed.iter().find(|&&(_, failed)| failed == shard);
        retry.is_none_or(|&(time, _)| time <= Instant::now())
    }

    /// Returns whether writers may wait for the background thread to rebuild a shard.
    fn may_wait(&self) -> bool {
        self.has_thread && !self.is_completing
    }
}

/// Marks the background thread as running. If the thread panics, callers do its work.
struct Running<'a>(&'a Upkeep);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.work().has_thread = false;
        self.0.has_rebuilt.notify_all();
    }
}

impl<F: Shard> MaintainedFilter<F> {
    /// Counts a change in the shard of a hash. Once per period, reviews the shard.
    pub(super) fn changed(&self, hash: Hash, change: Change) {
        let shard = self.filter.shard_of(hash);
        let Upkept { changes, removals, period, .. } = &self.shards[shard];
        removals.fetch_add(u32::from(change == Change::Removal), Ordering::Relaxed);
        let changes = changes.fetch_add(1, Ordering::Relaxed);
        if changes.is_multiple_of(period.load(Ordering::Relaxed)) {
            self.review(shard);
        }
    }

    /// Returns why a shard should be rebuilt, or `None` if it need not be. A shard shrinks only
    /// after many removals, because a shard that was just rebuilt has room for members that are
    /// still to come.
    fn reason(&self, shard: usize, fill: &Fill) -> Option<Reason> {
        let removals = u64::from(self.shards[shard].removals.load(Ordering::Relaxed));
        let may_shrink = removals > fill.slots / 32;
        if self.shards[shard].is_given_up.load(Ordering::Relaxed) {
            return may_shrink.then_some(Reason::Growth);
        }
        // A filter that stores its repairs in codes never runs out of slots for them. So rebuild
        // its shard when it has too many records.
        let records = self.shards[shard].records.load(Ordering::Relaxed);
        if records > 2 * most_old(fill.members as usize) && self.fits(fill, shard, 0) {
            return Some(Reason::Rotation);
        }
        // A filter that was saved by an earlier version has plain remainders, and its removals have
        // left no traces.
        let is_outdated = fill.has_plain_remainders && !self.policy.is_listed();
        if is_outdated && self.fits(fill, shard, 0) {
            return Some(Reason::Renewal);
        }
        self.sizes.reason::<F>(shard, fill).filter(|&reason| match reason {
            // If even a smaller shard exceeds the memory limit, the old one stays.
            Reason::Shrinking => may_shrink && self.fits(fill, shard, 0),
            // If the wanted size exceeds the memory limit, a shard that still has room stays as
            // it is.
            Reason::Growth => {
                let slots = self.sizes.slots(shard, fill.slots, fill.members);
                self.policy.is_listed() || self.sizes.remainder_bits::<F>(slots).is_ok()
            }
            Reason::Rotation | Reason::Renewal => self.fits(fill, shard, 0),
        })
    }

    /// Schedules a rebuild of a shard if it needs one, and sets the delay of its writers.
    fn review(&self, shard: usize) {
        let fill = self.filter.shard_fill(shard);
        if self.reason(shard, &fill).is_some() {
            self.wants_rebuild(shard);
        }
        let crowded = fill.used as f64 / fill.slots as f64 - CROWDED;
        let share = (crowded / (1.0 - CROWDED)).clamp(0.0, 1.0);
        let delay = LONGEST_DELAY.mul_f64(share).as_micros() as u32;
        self.shards[shard].delay.store(delay, Ordering::Relaxed);
        // A large shard is reviewed only about once per hundred changes. They change its load, and so
        // the delay, by little.
        let period = (fill.slots / 1024).clamp(1, 128) as u32;
        self.shards[shard].period.store(period, Ordering::Relaxed);
    }

    /// Reviews all shards, including whether they can shrink.
    pub(crate) fn review_all(&self) {
        for (shard, upkept) in self.shards.iter().enumerate() {
            // The number of earlier removals is unknown, so assume many.
            upkept.removals.store(u32::MAX / 2, Ordering::Relaxed);
            self.review(shard);
        }
    }

    /// Schedules rebuilds of all shards that aren't ready, if the listing of members is complete.
    pub(crate) fn rebuild_unready(&self) {
        for (shard, upkept) in self.shards.iter().enumerate() {
            if self.is_complete() && !upkept.is_ready.load(Ordering::Acquire) {
                self.wants_rebuild(shard);
            }
        }
    }

    /// Schedules the rest of a recovery that has failed.
    pub(crate) fn recover_later(&self) {
        if self.is_complete() {
            self.rebuild_unready();
        } else {
            self.complete_later(0);
        }
    }

    fn complete_later(&self, failures: u32) {
        self.counters.add(Count::RebuildsFailed, 1);
        self.upkeep.work().completion = Some((Instant::now() + retry_delay(failures), failures));
        self.upkeep.has_work.notify_one();
    }

    /// Tries to make the listing of members complete, after `failures` failed attempts. If it fails
    /// again, it is tried later.
    fn complete<S: Source>(&self, source: &S, failures: u32) {
        let unfinished = scopeguard::guard((), |()| self.complete_later(failures + 1));
        let completing = scopeguard::guard((), |()| self.set_completing(false));
        self.set_completing(true);
        let is_complete =
            self.is_complete() || source.complete().is_ok_and(|is_complete| is_complete);
        drop(completing);
        if is_complete {
            ScopeGuard::into_inner(unfinished);
            self.set_complete(true);
            self.rebuild_unready();
        }
    }

    fn set_completing(&self, is_completing: bool) {
        self.upkeep.work().is_completing = is_completing;
        self.upkeep.has_rebuilt.notify_all();
    }

    /// Schedules a rebuild of a shard that has no room for a repair or for a tombstone.
    pub(super) fn wants_room(&self, shard: usize) {
        self.shards[shard].room.fetch_max(1, Ordering::Relaxed);
        self.wants_rebuild(shard);
    }

    /// Schedules a rebuild of a shard, unless one is scheduled already.
    pub(crate) fn wants_rebuild(&self, shard: usize) {
        if !self.shards[shard].is_due.swap(true, Ordering::AcqRel) {
            self.upkeep.schedule(shard);
        }
    }

    /// Does all pending work on the current thread. Returns the number of shards that were rebuilt. If
    /// other threads write faster than this thread works, leaves the rest to the next call.
    pub(crate) fn tend<S: Source>(&self, source: &S) -> Result<usize, S::Error> {
        let mut rebuilt = 0;
        let failures = self.upkeep.work().take_completion();
        if let Some(failures) = failures {
            self.complete(source, failures);
        }
        for _ in 0..2 * self.shards.len() {
            self.work_off_repairs(source, usize::MAX);
            // End this statement before the rebuild, so that the lock isn't held during the
            // rebuild.
            let next = self.upkeep.work().next();
            let Some(shard) = next else { break };
            rebuilt += usize::from(self.rebuild_due(source, shard, None)?);
        }
        self.flush_records(source)?;
        Ok(rebuilt)
    }

    /// Rebuilds shards whenever they are due, until [`stop`](Self::stop) is called. Works only this
    /// `share` of the time, unless a writer waits.
    pub(crate) fn tend_in_background<S: Source>(&self, source: &S, share: f64) {
        let upkeep = &self.upkeep;
        let _running = Running(upkeep);
        while let Some(task) = self.wait_for_work() {
            let start = Instant::now();
            let mut are_stripes_held = false;
            // A panic in the source is caught below, and counts as a failure. `rebuild_due` counts
            // the panics of its rebuilds.
            let work = || match task {
                Task::Rebuild(shard) => drop(self.rebuild_due(source, shard, None)),
                Task::Complete(failures) => self.complete(source, failures),
                Task::Repairs => {
                    self.flush_many_records(source);
                    let done = self.work_off_repairs(source, REPAIRS_AT_ONCE);
                    if self.deferred.len() > 0 {
                        are_stripes_held = done == 0;
                        self.leave_repairs();
                    }
                }
                Task::Count => {
                    // If counting fails, the limit on the number of records isn't enforced.
                    let has_more = self.count_some_records(source).unwrap_or_default();
                    upkeep.work().has_counted = !has_more;
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(work));
            let rest = rest_after(start.elapsed(), share);
            if are_stripes_held {
                // Sleep even if a writer waits, so that the threads with the stripes can run.
                sleep(BUSY_PAUSE);
            }
            let may_rest = |work: &mut Work| work.waiting == 0 && !work.is_stopping;
            if !rest.is_zero() {
                drop(upkeep.has_work.wait_timeout_while(upkeep.work(), rest, may_rest));
            }
        }
    }

    /// Tells the background thread to make the repairs and write the records that lookups have
    /// left.
    pub(super) fn leave_repairs(&self) {
        let mut work = self.upkeep.work();
        if work.has_thread && !mem::replace(&mut work.has_repairs, true) {
            self.upkeep.has_work.notify_one();
        }
    }

    /// Waits until there is work, and takes it. Returns `None` if the thread must stop.
    fn wait_for_work(&self) -> Option<Task> {
        let mut work = self.upkeep.work();
        loop {
            if work.is_stopping {
                return None;
            }
            // Repairs and other work take turns, because repairs may stay busy.
            let now = Instant::now();
            let is_time = |&(time, _): &(Instant, usize)| time <= now;
            let has_shard = !work.due.is_empty() || work.failed.iter().any(is_time);
            let must_complete = work.completion.is_some_and(|(time, _)| time <= now);
            let has_others = has_shard || must_complete || !work.has_counted;
            if work.has_repairs && !(has_others && work.was_repairing) {
                (work.has_repairs, work.was_repairing) = (false, true);
                return Some(Task::Repairs);
            }
            work.was_repairing = false;
            if let Some(shard) = work.next() {
                return Some(Task::Rebuild(shard));
            }
            if let Some(failures) = work.take_completion() {
                return Some(Task::Complete(failures));
            }
            if !work.has_counted {
                work.has_counted = true;
                return Some(Task::Count);
            }
            let retries = work.failed.iter().map(|&(time, _)| time);
            let retry = retries.chain(work.completion.map(|(time, _)| time)).min();
            let pause = retry.map_or(LAST_RETRY, |time| time.duration_since(Instant::now()));
            let waited = self.upkeep.has_work.wait_timeout(work, pause);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Marks the background thread as running, before it is started.
    pub(crate) fn announce_thread(&self) {
        self.upkeep.work().has_thread = true;
    }

    /// Marks the background thread as not running, because it couldn't be started.
    pub(crate) fn renounce_thread(&self) {
        drop(Running(&self.upkeep));
    }

    /// Makes the background thread end after its current rebuild.
    pub(crate) fn stop(&self) {
        self.upkeep.work().is_stopping = true;
        self.upkeep.has_work.notify_all();
    }

    /// Returns whether a background thread tends the filter.
    pub(crate) fn has_thread(&self) -> bool {
        self.upkeep.has_thread()
    }

    /// Rebuilds a shard that was scheduled, if it still needs that. Returns whether it was rebuilt. If other
    /// threads' rebuilds aren't done by `end`, schedules it again.
    fn rebuild_due<S: Source>(
        &self,
        source: &S,
        shard: usize,
        end: Option<Instant>,
    ) -> Result<bool, S::Error> {
        let upkept = &self.shards[shard];
        let fill = self.filter.shard_fill(shard);
        let reason = self.reason(shard, &fill);
        let room = upkept.room.swap(0, Ordering::Relaxed);
        let is_given_up = upkept.is_given_up.load(Ordering::Relaxed);
        let is_unready = !upkept.is_ready.load(Ordering::Acquire) && !is_given_up;
        // If memory is limited, a shard may have to grow in small steps.
        let rooms = [room, room.min(LEAST_ROOM)];
        let fitting = rooms.into_iter().find(|&room| self.fits(&fill, shard, room));
        let is_needed = reason.is_some() || room > 0 || is_unready;
        let is_tried = is_needed && (fitting.is_some() || is_unready || is_given_up);
        // Listing members may fail or panic. Then `room` is lost, but writers that need room will
        // ask again.
        let failure = scopeguard::guard((), |()| self.rebuild_failed(shard));
        if reason == Some(Reason::Rotation) {
            // A rebuild thins out only written records. If writing fails, it keeps the queued ones.
            let _ = self.flush_records(source);
        }
        let mut is_rebuilt = false;
        if is_tried {
            let more = fitting.unwrap_or(0);
            let Some(rebuilt) = self.rebuild_shard_until(source, shard, more, end)? else {
                ScopeGuard::into_inner(failure);
                upkept.room.fetch_max(room, Ordering::Relaxed);
                self.upkeep.schedule(shard);
                return Ok(false);
            };
            is_rebuilt = rebuilt.is_swapped;
        }
        // If `room` is above 1, a writer found no room for a member. (A repair asks for a `room` of
        // 1.)
        if room > 1 && !is_rebuilt {
            self.give_up(shard);
        } else if is_tried && !is_rebuilt && !upkept.is_given_up.load(Ordering::Relaxed) {
            return Ok(false);
        }
        ScopeGuard::into_inner(failure);
        if reason.is_some() && !is_tried {
            // Otherwise the shard could be due again immediately.
            upkept.removals.store(0, Ordering::Relaxed);
        }
        let is_rotation = is_rebuilt && reason == Some(Reason::Rotation);
        self.counters.add(Count::Rotations, u64::from(is_rotation));
        upkept.failures.store(0, Ordering::Release);
        // A request for a rebuild has no effect while the shard is due. Swap instead of storing, so that this
        // thread sees what happened before such a request.
        upkept.is_due.swap(false, Ordering::AcqRel);
        self.review(shard);
        let is_distrusted =
            !upkept.is_ready.load(Ordering::Acquire) && !upkept.is_given_up.load(Ordering::Relaxed);
        if is_distrusted && source.may_trust(shard) {
            // While the shard was due, a request for another rebuild had no effect.
            self.wants_rebuild(shard);
        }
        self.upkeep.announce_rebuild();
        Ok(is_rebuilt)
    }

    /// Returns whether a shard with room for `room` entries fits into the memory limit.
    fn fits(&self, fill: &Fill, shard: usize, room: usize) -> bool {
        let members = fill.members + room as u64;
        self.policy.is_listed() || self.sizes.fitting::<F>(shard, fill.slots, members).is_some()
    }

    /// Makes a shard answer "maybe" until many members were removed.
    pub(super) fn give_up(&self, shard: usize) {
        let upkept = &self.shards[shard];
        let _writes = self.writes_of(shard);
        upkept.is_given_up.store(true, Ordering::Relaxed);
        upkept.is_ready.store(false, Ordering::Release);
        upkept.removals.store(0, Ordering::Relaxed);
    }

    /// Schedules another attempt after the rebuild of a shard has failed.
    fn rebuild_failed(&self, shard: usize) {
        self.counters.add(Count::RebuildsFailed, 1);
        let failures = self.shards[shard].failures.fetch_add(1, Ordering::AcqRel);
        self.upkeep.work().failed.push((Instant::now() + retry_delay(failures), shard));
        self.upkeep.announce_rebuild();
    }

    /// Makes room for entries in a shard that is full. If the shard can't be rebuilt, or if another thread
    /// takes longer than [`LONGEST_STALL`] for this or other rebuilds, the shard answers "maybe" from then
    /// on, and needs no room. The caller holds no lock.
    ///
    /// # Errors
    /// Only lists return errors, because they answer without asking the database.
    pub(super) fn make_room<S: Source>(
        &self,
        source: &S,
        shard: usize,
        entries: usize,
    ) -> Result<(), S::Error> {
        let upkept = &self.shards[shard];
        // A rebuild that swaps its filter in also forgets requests for room, because their writers try again
        // in the new filter. The lock makes sure that it forgets none with the new epoch.
        let epoch = {
            let writes = self.writes_of(shard);
            upkept.room.fetch_max(entries, Ordering::Relaxed);
            writes.epoch
        };
        let failures = upkept.failures.load(Ordering::Acquire);
        self.wants_rebuild(shard);
        let is_open = || {
            let has_failed = upkept.failures.load(Ordering::Acquire) != failures;
            let is_due = upkept.is_due.load(Ordering::Acquire);
            is_due && !has_failed && self.writes_of(shard).epoch == epoch
        };
        self.counters.add(Count::StalledWrites, 1);
        let end = Instant::now() + self.upkeep.longest_stall;
        if self.has_thread() {
            self.wait_while(shard, end, is_open);
        }
        while is_open() && Instant::now() < end {
            if self.is_busy(shard) {
                sleep(LONGEST_DELAY);
                continue;
            }
            match self.tend_shard(source, shard) {
                Err(error) if self.policy.is_listed() => return Err(error),
                _ => {}
            }
        }
        if self.policy.is_listed() {
            return Ok(());
        }
        let is_too_late = is_open();
        let writes = self.writes_of(shard);
        // If a rebuild has succeeded meanwhile, it has made room, and the shard stays ready.
        let has_failed = is_too_late || upkept.failures.load(Ordering::Acquire) > 0;
        if writes.epoch == epoch && has_failed {
            upkept.is_ready.store(false, Ordering::Release);
            self.wants_rebuild(shard);
        }
        Ok(())
    }

    /// Makes room for members that are about to be written, so that shards grow only once. Some of
    /// them may be members already. A shard that can't grow now will grow later, for example because
    /// another thread's rebuild takes too long.
    pub(crate) fn expect_members<S: Source>(&self, source: &S, hashes: impl Iterator<Item = Hash>) {
        let mut expected = BTreeMap::new();
        for hash in hashes {
            *expected.entry(self.filter.shard_of(hash)).or_insert(0) += 1;
        }
        let end = Instant::now() + self.upkeep.longest_stall;
        for (shard, more) in expected {
            self.expect(source, shard, more, end);
        }
    }

    /// Makes room for `members` members with unknown hashes. Ignores a number so large that the
    /// iterator must be endless.
    pub(crate) fn expect_evenly<S: Source>(&self, source: &S, members: u64) {
        const MOST: u64 = 1 << 32;
        let more = if members > MOST { 0 } else { members / self.shards.len() as u64 };
        let end = Instant::now() + self.upkeep.longest_stall;
        (0..self.shards.len()).for_each(|shard| self.expect(source, shard, more, end));
    }

    fn expect<S: Source>(&self, source: &S, shard: usize, more: u64, end: Instant) {
        let fill = self.filter.shard_fill(shard);
        let is_ready = self.shards[shard].is_ready.load(Ordering::Acquire);
        let wanted = self.sizes.slots(shard, fill.slots, fill.members + more);
        if is_ready && wanted > fill.slots && self.fits(&fill, shard, more as usize) {
            let _ = self.rebuild_shard_until(source, shard, more as usize, Some(end));
        }
    }

    /// Returns whether another thread's rebuild would make a writer wait that rebuilds a shard.
    fn is_busy(&self, shard: usize) -> bool {
        self.upkeep.is_rebuilding() || self.writes_of(shard).has_notes()
    }

    /// Rebuilds a shard for a writer on the current thread, if it is due. Doesn't wait for another thread's
    /// rebuild, which may never be done.
    fn tend_shard<S: Source>(&self, source: &S, shard: usize) -> Result<(), S::Error> {
        let is_taken = self.upkeep.work().take(shard);
        if is_taken {
            return self.rebuild_due(source, shard, Some(Instant::now())).map(drop);
        }
        // Another thread is rebuilding the shard.
        sleep(LONGEST_DELAY);
        Ok(())
    }

    /// Waits for the background thread to rebuild a shard, until `end` at the latest. `is_open`
    /// says that the rebuild isn't done yet. If the thread can't rebuild the shard, returns at
    /// once.
    fn wait_while(&self, shard: usize, end: Instant, is_open: impl Fn() -> bool) {
        let mut work = self.upkeep.work();
        work.waiting += 1;
        // A shard that is full comes first, even if its rebuild has failed before.
        if work.take(shard) {
            work.due.push_front(shard);
        }
        self.upkeep.has_work.notify_one();
        while work.may_wait() {
            let tried = work.tried;
            // `is_open` takes a lock that comes before this one in the order of locks, so release
            // this one.
            drop(work);
            let is_open = is_open();
            work = self.upkeep.work();
            if !is_open || Instant::now() >= end {
                break;
            }
            let is_same = |work: &mut Work| work.may_wait() && work.tried == tried;
            let waited = self.upkeep.has_rebuilt.wait_timeout_while(work, LONGEST_WAIT, is_same);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        work.waiting -= 1;
    }

    /// Slows a writer down if one of the `shards` that it has written to is nearly full. There is
    /// one delay: that of the fullest shard. Without a background thread, the writer rebuilds
    /// nearly full shards instead, unless another thread is rebuilding one. The caller holds no
    /// lock.
    pub(super) fn pace<S: Source>(&self, source: &S, shards: &[usize]) {
        let mut delay = 0;
        for &shard in shards {
            let upkept = &self.shards[shard];
            if upkept.is_outrun.load(Ordering::Relaxed) {
                delay = LONGEST_DELAY.as_micros() as u32;
            }
            if !upkept.is_due.load(Ordering::Relaxed) {
                continue;
            }
            let is_ready = upkept.is_ready.load(Ordering::Relaxed);
            if self.has_thread() {
                // A shard that isn't ready needs no room.
                let of_shard = if is_ready { upkept.delay.load(Ordering::Relaxed) } else { 0 };
                delay = delay.max(of_shard);
            } else if !self.is_busy(shard) && self.upkeep.work().may_try(shard) {
                let reason = self.reason(shard, &self.filter.shard_fill(shard));
                if !is_ready || matches!(reason, Some(Reason::Growth | Reason::Rotation)) {
                    // The write has succeeded, so ignore an error. The rebuild is tried again later.
                    let _ = self.tend_shard(source, shard);
                }
            }
        }
        if delay > 0 {
            self.delay_write(Duration::from_micros(delay.into()));
        }
    }

    /// Slows a removal down if writers of its shard outrun a rebuild. The caller holds no lock.
    pub(super) fn pace_removal(&self, shard: usize) {
        if self.shards[shard].is_outrun.load(Ordering::Relaxed) {
            self.delay_write(LONGEST_DELAY);
        }
    }

    fn delay_write(&self, delay: Duration) {
        self.counters.add(Count::DelayedWrites, 1);
        sleep(delay);
    }
}
