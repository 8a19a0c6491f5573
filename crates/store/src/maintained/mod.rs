//! A filter that is kept in step with a database, with its locks, mistakes and counters.
//!
//! [`Store`](crate::Store), [`ListStore`](crate::ListStore) and [`Guard`](crate::Guard) differ in the
//! database, and in what a mistake is. The protocol between filter and database is the same for all of
//! them. ([`RangeStore`](crate::RangeStore) follows it with a different filter.)
//!
//! # Protocol
//! 1. *Order.* A member is inserted into the filter before it is written to the database, and removed from
//!    the filter after it is removed from the database. So the filter holds every member of the database at
//!    every moment.
//! 2. *Stripes.* A write or a repair holds the [stripes](crate::stripes) of all hashes that the filter could
//!    confuse with its own, from before its first read until filter and database agree again. So while a
//!    stripe is held, a listing of its hashes stays true.
//! 3. *Lookups* take no stripe. "Absent" is final, because of 1. "Maybe" carries a claim, and the database is
//!    asked.
//! 4. *Repairs* use the claim of the lookup, so the filter is asked once. The claim may be older
//!    than the lock. Under the lock, the members in the claim's interval are listed. If the key is
//!    one of them, it was written in the meantime, and there is nothing to repair. Otherwise the
//!    filter gets the claim and the listing. It refuses the claim if a member near it was added or
//!    removed since, or if its shard was rebuilt. Then the filter is asked again, under the lock,
//!    and the members are listed again. A lookup only tries to lock the stripes. If another thread
//!    holds them, the repair is [made later](repair).
//! 5. *Kept mistakes.* A new member is inserted apart from the kept mistakes near it, in one step, so no
//!    lookup sees it collide with them. A guard and a list keep their mistakes in memory, in the stripes. A
//!    store keeps them as [records](records) in the database. It reads them only if the filter shows a trace
//!    of a repair near the new member: an extension or a tombstone. So in a store, a repair, a removal and a
//!    ghost that is dropped always leave a trace. If there is no room for it, the repair isn't made, and a
//!    removed member stays in the filter as a ghost. While the records are read, the writer holds the
//!    stripes of the whole quotient, so no repair there can happen in between.
//! 6. *Rebuilds.* A shard may be [rebuilt](rebuild) and swapped at any moment, also while its stripes are held.
//!    So every step that changes the filter takes the lock of the shard's [writes](notes::Writes), and notes
//!    the change there. The new filter may confuse more hashes than the old one did. An operation
//!    that uses a listing first checks that its stripes cover the listed interval, and begins again otherwise.
//!
//! Locks are taken in this order:
//! 1. `one_at_a_time`, which a rebuild holds;
//! 2. stripes, in ascending order (a rebuild takes one at a time, to read the mistakes there);
//! 3. `moving`, which is held while records are read or written, and never together with a stripe;
//! 4. the writes of a shard, one shard at a time, never across a call of the database;
//! 5. the filter's own locks, and those of queues, doubts and scheduled work, one at a time.
//!
//! Nobody waits for a rebuild while holding a stripe.

mod edit;
mod insert;
mod kept;
mod listed_mistakes;
mod lookup;
mod notes;
mod rebuild;
mod records;
mod repair;
mod upkeep;

#[cfg(test)]
mod tests;

pub(crate) use insert::distinct;
pub(crate) use lookup::Asked;
pub(crate) use rebuild::THREAD as REBUILD_THREAD;
pub(crate) use upkeep::{THREAD as UPKEEP_THREAD, retry_delay};

use crate::sizing::ShardSizes;
use crate::stats::{Count, Counters, Stats};
use crate::stripes::{Locked, Stripes};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use kept::Kept;
use notes::Writes;
use records::Records;
use repair::Deferred;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::PoisonError;
use std::thread::panicking;
use std::time::Duration;
use twiceshy::{
    Concurrent, Hash, MemberSource,
    concurrent::{RebuildError, Shard},
    error::{AdaptError, InsertError},
};
use upkeep::Upkeep;

