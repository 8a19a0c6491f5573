//! Rebuilding and validating the filter.
//!
//! A new filter is built beside the shard's old one, and then swapped in. Recovery after a crash,
//! growth, shrinking, and making room for more repairs all use this one operation. Other threads
//! wait only for the step that swaps:
//!
//! 1. Start to take [notes](super::notes): every write that is in flight or in doubt is noted as present.
//! 2. List the members, without a lock and without a snapshot of the database.
//! 3. Amend the list with the notes, build the new filter from it, and repeat in rounds while there
//!    are many new notes. A round first amends the list, and then applies the changes to the new
//!    filter. If the new filter has no room, it is built again, larger, from the amended list.
//! 4. In one step: apply the rest of the notes, and swap the new filter in. Writers wait for this step, so if
//!    there are thousands of notes in every round, slow the writers down, and finally begin again.

use super::notes::{Notes, Roll};
use super::records::most_old;
use super::{MaintainedFilter, Source};
use crate::census::Census;
use crate::sizing::{FRESH, NOTE_BYTES};
use crate::stats::Count;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{sleep, spawn_scoped, thread};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::sync::{PoisonError, TryLockError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use twiceshy::{
    Answer, Concurrent, Hash,
    concurrent::{Fill, RebuildError, Replacement, Shard, ShardPlan},
    error::{AdaptError, BuildError, InsertError, RemoveError},
};

/// The name of a thread that rebuilds shards.
pub(crate) const THREAD: &str = "twiceshy-rebuild";

/// Returns the number of threads that rebuild a filter: at most 4, because a store has other work, too.
fn threads() -> usize {
    available_parallelism().map_or(1, usize::from).min(4)
}

/// The maximum number of notes in the last round before the filters are swapped. If writers are fast, there
/// may be more from round [`ROUNDS`] on, but never more than [`MOST_LOCKED`], because writers wait while these
/// notes are applied.
const LAST_ROUND: usize = 64;
const MOST_LOCKED: usize = 4096;
const ROUNDS: usize = 8;

/// The round from which on writers are slowed down while there are more than [`MOST_LOCKED`] notes, and the
/// round in which the rebuild is abandoned if there still are.
const SLOWING_ROUND: usize = 4;
const MOST_ROUNDS: usize = 32;

/// Why a rebuild always has a result if it may wait without an end.
const WAITS: &str = "other rebuilds are waited for";

/// The pause of a rebuild that waits for another one.
const PAUSE: Duration = Duration::from_millis(1);

/// The maximum number of times that a rebuild begins again immediately because there were too many
/// notes.
const RESTARTS: u32 = 4;

/// The number of members that are listed at once. A database may need much more memory for a listing than the
/// hashes take.
const LISTED_AT_ONCE: u64 = 4096;

/// The share of a shard that is listed first, if the number of its members is unknown.
const FIRST_PARTS: u64 = 1024;

/// A shard that is being rebuilt.
struct Rebuild<'a, F: Shard> {
    maintained: &'a MaintainedFilter<F>,
    shard: usize,
    /// Number of slots of the old filter.
    slots: u64,
    members: Roll,
    /// The mistakes to repair from the start. Members among them are ignored.
    mistakes: BTreeSet<Hash>,
    /// Bytes of memory that the list of records to delete takes.
    doomed_bytes: u64,
    /// Whether a removal must leave a trace of the repairs near it.
    keeps_repairs: bool,
    may_have_ghosts: bool,
    /// The number of entries to make room for, in addition to the members.
    more: usize,
    /// Bytes of memory that the new filter takes.
    filter_bytes: u64,
    /// Bytes of memory that the rebuild takes, not counting the notes that wait for it.
    bytes: u64,
}

impl<F: Shard> Drop for Rebuild<'_, F> {
    fn drop(&mut self) {
        self.count_bytes(0);
        self.slow_writers(false);
    }
}

