//! Admitting members, repairing mistakes, building shards again.

use super::Front;
use crate::counters::Count;
use crate::filter::SharedFilter;
use crate::stripes::Locked;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{AdaptError, Answer, BuildError, Hash, InsertError, Member};

/// What has the members.
pub(crate) trait Behind {
    type Error: From<InsertError> + From<AdaptError> + From<BuildError>;

    /// The hashes of all members in an interval, in order.
    fn members(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<Hash>, Self::Error>;

    /// Keeps a new mistake for good, and drops the one that was forgotten for it.
    fn keep_mistake(&self, mistake: Hash, forgotten: Option<Hash>) -> Result<(), Self::Error>;
}

/// Whether there was room for something in the filter; if not, it was not done.
pub(crate) enum Room<T, E> {
    Enough(T),
    Needed { hash: Hash, error: E },
}

pub(crate) type Tried<T, E> = Result<Room<T, E>, E>;

impl<F: SharedFilter> Front<F> {
    /// Does something; if there is no room in a shard of the filter, builds the shard again, a
    /// quarter larger each time, and tries again.
    pub(crate) fn making_room<B: Behind, T>(
        &self,
        behind: &B,
        work: impl Fn() -> Tried<T, B::Error>,
    ) -> Result<T, B::Error> {
        const TRIES: u32 = 4;
        let mut tried = 0;
        loop {
            match work()? {
                Room::Enough(done) => return Ok(done),
                Room::Needed { error, .. } if tried == TRIES => return Err(error),
                Room::Needed { hash, .. } => {
                    let more = (self.filter.len() / self.filter.shards() / 4).max(64) << tried;
                    self.rebuild(behind, self.filter.shard_of(hash), more)?;
                }
            }
            tried += 1;
        }
    }

    /// Repairs what was "maybe" and not behind, if it still is so, and remembers it.
    pub(crate) fn repair(&self, behind: &impl Behind, mistake: Hash) {
        let is_known = Cell::new(false);
        if self.making_room(behind, || self.try_repair(behind, mistake, &is_known)).is_err() {
            self.counters.add(Count::RepairsFailed, 1);
        }
    }

    /// `is_known` tells the next try that it is a mistake: a larger filter may not make it, but
    /// it must be remembered all the same.
    fn try_repair<B: Behind>(
        &self,
        behind: &B,
        mistake: Hash,
        is_known: &Cell<bool>,
    ) -> Tried<(), B::Error> {
        let mut locked = self.lock(&[mistake]);
        if let Answer::Maybe(claim) = self.filter.check(mistake) {
            self.counters.add(Count::BackendScans, 1);
            let members = behind.members(&claim.suspects())?;
            if members.binary_search(&mistake).is_ok() {
                return Ok(Room::Enough(()));
            }
            is_known.set(true);
            if let Err(error) = self.adapt(mistake, &members) {
                return Ok(Room::Needed { hash: mistake, error: error.into() });
            }
        } else if !is_known.get() {
            // A write, or another repair, came in between.
            return Ok(Room::Enough(()));
        }
        self.counters.add(Count::FalsePositives, 1);
        self.counters.add(Count::Repairs, 1);
        if locked.has_mistake(mistake) {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        self.remember(behind, &mut locked, mistake)?;
        Ok(Room::Enough(()))
    }

    /// Tells the filter that a hash is no member, and which are, near it.
    fn adapt(&self, mistake: Hash, members: &[Hash]) -> Result<(), AdaptError> {
        let listed: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        // The shard may grow; whatever else makes a claim stale is locked out.
        while let Answer::Maybe(claim) = self.filter.check(mistake) {
            match self.filter.adapt(&claim, &listed) {
                Ok(adaptation) => self.counters.add(Count::GhostsCleared, adaptation.ghosts),
                Err(AdaptError::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Keeps a mistake, so that it is repaired whenever the filter is built again, or a member
    /// comes that it would collide with.
    fn remember<B: Behind>(
        &self,
        behind: &B,
        locked: &mut Locked<'_>,
        mistake: Hash,
    ) -> Result<(), B::Error> {
        if !locked.insert_mistake(mistake) {
            return Ok(());
        }
        let is_full = self.mistakes.fetch_add(1, Ordering::Relaxed) >= self.mistakes_kept;
        let forgotten = is_full.then(|| locked.evict(mistake));
        if is_full {
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
            self.counters.add(Count::MistakesForgotten, 1);
        }
        behind.keep_mistake(mistake, forgotten)
    }

    /// Inserts new members into the filter, all or none, and repairs the mistakes that they
    /// bring back; says for which one there is no room.
    pub(crate) fn admit<B: Behind>(
        &self,
        behind: &B,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<(), (Hash, B::Error)> {
        let mut inserted = 0;
        let mut insert = |&hash: &Hash| {
            self.filter.insert(hash).map_err(|error| (hash, error.into()))?;
            inserted += 1;
            Ok(())
        };
        let admitted = new.iter().try_for_each(&mut insert);
        let admitted = admitted.and_then(|()| self.defend(behind, locked, new));
        if admitted.is_err() {
            for &hash in &new[..inserted] {
                // It is there: nobody else may remove it meanwhile.
                let _ = self.filter.remove(hash);
            }
        }
        admitted
    }

    /// Repairs the mistakes that new members, which aren't behind yet, bring back; says for
    /// which there is no room.
    fn defend<B: Behind>(
        &self,
        behind: &B,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<(), (Hash, B::Error)> {
        for &member in new {
            let suspects = self.filter.suspects(member);
            let mut mistakes = locked.mistakes(&suspects);
            mistakes.retain(|mistake| self.filter.contains(*mistake) && !new.contains(mistake));
            if mistakes.is_empty() {
                continue;
            }
            self.counters.add(Count::BackendScans, 1);
            let Ok(mut members) = behind.members(&suspects) else {
                self.counters.add(Count::RepairsFailed, 1);
                continue;
            };
            // A write that failed halfway may have left a member on the list.
            mistakes.retain(|mistake| members.binary_search(mistake).is_err());
            members.extend(new.iter().filter(|hash| suspects.contains(hash)));
            for mistake in mistakes {
                self.adapt(mistake, &members).map_err(|error| (mistake, error.into()))?;
                self.counters.add(Count::Repairs, 1);
            }
        }
        Ok(())
    }

    /// Builds a shard, whose writers wait meanwhile; for so many more entries, if it is too
    /// small. Returns how many members it has.
    pub(crate) fn rebuild<B: Behind>(
        &self,
        behind: &B,
        shard: usize,
        more: usize,
    ) -> Result<u64, B::Error> {
        let hashes = self.filter.shard_hashes(shard);
        let locked = self.stripes.lock([hashes.clone()]);
        self.counters.add(Count::BackendScans, 1);
        let members = behind.members(&hashes)?;
        let mut mistakes = locked.mistakes(&hashes);
        // A write that failed halfway may have left a member on the list.
        mistakes.retain(|mistake| members.binary_search(mistake).is_err());
        let capacity = members.len() + mistakes.len() + more;
        self.filter.rebuild_shard(shard, capacity, &members, &mistakes)?;
        self.ready[shard].store(true, Ordering::Release);
        Ok(members.len() as u64)
    }
}
