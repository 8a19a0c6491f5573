//! Writing new members.

use super::{MaintainedFilter, Source};
use crate::stripes::Locked;
use scopeguard::defer_on_unwind;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use twiceshy::{Hash, concurrent::Shard};

/// The result of work that needs room in the filter. If there is too little room, nothing was done, and
/// the inner error is the hash that there is no room for, and why.
pub(super) type Tried<T, E> = Result<Result<T, (Hash, E)>, E>;

/// Keys that are in the filter, and are about to be written to the database. Their stripes are held.
pub(crate) struct Admitted<'a> {
    locked: Locked<'a>,
    is_new: SmallVec<[bool; 8]>,
    /// The hashes that are new in the filter.
    inserted: SmallVec<[Hash; 1]>,
}

impl Admitted<'_> {
    /// Returns, for each key, whether it may be new in the database.
    pub(crate) fn is_new(&self) -> &[bool] {
        &self.is_new
    }

    /// Returns whether a key is kept as a mistake. The write ends this.
    pub(crate) fn is_mistake(&self, hash: Hash) -> bool {
        self.locked.has_mistake(hash)
    }
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

impl<F: Shard> MaintainedFilter<F> {
    /// Inserts keys into the filter, and then writes them to the database. `is_there` looks a key up in
    /// the database. `may_insert` is called for each key that is kept as a mistake.
    pub(crate) fn write<S: Source, T>(
        &self,
        source: &S,
        hashes: &[Hash],
        is_there: impl Fn(usize) -> Result<bool, S::Error>,
        may_insert: impl Fn(usize) -> Result<(), S::Error>,
        write: impl FnOnce(&Admitted<'_>) -> Result<T, S::Error>,
    ) -> Result<T, S::Error> {
        let admitted =
            self.making_room(source, || self.try_admit(source, hashes, &is_there, &may_insert))?;
        self.write_admitted(source, admitted, hashes, write)
    }

    /// Inserts a key into the filter and writes it to the database, if it is still wanted when its stripe
    /// is held.
    pub(crate) fn write_if<S: Source>(
        &self,
        source: &S,
        hash: Hash,
        is_wanted: impl Fn() -> Result<bool, S::Error>,
        write: impl FnOnce() -> Result<(), S::Error>,
    ) -> Result<(), S::Error> {
        let admitted = self.making_room(source, || {
            let locked = self.lock(&[hash]);
            if !is_wanted()? {
                return Ok(Ok(None));
            }
            let inserted: SmallVec<_> = self.is_ready(hash).then_some(hash).into_iter().collect();
            let is_new = SmallVec::from_elem(true, 1);
            let admitted = self.admit(source, &locked, &inserted);
            Ok(admitted.map(|()| Some(Admitted { locked, is_new, inserted })))
        })?;
        admitted
            .map_or(Ok(()), |admitted| self.write_admitted(source, admitted, &[hash], |_| write()))
    }

    fn write_admitted<S: Source, T>(
        &self,
        source: &S,
        mut admitted: Admitted<'_>,
        hashes: &[Hash],
        write: impl FnOnce(&Admitted<'_>) -> Result<T, S::Error>,
    ) -> Result<T, S::Error> {
        let written = write(&admitted);
        match &written {
            Ok(_) => {
                for &hash in hashes {
                    if admitted.locked.remove_mistake(hash) {
                        self.mistakes.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
            Err(error) if S::is_refusal(error) => self.undo_inserts(source, &admitted.inserted),
            // The keys may be in the database. Leaving them in the filter does no harm.
            Err(_) if S::LEAVES_GHOSTS => {
                admitted.inserted.iter().for_each(|&hash| self.leave_ghost(hash));
            }
            Err(_) => {}
        }
        written
    }

    fn try_admit<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
        is_there: impl Fn(usize) -> Result<bool, S::Error>,
        may_insert: impl Fn(usize) -> Result<(), S::Error>,
    ) -> Tried<Admitted<'_>, S::Error> {
        let locked = self.lock(hashes);
        let mut is_new = SmallVec::from_elem(false, hashes.len());
        let mut inserted = SmallVec::<[Hash; 1]>::new();
        for (at, hash) in distinct(hashes) {
            if locked.has_mistake(hash) {
                may_insert(at)?;
            }
            // A shard that isn't ready will be built from the database, and needs no insert.
            let is_ready = self.is_ready(hash);
            let maybe = is_ready && self.filter.contains(hash);
            is_new[at] = !maybe || !self.counted(|| is_there(at))?;
            if is_ready && is_new[at] {
                inserted.push(hash);
            }
        }
        let admitted = self.admit(source, &locked, &inserted);
        Ok(admitted.map(|()| Admitted { locked, is_new, inserted }))
    }

    /// Inserts new members into the filter, all or none, and repairs the mistakes that collide with
    /// them. An error names the hash that there is no room for.
    fn admit<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<(), (Hash, S::Error)> {
        let at_risk = self.mistakes_at_risk(source, locked, new)?;
        // Listing members may panic.
        defer_on_unwind! {
            for &hash in new {
                self.leave_ghost(hash);
            }
        }
        let _risky = (!at_risk.is_empty()).then(|| self.risky_writes.begin());
        let mut inserted = 0;
        let mut insert = |&hash: &Hash| {
            let inserts = self.insert_hash(source, hash, &new[..inserted]);
            inserts.map_err(|error| (hash, error))?;
            inserted += 1;
            Ok(())
        };
        let admitted = new.iter().try_for_each(&mut insert);
        let admitted = admitted.and_then(|()| self.repair_at_risk(source, at_risk, new));
        if admitted.is_err() {
            self.undo_inserts(source, &new[..inserted]);
        }
        admitted
    }

    /// Calls `work`. If a shard of the filter has no room, rebuilds the shard a quarter larger, or more
    /// with each try, and calls `work` again.
    pub(super) fn making_room<S: Source, T>(
        &self,
        source: &S,
        work: impl Fn() -> Tried<T, S::Error>,
    ) -> Result<T, S::Error> {
        const TRIES: u32 = 4;
        let mut tried = BTreeMap::new();
        loop {
            let (hash, error) = match work()? {
                Ok(done) => return Ok(done),
                Err(needed) => needed,
            };
            let shard = self.filter.shard_of(hash);
            let tries = tried.entry(shard).or_insert(0);
            if *tries == TRIES {
                return Err(error);
            }
            let more = (self.filter.len() / self.filter.shards() / 4).max(64) << *tries;
            self.rebuild_shard(source, shard, more)?;
            *tries += 1;
        }
    }
}
