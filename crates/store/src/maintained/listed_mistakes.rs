//! Mistakes that the user lists in advance, and that the filter must never make.

use super::insert::{Tried, distinct};
use super::{MaintainedFilter, Source};
use crate::stats::Count;
use crate::stripes::Locked;
use std::sync::atomic::Ordering;
use twiceshy::{Answer, Hash, Listing, QuotientFilter, concurrent::Shard, members::OrderedHashes};

impl<F: Shard> MaintainedFilter<F> {
    /// Returns the filter's answer, which is exact for members and for listed mistakes.
    pub(crate) fn answer(&self, hash: Hash) -> bool {
        self.counters.add(Count::AnsweredFromMemory, 1);
        self.contains(hash)
    }

    /// Answers many lookups as [`answer`](Self::answer) does.
    pub(crate) fn answer_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.counters.add(Count::AnsweredFromMemory, hashes.len() as u64);
        self.contains_many(hashes, answers);
    }

    /// Repairs mistakes, writes them to the database, and lists them. Returns how many are new.
    /// `may_list` is called for each new mistake that may be a member.
    pub(crate) fn list_mistakes<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
        may_list: impl Fn(usize) -> Result<(), S::Error>,
        write: impl FnOnce(&[bool]) -> Result<(), S::Error>,
    ) -> Result<u64, S::Error> {
        let (mut locked, is_new) =
            self.making_room(source, || self.repair_unlisted(source, hashes, &may_list))?;
        write(&is_new)?;
        let mut count = 0;
        for (&hash, _) in hashes.iter().zip(&is_new).filter(|&(_, &is_new)| is_new) {
            locked.insert_mistake(hash);
            count += 1;
        }
        self.mistakes.fetch_add(count, Ordering::Relaxed);
        Ok(count as u64)
    }

    /// Repairs mistakes before they are listed. Returns, for each, whether it is new.
    fn repair_unlisted<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
        may_list: impl Fn(usize) -> Result<(), S::Error>,
    ) -> Tried<(Locked<'_>, Vec<bool>), S::Error> {
        let locked = self.lock(hashes);
        let mut is_new = vec![false; hashes.len()];
        for (at, hash) in distinct(hashes) {
            is_new[at] = !locked.has_mistake(hash);
            if !is_new[at] {
                continue;
            }
            let Answer::Maybe(claim) = self.filter.check(hash) else { continue };
            self.counted(|| may_list(at))?;
            let suspects = claim.suspects();
            let members = self.scan(source, &suspects)?;
            if let Err(error) = self.adapt::<S>(claim, &suspects, &members) {
                return Ok(Err((hash, error.into())));
            }
            self.counters.add(Count::Repairs, 1);
        }
        Ok(Ok((locked, is_new)))
    }

    /// Returns the bytes of memory that the mistakes take.
    pub(crate) fn mistake_bytes(&self) -> u64 {
        self.stripes.sum(OrderedHashes::memory_usage)
    }

    /// Returns whether a mistake is listed.
    pub(crate) fn is_mistake(&self, hash: Hash) -> bool {
        self.lock(&[hash]).has_mistake(hash)
    }

    /// Returns the number of mistakes that are kept.
    pub(crate) fn mistakes(&self) -> usize {
        self.mistakes.load(Ordering::Relaxed)
    }

    /// Locks all hashes, so that all writers wait.
    pub(crate) fn lock_all(&self) -> Locked<'_> {
        self.stripes.lock([Hash::MIN..=Hash::MAX])
    }
}

impl MaintainedFilter<QuotientFilter> {
    /// Removes a mistake from the database, and then from the list. Returns whether it was listed. If the
    /// list in memory lacks it, `is_in_database` decides. The filter gets back the space of the repair.
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
        if locked.remove_mistake(hash) {
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
        }
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
        let Ok(members) = self.scan(source, &suspects) else { return };
        let listing = Listing::new(&members).with_mistakes(locked.mistakes(&suspects));
        // The filter refuses if there are ghosts.
        let _ = self.filter.shorten(&claim, listing);
    }

    /// Rebuilds those shards of these hashes whose remainders have lost bits by growing. With more members,
    /// such shards would make more mistakes than planned.
    pub(crate) fn restore_remainders<S: Source>(
        &self,
        source: &S,
        hashes: &[Hash],
    ) -> Result<(), S::Error> {
        let mut before = None;
        for &hash in hashes {
            let shard = self.filter.shard_of(hash);
            if before.replace(shard) == Some(shard) {
                continue;
            }
            let parameters = self.filter.shard_parameters(shard);
            if parameters.remainder_bits < parameters.slot_bits {
                self.rebuild_shard(source, shard, 0)?;
            }
        }
        Ok(())
    }
}
