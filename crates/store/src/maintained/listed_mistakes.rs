//! Mistakes that the user lists in advance, and that the filter must never make.

use super::insert::{Attempt, Tried, distinct};
use super::{MaintainedFilter, Source};
use crate::stats::Count;
use crate::stripes::Locked;
use scopeguard::ScopeGuard;
use twiceshy::{
    Answer, Hash, Listing, QuotientFilter,
    concurrent::Shard,
    error::{AdaptError, InsertError},
};

impl<F: Shard> MaintainedFilter<F> {
    /// Returns the filter's answer, which is exact for members and for listed mistakes. A shard that isn't
    /// ready answers "yes" to all hashes except listed mistakes, which is exact for both, too.
    pub(crate) fn answer(&self, hash: Hash) -> bool {
        self.counters.add(Count::AnsweredFromMemory, 1);
        if self.is_ready(hash) { self.filter.contains(hash) } else { !self.is_mistake(hash) }
    }

    /// Answers many lookups like [`answer`](Self::answer).
    pub(crate) fn answer_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.counters.add(Count::AnsweredFromMemory, hashes.len() as u64);
        let is_unready = |&(_, &hash): &(usize, &Hash)| !self.is_ready(hash);
        let unready: Vec<(usize, &Hash)> = hashes.iter().enumerate().filter(is_unready).collect();
        self.filter.contains_many(hashes, answers);
        for (at, &hash) in unready {
            answers[at] = !self.is_mistake(hash);
        }
    }

    /// Repairs mistakes, writes them to the database, and adds them to the list in memory. Returns
    /// how many are new on the list. Calls `may_list` for each new mistake that may be a member.
    pub(crate) fn list_mistakes<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
        may_list: impl Fn(usize) -> Result<(), S::Error>,
        write: impl FnOnce(&[bool]) -> Result<(), S::Error>,
    ) -> Result<u64, S::Error> {
        let (mut locked, is_new) =
            self.making_room(source, hashes, || self.repair_unlisted(source, hashes, &may_list))?;
        write(&is_new)?;
        let mut count = 0;
        for (&hash, _) in hashes.iter().zip(&is_new).filter(|&(_, &is_new)| is_new) {
            self.kept.insert(&mut locked, hash);
            // A rebuild that is under way may have read the list already, so tell it about the
            // mistake.
            self.writes(hash).note_mistake(hash);
            count += 1;
        }
        drop(locked);
        // A shard may have been rebuilt after the mistakes were repaired, but before they were
        // listed. They may recur, so repair them again. Later rebuilds find them on the
        // list.
        let unrepaired = scopeguard::guard((), |()| self.distrust_mistakes(hashes));
        self.making_room(source, hashes, || self.repair_listed(source, hashes))?;
        ScopeGuard::into_inner(unrepaired);
        Ok(count as u64)
    }

    /// Makes the shards of listed mistakes that the filter still makes answer from the lists, until they are
    /// rebuilt.
    fn distrust_mistakes(&self, hashes: &[Hash]) {
        for &hash in hashes {
            if self.filter.contains(hash) {
                self.distrust(hash);
                self.wants_rebuild(self.filter.shard_of(hash));
            }
        }
    }

    /// Repairs mistakes before they are listed. Returns, for each, whether it is new.
    fn repair_unlisted<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
        may_list: impl Fn(usize) -> Result<(), S::Error>,
    ) -> Attempt<(Locked<'_>, Vec<bool>), S::Error> {
        let locked = self.lock(hashes);
        let mut is_new = vec![false; hashes.len()];
        for (at, hash) in distinct(hashes) {
            is_new[at] = !locked.has_mistake(hash);
            if !self.is_ready(hash) {
                return Ok(Tried::NoRoom(hash, InsertError::Mismatch.into()));
            }
            if !is_new[at] || !self.filter.contains(hash) {
                continue;
            }
            self.counted(|| may_list(at))?;
            match self.repair_one(source, &locked, hash)? {
                Tried::Done(()) => self.counters.add(Count::Repairs, 1),
                Tried::Again => return Ok(Tried::Again),
                Tried::NoRoom(hash, error) => return Ok(Tried::NoRoom(hash, error)),
            }
        }
        Ok(Tried::Done((locked, is_new)))
    }

    /// Repairs the listed mistakes that the filter still makes.
    fn repair_listed<S: Source>(&self, source: &S, hashes: &[Hash]) -> Attempt<(), S::Error> {
        for &hash in hashes {
            let locked = self.lock(&[hash]);
            // The hash may no longer be on the list. It may even be a member now.
            if !locked.has_mistake(hash) {
                continue;
            }
            match self.repair_one(source, &locked, hash)? {
                Tried::Done(()) => {}
                other => return Ok(other),
            }
        }
        Ok(Tried::Done(()))
    }

    fn repair_one<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        mistake: Hash,
    ) -> Attempt<(), S::Error> {
        let epoch = self.writes(mistake).epoch;
        if !self.is_ready(mistake) {
            // A shard that isn't ready answers "maybe" to every query, and no database corrects that
            // for listed mistakes. So refuse.
            return Ok(Tried::NoRoom(mistake, InsertError::Mismatch.into()));
        }
        let Answer::Maybe(claim) = self.filter.check(mistake) else {
            return Ok(Tried::Done(()));
        };
        let suspects = claim.suspects();
        if !locked.covers(&suspects) {
            return Ok(Tried::Again);
        }
        let members = self.scan(source, &suspects)?;
        Ok(match self.adapt::<S>(claim, &suspects, &members, epoch) {
            Ok(_) => Tried::Done(()),
            Err(AdaptError::Stale) => Tried::Again,
            Err(error) => Tried::NoRoom(mistake, error.into()),
        })
    }

    /// Returns whether a mistake is listed.
    pub(crate) fn is_mistake(&self, hash: Hash) -> bool {
        self.lock(&[hash]).has_mistake(hash)
    }

    /// Returns the number of mistakes that are kept.
    pub(crate) fn mistakes(&self) -> usize {
        self.kept.len()
    }

    /// Locks all hashes, so that all writers wait.
    pub(crate) fn lock_all(&self) -> Locked<'_> {
        self.stripes.lock([Hash::MIN..=Hash::MAX])
    }
}