/// The database that a filter is kept in step with. It lists each member once.
pub(crate) trait Source:
    MemberSource<Member = Hash, Error: From<InsertError> + From<AdaptError> + From<RebuildError>>
{
    /// Whether the database keeps [records](records) of repaired mistakes. Otherwise, mistakes are kept in
    /// memory.
    const KEEPS_RECORDS: bool = false;

    /// Returns the records in an interval, in order.
    fn recorded(
        &self,
        _: &RangeInclusive<Hash>,
    ) -> impl Iterator<Item = Result<Hash, Self::Error>> {
        std::iter::empty()
    }

    /// Returns whether there is a record of a mistake.
    fn is_recorded(&self, _: Hash) -> Result<bool, Self::Error> {
        Ok(false)
    }

    /// Writes the `new` records, and deletes the `forgotten` ones, which need not exist. A crash
    /// may undo this.
    fn write_records(&self, _new: &[Hash], _forgotten: &[Hash]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Returns whether an earlier write of a key may still take effect although it isn't visible
    /// now, and when. The caller holds the key's stripe.
    fn doubt(&self, hash: Hash) -> Doubt;

    /// Whether a failed write can leave a fingerprint (a *ghost*) in any shard. Repairs drop ghosts. If this
    /// is `false`, only shards that are marked can have ghosts. In other shards, a fingerprint that matches
    /// no listed member proves that the listing is incomplete.
    const LEAVES_GHOSTS: bool = true;

    /// Returns whether a write that failed with this error certainly did not happen, and won't.
    fn is_refusal(_: &Self::Error) -> bool {
        false
    }

    /// Returns the keys in an interval whose earlier writes may still take effect, and which the filter
    /// must keep.
    fn doubts(&self, _: &RangeInclusive<Hash>) -> Vec<Hash> {
        Vec::new()
    }

    /// Lists the members in a part of a shard for a rebuild of the shard. `is_checked` is `false` at first,
    /// and says whether the source has checked a member of the shard.
    fn part(
        &self,
        hashes: &RangeInclusive<Hash>,
        _is_checked: &mut bool,
    ) -> Result<Vec<Hash>, Self::Error> {
        self.members(hashes.clone())
    }

    /// Makes the listing of members complete, if it may be incomplete. Returns whether the listing is
    /// complete. A failed attempt is repeated later.
    fn complete(&self) -> Result<bool, Self::Error> {
        Ok(true)
    }

    /// Returns whether a shard may be trusted if it is rebuilt from a listing that begins now.
    fn may_trust(&self, _shard: usize) -> bool {
        true
    }

    /// Returns whether a rebuilt shard may be trusted, given that [`may_trust`](Self::may_trust)
    /// was true when its listing began. It may not if a key in doubt has found no room since.
    fn trust(&self, _shard: usize) -> bool {
        true
    }
}

/// Whether a failed write may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No write of the key is in doubt.
    None,
    /// The write may take effect when the store is reopened, which rebuilds the filter.
    UntilReopened,
    /// The write may take effect at any moment until it is settled. The filter must keep the key.
    Unsettled,
}

/// Whether mistakes are found by lookups or listed by the user, and how many are kept.
#[derive(Clone, Copy)]
pub(crate) enum Policy {
    /// Mistakes are found by lookups. If `repaired`, they are repaired, and up to `kept` are kept.
    /// If `kept` is `None`, there is no limit, but rebuilds thin out the records.
    Found { repaired: bool, kept: Option<usize> },
    /// Mistakes are listed by the user. All are kept, and none may ever be made. `rate` is the share of
    /// random keys that the filter would be wrong about without repairs.
    Listed { rate: f64 },
}

impl Policy {
    /// Returns whether a mistake that a lookup finds is repaired.
    fn repairs(self) -> bool {
        matches!(self, Self::Found { repaired: true, .. })
    }

    /// Returns the maximum number of kept mistakes, which is at least 1.
    fn kept(self) -> usize {
        match self {
            Self::Found { kept: Some(kept), .. } => kept.max(1),
            Self::Found { kept: None, .. } | Self::Listed { .. } => usize::MAX,
        }
    }

    /// Returns whether the user lists the mistakes. Then the filter must never make them.
    fn is_listed(self) -> bool {
        matches!(self, Self::Listed { .. })
    }

    /// Estimates the number of slots for the repairs of kept mistakes, given the number of these
    /// mistakes and the bits per remainder.
    fn slots(self, mistakes: usize, bits: u32) -> usize {
        match self {
            // A rebuilt shard has fresh remainders, so about two in 2^bits of the mistakes would
            // recur without repairs. Plan two slots for each.
            Self::Found { .. } => mistakes.saturating_mul(4).checked_shr(bits).unwrap_or(0),
            Self::Listed { rate } => (mistakes as f64 * rate).ceil() as usize,
        }
    }
}