/// The result of an attempt to rebuild a shard.
enum Attempted {
    Rebuilt(Rebuilt),
    /// There were too many notes. Nothing has changed.
    TooManyNotes,
    /// Another thread is still rebuilding the shard.
    Busy,
}

/// The result of a rebuild.
pub(crate) struct Rebuilt {
    /// The census of the members that were listed.
    pub(crate) census: Census,
    /// Whether a new filter was swapped in. Otherwise, there is too little memory, and the old one stays.
    pub(crate) is_swapped: bool,
}

/// Stops taking notes when it is dropped, unless the rebuild has succeeded.
struct Noting<'a, F: Shard>(Option<&'a MaintainedFilter<F>>, usize);

impl<F: Shard> Drop for Noting<'_, F> {
    fn drop(&mut self) {
        if let Some(maintained) = self.0 {
            maintained.writes_of(self.1).stop_notes();
        }
    }
}

impl<F: Shard> MaintainedFilter<F> {
    /// Rebuilds a shard from the database, with room for `more` entries in addition to its members. To
    /// save memory, waits until no other shard is being rebuilt.
    pub(crate) fn rebuild_shard<S: Source>(
        &self,
        source: &S,
        shard: usize,
        more: usize,
    ) -> Result<Rebuilt, S::Error> {
        let rebuilt = self.rebuild_shard_until(source, shard, more, None)?;
        Ok(rebuilt.expect(WAITS))
    }