impl MaintainedFilter<QuotientFilter> {
    /// Removes a mistake from the database, and then from the list in memory. Returns whether it was listed.
    /// If the list in memory lacks it, `is_in_database` decides. The filter gets back the space that the
    /// repair took.
    pub(crate) fn unlist_mistake<S: Source>(
        &self,
        source: &S,
        hash: Hash,
        is_in_database: impl FnOnce() -> Result<bool, S::Error>,
        write: impl FnOnce() -> Result<(), S::Error>,
    ) -> Result<bool, S::Error> {
        let mut locked = self.lock(&[hash]);
        if !locked.has_mistake(hash) && !is_in_database()? {
            return Ok(false);
        }
        write()?;
        self.kept.remove(&mut locked, hash);
        if self.filter.is_lengthened(hash) {
            self.shorten(source, &locked, hash);
        }
        Ok(true)
    }

    /// Makes fingerprints near a hash as short as the remaining mistakes allow. If that fails, the
    /// fingerprints stay long, which does no harm.
    fn shorten(&self, source: &impl Source, locked: &Locked<'_>, hash: Hash) {
        let claim = self.filter.claim_near(hash);
        let suspects = claim.suspects();
        if !self.is_ready(hash) || !locked.covers(&suspects) {
            return;
        }
        let Ok(members) = self.scan(source, &suspects) else { return };
        let listing = Listing::new(&members).with_mistakes(locked.mistakes(&suspects));
        let _writes = self.writes(hash);
        // If there are ghosts, the filter refuses, and keeps its longer fingerprints.
        let _ = self.filter.shorten(&claim, listing);
    }
}