/// Returns the maximum memory, in bytes, that `shards` shards take beside their filters: for locks,
/// counters, full queues, and the state of the shards.
pub(crate) fn fixed_bytes(shards: usize) -> u64 {
    const LOCKS_AND_COUNTERS: u64 = 16 << 10;
    let of_shards = (shards as u64).saturating_mul(SHARD_BYTES);
    (LOCKS_AND_COUNTERS + records::MOST_BYTES + repair::MOST_BYTES).saturating_add(of_shards)
}

/// Bytes of memory that the state of a shard takes, with a few writes in flight.
const SHARD_BYTES: u64 = size_of::<Upkept>() as u64 + notes::FEW_BYTES;

/// A filter that is kept in step with a database.
pub(crate) struct MaintainedFilter<F> {
    pub(crate) filter: Concurrent<F>,
    shards: Box<[Upkept]>,
    /// Whether the listing of members is known to be complete. Until then, no shard is trusted.
    is_complete: AtomicBool,
    stripes: Stripes,
    kept: Kept,
    records: Records,
    deferred: Deferred,
    /// Whether a repair or a rebuild has changed the filter since it was opened.
    is_changed: AtomicBool,
    policy: Policy,
    sizes: ShardSizes,
    upkeep: Upkeep,
    counters: Counters,
}

/// The state of a shard, except for its filter.
struct Upkept {
    /// Whether the shard holds all of its members. Otherwise it answers "maybe". This changes only
    /// under the lock of `writes`.
    is_ready: AtomicBool,
    /// The longest distance between a query and a member that the filter could confuse with it, in units
    /// of 2^64, rounded up.
    reach: AtomicU64,
    writes: Mutex<Writes>,
    /// Whether the shard is to be rebuilt, or is being rebuilt, or a rebuild has failed.
    is_due: AtomicBool,
    /// Number of entries that a writer has found no room for.
    room: AtomicUsize,
    /// Number of times that the rebuild has failed since it last succeeded.
    failures: AtomicU32,
    /// Whether the members don't fit into the memory limit.
    is_given_up: AtomicBool,
    /// Number of changes. Once per `period` changes, the shard is checked for the need of a rebuild.
    changes: AtomicU32,
    period: AtomicU32,
    /// Number of members that were removed since the shard was last rebuilt.
    removals: AtomicU32,
    /// Approximate number of records of the shard's mistakes. Those that a store was opened with are
    /// counted in the background.
    records: AtomicUsize,
    /// The delay of a write, in microseconds.
    delay: AtomicU32,
    /// Whether writers are so fast that a rebuild can't keep up with its notes. Then each write is delayed.
    is_outrun: AtomicBool,
}

impl Upkept {
    fn new<F: Shard>(filter: &Concurrent<F>, shard: usize, is_ready: bool) -> Self {
        let upkept = Self {
            is_ready: AtomicBool::new(is_ready),
            reach: AtomicU64::new(0),
            writes: Mutex::default(),
            is_due: AtomicBool::new(false),
            room: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            is_given_up: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            period: AtomicU32::new(1),
            removals: AtomicU32::new(0),
            records: AtomicUsize::new(0),
            delay: AtomicU32::new(0),
            is_outrun: AtomicBool::new(false),
        };
        upkept.set_reach(&filter.suspects(*filter.shard_hashes(shard).start()));
        upkept
    }

    /// Forgets the state of a filter that was swapped out. The caller holds the lock of `writes`, so this undoes
    /// nothing that another thread does after the swap.
    fn swapped(&self) {
        self.removals.store(0, Ordering::Relaxed);
        self.is_given_up.store(false, Ordering::Relaxed);
        // Writers that found no room in the old filter try the new one first.
        self.room.store(0, Ordering::Relaxed);
    }

    /// Sets the reach to the length of an interval of suspects.
    fn set_reach(&self, suspects: &RangeInclusive<Hash>) {
        // All intervals of suspects are equally long, except that rounding may add one hash.
        let length = suspects.end().as_u128() - suspects.start().as_u128();
        self.reach.store(((length >> 64) as u64).saturating_add(1), Ordering::Release);
    }
}

/// The locked writes of a shard. If the thread panics before it unlocks them, it may have left the filter
/// half changed. Then the shard answers "maybe" from that moment until it is rebuilt.
struct LockedWrites<'a, F: Shard> {
    writes: MutexGuard<'a, Writes>,
    maintained: &'a MaintainedFilter<F>,
    shard: usize,
    /// Whether the thread was panicking already when it took the lock. If so, it only ends its writes, which
    /// leaves the filter whole.
    was_panicking: bool,
}

