//! Looking keys up, and removing them.

use super::notes::Writes;
use super::upkeep::Change;
use super::{Doubt, MaintainedFilter, Source};
use crate::stats::{Count, Counters};
use scopeguard::ScopeGuard;
use twiceshy::{Answer, Claim, Hash, concurrent::Shard};

/// The filter's answer to a lookup.
pub(crate) enum Asked<C> {
    /// The database holds nothing that matches.
    Absent,
    /// The database must be asked. If it holds nothing that matches, this claim was a mistake and must be
    /// repaired.
    Maybe(C),
    /// The filter can't answer.
    Unfiltered,
}

impl Counters {
    /// Runs a query on the database, unless the filter knows that the database holds nothing that matches. If
    /// the filter's answer was a mistake, repairs it.
    pub(crate) fn guarded<C, V, E>(
        &self,
        asked: Asked<C>,
        look_up: impl FnOnce() -> Result<Option<V>, E>,
        repair: impl FnOnce(C),
    ) -> Result<Option<V>, E> {
        if matches!(asked, Asked::Absent) {
            self.add(Count::AnsweredFromMemory, 1);
            return Ok(None);
        }
        self.add(Count::LookedUp, 1);
        let value = look_up()?;
        match asked {
            _ if value.is_some() => self.add(Count::TruePositives, 1),
            Asked::Maybe(claim) => repair(claim),
            Asked::Absent | Asked::Unfiltered => self.add(Count::Unfiltered, 1),
        }
        Ok(value)
    }
}

impl<F: Shard> MaintainedFilter<F> {
    /// Looks up a key in the database, unless the filter knows that it is absent. If the filter's answer was
    /// a mistake, repairs it.
    pub(crate) fn get<V, E>(
        &self,
        source: &impl Source,
        hash: Hash,
        look_up: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        let asked = if self.is_complete() && self.is_ready(hash) {
            match self.filter.check(hash) {
                Answer::Absent => Asked::Absent,
                Answer::Maybe(claim) => Asked::Maybe(claim),
            }
        } else {
            Asked::Unfiltered
        };
        self.get_asked(source, asked, look_up)
    }

    /// Looks up many keys like [`get`](Self::get). Asks the filter about all keys in one batch. After a mistake,
    /// asks again about each remaining key that the filter had answered "maybe", because the same key may
    /// occur again. Calls `look_up` with the index of a key.
    pub(crate) fn get_many<V, E>(
        &self,
        source: &impl Source,
        hashes: &[Hash],
        look_up: impl Fn(usize) -> Result<Option<V>, E>,
    ) -> Result<Vec<Option<V>>, E> {
        let is_complete = self.is_complete();
        let is_ready = |&hash: &Hash| is_complete && self.is_ready(hash);
        let ready: Vec<bool> = hashes.iter().map(is_ready).collect();
        let mut maybe = Vec::with_capacity(hashes.len());
        self.filter.contains_many(hashes, &mut maybe);
        let mut has_repaired = false;
        let get = |(at, &hash): (usize, &Hash)| {
            let is_maybe = maybe[at] && (!has_repaired || self.filter.contains(hash));
            let asked = match (ready[at], is_maybe) {
                (true, false) => Asked::Absent,
                (true, true) => Asked::Maybe(self.filter.claim_near(hash)),
                (false, _) => Asked::Unfiltered,
            };
            let value = self.get_asked(source, asked, || look_up(at))?;
            has_repaired |= ready[at] && is_maybe && value.is_none();
            Ok(value)
        };
        hashes.iter().enumerate().map(get).collect()
    }

    fn get_asked<V, E>(
        &self,
        source: &impl Source,
        asked: Asked<Claim>,
        look_up: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        self.counters.guarded(asked, || self.counted(look_up), |claim| self.repair(source, claim))
    }

    /// Removes a key from the database, if present, and then from the filter. Returns whether the database
    /// had it.
    ///
    /// A key that isn't listed as a member isn't in the filter, so it must not be removed there: the matching
    /// fingerprint may be another member's. `is_listed` is called unless all keys are known to be listed.
    ///
    /// While a write of the key is in doubt, the database can't tell whether it has the key, so `write` is
    /// called in any case.
    pub(crate) fn remove<S: Source, E>(
        &self,
        source: &S,
        hash: Hash,
        is_there: impl FnOnce() -> Result<bool, E>,
        is_listed: impl FnOnce() -> Result<bool, E>,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let removed = self.remove_locked(source, hash, is_there, is_listed, write);
        self.after_write(source);
        self.pace_removal(self.filter.shard_of(hash));
        removed
    }

