//! Admitting members.

use super::{Behind, Front};
use crate::counters::Count;
use crate::stripes::Locked;
use scopeguard::defer_on_unwind;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use twiceshy::{Answer, Claim, Hash, InsertError, Member, RemoveError, Shard};

/// How often members are listed for one that is to be inserted or removed.
const LISTINGS: usize = 32;

/// Whether there was room for something in the filter; if not, it was not done.
pub(super) enum Room<T, E> {
    Enough(T),
    Needed { hash: Hash, error: E },
}

impl<T, E> Room<T, E> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Room<U, E> {
        match self {
            Self::Enough(done) => Room::Enough(change(done)),
            Self::Needed { hash, error } => Room::Needed { hash, error },
        }
    }
}

pub(super) type Tried<T, E> = Result<Room<T, E>, E>;

/// Keys that are in the filter, and are to be written behind it; nobody else does anything
/// near them meanwhile.
pub(crate) struct Admitted<'a> {
    locked: Locked<'a>,
    is_new: SmallVec<[bool; 8]>,
    /// New in the filter.
    inserted: SmallVec<[Hash; 1]>,
}

impl Admitted<'_> {
    /// Whether each may not be behind yet.
    pub(crate) fn is_new(&self) -> &[bool] {
        &self.is_new
    }

    /// Whether one is on the list of mistakes, which it leaves.
    pub(crate) fn is_mistake(&self, hash: Hash) -> bool {
        self.locked.has_mistake(hash)
    }
}

