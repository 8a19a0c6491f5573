//! Writing new members.

use super::upkeep::{Change, LEAST_ROOM};
use super::{Doubt, MaintainedFilter, Source};
use crate::stats::Count;
use crate::stripes::Locked;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use twiceshy::{Hash, concurrent::Shard, error::InsertError};

/// The result of work that holds stripes and needs room in the filter. If it isn't `Done`, nothing
/// was changed.
pub(super) enum Tried<T, E> {
    Done(T),
    /// A shard was rebuilt meanwhile. The work must begin again.
    Again,
    /// There is no room for this hash.
    NoRoom(Hash, E),
}

impl<T, E> Tried<T, E> {
    fn map<U>(self, work: impl FnOnce(T) -> U) -> Tried<U, E> {
        match self {
            Self::Done(done) => Tried::Done(work(done)),
            Self::Again => Tried::Again,
            Self::NoRoom(hash, error) => Tried::NoRoom(hash, error),
        }
    }
}

/// The result of work that needs room in the filter, or the error of the database.
pub(super) type Attempt<T, E> = Result<Tried<T, E>, E>;

/// Whether the filter holds a key that is about to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entered {
    /// This write has inserted the key.
    New,
    /// This write has inserted the key. The database and its listing may have had the key before, and the
    /// filter may now hold it twice.
    NewOrListed,
    /// The filter held the key already.
    Before,
    /// The key was not inserted, because the shard isn't ready.
    Nothing,
}

/// Writes in flight. Dropping this ends the remaining ones with an unknown outcome.
struct InFlight<'a, F: Shard> {
    maintained: &'a MaintainedFilter<F>,
    writes: SmallVec<[(Hash, Entered); 1]>,
}

impl<F: Shard> InFlight<'_, F> {
    /// Ends all writes as successful.
    fn succeed(mut self) {
        for (hash, _) in self.writes.drain(..) {
            self.maintained.writes(hash).end(hash, true);
        }
    }

    /// Ends all writes as not done, and removes the new keys from the filter.
    fn undo(mut self, source: &impl Source, locked: &Locked<'_>) {
        while let Some((hash, entered)) = self.writes.pop() {
            match entered {
                Entered::New => {
                    let others = self.new_hashes();
                    self.maintained.remove_hash(source, locked, hash, &others, |_| true);
                }
                // The key may be a member. To note it as absent would remove it from a filter that is
                // being built from the listing.
                Entered::NewOrListed => self.maintained.leave_ghost(hash),
                Entered::Before => self.maintained.writes(hash).end(hash, true),
                Entered::Nothing => self.maintained.writes(hash).end_unknown(hash),
            }
        }
    }

    /// Ends all writes, and leaves open whether they were done.
    fn doubt<S: Source>(mut self) {
        for (hash, entered) in self.writes.drain(..) {
            // A new key of a guard is in doubt now, and counts as a member.
            let is_ghost = match entered {
                Entered::New => S::LEAVES_GHOSTS,
                Entered::Before => false,
                Entered::NewOrListed | Entered::Nothing => true,
            };
            if is_ghost {
                self.maintained.leave_ghost(hash);
            } else {
                self.maintained.writes(hash).end(hash, true);
            }
        }
    }

    /// Returns the hashes that the filter may hold although the database doesn't. A filter that was
    /// built meanwhile holds all hashes in flight.
    fn new_hashes(&self) -> SmallVec<[Hash; 8]> {
        let may_be_new = |&&(_, entered): &&(Hash, Entered)| entered != Entered::Before;
        self.writes.iter().filter(may_be_new).map(|&(hash, _)| hash).collect()
    }
}

impl<F: Shard> Drop for InFlight<'_, F> {
    fn drop(&mut self) {
        for (hash, _) in self.writes.drain(..) {
            self.maintained.leave_ghost(hash);
        }
    }
}

/// Keys that are in the filter, and are about to be written to the database.
pub(crate) struct Admitted<'a, F: Shard> {
    keys: SmallVec<[AdmittedKey; 8]>,
    in_flight: InFlight<'a, F>,
    // This is the last field, so that the stripes are unlocked only after the writes have ended.
    locked: Locked<'a>,
}