impl<F: Shard> Drop for LockedWrites<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if panicking() && !self.was_panicking {
            self.maintained.distrust_half_changed(self.shard);
        }
    }
}

impl<F: Shard> Deref for LockedWrites<'_, F> {
    type Target = Writes;

    #[inline]
    fn deref(&self) -> &Writes {
        &self.writes
    }
}

impl<F: Shard> DerefMut for LockedWrites<'_, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Writes {
        &mut self.writes
    }
}

impl<F: Shard> MaintainedFilter<F> {
    /// Wraps a filter whose shards have these sizes. Either all of its shards are ready, or none.
    pub(crate) fn new(
        filter: Concurrent<F>,
        is_ready: bool,
        sizes: ShardSizes,
        policy: Policy,
    ) -> Self {
        // Stores rebuild shards instead of doubling them.
        filter.stop_growing();
        Self {
            sizes,
            upkeep: Upkeep::new(),
            shards: (0..filter.shards())
                .map(|shard| Upkept::new(&filter, shard, is_ready))
                .collect(),
            filter,
            is_complete: AtomicBool::new(true),
            stripes: Stripes::new(),
            kept: Kept::default(),
            records: Records::default(),
            deferred: Deferred::default(),
            is_changed: AtomicBool::new(false),
            policy,
            counters: Counters::new(),
        }
    }

    fn upkept(&self, hash: Hash) -> &Upkept {
        &self.shards[self.filter.shard_of(hash)]
    }