impl<F: Shard> Front<F> {
    /// Writes keys, after the filter has them. `may_join` is asked of those that are kept as
    /// mistakes.
    pub(crate) fn write<B: Behind, T>(
        &self,
        behind: &B,
        hashes: &[Hash],
        is_there: impl Fn(usize) -> Result<bool, B::Error>,
        may_join: impl Fn(usize) -> Result<(), B::Error>,
        write: impl FnOnce(&Admitted<'_>) -> Result<T, B::Error>,
    ) -> Result<T, B::Error> {
        let admitted =
            self.making_room(behind, || self.try_admit(behind, hashes, &is_there, &may_join))?;
        self.write_admitted(behind, admitted, hashes, write)
    }

    /// Writes a key that is wanted, after the filter has it.
    pub(crate) fn write_if<B: Behind>(
        &self,
        behind: &B,
        hash: Hash,
        is_wanted: impl Fn() -> Result<bool, B::Error>,
        write: impl FnOnce() -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        let admitted = self.making_room(behind, || {
            let locked = self.lock(&[hash]);
            if !is_wanted()? {
                return Ok(Room::Enough(None));
            }
            let new = self.is_ready(hash).then_some(hash).into_iter().collect();
            Ok(self.admitted(behind, locked, SmallVec::from_elem(true, 1), new).map(Some))
        })?;
        admitted
            .map_or(Ok(()), |admitted| self.write_admitted(behind, admitted, &[hash], |_| write()))
    }

    fn write_admitted<B: Behind, T>(
        &self,
        behind: &B,
        mut admitted: Admitted<'_>,
        hashes: &[Hash],
        write: impl FnOnce(&Admitted<'_>) -> Result<T, B::Error>,
    ) -> Result<T, B::Error> {
        let written = write(&admitted);
        match &written {
            Ok(_) => {
                for &hash in hashes {
                    if admitted.locked.remove_mistake(hash) {
                        self.mistakes.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
            Err(error) if B::is_refusal(error) => self.take_all(behind, &admitted.inserted),
            // They may be there. In the filter they do no harm.
            Err(_) if B::LEAVES_GHOSTS => {
                admitted.inserted.iter().for_each(|&hash| self.leave_ghost(hash));
            }
            Err(_) => {}
        }
        written
    }

    fn try_admit<B: Behind>(
        &self,
        behind: &B,
        hashes: &[Hash],
        is_there: impl Fn(usize) -> Result<bool, B::Error>,
        may_join: impl Fn(usize) -> Result<(), B::Error>,
    ) -> Tried<Admitted<'_>, B::Error> {
        let locked = self.lock(hashes);
        let mut is_new = SmallVec::from_elem(false, hashes.len());
        let mut new = SmallVec::<[Hash; 1]>::new();
        let mut seen = (hashes.len() > 1).then(HashSet::new);
        for (at, &hash) in hashes.iter().enumerate() {
            if seen.as_mut().is_some_and(|seen| !seen.insert(hash)) {
                continue;
            }
            if locked.has_mistake(hash) {
                may_join(at)?;
            }
            // A shard that isn't ready will be built from what is behind: nobody needs to know.
            let is_ready = self.is_ready(hash);
            let maybe = is_ready && self.filter.contains(hash);
            is_new[at] = !maybe || !self.counted(|| is_there(at))?;
            if is_ready && is_new[at] {
                new.push(hash);
            }
        }
        Ok(self.admitted(behind, locked, is_new, new))
    }

    fn admitted<'a, B: Behind>(
        &self,
        behind: &B,
        locked: Locked<'a>,
        is_new: SmallVec<[bool; 8]>,
        new: SmallVec<[Hash; 1]>,
    ) -> Room<Admitted<'a>, B::Error> {
        match self.admit(behind, &locked, &new) {
            Ok(()) => Room::Enough(Admitted { locked, is_new, inserted: new }),
            Err((hash, error)) => Room::Needed { hash, error },
        }
    }

    /// Inserts new members into the filter, all or none, and repairs the mistakes that they
    /// bring back; says for which one there is no room.
    fn admit<B: Behind>(
        &self,
        behind: &B,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<(), (Hash, B::Error)> {
        let threatened = self.threatened(behind, locked, new)?;
        // Listing may panic.
        defer_on_unwind! {
            for &hash in new {
                self.leave_ghost(hash);
            }
        }
        let _defence = (!threatened.is_empty()).then(|| self.defending());
        let mut inserted = 0;
        let mut insert = |&hash: &Hash| {
            let inserts = self.insert(behind, hash, &new[..inserted]);
            inserts.map_err(|error| (hash, error))?;
            inserted += 1;
            Ok(())
        };
        let admitted = new.iter().try_for_each(&mut insert);
        let admitted = admitted.and_then(|()| self.defend(behind, threatened, new));
        if admitted.is_err() {
            self.take_all(behind, &new[..inserted]);
        }
        admitted
    }

    /// Takes back what was inserted into the filter, and is not behind.
    fn take_all<B: Behind>(&self, behind: &B, inserted: &[Hash]) {
        for left in (0..inserted.len()).rev() {
            // It is there: nobody else may remove it meanwhile.
            if !self.take(behind, inserted[left], &inserted[..left]) {
                self.leave_ghost(inserted[left]);
            }
        }
    }

    /// Inserts a new member into the filter, which may ask for those near it; `others` are in the
    /// filter, but not behind yet.
    fn insert<B: Behind>(&self, behind: &B, hash: Hash, others: &[Hash]) -> Result<(), B::Error> {
        for _ in 0..LISTINGS {
            match self.filter.insert(hash) {
                Err(InsertError::Crowded) => {}
                inserted => return Ok(inserted?),
            }
            let claim = self.filter.claim_to_insert(hash);
            let listed = self.listed(behind, &claim, others)?;
            match self.filter.insert_listed(&claim, &listed) {
                // Something came or went that only shares a version; or there is a ghost.
                Err(InsertError::Mismatch) => {}
                inserted => return Ok(inserted?),
            }
        }
        Err(InsertError::Mismatch.into())
    }

    /// Removes a member from the filter, which may ask for those near it; `others` are in the
    /// filter, but not behind. Whether it is removed: else it is a ghost.
    pub(super) fn take<B: Behind>(&self, behind: &B, hash: Hash, others: &[Hash]) -> bool {
        // Listing may panic.
        defer_on_unwind! { self.leave_ghost(hash) }
        match self.filter.remove(hash) {
            Ok(()) => return true,
            Err(RemoveError::Ambiguous) => {}
            Err(_) => return false,
        }
        let others = [others, &[hash]].concat();
        for _ in 0..LISTINGS {
            let Answer::Maybe(claim) = self.filter.check(hash) else { return false };
            let Ok(listed) = self.listed(behind, &claim, &others) else { return false };
            match self.filter.remove_listed(&claim, &listed, None) {
                Ok(()) => return true,
                Err(RemoveError::Stale) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// The members that a claim asks for: those behind, and others that aren't there.
    fn listed<B: Behind>(
        &self,
        behind: &B,
        claim: &Claim,
        others: &[Hash],
    ) -> Result<Vec<Member>, B::Error> {
        self.counters.add(Count::BackendScans, 1);
        let suspects = claim.suspects();
        let mut members = behind.members(&suspects)?;
        members.extend(others.iter().filter(|hash| suspects.contains(hash)));
        members.sort_unstable();
        members.dedup();
        Ok(members.into_iter().map(Member::from).collect())
    }

    /// Does something; if there is no room in a shard of the filter, builds the shard again, a
    /// quarter larger each time, and tries again.
    pub(super) fn making_room<B: Behind, T>(
        &self,
        behind: &B,
        work: impl Fn() -> Tried<T, B::Error>,
    ) -> Result<T, B::Error> {
        const TRIES: u32 = 4;
        let mut tried = BTreeMap::new();
        loop {
            let (hash, error) = match work()? {
                Room::Enough(done) => return Ok(done),
                Room::Needed { hash, error } => (hash, error),
            };
            let shard = self.filter.shard_of(hash);
            let tries = tried.entry(shard).or_insert(0);
            if *tries == TRIES {
                return Err(error);
            }
            let more = (self.filter.len() / self.filter.shards() / 4).max(64) << *tries;
            self.rebuild(behind, shard, more)?;
            *tries += 1;
        }
    }
}