impl<F: Shard> Admitted<'_, F> {
    /// Returns, for each key, whether it may be new in the database.
    pub(crate) fn is_new(&self) -> impl Iterator<Item = bool> {
        self.keys.iter().map(|key| key.is_new)
    }

    /// Returns, for each key, whether the database's listing of members may lack the key: because
    /// the key is new, or because an earlier write that failed may still remove it.
    pub(crate) fn may_be_unlisted(&self) -> impl Iterator<Item = bool> {
        self.keys.iter().map(|key| key.is_new || key.is_in_doubt)
    }
}

/// What is known about a key that is about to be written. If a key occurs twice, this says nothing
/// about the second time.
#[derive(Clone, Copy, Default)]
struct AdmittedKey {
    is_new: bool,
    is_in_doubt: bool,
}

/// Returns the first occurrence of each item, with its index.
pub(crate) fn distinct<T: Copy + Eq + std::hash::Hash>(
    items: &[T],
) -> impl Iterator<Item = (usize, T)> {
    let mut seen = (items.len() > 1).then(HashSet::new);
    let is_first =
        move |&(_, item): &(usize, T)| seen.as_mut().is_none_or(|seen| seen.insert(item));
    items.iter().copied().enumerate().filter(is_first)
}

/// A key that is to be written, and what is known about it.
struct Candidate {
    hash: Hash,
    is_new: bool,
    /// Whether the key may be a member although it counts as new.
    may_be_member: bool,
    /// Whether the shard was ready when the key was looked up.
    was_ready: bool,
}

impl<F: Shard> MaintainedFilter<F> {
    /// Inserts keys into the filter, and then writes them to the database. `is_there` looks a key up in
    /// the database. `may_insert` is called for each key that is kept as a mistake.
    pub(crate) fn write<S: Source, T>(
        &self,
        source: &S,
        hashes: &[Hash],
        is_there: impl Fn(usize) -> Result<bool, S::Error>,
        may_insert: impl Fn(usize) -> Result<(), S::Error>,
        write: impl FnOnce(&Admitted<'_, F>) -> Result<T, S::Error>,
    ) -> Result<T, S::Error> {
        let admitted = self.making_room(source, hashes, || {
            self.try_admit(source, hashes, &is_there, &may_insert)
        })?;
        let written = self.write_admitted::<S, T>(source, admitted, hashes, write);
        self.after_write(source);
        if written.is_ok() {
            let mut shards: SmallVec<[usize; 8]> =
                hashes.iter().map(|&hash| self.filter.shard_of(hash)).collect();
            shards.sort_unstable();
            shards.dedup();
            self.pace(source, &shards);
        }
        written
    }

    /// Locks a key's stripe and calls `is_wanted`. If the key is still wanted, inserts it into the
    /// filter and writes it to the database.
    pub(crate) fn write_if<S: Source>(
        &self,
        source: &S,
        hash: Hash,
        is_wanted: impl Fn() -> Result<bool, S::Error>,
        write: impl FnOnce() -> Result<(), S::Error>,
    ) -> Result<(), S::Error> {
        let admitted = self.making_room(source, &[hash], || {
            let locked = self.lock(&[hash]);
            if !is_wanted()? {
                return Ok(Tried::Done(None));
            }
            let was_ready = self.is_ready(hash);
            let candidate = Candidate { hash, is_new: true, may_be_member: true, was_ready };
            let tried = self.admit(source, &locked, &[candidate])?;
            Ok(match tried {
                Tried::Done(in_flight) => {
                    let key = AdmittedKey { is_new: true, is_in_doubt: false };
                    let keys = SmallVec::from_elem(key, 1);
                    Tried::Done(Some(Admitted { keys, in_flight, locked }))
                }
                Tried::Again => Tried::Again,
                Tried::NoRoom(hash, error) => Tried::NoRoom(hash, error),
            })
        })?;
        admitted.map_or(Ok(()), |admitted| {
            self.write_admitted::<S, ()>(source, admitted, &[hash], |_| write())
        })
    }

    fn write_admitted<S: Source, T>(
        &self,
        source: &S,
        admitted: Admitted<'_, F>,
        hashes: &[Hash],
        write: impl FnOnce(&Admitted<'_, F>) -> Result<T, S::Error>,
    ) -> Result<T, S::Error> {
        let written = write(&admitted);
        let Admitted { mut locked, in_flight, .. } = admitted;
        match &written {
            Ok(_) => {
                in_flight.succeed();
                for &hash in hashes {
                    self.kept.remove(&mut locked, hash);
                }
            }
            Err(error) if S::is_refusal(error) => in_flight.undo(source, &locked),
            Err(_) => in_flight.doubt::<S>(),
        }
        written
    }

    fn try_admit<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
        is_there: impl Fn(usize) -> Result<bool, S::Error>,
        may_insert: impl Fn(usize) -> Result<(), S::Error>,
    ) -> Attempt<Admitted<'_, F>, S::Error> {
        let locked = self.lock(hashes);
        let mut keys = SmallVec::from_elem(AdmittedKey::default(), hashes.len());
        let mut candidates = SmallVec::<[Candidate; 1]>::new();
        for (at, hash) in distinct(hashes) {
            if locked.has_mistake(hash) {
                may_insert(at)?;
            }
            let was_ready = self.is_ready(hash);
            let maybe = was_ready && self.filter.contains(hash);
            // Until the listing of members is complete, the filter may lack a key that the database
            // has. If the key may be in doubt, too, treat it as new, so that the store lists it
            // again.
            // Read the doubt only once: if this write lists the key, it must also insert it into
            // the filter.
            let is_in_doubt = source.doubt(hash) != Doubt::None;
            let may_lack = !self.is_complete() && is_in_doubt;
            let is_new = !maybe || may_lack || !self.counted(|| is_there(at))?;
            keys[at] = AdmittedKey { is_new, is_in_doubt };
            candidates.push(Candidate { hash, is_new, may_be_member: may_lack, was_ready });
        }
        let tried = self.admit(source, &locked, &candidates)?;
        Ok(tried.map(|in_flight| Admitted { keys, in_flight, locked }))
    }

