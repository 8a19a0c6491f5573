//! Repairing mistakes that lookups have found.
//!
//! A lookup never waits. If another thread holds the stripes of its mistake, the repair is
//! *deferred*: a short queue remembers the mistake, and a later write or a background thread
//! repairs it. If the filter has no room, the repair is skipped, and the shard is scheduled for a
//! rebuild. A skipped mistake may recur, and is then repaired.

use super::records::Queued;
use super::{Doubt, MaintainedFilter, Source};
use crate::stats::Count;
use crate::stripes::Locked;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;
use twiceshy::{Answer, Claim, Hash, concurrent::Shard, error::AdaptError};

/// The maximum number of deferred repairs.
const MOST_DEFERRED: usize = 1024;

/// The memory of a full queue of deferred repairs, in bytes.
pub(super) const MOST_BYTES: u64 = (MOST_DEFERRED * size_of::<Hash>()) as u64;

/// The maximum number of times that a repair begins again because its shard was rebuilt.
const RESTARTS: u32 = 4;

/// The maximum number of deferred repairs that one write makes.
const PER_WRITE: usize = 4;

/// Mistakes that are to be repaired later, in the order in which they were made.
#[derive(Default)]
pub(super) struct Deferred {
    queue: Mutex<VecDeque<Hash>>,
    len: AtomicUsize,
}

impl Deferred {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Hash>> {
        // Ignore poisoning, because no step under this lock can panic half-way.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a mistake to the queue, unless it is there already. Returns `false` if the queue is
    /// full.
    fn push(&self, mistake: Hash) -> bool {
        let mut queue = self.queue();
        if queue.contains(&mistake) {
            return true;
        }
        if queue.len() >= MOST_DEFERRED {
            return false;
        }
        queue.push_back(mistake);
        self.len.store(queue.len(), Ordering::Relaxed);
        true
    }

    fn pop(&self) -> Option<Hash> {
        let mut queue = self.queue();
        let first = queue.pop_front();
        if queue.is_empty() {
            *queue = VecDeque::new();
        }
        self.len.store(queue.len(), Ordering::Relaxed);
        first
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the bytes of memory that the queue takes.
    pub(super) fn memory(&self) -> u64 {
        (self.len() * size_of::<Hash>()) as u64
    }
}

/// The result of trying to repair a mistake.
enum Outcome {
    Repaired,
    /// The key is a member now or in doubt, or another thread has repaired the mistake.
    NoMistake,
    /// The filter doesn't make the mistake any more, because a member has left.
    Gone,
    /// Another thread holds the stripes.
    Busy,
    /// The shard was rebuilt meanwhile.
    Again,
    /// There is no room, for the repair or for its record.
    Skipped,
    Failed,
}

impl<F: Shard> MaintainedFilter<F> {
    /// Repairs a mistake: the filter made the claim, and the database doesn't have the key. Doesn't
    /// wait for a stripe, write to the database, or rebuild a shard.
    pub(super) fn repair(&self, source: &impl Source, claim: Claim) {
        let mistake = claim.query();
        let outcome = if self.policy.repairs() {
            self.try_repair(source, mistake, Some(claim))
        } else {
            Outcome::Gone
        };
        let is_mistake = !matches!(outcome, Outcome::NoMistake);
        self.counters.add(Count::FalsePositives, u64::from(is_mistake));
        if matches!(outcome, Outcome::Busy) {
            self.defer(mistake);
        }
        if self.deferred.len() > 0 || self.records.are_many() {
            self.leave_repairs();
        }
    }

    /// Remembers a mistake, to repair it later. If there are too many, skips the repair.
    fn defer(&self, mistake: Hash) {
        if !self.deferred.push(mistake) {
            self.counters.add(Count::RepairsSkipped, 1);
        }
    }