    /// Rebuilds a shard like [`rebuild_shard`](Self::rebuild_shard), but waits for rebuilds of other threads
    /// only until `end`, because they may hang in the database. Returns `None` if they aren't done by then.
    pub(super) fn rebuild_shard_until<S: Source>(
        &self,
        source: &S,
        shard: usize,
        more: usize,
        end: Option<Instant>,
    ) -> Result<Option<Rebuilt>, S::Error> {
        let one_at_a_time = &self.upkeep.one_at_a_time;
        let _one = match end {
            None => one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner),
            Some(end) => loop {
                match one_at_a_time.try_lock() {
                    Ok(one) => break one,
                    Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                    Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(PAUSE),
                    Err(TryLockError::WouldBlock) => return Ok(None),
                }
            },
        };
        self.rebuild_beside_others(source, shard, more, end)
    }

    fn rebuild_beside_others<S: Source>(
        &self,
        source: &S,
        shard: usize,
        more: usize,
        end: Option<Instant>,
    ) -> Result<Option<Rebuilt>, S::Error> {
        // If there are too many notes, begin again: that is simpler than making writers wait, who may hold
        // stripes. If memory isn't limited, take more notes each time. A rebuild still fails if writers add
        // more than `MOST_LOCKED` notes in every round, although they are slowed down.
        for restart in 0..=RESTARTS {
            let growth = if self.sizes.is_limited() { 0 } else { 2 * restart };
            match self.rebuild_noting(source, shard, more, growth, end)? {
                Attempted::Rebuilt(rebuilt) => return Ok(Some(rebuilt)),
                Attempted::TooManyNotes => {}
                Attempted::Busy => return Ok(None),
            }
        }
        let notes = self.sizes.most_notes(self.filter.shard_fill(shard).slots);
        Err(RebuildError::from(BuildError::Memory { bytes: notes.saturating_mul(NOTE_BYTES) })
            .into())
    }

    /// Rebuilds a shard, or returns `None` and changes nothing if there are too many notes. The
    /// limit is the usual one times 2 to the power of `growth`.
    fn rebuild_noting<S: Source>(
        &self,
        source: &S,
        shard: usize,
        more: usize,
        growth: u32,
        end: Option<Instant>,
    ) -> Result<Attempted, S::Error> {
        let hashes = self.filter.shard_hashes(shard);
        let most = (self.sizes.most_notes(self.filter.shard_fill(shard).slots) as usize) << growth;
        while !self.writes_of(shard).start_notes(most, || source.doubts(&hashes)) {
            // Another thread is rebuilding the shard. Wait for it, and rebuild the shard again,
            // because the other thread's listing may be older than this call.
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(Attempted::Busy);
            }
            sleep(PAUSE);
        }
        let start = Instant::now();
        let mut noting = Noting(Some(self), shard);
        // Read the doubts before the listing begins. A doubt that ends later may concern a key that
        // the listing lacks.
        let may_trust = source.may_trust(shard);
        let Fill { slots, members, .. } = self.filter.shard_fill(shard);
        // A shard that isn't ready may have far more members than its filter holds.
        let expected = self.shards[shard].is_ready.load(Ordering::Acquire).then_some(members);
        let mut rebuild = Rebuild {
            maintained: self,
            shard,
            slots,
            members: Roll::default(),
            mistakes: BTreeSet::new(),
            doomed_bytes: 0,
            keeps_repairs: S::KEEPS_RECORDS,
            may_have_ghosts: false,
            more,
            filter_bytes: 0,
            bytes: 0,
        };
        rebuild.members = Roll::new(rebuild.list(source, &hashes, expected)?);
        let census = rebuild.members.census();
        let mut doomed = None;
        if S::KEEPS_RECORDS {
            let (mistakes, others) = self.records_to_repair(source, &hashes, &rebuild.members)?;
            rebuild.doomed_bytes = others.bytes();
            (rebuild.mistakes, doomed) = (mistakes, Some(others));
        } else {
            rebuild.mistakes = self.stripes.mistakes(&hashes);
        }
        rebuild.recount(0);
        let notes = self.writes_of(shard).take_notes();
        if notes.is_incomplete {
            return Ok(Attempted::TooManyNotes);
        }
        rebuild.check_lists(&notes).map_err(RebuildError::from)?;
        rebuild.amend(notes);
        let mut new = match rebuild.build() {
            // There is too little memory for a new filter. If the old one has all members of the
            // shard, it stays in use.
            Err(RebuildError::Build(BuildError::Memory { .. })) if self.sizes.is_limited() => {
                if !self.shards[shard].is_ready.load(Ordering::Acquire) {
                    self.give_up(shard);
                }
                return Ok(Attempted::Rebuilt(Rebuilt { census, is_swapped: false }));
            }
            built => built?,
        };
        for round in 0.. {
            #[cfg(test)]
            hook::call(hook::Moment::Round(round));
            let mut writes = self.writes_of(shard);
            let notes = writes.take_notes();
            let are_too_many = notes.len() > MOST_LOCKED;
            if notes.is_incomplete || (are_too_many && round >= MOST_ROUNDS) {
                return Ok(Attempted::TooManyNotes);
            }
            // Keep the lock during the last round only, so that writers wait only for that round.
            let is_last = notes.len() <= LAST_ROUND || (!are_too_many && round >= ROUNDS);
            rebuild.slow_writers(are_too_many && round >= SLOWING_ROUND);
            let writes = is_last.then_some(writes);
            if rebuild.apply(notes, new.filter()).is_err() {
                drop((writes, new));
                rebuild.filter_bytes = 0;
                new = rebuild.build_larger()?;
                continue;
            }
            let Some(mut writes) = writes else { continue };
            let is_trusted = may_trust && source.trust(shard);
            let is_ready = &self.shards[shard].is_ready;
            if !is_trusted {
                is_ready.store(false, Ordering::Release);
            }
            self.shards[shard].set_reach(&new.filter().suspects(*hashes.start()));
            let before = self.filter.replace_shard(new);
            if is_trusted {
                is_ready.store(true, Ordering::Release);
            }
            writes.swapped(rebuild.may_have_ghosts);
            self.shards[shard].swapped();
            self.counters.add(Count::Rebuilds, 1);
            self.is_changed.store(true, Ordering::Release);
            // Freeing a large table takes a while, so let the writers go on first.
            drop(writes);
            #[cfg(test)]
            hook::call(hook::Moment::Swapped);
            drop(before);
            break;
        }
        noting.0 = None;
        if let Some(doomed) = doomed {
            self.forget_doomed(source, &doomed, &rebuild.mistakes);
            // Queued records may exceed the maximum. If they counted in full, the shard would be due
            // again immediately.
            let old = rebuild.mistakes.len().min(most_old(rebuild.members.len()));
            self.shards[shard].records.store(old, Ordering::Relaxed);
        }
        self.upkeep.count(start.elapsed());
        Ok(Attempted::Rebuilt(Rebuilt { census, is_swapped: true }))
    }

    /// Returns the bytes of memory that running rebuilds take, with the notes that wait for them.
    pub(super) fn rebuild_bytes(&self) -> u64 {
        let bytes = self.upkeep.rebuild_bytes.load(Ordering::Relaxed);
        // Every running rebuild counts some bytes, so usually there are no notes.
        if bytes == 0 {
            return 0;
        }
        let notes = (0..self.shards.len()).map(|shard| self.writes_of(shard).notes_bytes());
        bytes + notes.sum::<u64>()
    }

    /// Rebuilds the shards that may hold ghosts, so that the filter can be saved. Does nothing unless all
    /// shards are ready.
    pub(crate) fn rebuild_without_ghosts<S: Source>(&self, source: &S) -> Result<(), S::Error> {
        if !self.is_all_ready() {
            return Ok(());
        }
        let mut with_ghosts = (0..self.shards.len()).filter(|&shard| self.has_ghosts(shard));
        with_ghosts.try_for_each(|shard| self.rebuild_shard(source, shard, 0).map(drop))
    }

    /// Rebuilds all shards with several threads, because reading takes longest, and each shard is
    /// read separately. The current thread calls `first` before it rebuilds shards. Each thread
    /// calls `goes_on` before each shard, and stops if it returns `false`. After each shard, it
    /// calls `on_shard`.
    pub(crate) fn rebuild_all<S, T>(
        &self,
        source: &S,
        first: impl FnOnce() -> Result<T, S::Error>,
        goes_on: impl Fn() -> bool + Sync,
        on_shard: impl Fn(Census) + Sync,
    ) -> Result<T, S::Error>
    where
        S: Source<Error: Send> + Sync,
    {
        let is_limited = self.sizes.is_limited();
        let next = AtomicUsize::new(0);
        let rebuild = || -> Result<(), S::Error> {
            while goes_on() {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= self.filter.shards() {
                    break;
                }
                let rebuilt = if is_limited {
                    self.rebuild_shard_until(source, shard, 0, None)?
                } else {
                    self.rebuild_beside_others(source, shard, 0, None)?
                };
                on_shard(rebuilt.expect(WAITS).census);
            }
            Ok(())
        };
        thread::scope(|scope| {
            // If no more threads can be started, this one rebuilds all shards.
            let spawn = |_| spawn_scoped(scope, THREAD, rebuild).ok();
            // If memory is limited, only one shard may be rebuilt at a time.
            let threads = if is_limited { 1 } else { threads() };
            let others: Vec<_> = (1..threads).filter_map(spawn).collect();
            let first = first();
            let mut rebuilt = rebuild();
            for other in others {
                rebuilt = rebuilt.and(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            rebuilt.and(first)
        })
    }

    /// Checks every invariant of the filter, and that each shard that is ready holds all members that
    /// the database lists. Writers of a shard wait while it is checked. Returns what is wrong, if
    /// anything is.
    pub(crate) fn find_fault<S: Source>(&self, source: &S) -> Result<Option<String>, S::Error> {
        if let Err(invalid) = self.filter.validate() {
            return Ok(Some(invalid.to_string()));
        }
        for shard in 0..self.filter.shards() {
            let hashes = self.filter.shard_hashes(shard);
            let _locked = self.stripes.lock([hashes.clone()]);
            if !self.shards[shard].is_ready.load(Ordering::Acquire) {
                continue;
            }
            let members = self.scan(source, &hashes)?;
            let missing = members.iter().filter(|&&member| !self.filter.contains(member)).count();
            if missing > 0 {
                return Ok(Some(format!("the filter lacks {missing} members of shard {shard}")));
            }
        }
        Ok(None)
    }
}

/// The error when the filter that is being built has no room for a change.
struct NoRoom;

impl<F: Shard> Rebuild<'_, F> {
    /// Lists the members of the shard, in any order. `expected` is about their number, if it is known. Lists
    /// them in parts, if they may be many.
    fn list<S: Source>(
        &mut self,
        source: &S,
        hashes: &RangeInclusive<Hash>,
        expected: Option<u64>,
    ) -> Result<Vec<Hash>, S::Error> {
        let known = |members: u64| members.max(self.slots).div_ceil(LISTED_AT_ONCE).max(1);
        let parts = expected.map_or(FIRST_PARTS, known);
        let [first, last] = [hashes.start(), hashes.end()].map(|hash| hash.as_u128());
        let mut step = (last - first) / u128::from(parts);
        let bytes = |list: &Vec<Hash>| (list.capacity() * size_of::<Hash>()) as u64;
        let mut listed: Vec<Hash> = Vec::with_capacity(expected.unwrap_or_default() as usize);
        let mut is_checked = false;
        self.count_bytes(size_of::<Self>() as u64 + bytes(&listed));
        let mut from = first;
        loop {
            let to = from.saturating_add(step).min(last);
            let part = Hash::from_u128(from)..=Hash::from_u128(to);
            let mut members = self.maintained.scan_part(source, &part, &mut is_checked)?;
            step = next_step(step, members.len() as u64);
            if listed.capacity() == 0 {
                members.shrink_to_fit();
                listed = members;
            } else {
                // If there are more than expected, the list grows in small steps instead of doubling.
                if listed.capacity() - listed.len() < members.len() {
                    listed.reserve_exact(members.len().max(listed.len() / 16));
                }
                listed.append(&mut members);
            }
            self.count_bytes(size_of::<Self>() as u64 + bytes(&listed));
            if to == last {
                return Ok(listed);
            }
            from = to + 1;
        }
    }

    /// Sets whether writers of the shard are slowed down because they outrun the rebuild.
    fn slow_writers(&self, is_outrun: bool) {
        self.maintained.shards[self.shard].is_outrun.store(is_outrun, Ordering::Relaxed);
    }

    /// Checks that no key is on both lists, if the user lists the mistakes. Skips keys that were
    /// written meanwhile, because they may have moved to the other list.
    fn check_lists(&self, notes: &Notes) -> Result<(), BuildError> {
        let is_on_both = |mistake: &&Hash| {
            self.members.contains(**mistake) && !notes.keys.contains_key(*mistake)
        };
        match self.mistakes.iter().find(is_on_both) {
            Some(&hash) if self.maintained.policy.is_listed() => {
                let position = Some(self.mistakes.range(..hash).count());
                Err(BuildError::MistakeIsMember { hash, position })
            }
            _ => Ok(()),
        }
    }

    /// Amends the list of members and the mistakes.
    fn amend(&mut self, notes: Notes) {
        self.may_have_ghosts |= notes.may_have_ghosts;
        self.mistakes.extend(notes.mistakes);
        for (hash, is_present) in notes.keys {
            self.members.set(hash, is_present);
        }
    }

    /// Amends the list, and applies each change to the new filter, until there is no room.
    fn apply(&mut self, notes: Notes, new: &Concurrent<F>) -> Result<(), NoRoom> {
        self.recount(notes.bytes());
        self.may_have_ghosts |= notes.may_have_ghosts;
        self.mistakes.extend(&notes.mistakes);
        let mut mistakes = notes.mistakes;
        let mut applied = Ok(());
        for (hash, is_present) in notes.keys {
            if !self.members.set(hash, is_present) || applied.is_err() {
                continue;
            }
            applied = if is_present { self.insert(hash, new) } else { self.remove(hash, new) };
            // Repair the mistakes near a new member. A removed member may itself be a mistake that
            // isn't repaired yet.
            let near = if is_present { new.suspects(hash) } else { hash..=hash };
            mistakes.extend(self.mistakes.range(near));
        }
        self.recount(0);
        applied?;
        mistakes.into_iter().try_for_each(|mistake| self.repair(mistake, new))
    }

    /// Inserts a hash, which is the only member that the new filter lacks.
    fn insert(&self, hash: Hash, new: &Concurrent<F>) -> Result<(), NoRoom> {
        let near: Vec<Hash> = self.mistakes.range(new.suspects(hash)).copied().collect();
        let inserted = match new.insert_apart(hash, &near) {
            Err(InsertError::NeedsMembers(claim)) => {
                let mut members = self.members.within(&claim.suspects());
                members.retain(|&member| member != hash);
                new.insert_listed(&claim, members)
            }
            inserted => inserted,
        };
        inserted.map_err(|_| NoRoom)
    }

    /// Removes a hash, which is the only one in the new filter that isn't a member.
    fn remove(&self, hash: Hash, new: &Concurrent<F>) -> Result<(), NoRoom> {
        let removed = if self.keeps_repairs {
            new.remove_trusting_keeping_repairs(hash)
        } else {
            new.remove_trusting(hash)
        };
        let removed = match (removed, new.check(hash)) {
            (Err(RemoveError::Ambiguous), Answer::Maybe(claim)) => {
                let members = self.members.within(&claim.suspects()).into_iter().chain([hash]);
                let members: Vec<Hash> = members.collect();
                if self.keeps_repairs {
                    new.remove_keeping_repairs(&claim, members)
                } else {
                    new.remove(&claim, members)
                }
            }
            (removed, _) => removed,
        };
        removed.map_err(|_| NoRoom)
    }

    /// Builds the new filter from the list and the mistakes.
    fn build(&mut self) -> Result<Replacement<F>, RebuildError> {
        // Count the copy of the mistakes below.
        self.recount((self.mistakes.len() * size_of::<Hash>()) as u64);
        let Self { maintained, shard, slots, members, mistakes, more, .. } = self;
        let members = members.members();
        // A member may be among the mistakes, because a write failed, or because the key moved to the
        // other list.
        let is_mistake = |mistake: &Hash| members.binary_search(mistake).is_err();
        let mistakes: Vec<Hash> = mistakes.iter().copied().filter(is_mistake).collect();
        let needed = (members.len() + *more) as u64;
        let sizes = &maintained.sizes;
        let old = *slots;
        let fitting = |needed| sizes.fitting::<F>(*shard, old, needed);
        let for_mistakes = maintained.policy.slots(mistakes.len(), sizes.bits());
        let with_mistakes = needed + for_mistakes as u64;
        let wanted = || sizes.slots(*shard, old, with_mistakes);
        let mut slots = fitting(with_mistakes).unwrap_or_else(wanted);
        let most = slots.max(needed).saturating_mul(64);
        let mut may_save = true;
        let mut mistakes = &mistakes[..];
        let new = loop {
            let built = sizes.remainder_bits::<F>(slots).map_err(Into::into).and_then(|bits| {
                // Building may take long, so count the new filter from the beginning.
                let _building = maintained.upkeep.count_building::<F>(slots, bits);
                #[cfg(test)]
                hook::call(hook::Moment::Building);
                let plan = ShardPlan::slots(slots).remainder_bits(bits);
                let plan = if maintained.policy.is_listed() { plan } else { plan.fresh() };
                maintained.filter.build_shard(*shard, plan, members, mistakes)
            });
            match built {
                Ok(new) if new.filter().shard_fill(0).used as f64 <= slots as f64 * FRESH => {
                    break new;
                }
                // Counters, repairs and uneven hashes take more room than the members alone, so add
                // slots.
                Ok(new) if slots < most => {
                    let used = new.filter().shard_fill(0).used as f64;
                    slots = (used / FRESH).ceil() as u64 + slots / 64 + 1;
                }
                Err(RebuildError::Build(BuildError::Full { .. })) if slots < most => {
                    slots += slots / 8 + 16;
                }
                // Drop the mistakes, because members come first. Mistakes that aren't repaired now
                // may recur. Also try fewer slots, because the planned number may come from
                // a machine with more memory.
                Err(RebuildError::Build(BuildError::Memory { .. }))
                    if may_save && !maintained.policy.is_listed() =>
                {
                    may_save = false;
                    mistakes = &[];
                    let least = members.len() as u64 * 9 / 8 + 64;
                    let fitting = fitting(needed).filter(|_| sizes.is_limited());
                    slots = fitting.unwrap_or(least).min(slots);
                }
                built => break built?,
            }
        };
        self.filter_bytes = new.filter().stats().memory;
        self.recount(0);
        Ok(new)
    }

    /// Returns the approximate bytes of memory that the lists of members, mistakes and records take.
    /// Tree nodes are about two thirds full.
    fn listed_bytes(&self) -> u64 {
        let mistakes = (self.mistakes.len() * size_of::<Hash>() * 3 / 2) as u64;
        self.members.bytes() + mistakes + self.doomed_bytes
    }

    /// Updates the memory that this rebuild takes: its lists, its new filter, and `others` more
    /// bytes.
    fn recount(&mut self, others: u64) {
        let lists = self.listed_bytes() + others;
        self.count_bytes(size_of::<Self>() as u64 + lists + self.filter_bytes);
    }

    /// Sets the memory that this rebuild takes, and updates the total.
    fn count_bytes(&mut self, bytes: u64) {
        let all = &self.maintained.upkeep.rebuild_bytes;
        all.fetch_add(bytes, Ordering::Relaxed);
        all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    fn build_larger(&mut self) -> Result<Replacement<F>, RebuildError> {
        self.more += self.more / 2 + self.members.members().len() / 8 + 64;
        self.build()
    }

    /// Repairs a mistake, unless it is a member. A mistake that can't be repaired may recur.
    fn repair(&self, mistake: Hash, new: &Concurrent<F>) -> Result<(), NoRoom> {
        if self.members.contains(mistake) {
            return Ok(());
        }
        let Answer::Maybe(claim) = new.check(mistake) else { return Ok(()) };
        match new.adapt(&claim, self.members.within(&claim.suspects())) {
            Err(AdaptError::Full { .. }) => Err(NoRoom),
            _ => Ok(()),
        }
    }
}

/// Returns how much of a shard to list next, in hashes, after a step has listed this many members. A step
/// changes at most by a factor of 4, because members may be spread unevenly.
fn next_step(step: u128, listed: u64) -> u128 {
    let share = LISTED_AT_ONCE as f64 / listed.max(1) as f64;
    let next = step as f64 * share.clamp(0.25, 4.0);
    // The conversion saturates.
    (next as u128).max(1)
}

/// A function that tests call at certain moments of a rebuild on the same thread.
#[cfg(test)]
pub(super) mod hook {
    use std::cell::RefCell;

    /// A moment of a rebuild.
    #[derive(Clone, Copy)]
    pub(crate) enum Moment {
        /// A new filter is about to be built.
        Building,
        /// The round with this number begins.
        Round(usize),
        /// The new filter was swapped in, and writers go on.
        Swapped,
    }

    type Hook = Box<dyn FnMut(Moment)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Sets the function until the next call.
    pub(crate) fn set(hook: Option<Hook>) {
        HOOK.with_borrow_mut(|set| *set = hook);
    }

    pub(super) fn call(moment: Moment) {
        // Take the function out, because it may cause another rebuild.
        let hook = HOOK.with_borrow_mut(Option::take);
        if let Some(mut hook) = hook {
            hook(moment);
            set(Some(hook));
        }
    }
}