    /// Begins all of these writes or none, and inserts the new keys into the filter.
    fn admit<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        candidates: &[Candidate],
    ) -> Attempt<InFlight<'_, F>, S::Error> {
        let mut in_flight = InFlight { maintained: self, writes: SmallVec::new() };
        for candidate in candidates {
            match self.begin_write(source, locked, candidate, &in_flight) {
                Ok(Tried::Done((entered, mistakes))) => {
                    in_flight.writes.push((candidate.hash, entered));
                    self.repair_again(source, locked, &mistakes, || in_flight.new_hashes());
                }
                failed => {
                    in_flight.undo(source, locked);
                    return Ok(failed?.map(|_| unreachable!("it isn't done")));
                }
            }
        }
        Ok(Tried::Done(in_flight))
    }

    /// Begins the write of a key, and inserts the key into the filter if it is new. The keys of `before`
    /// are in the filter, but not in the database yet. Returns the mistakes that the key could bring back.
    fn begin_write<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        &Candidate { hash, is_new, may_be_member, was_ready }: &Candidate,
        before: &InFlight<'_, F>,
    ) -> Attempt<(Entered, Vec<Hash>), S::Error> {
        let mut listed = None;
        // The records near the key, and the epoch of the shard when they were read.
        let mut recorded: Option<(u64, Vec<Hash>)> = None;
        for _ in 0..super::edit::LISTINGS {
            let mut writes = self.writes(hash);
            if !self.is_ready(hash) {
                if self.policy.is_listed() {
                    // A list answers without asking the database, so it needs a shard that is
                    // ready.
                    return Ok(Tried::NoRoom(hash, InsertError::Mismatch.into()));
                }
                // Insert nothing. The rebuild of the shard gets the key from the database or from
                // the notes.
                writes.begin(hash);
                return Ok(Tried::Done((Entered::Nothing, Vec::new())));
            }
            if !was_ready {
                // The shard was not ready before, so the key was not looked up.
                return Ok(Tried::Again);
            }
            if !is_new {
                writes.begin(hash);
                return Ok(Tried::Done((Entered::Before, Vec::new())));
            }
            let mut mistakes = Vec::new();
            // The shard may have been replaced by a smaller one since the stripes were locked. In
            // that case, the locked stripes may not cover all suspects, and some mistakes would be
            // missing.
            if !S::KEEPS_RECORDS || self.filter.has_repairs_near(hash) {
                let suspects = self.filter.suspects(hash);
                if !locked.covers(&suspects) {
                    return Ok(Tried::Again);
                }
                mistakes = match &recorded {
                    _ if !S::KEEPS_RECORDS => locked.mistakes(&suspects),
                    Some((epoch, records)) if *epoch == writes.epoch => records.clone(),
                    // Read the records without the lock. If the shard is rebuilt meanwhile, begin again.
                    _ => {
                        let epoch = writes.epoch;
                        drop(writes);
                        recorded = Some((epoch, self.records_or_none(source, &suspects)));
                        continue;
                    }
                };
                mistakes
                    .retain(|&mistake| mistake != hash && self.filter.may_confuse(hash, mistake));
            }
            let inserted = match listed.take() {
                None => self.filter.insert_apart(hash, &mistakes),
                Some((claim, members)) => self.filter.insert_listed(&claim, &members),
            };
            match inserted {
                Ok(()) => {
                    writes.begin(hash);
                    drop(writes);
                    self.changed(hash, Change::Addition);
                    // The filter keeps the new member apart from these mistakes, which counts as
                    // repairing them.
                    self.counters.add(Count::Repairs, mistakes.len() as u64);
                    let entered = if may_be_member { Entered::NewOrListed } else { Entered::New };
                    return Ok(Tried::Done((entered, mistakes)));
                }
                Err(InsertError::NeedsMembers(claim)) => {
                    drop(writes);
                    if !locked.covers(&claim.suspects()) {
                        return Ok(Tried::Again);
                    }
                    let members = self.listed(source, &claim, &before.new_hashes())?;
                    listed = Some((*claim, members));
                }
                // Try again: a member near the claim was added or removed meanwhile, or there is a
                // ghost.
                Err(InsertError::Mismatch) => {}
                Err(error) => return Ok(Tried::NoRoom(hash, error.into())),
            }
        }
        Ok(Tried::NoRoom(hash, InsertError::Mismatch.into()))
    }

    /// Returns the records in an interval. If they can't be read, returns none, and counts a failed repair:
    /// the new member may bring mistakes back.
    fn records_or_none<S: Source>(&self, source: &S, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        self.records_within(source, hashes).unwrap_or_else(|_| {
            self.counters.add(Count::RepairsFailed, 1);
            Vec::new()
        })
    }

    /// Calls `work`, which inserts or repairs hashes. If a shard of the filter has no room, makes
    /// room by rebuilding it, and calls `work` again. If the shard can't be rebuilt, or has no room
    /// again and again, it answers "maybe" until it is rebuilt. Until then it needs no room.
    ///
    /// # Errors
    /// Only lists return an error if there is no room, because they answer without asking the
    /// database.
    pub(super) fn making_room<S: Source, T>(
        &self,
        source: &S,
        hashes: &[Hash],
        work: impl Fn() -> Attempt<T, S::Error>,
    ) -> Result<T, S::Error> {
        const TRIES: u32 = 6;
        let mut tried = BTreeMap::new();
        loop {
            let (hash, error) = match work()? {
                Tried::Done(done) => return Ok(done),
                Tried::Again => continue,
                Tried::NoRoom(hash, error) => (hash, error),
            };
            let shard = self.filter.shard_of(hash);
            let tries = tried.entry(shard).or_insert(0);
            if *tries == TRIES {
                if self.policy.is_listed() {
                    return Err(error);
                }
                self.distrust(hash);
                self.wants_rebuild(shard);
                continue;
            }
            let new = hashes.iter().filter(|&&hash| self.filter.shard_of(hash) == shard).count();
            let members = self.filter.shard_fill(shard).members as usize;
            // A rebuild leaves a fifth of the slots free anyway. More room would stay unused if few
            // writes follow, so ask for more only if other writers were faster.
            let more = if *tries == 0 { 0 } else { members / 8 };
            self.make_room(source, shard, more.max(new).max(LEAST_ROOM) << *tries)?;
            *tries += 1;
        }
    }
}