    /// Tries up to `most` of the deferred repairs. Returns how many of them are done.
    ///
    /// Doesn't wait for a stripe: if another thread holds it, the repair is deferred again. Writes
    /// nothing to the database.
    pub(crate) fn work_off_repairs(&self, source: &impl Source, most: usize) -> usize {
        let mut done = 0;
        for _ in 0..most.min(self.deferred.len()) {
            let Some(mistake) = self.deferred.pop() else { break };
            if !(self.is_complete() && self.is_ready(mistake)) {
                // The rebuild of the shard would make the repair obsolete.
                self.counters.add(Count::RepairsSkipped, 1);
                done += 1;
            } else if matches!(self.try_repair(source, mistake, None), Outcome::Busy) {
                self.defer(mistake);
            } else {
                done += 1;
            }
        }
        done
    }

    /// Does work that lookups have left: writes records if many are queued, and makes a few deferred
    /// repairs. Call this after a write, without holding a stripe.
    pub(super) fn after_write(&self, source: &impl Source) {
        self.flush_many_records(source);
        self.work_off_repairs(source, PER_WRITE);
    }

    fn try_repair<S: Source>(
        &self,
        source: &S,
        mistake: Hash,
        mut claim: Option<Claim>,
    ) -> Outcome {
        let mut has_queued = false;
        for _ in 0..RESTARTS {
            let outcome = self.repair_locked(source, mistake, claim.take(), &mut has_queued);
            match outcome.unwrap_or(Outcome::Failed) {
                Outcome::Again => {}
                outcome => {
                    let count = match outcome {
                        Outcome::Repaired => Count::Repairs,
                        Outcome::Skipped => Count::RepairsSkipped,
                        Outcome::Failed => Count::RepairsFailed,
                        _ => return outcome,
                    };
                    self.counters.add(count, 1);
                    return outcome;
                }
            }
        }
        Outcome::Busy
    }