    /// Locks the writes of a hash's shard.
    fn writes(&self, hash: Hash) -> LockedWrites<'_, F> {
        self.writes_of(self.filter.shard_of(hash))
    }

    /// Locks the writes of a shard. Every change of the filter happens under this lock.
    fn writes_of(&self, shard: usize) -> LockedWrites<'_, F> {
        // Ignore poisoning, because the thread that panicked has distrusted the shard.
        let writes = self.shards[shard].writes.lock().unwrap_or_else(PoisonError::into_inner);
        LockedWrites { writes, maintained: self, shard, was_panicking: panicking() }
    }

    /// Makes a shard answer "maybe" until it is rebuilt, and schedules the rebuild. The caller
    /// holds the lock of the shard's writes.
    #[cold]
    fn distrust_half_changed(&self, shard: usize) {
        self.shards[shard].is_ready.store(false, Ordering::Release);
        self.wants_rebuild(shard);
    }

    /// Returns whether the shard of a hash is ready. Call this before asking the filter: a shard that
    /// becomes ready after it was asked may have lacked members. (A shard that is distrusted after this call
    /// may answer as before. So a lookup that runs while another thread's change panics may get a wrong
    /// answer.)
    fn is_ready(&self, hash: Hash) -> bool {
        self.upkept(hash).is_ready.load(Ordering::Acquire)
    }

    /// Makes the shard of a hash answer "maybe" until it is rebuilt.
    pub(crate) fn distrust(&self, hash: Hash) {
        let _writes = self.writes(hash);
        self.upkept(hash).is_ready.store(false, Ordering::Release);
    }

    /// Ends the write of a hash that the database may or may not have. The filter keeps the hash.
    fn leave_ghost(&self, hash: Hash) {
        self.counters.add(Count::GhostsLeft, 1);
        self.writes(hash).end_unknown(hash);
    }

    /// Returns whether a failed or undone write may have left a ghost in a shard.
    pub(crate) fn has_ghosts(&self, shard: usize) -> bool {
        self.writes_of(shard).has_ghosts
    }

    /// Returns whether all shards are ready.
    pub(crate) fn is_all_ready(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.all(|shard| shard.is_ready.load(Ordering::Acquire)) && self.is_complete()
    }

    /// Returns whether the filter may be saved: all shards are built, no failed write has left a ghost,
    /// and no thread has panicked while it held a stripe.
    pub(crate) fn is_exact(&self) -> bool {
        let has_ghosts = || (0..self.shards.len()).any(|shard| self.has_ghosts(shard));
        !has_ghosts() && self.is_all_ready() && !self.stripes.is_poisoned()
    }

    /// Sets whether the listing of members is known to be complete.
    pub(crate) fn set_complete(&self, is_complete: bool) {
        self.is_complete.store(is_complete, Ordering::Release);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Returns whether a repair or a rebuild has changed the filter since it was opened. A filter that was
    /// saved before still has all members, but it is out of date.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Acquire)
    }

    /// Loads listed mistakes into memory.
    pub(crate) fn load_mistakes<E>(
        &self,
        mistakes: impl Iterator<Item = Result<Hash, E>>,
    ) -> Result<(), E> {
        let mut locked = self.lock_all();
        mistakes.into_iter().try_for_each(|mistake| {
            self.kept.insert(&mut locked, mistake?);
            Ok(())
        })
    }

    /// Locks all hashes that the filter could confuse with one of `hashes`. If a shard is rebuilt
    /// meanwhile and confuses more hashes, locks again.
    fn lock(&self, hashes: &[Hash]) -> Locked<'_> {
        loop {
            let reaches = self.reaches(hashes);
            let locked = self.stripes.lock(around(hashes, &reaches));
            if self.are_within(hashes, &reaches) {
                return locked;
            }
        }
    }

    /// Locks hashes like [`lock`](Self::lock), but returns `None` instead of waiting for another thread.
    fn try_lock(&self, hashes: &[Hash]) -> Option<Locked<'_>> {
        let reaches = self.reaches(hashes);
        let locked = self.stripes.try_lock(around(hashes, &reaches))?;
        self.are_within(hashes, &reaches).then_some(locked)
    }

    fn reach(&self, hash: Hash) -> u64 {
        self.upkept(hash).reach.load(Ordering::Acquire)
    }

    fn reaches(&self, hashes: &[Hash]) -> SmallVec<[u64; 2]> {
        hashes.iter().map(|&hash| self.reach(hash)).collect()
    }

    fn are_within(&self, hashes: &[Hash], reaches: &[u64]) -> bool {
        hashes.iter().zip(reaches).all(|(&hash, &before)| self.reach(hash) <= before)
    }

    /// Returns the number of shards that are ready.
    fn shards_ready(&self) -> usize {
        let is_ready = |shard: &&Upkept| shard.is_ready.load(Ordering::Relaxed);
        let ready = self.shards.iter().filter(is_ready);
        if self.is_complete() { ready.count() } else { 0 }
    }

    /// Returns the bytes of memory that locks, counters and the state of shards take.
    fn upkeep_bytes(&self) -> u64 {
        size_of::<Self>() as u64 - size_of::<Concurrent<F>>() as u64
            + size_of_val(&*self.shards) as u64
            + self.stripes.memory()
            + self.records.memory()
            + self.deferred.memory()
    }

    /// Returns the statistics, except for fields that only one kind of store has.
    pub(crate) fn stats(&self) -> Stats {
        let of_filter = self.filter.stats();
        Stats {
            records_waiting: self.records.queued(),
            repairs_waiting: self.deferred.len(),
            mistakes: (self.kept.len() + self.records.len()) as u64,
            members: of_filter.members as u64,
            filter_bytes: of_filter.memory,
            upkeep_bytes: self.upkeep_bytes(),
            rebuild_bytes: self.rebuild_bytes(),
            rebuild_time: duration(&self.upkeep.rebuild_time),
            longest_rebuild: duration(&self.upkeep.longest_rebuild),
            shards_due: self
                .shards
                .iter()
                .filter(|shard| shard.is_due.load(Ordering::Acquire))
                .count(),
            list_bytes: self.kept.bytes(),
            has_background_thread: self.has_thread(),
            expected_rate: {
                // A shard that isn't ready answers "maybe" to every query.
                let ready = self.shards_ready() as f64 / self.shards.len() as f64;
                of_filter.expected_rate * ready + (1.0 - ready)
            },
            load: of_filter.load,
            shards_ready: self.shards_ready(),
            shards: self.shards.len(),
            ..self.counters.stats()
        }
    }
}

fn duration(nanoseconds: &AtomicU64) -> Duration {
    Duration::from_nanos(nanoseconds.load(Ordering::Relaxed))
}

/// Returns the interval around each hash that reaches this far on both sides, in units of 2^64.
/// Finding the exact intervals would take longer.
fn around(hashes: &[Hash], reaches: &[u64]) -> impl Iterator<Item = RangeInclusive<Hash>> {
    hashes.iter().zip(reaches).map(|(hash, &reach)| {
        let (hash, reach) = (hash.as_u128(), u128::from(reach) << 64);
        let (first, last) = (hash.saturating_sub(reach), hash.saturating_add(reach));
        Hash::from_u128(first)..=Hash::from_u128(last)
    })
}
