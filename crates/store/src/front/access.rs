//! Asking, and removing.

use super::{Behind, Doubt, Front};
use crate::counters::Count;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::{Hash, Shard};

/// The lower half of [`Front::defences`].
pub(super) const UNDER_WAY: u64 = u32::MAX as u64;

impl<F: Shard> Front<F> {
    /// What is behind, which isn't asked if the filter knows better.
    pub(crate) fn get<V, E>(
        &self,
        behind: &impl Behind,
        hash: Hash,
        look_up: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        let is_complete = self.is_complete();
        let is_ready = self.is_ready(hash);
        let is_absent = is_ready && !self.contains(hash);
        if is_absent && is_complete {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(None);
        }
        self.counters.add(Count::LookedUp, 1);
        let value = self.counted(look_up)?;
        if value.is_some() {
            self.counters.add(Count::TruePositives, 1);
        } else if is_ready && !is_absent && is_complete {
            self.repair(behind, hash);
        } else {
            self.counters.add(Count::Unfiltered, 1);
        }
        Ok(value)
    }

    /// Of many hashes, whether to [`get`](Self::get) them; those that needn't are counted.
    pub(crate) fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        let is_complete = self.is_complete();
        let is_ready = |&hash: &Hash| is_complete && self.is_ready(hash);
        let ready: Vec<bool> = hashes.iter().map(is_ready).collect();
        self.filter.contains_many(hashes, maybe);
        for (maybe, is_ready) in maybe.iter_mut().zip(ready) {
            *maybe |= !is_ready;
        }
        let absent = maybe.iter().filter(|&&maybe| !maybe).count();
        self.counters.add(Count::AnsweredFromMemory, absent as u64);
    }

    /// As the filter's own, but for mistakes that a write has brought back, and is repairing
    /// at this moment: it waits for that.
    pub(super) fn contains(&self, hash: Hash) -> bool {
        let before = self.defences.load(Ordering::Acquire);
        if !self.filter.contains(hash) {
            return false;
        }
        let after = self.defences.load(Ordering::Acquire);
        if before == after && after & UNDER_WAY == 0 {
            return true;
        }
        let _locked = self.lock(&[hash]);
        self.filter.contains(hash)
    }

    /// Says that what is done until the return is dropped may bring mistakes back.
    pub(super) fn defending(&self) -> impl Drop {
        self.defences.fetch_add(1, Ordering::AcqRel);
        Defence(&self.defences)
    }

    /// Removes a key from the backend, if it is there, and then from the filter. Returns whether it was
    /// there. A key that isn't listed as a member isn't in the filter either, where another member may
    /// have its fingerprint; `is_listed` is asked unless all keys are known to be listed.
    ///
    /// While a write of the key is in doubt, what the backend shows proves nothing: `write` is called
    /// even if the key isn't there.
    pub(crate) fn remove<B: Behind, E>(
        &self,
        behind: &B,
        hash: Hash,
        is_there: impl FnOnce() -> Result<bool, E>,
        is_listed: impl FnOnce() -> Result<bool, E>,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let locked = self.lock(&[hash]);
        let doubt = behind.doubt(hash);
        let is_complete = self.is_complete();
        let is_ready = self.is_ready(hash);
        let is_absent = is_ready && !self.filter.contains(hash);
        if is_absent && is_complete && doubt == Doubt::None {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(false);
        }
        self.counters.add(Count::LookedUp, 1);
        let is_there = self.counted(is_there)?;
        if !is_there && doubt == Doubt::None {
            drop(locked);
            if is_ready && !is_absent && is_complete {
                self.repair(behind, hash);
            } else {
                self.counters.add(Count::Unfiltered, 1);
            }
            return Ok(false);
        }
        self.counters.add(if is_there { Count::TruePositives } else { Count::Unfiltered }, 1);
        let is_member = is_there && is_ready && !is_absent && (is_complete || is_listed()?);
        let removed = write();
        if is_member {
            let is_left = match removed {
                Ok(()) => doubt != Doubt::Unsettled && !self.take(behind, hash, &[]),
                // It may be gone after all.
                Err(_) => B::LEAVES_GHOSTS,
            };
            if is_left {
                self.leave_ghost(hash);
            }
        }
        removed.map(|()| is_there)
    }

    /// Changes what is behind a hash without changing the filter. Unless `change` returns that it
    /// changed nothing, the filter may have a ghost then.
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

    /// Ends the doubt about a key: the filter forgets it, unless it is there. Returns whether it is.
    /// `settle` ends the doubt itself and returns whether it did, which it doesn't if a later write is
    /// in doubt.
    pub(crate) fn settle<E>(
        &self,
        behind: &impl Behind,
        hash: Hash,
        is_there: impl FnOnce() -> Result<bool, E>,
        settle: impl FnOnce() -> bool,
    ) -> Result<bool, E> {
        let _locked = self.lock(&[hash]);
        let is_there = self.counted(is_there)?;
        if settle() && !is_there && self.is_ready(hash) && !self.take(behind, hash, &[]) {
            self.leave_ghost(hash);
        }
        Ok(is_there)
    }

    pub(super) fn counted<T>(&self, look_up: impl FnOnce() -> T) -> T {
        self.counters.add(Count::BackendGets, 1);
        look_up()
    }
}

struct Defence<'a>(&'a AtomicU64);

impl Drop for Defence<'_> {
    fn drop(&mut self) {
        // One less under way, one more over.
        self.0.fetch_add(UNDER_WAY, Ordering::AcqRel);
    }
}