    /// Tries to repair a mistake. Without a claim, or if the claim may be out of date, asks the filter
    /// again. `has_queued` says whether an earlier try has queued the record.
    fn repair_locked<S: Source>(
        &self,
        source: &S,
        mistake: Hash,
        claim: Option<Claim>,
        has_queued: &mut bool,
    ) -> Result<Outcome, S::Error> {
        let Some(mut locked) = self.try_lock(&[mistake]) else { return Ok(Outcome::Busy) };
        let is_kept = locked.has_mistake(mistake);
        let answer = match claim {
            Some(claim) if !is_kept => Answer::Maybe(claim),
            // Another thread may have repaired the mistake since.
            _ => self.filter.check(mistake),
        };
        let Answer::Maybe(claim) = answer else { return Ok(Outcome::NoMistake) };
        if source.doubt(mistake) == Doubt::Unsettled {
            return Ok(Outcome::NoMistake);
        }
        let suspects = claim.suspects();
        if !locked.covers(&suspects) {
            return Ok(Outcome::Again);
        }
        if S::KEEPS_RECORDS && !self.records.has_room() {
            return Ok(Outcome::Skipped);
        }
        let members = self.scan(source, &suspects)?;
        if members.binary_search(&mistake).is_ok() {
            return Ok(Outcome::NoMistake);
        }
        // Queue the record first, because a new member could undo a repair that has no record. If
        // the shard is rebuilt after that, the rebuild may have read or deleted the record. So
        // `adapt` refuses to repair the new build, and the repair begins again.
        let epoch = self.writes(mistake).epoch;
        let queued = if S::KEEPS_RECORDS { self.records.push(mistake) } else { Queued::New };
        if queued == Queued::Full {
            return Ok(Outcome::Skipped);
        }
        let is_own = queued == Queued::New || *has_queued;
        *has_queued = is_own;
        let is_new = S::KEEPS_RECORDS && is_own;
        let withdraw = || {
            if S::KEEPS_RECORDS && is_own {
                self.withdraw_record(mistake, epoch);
            }
        };
        let mut adapted = self.adapt::<S>(claim, &suspects, &members, epoch);
        if matches!(adapted, Err(AdaptError::Crowded | AdaptError::Stale)) {
            // If more members are listed, the filter can drop other repairs to make room. The claim
            // may also be from before a rebuild, and cover too few members.
            let suspects = self.filter.suspects(mistake);
            if !locked.covers(&suspects) {
                withdraw();
                return Ok(Outcome::Again);
            }
            let members = self.scan(source, &suspects).inspect_err(|_| withdraw())?;
            adapted = match self.filter.check(mistake) {
                Answer::Maybe(claim) => self.adapt::<S>(claim, &suspects, &members, epoch),
                Answer::Absent => Ok(false),
            };
        }
        let outcome = match adapted {
            Ok(false) if S::KEEPS_RECORDS => {
                withdraw();
                return Ok(Outcome::Gone);
            }
            Ok(_) => Outcome::Repaired,
            // The shard was rebuilt meanwhile, so the repair begins again.
            Err(AdaptError::Stale) => {
                withdraw();
                return Ok(Outcome::Again);
            }
            // Keep the mistake, so that a rebuild can repair it.
            Err(error) if is_beyond_repair(&error) => Outcome::Failed,
            Err(error) => {
                withdraw();
                self.wants_room(self.filter.shard_of(mistake));
                let is_full = matches!(error, AdaptError::Full { .. });
                return Ok(if is_full { Outcome::Skipped } else { Outcome::Failed });
            }
        };
        if is_kept || !is_own {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        if is_new {
            // A record that was queued before has been counted. If repairs of one mistake fail again and
            // again, its record counts once, so its shard isn't due because of it.
            self.upkept(mistake).records.fetch_add(1, Ordering::Relaxed);
        } else if !S::KEEPS_RECORDS {
            self.keep(&mut locked, mistake);
        }
        Ok(outcome)
    }

    /// Takes back the record of a mistake that was not repaired, unless a rebuild of its shard has read the
    /// record since this `epoch`, or may be about to swap a filter in that has repaired the mistake.
    pub(super) fn withdraw_record(&self, mistake: Hash, epoch: u64) {
        let writes = self.writes(mistake);
        if writes.epoch == epoch && !writes.has_notes() {
            self.records.withdraw(mistake);
        }
    }

    /// Keeps a mistake in memory, so that it is repaired again when the filter is rebuilt, or when a new
    /// member collides with it.
    fn keep(&self, locked: &mut Locked<'_>, mistake: Hash) {
        if !self.kept.insert(locked, mistake) {
            return;
        }
        if self.kept.len() > self.policy.kept() {
            self.kept.evict(locked, mistake);
            self.counters.add(Count::MistakesForgotten, 1);
        }
        // A rebuild that is under way may have read the mistakes already, so tell it about this
        // one.
        self.writes(mistake).note_mistake(mistake);
    }
}

/// Returns whether a repair failed for a reason that rebuilding the shard wouldn't fix. The filter may then
/// make the mistake again, which must not fail a write.
///
/// A listing that lacks members is such a reason: there are no ghosts, so the listing is wrong, and a listing
/// of the whole shard would be wrong, too.
fn is_beyond_repair(error: &AdaptError) -> bool {
    matches!(error, AdaptError::Crowded | AdaptError::Inseparable | AdaptError::Unlisted { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferred_repairs_are_bounded_and_made_in_order() {
        let deferred = Deferred::default();
        let hash = |number: usize| Hash::from_u128(number as u128);
        assert!((0..MOST_DEFERRED).all(|number| deferred.push(hash(number))));
        assert!(!deferred.push(hash(MOST_DEFERRED)), "there is no room");
        assert!(deferred.push(hash(7)), "it is there already");
        assert_eq!(deferred.len(), MOST_DEFERRED);
        assert!((0..MOST_DEFERRED).all(|number| deferred.pop() == Some(hash(number))));
        assert_eq!((deferred.pop(), deferred.len()), (None, 0));
    }
}
