//! Looking keys up, and removing them.

use super::{Doubt, MaintainedFilter, Source};
use crate::stats::{Count, Counters};
use twiceshy::{Answer, Claim, Hash, concurrent::Shard};

/// The filter's answer to a lookup.
pub(crate) enum Asked<C> {
    /// The database holds nothing that matches.
    Absent,
    /// The database must be asked. If it holds nothing, the answer was a mistake, to repair with this claim.
    Maybe(C),
    /// The filter can't answer.
    Unfiltered,
}

impl Counters {
    /// Looks a question up in the database, unless the filter knows that nothing is there. Repairs a
    /// mistake.
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
    /// Looks a key up in the database, unless the filter knows that it is absent. Repairs a mistake.
    pub(crate) fn get<V, E>(
        &self,
        source: &impl Source,
        hash: Hash,
        look_up: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        let asked = if self.is_complete() && self.is_ready(hash) {
            match self.check(hash) {
                Answer::Absent => Asked::Absent,
                Answer::Maybe(claim) => Asked::Maybe(claim),
            }
        } else {
            Asked::Unfiltered
        };
        self.get_asked(source, asked, look_up)
    }

    /// Looks many keys up as [`get`](Self::get) does. The filter is asked about all keys at once.
    /// After a mistake, it is asked again about each remaining key that it had said "maybe" to: the
    /// same key may occur again. `look_up` is called with the index of a key.
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
        self.contains_many(hashes, &mut maybe);
        let mut has_repaired = false;
        let get = |(at, &hash): (usize, &Hash)| {
            let is_maybe = maybe[at] && (!has_repaired || self.contains(hash));
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

    /// Asks the filter about many hashes. Waits for risky writes as [`check`](Self::check) does.
    pub(super) fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        let before = self.risky_writes.now();
        self.filter.contains_many(hashes, maybe);
        if !self.risky_writes.has_been_none_since(before) {
            for (maybe, &hash) in maybe.iter_mut().zip(hashes) {
                *maybe = *maybe && self.contains(hash);
            }
        }
    }

    /// Asks the filter. If a concurrent write may have made a repaired mistake collide again, waits until
    /// the write has repaired it.
    fn check(&self, hash: Hash) -> Answer {
        let before = self.risky_writes.now();
        let answer = self.filter.check(hash);
        if !answer.is_maybe() || self.risky_writes.has_been_none_since(before) {
            return answer;
        }
        let _locked = self.lock(&[hash]);
        self.filter.check(hash)
    }

    /// Returns whether the filter answers "maybe", as [`check`](Self::check) does.
    pub(super) fn contains(&self, hash: Hash) -> bool {
        self.check(hash).is_maybe()
    }

    /// Removes a key from the database, if present, and then from the filter. Returns whether the database
    /// had it.
    ///
    /// A key that isn't listed as a member isn't in the filter either, where another member may have its
    /// fingerprint. `is_listed` is called unless all keys are known to be listed.
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
        let is_maybe = answer.is_some_and(|answer| answer.is_maybe());
        let is_member = is_there && is_maybe && (is_complete || is_listed()?);
        let removed = write();
        if is_member {
            let is_left = match removed {
                Ok(()) => doubt != Doubt::Unsettled && !self.remove_hash(source, hash, &[]),
                // The key may have been removed despite the error.
                Err(_) => S::LEAVES_GHOSTS,
            };
            if is_left {
                self.leave_ghost(hash);
            }
        }
        removed.map(|()| is_there)
    }

    /// Changes the database near a hash without changing the filter. Afterwards the filter may have a ghost,
    /// unless `change` returns that it changed nothing.
    pub(crate) fn leaving_ghost<E>(
        &self,
        hash: Hash,
        change: impl FnOnce() -> Result<bool, E>,
    ) -> Result<(), E> {
        let _locked = self.lock(&[hash]);
        let changed = change();
        if !matches!(changed, Ok(false)) {
            self.leave_ghost(hash);
        }
        changed.map(|_| ())
    }

    /// Calls `read` while no thread writes or repairs near a hash.
    pub(crate) fn while_locked<T>(&self, hash: Hash, read: impl FnOnce() -> T) -> T {
        let _locked = self.lock(&[hash]);
        read()
    }

    /// Ends the doubt about a key. The filter forgets the key unless it is in the database. Returns
    /// whether the database has the key. `settle` removes the record of the doubt and returns whether it
    /// did; it doesn't if a later write is in doubt.
    pub(crate) fn settle<E>(
        &self,
        source: &impl Source,
        hash: Hash,
        is_there: impl FnOnce() -> Result<bool, E>,
        settle: impl FnOnce() -> bool,
    ) -> Result<bool, E> {
        let _locked = self.lock(&[hash]);
        let is_there = self.counted(is_there)?;
        if settle() && !is_there && self.is_ready(hash) && !self.remove_hash(source, hash, &[]) {
            self.leave_ghost(hash);
        }
        Ok(is_there)
    }

    /// Counts a point read.
    pub(super) fn counted<T>(&self, look_up: impl FnOnce() -> T) -> T {
        self.counters.add(Count::BackendGets, 1);
        look_up()
    }
}
