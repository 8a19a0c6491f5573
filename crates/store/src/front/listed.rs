//! Mistakes that somebody has listed.

use super::access::UNDER_WAY;
use super::admit::{Room, Tried};
use super::{Behind, Front};
use crate::counters::Count;
use crate::stripes::Locked;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use twiceshy::{AdaptiveQuotientFilter, Answer, Hash, Shard};

impl<F: Shard> Front<F> {
    /// What the filter says, which is exact for members and for mistakes that are listed.
    pub(crate) fn answer(&self, hash: Hash) -> bool {
        self.counters.add(Count::AnsweredFromMemory, 1);
        self.contains(hash)
    }

    /// As [`answer`](Self::answer), of many.
    pub(crate) fn answer_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.counters.add(Count::AnsweredFromMemory, hashes.len() as u64);
        let before = self.defences.load(Ordering::Acquire);
        self.filter.contains_many(hashes, answers);
        let after = self.defences.load(Ordering::Acquire);
        if before != after || after & UNDER_WAY != 0 {
            // Some may be mistakes that are being repaired.
            for (answer, &hash) in answers.iter_mut().zip(hashes) {
                *answer = *answer && self.contains(hash);
            }
        }
    }

    /// Lists mistakes, and writes them behind the filter, which makes none of them then; how many are
    /// new. `may_join` is asked of those that may be members.
    pub(crate) fn deny<B: Behind>(
        &self,
        behind: &B,
        hashes: &[Hash],
        may_join: impl Fn(usize) -> Result<(), B::Error>,
        write: impl FnOnce(&[bool]) -> Result<(), B::Error>,
    ) -> Result<u64, B::Error> {
        let (mut locked, is_new) =
            self.making_room(behind, || self.try_deny(behind, hashes, &may_join))?;
        write(&is_new)?;
        let mut count = 0;
        for (&hash, _) in hashes.iter().zip(&is_new).filter(|&(_, &is_new)| is_new) {
            locked.insert_mistake(hash);
            count += 1;
        }
        self.mistakes.fetch_add(count, Ordering::Relaxed);
        Ok(count as u64)
    }

    /// Repairs mistakes before they are listed; says which are new.
    fn try_deny<B: Behind>(
        &self,
        behind: &B,
        hashes: &[Hash],
        may_join: impl Fn(usize) -> Result<(), B::Error>,
    ) -> Tried<(Locked<'_>, Vec<bool>), B::Error> {
        let locked = self.lock(hashes);
        let mut seen = HashSet::new();
        let mut is_new = Vec::with_capacity(hashes.len());
        for (at, &hash) in hashes.iter().enumerate() {
            is_new.push(!locked.has_mistake(hash) && seen.insert(hash));
            if !is_new[at] {
                continue;
            }
            let Answer::Maybe(claim) = self.filter.check(hash) else { continue };
            self.counted(|| may_join(at))?;
            self.counters.add(Count::BackendScans, 1);
            let suspects = claim.suspects();
            let members = behind.members(&suspects)?;
            if let Err(error) = self.adapt::<B>(hash, &suspects, &members) {
                return Ok(Room::Needed { hash, error: error.into() });
            }
            self.counters.add(Count::Repairs, 1);
        }
        Ok(Room::Enough((locked, is_new)))
    }

    /// The bytes of memory that the mistakes take.
    pub(crate) fn mistake_bytes(&self) -> u64 {
        self.stripes.sum(twiceshy::OrderedHashes::memory_usage)
    }

    /// Whether a mistake is listed.
    pub(crate) fn is_denied(&self, hash: Hash) -> bool {
        self.lock(&[hash]).has_mistake(hash)
    }

    /// How many are.
    pub(crate) fn denied(&self) -> usize {
        self.mistakes.load(Ordering::Relaxed)
    }

    /// Keeps all writers away.
    pub(crate) fn lock_all(&self) -> Locked<'_> {
        self.stripes.lock([Hash::MIN..=Hash::MAX])
    }
}

impl Front<AdaptiveQuotientFilter> {
    /// Takes a mistake off the list, after it is gone behind the filter; whether it was listed. If it
    /// isn't here, `is_behind` tells. The filter gets the room back that it took to repair it.
    pub(crate) fn allow<B: Behind>(
        &self,
        behind: &B,
        hash: Hash,
        is_behind: impl FnOnce() -> Result<bool, B::Error>,
        write: impl FnOnce() -> Result<(), B::Error>,
    ) -> Result<bool, B::Error> {
        let mut locked = self.lock(&[hash]);
        if !locked.has_mistake(hash) && !is_behind()? {
            return Ok(false);
        }
        write()?;
        if locked.remove_mistake(hash) {
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
        }
        if self.filter.is_lengthened(hash) {
            self.shorten(behind, &locked, hash);
        }
        Ok(true)
    }

    /// Makes fingerprints near a hash as short as the mistakes that are left allow. Where that
    /// fails, they stay long, which is no mistake.
    fn shorten(&self, behind: &impl Behind, locked: &Locked<'_>, hash: Hash) {
        let suspects = self.filter.suspects(hash);
        self.counters.add(Count::BackendScans, 1);
        let members = behind.members(&suspects).unwrap_or_default();
        let claim = members.first().map(|&member| self.filter.check(member));
        if let Some(Answer::Maybe(claim)) = claim {
            let mistakes = locked.mistakes(&suspects);
            // Not if there are ghosts.
            let _ = self.filter.shorten_listed(&claim, &members, &mistakes);
        }
    }

    /// Builds shards again whose remainders have lost bits by growing: if more members came, the
    /// filter would make more mistakes than it was planned for.
    pub(crate) fn renew<B: Behind>(&self, behind: &B, hashes: &[Hash]) -> Result<(), B::Error> {
        let mut before = None;
        for &hash in hashes {
            let shard = self.filter.shard_of(hash);
            if before.replace(shard) == Some(shard) {
                continue;
            }
            let parameters = self.filter.shard_parameters(shard);
            if parameters.remainder_bits < parameters.slot_bits {
                self.rebuild(behind, shard, 0)?;
            }
        }
        Ok(())
    }
}
