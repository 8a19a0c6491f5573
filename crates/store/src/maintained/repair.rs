//! Repairing mistakes.

use super::insert::Tried;
use super::{Doubt, MaintainedFilter, Source};
use crate::stats::Count;
use crate::stripes::Locked;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{Answer, Claim, Hash, concurrent::Shard, error::AdaptError};

impl<F: Shard> MaintainedFilter<F> {
    /// Repairs and keeps a mistake: the filter made the claim, and the database doesn't have the key.
    pub(super) fn repair(&self, source: &impl Source, claim: Claim) {
        if !self.policy.repairs() {
            self.counters.add(Count::FalsePositives, 1);
            return;
        }
        let mistake = claim.query();
        let (claim, is_known) = (Cell::new(Some(claim)), Cell::new(false));
        let repair = || self.try_repair(source, mistake, claim.take(), &is_known);
        if self.making_room(source, repair).is_err() {
            self.counters.add(Count::RepairsFailed, 1);
        }
    }

    /// Tries to repair a mistake. `is_known` tells the next try that the key is a mistake: a larger filter
    /// may answer "absent", but the mistake must be kept all the same.
    fn try_repair<S: Source>(
        &self,
        source: &S,
        mistake: Hash,
        claim: Option<Claim>,
        is_known: &Cell<bool>,
    ) -> Tried<(), S::Error> {
        let mut locked = self.lock(&[mistake]);
        let is_kept = locked.has_mistake(mistake);
        let mut count = Count::Repairs;
        let answer = match claim {
            Some(claim) if !is_kept => Answer::Maybe(claim),
            // Another thread may have repaired the mistake since.
            _ => self.filter.check(mistake),
        };
        if let Answer::Maybe(claim) = answer {
            if source.doubt(mistake) == Doubt::Unsettled {
                return Ok(Ok(()));
            }
            let suspects = claim.suspects();
            let members = self.scan(source, &suspects)?;
            if members.binary_search(&mistake).is_ok() {
                return Ok(Ok(()));
            }
            is_known.set(true);
            let mut adapted = self.adapt::<S>(claim, &suspects, &members);
            if matches!(adapted, Err(AdaptError::Crowded | AdaptError::Stale)) {
                // With more members listed, other repairs can be forgotten. The claim may also be older
                // than a rebuild, and name too few members.
                let suspects = self.filter.suspects(mistake);
                let members = self.scan(source, &suspects)?;
                // Growth makes claims narrower, so the claim that is made last names listed members.
                adapted = match self.filter.check(mistake) {
                    Answer::Maybe(claim) => self.adapt::<S>(claim, &suspects, &members),
                    Answer::Absent => Ok(()),
                };
            }
            match adapted {
                Ok(()) => {}
                Err(error) if is_beyond_repair(&error) => count = Count::RepairsFailed,
                Err(error) => return Ok(Err((mistake, error.into()))),
            }
        } else if !is_known.get() && is_kept {
            // Another thread has repaired the mistake.
            return Ok(Ok(()));
        }
        self.counters.add(Count::FalsePositives, 1);
        self.counters.add(count, 1);
        if is_kept {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        self.keep(source, &mut locked, mistake)?;
        Ok(Ok(()))
    }

    /// Keeps a mistake, so that it is repaired again when the filter is rebuilt, or when a new member
    /// collides with it.
    fn keep<S: Source>(
        &self,
        source: &S,
        locked: &mut Locked<'_>,
        mistake: Hash,
    ) -> Result<(), S::Error> {
        let mut forgotten = None;
        if !locked.insert_mistake(mistake) {
            // The mistake is kept in memory. A failed write may have left it out of the database.
        } else if self.mistakes.fetch_add(1, Ordering::Relaxed) >= self.policy.kept() {
            forgotten = Some(locked.evict(mistake));
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
            self.counters.add(Count::MistakesForgotten, 1);
        }
        source.keep_mistake(mistake, forgotten)
    }

    /// Returns the kept mistakes that new members may collide with.
    ///
    /// If mistakes are listed, and must never be made, this also lists the members that the filter could
    /// confuse with them. Then nothing can fail or panic between the insert of the new members and the
    /// repair of the mistakes.
    pub(super) fn mistakes_at_risk<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<Vec<AtRisk>, (Hash, S::Error)> {
        let mut at_risk = Vec::new();
        if !locked.has_mistakes() {
            return Ok(at_risk);
        }
        for &member in new {
            let suspects = self.filter.suspects(member);
            let mut mistakes = locked.mistakes(&suspects);
            mistakes.retain(|&mistake| self.filter.may_confuse(member, mistake));
            let Some(&first) = mistakes.first() else { continue };
            let members = if self.policy.is_listed() {
                Some(self.scan(source, &suspects).map_err(|error| (first, error))?)
            } else {
                None
            };
            at_risk.push(AtRisk { suspects, mistakes, members });
        }
        Ok(at_risk)
    }

    /// Repairs the kept mistakes that new members collide with. The new members are in the filter, but
    /// not in the database yet. An error names the mistake that there is no room for.
    pub(super) fn repair_at_risk<S: Source>(
        &self,
        source: &S,
        at_risk: Vec<AtRisk>,
        new: &[Hash],
    ) -> Result<(), (Hash, S::Error)> {
        for AtRisk { suspects, mut mistakes, members } in at_risk {
            mistakes.retain(|&mistake| self.filter.contains(mistake) && !new.contains(&mistake));
            if mistakes.is_empty() {
                continue;
            }
            let Ok(mut members) = members.map_or_else(|| self.scan(source, &suspects), Ok) else {
                self.counters.add(Count::RepairsFailed, 1);
                continue;
            };
            // A failed write may have left a member among the mistakes.
            mistakes.retain(|mistake| members.binary_search(mistake).is_err());
            members.extend(new.iter().filter(|hash| suspects.contains(hash)));
            for mistake in mistakes {
                // The repair of another mistake may have repaired this one.
                let adapted = match self.filter.check(mistake) {
                    Answer::Maybe(claim) => self.adapt::<S>(claim, &suspects, &members),
                    Answer::Absent => Ok(()),
                };
                match adapted {
                    Ok(()) => self.counters.add(Count::Repairs, 1),
                    Err(error) if is_beyond_repair(&error) => {
                        self.counters.add(Count::RepairsFailed, 1);
                    }
                    Err(error) => return Err((mistake, error.into())),
                }
            }
        }
        Ok(())
    }
}

/// Kept mistakes that a new member may collide with.
pub(super) struct AtRisk {
    /// The hashes of all members that the filter could confuse with these mistakes.
    suspects: RangeInclusive<Hash>,
    mistakes: Vec<Hash>,
    /// The members with these hashes, if they are listed already.
    members: Option<Vec<Hash>>,
}

/// Returns whether a repair failed for a reason that rebuilding the shard wouldn't fix. The mistake can
/// then be made again, which must not fail a write.
///
/// A listing that is too short doesn't call for a rebuild either: there are no ghosts, so the listing
/// isn't true, and the shard's listing would be no better.
fn is_beyond_repair(error: &AdaptError) -> bool {
    matches!(error, AdaptError::Crowded | AdaptError::Inseparable | AdaptError::Unlisted { .. })
}