    fn remove_locked<S: Source, E>(
        &self,
        source: &S,
        hash: Hash,
        is_there: impl FnOnce() -> Result<bool, E>,
        is_listed: impl FnOnce() -> Result<bool, E>,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let locked = self.lock(&[hash]);
        let doubt = source.doubt(hash);
        let is_complete = self.is_complete();
        let answer = self.is_ready(hash).then(|| self.filter.check(hash));
        if answer == Some(Answer::Absent) && is_complete && doubt == Doubt::None {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(false);
        }
        self.counters.add(Count::LookedUp, 1);
        let is_there = self.counted(is_there)?;
        if !is_there && doubt == Doubt::None {
            drop(locked);
            match answer {
                Some(Answer::Maybe(claim)) if is_complete => self.repair(source, claim),
                _ => self.counters.add(Count::Unfiltered, 1),
            }
            return Ok(false);
        }
        self.counters.add(if is_there { Count::TruePositives } else { Count::Unfiltered }, 1);
        let is_member = is_there && (is_complete || is_listed()?);
        let epoch = self.begin(hash);
        // A filter that was built while the key was in flight holds the key.
        let is_held = |writes: &Writes| is_member || writes.epoch != epoch;
        let in_flight = scopeguard::guard((), |()| self.leave_ghost(hash));
        // Ask again, because a rebuild may have ended the doubt just before the key was in flight.
        let doubt = source.doubt(hash);
        if !is_there && doubt == Doubt::None {
            ScopeGuard::into_inner(in_flight);
            self.remove_hash(source, &locked, hash, &[], is_held);
            return Ok(false);
        }
        let removed = write();
        ScopeGuard::into_inner(in_flight);
        match removed {
            Ok(()) if doubt != Doubt::Unsettled => {
                self.remove_hash(source, &locked, hash, &[], is_held);
            }
            // The key may have been removed despite the error.
            Err(_) if S::LEAVES_GHOSTS && is_member => self.leave_ghost(hash),
            Err(_) if is_there => self.writes(hash).end(hash, true),
            // The filter keeps the key, which may or may not be in the database.
            _ => self.writes(hash).end_unknown(hash),
        }
        drop(locked);
        self.changed(hash, Change::Removal);
        removed.map(|()| is_there)
    }

    /// Begins a write of a key, which counts as present until the write ends. Returns the epoch of the
    /// shard.
    fn begin(&self, hash: Hash) -> u64 {
        let mut writes = self.writes(hash);
        writes.begin(hash);
        writes.epoch
    }

    /// Locks a key's stripe and calls `is_wanted`. If the change is still wanted, calls `change` to
    /// remove the key from the reverse map, but not from the filter. If the filter holds the key,
    /// the key is a ghost then.
    pub(crate) fn leaving_ghost<E>(
        &self,
        hash: Hash,
        is_wanted: impl FnOnce() -> Result<bool, E>,
        change: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _locked = self.lock(&[hash]);
        if !is_wanted()? {
            return Ok(());
        }
        self.begin(hash);
        let in_flight = scopeguard::guard((), |()| self.leave_ghost(hash));
        change()?;
        ScopeGuard::into_inner(in_flight);
        self.counters.add(Count::GhostsLeft, 1);
        let mut writes = self.writes(hash);
        writes.has_ghosts = true;
        writes.end(hash, false);
        Ok(())
    }

    /// Calls `read` while no thread writes or repairs near a hash.
    pub(crate) fn while_locked<T>(&self, hash: Hash, read: impl FnOnce() -> T) -> T {
        let _locked = self.lock(&[hash]);
        read()
    }

    /// Ends the doubt about a key. The filter forgets the key unless it is in the database. Returns
    /// whether the database has the key. `settle` removes the record of the doubt and returns
    /// `true`. If a later write of the key is in doubt, `settle` keeps the record and returns
    /// `false`.
    pub(crate) fn settle<E>(
        &self,
        source: &impl Source,
        hash: Hash,
        is_there: impl FnOnce() -> Result<bool, E>,
        settle: impl FnOnce() -> bool,
    ) -> Result<bool, E> {
        let mut locked = self.lock(&[hash]);
        let is_there = self.counted(is_there)?;
        // Mark the key as in flight before its doubt ends. Otherwise a rebuild could miss it.
        let epoch = self.begin(hash);
        let in_flight = scopeguard::guard((), |()| self.leave_ghost(hash));
        let is_settled = settle();
        let doubt = source.doubt(hash);
        ScopeGuard::into_inner(in_flight);
        if is_there {
            self.writes(hash).end(hash, true);
            self.kept.remove(&mut locked, hash);
        } else if !is_settled && doubt == Doubt::Unsettled {
            self.writes(hash).end_unknown(hash);
        } else {
            let is_held = |writes: &Writes| is_settled || writes.epoch != epoch;
            self.remove_hash(source, &locked, hash, &[], is_held);
        }
        Ok(is_there)
    }

    /// Runs a lookup and counts it as a point read.
    pub(super) fn counted<T>(&self, look_up: impl FnOnce() -> T) -> T {
        self.counters.add(Count::BackendGets, 1);
        look_up()
    }
}
