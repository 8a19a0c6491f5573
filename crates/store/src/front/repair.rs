//! Repairing mistakes, building shards again.

use super::admit::{Room, Tried};
use super::{Behind, Doubt, Front};
use crate::census::Census;
use crate::counters::Count;
use crate::filter::PLANNED_LOAD;
use crate::stripes::Locked;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{AdaptError, Answer, Hash, Member, Shard};

impl<F: Shard> Front<F> {
    /// Repairs what was "maybe" and not behind, if it still is so, and remembers it.
    pub(crate) fn repair(&self, behind: &impl Behind, mistake: Hash) {
        if !self.policy.repairs() {
            self.counters.add(Count::FalsePositives, 1);
            return;
        }
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
        let mut count = Count::Repairs;
        if let Answer::Maybe(claim) = self.filter.check(mistake) {
            if behind.doubt(mistake) == Doubt::Unsettled {
                return Ok(Room::Enough(()));
            }
            self.counters.add(Count::BackendScans, 1);
            let suspects = claim.suspects();
            let members = behind.members(&suspects)?;
            if members.binary_search(&mistake).is_ok() {
                return Ok(Room::Enough(()));
            }
            is_known.set(true);
            let mut adapted = self.adapt::<B>(mistake, &suspects, &members);
            if adapted == Err(AdaptError::Crowded) {
                // More members may help: then other repairs can be forgotten.
                let suspects = self.filter.suspects(mistake);
                self.counters.add(Count::BackendScans, 1);
                adapted = self.adapt::<B>(mistake, &suspects, &behind.members(&suspects)?);
            }
            match adapted {
                Ok(()) => {}
                Err(error) if is_beyond_repair(&error) => count = Count::RepairsFailed,
                Err(error) => return Ok(Room::Needed { hash: mistake, error: error.into() }),
            }
        } else if !is_known.get() && locked.has_mistake(mistake) {
            // Another repair came in between.
            return Ok(Room::Enough(()));
        }
        self.counters.add(Count::FalsePositives, 1);
        self.counters.add(count, 1);
        if locked.has_mistake(mistake) {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        self.remember(behind, &mut locked, mistake)?;
        Ok(Room::Enough(()))
    }

    /// Tells the filter that a hash is no member, and which are, near it: all in an interval.
    pub(super) fn adapt<B: Behind>(
        &self,
        mistake: Hash,
        interval: &RangeInclusive<Hash>,
        members: &[Hash],
    ) -> Result<(), AdaptError> {
        // The shard may grow, and then there are fewer suspects; whatever else makes a claim
        // stale is locked out.
        let mut crowded = None;
        while let Answer::Maybe(claim) = self.filter.check(mistake) {
            let suspects = claim.suspects();
            if suspects.start() < interval.start() || suspects.end() > interval.end() {
                // What isn't listed would be taken for a ghost.
                return Err(crowded.map_or(AdaptError::Stale, |_| AdaptError::Crowded));
            }
            let listed = members.iter().filter(|member| suspects.contains(member));
            let listed: Vec<Member> = listed.map(|&member| member.into()).collect();
            let adapted = if self.may_have_ghosts::<B>(mistake) {
                self.filter.adapt_dropping_ghosts(&claim, &listed)
            } else {
                self.filter.adapt(&claim, &listed)
            };
            match adapted {
                Ok(adaptation) => self.counters.add(Count::GhostsCleared, adaptation.ghosts),
                Err(AdaptError::Stale) => {}
                // The next claim may name more members, so that other repairs can be forgotten.
                Err(AdaptError::Crowded) if crowded.as_ref() != Some(&suspects) => {
                    crowded = Some(suspects);
                }
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
        let mut forgotten = None;
        if !locked.insert_mistake(mistake) {
            // A write that failed halfway may have left it here, but not behind.
        } else if self.mistakes.fetch_add(1, Ordering::Relaxed) >= self.policy.kept() {
            forgotten = Some(locked.evict(mistake));
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
            self.counters.add(Count::MistakesForgotten, 1);
        }
        behind.keep_mistake(mistake, forgotten)
    }

    /// Returns the mistakes that new members may bring back. If mistakes are listed, which must never be
    /// made, it also lists the members that the filter could confuse with them: then nothing can fail,
    /// or panic, between inserting the new members and repairing the mistakes.
    pub(super) fn threatened<B: Behind>(
        &self,
        behind: &B,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<Vec<Threatened>, (Hash, B::Error)> {
        let mut threatened = Vec::new();
        if !locked.has_mistakes() {
            return Ok(threatened);
        }
        for suspects in new.iter().map(|&member| self.filter.suspects(member)) {
            let mistakes = locked.mistakes(&suspects);
            let Some(&first) = mistakes.first() else { continue };
            let members = if self.policy.is_listed() {
                self.counters.add(Count::BackendScans, 1);
                Some(behind.members(&suspects).map_err(|error| (first, error))?)
            } else {
                None
            };
            threatened.push(Threatened { suspects, mistakes, members });
        }
        Ok(threatened)
    }

    /// Repairs the mistakes that new members, which aren't behind yet, have brought back; says
    /// for which there is no room.
    pub(super) fn defend<B: Behind>(
        &self,
        behind: &B,
        threatened: Vec<Threatened>,
        new: &[Hash],
    ) -> Result<(), (Hash, B::Error)> {
        for Threatened { suspects, mut mistakes, members } in threatened {
            mistakes.retain(|&mistake| self.filter.contains(mistake) && !new.contains(&mistake));
            if mistakes.is_empty() {
                continue;
            }
            let list = || {
                self.counters.add(Count::BackendScans, 1);
                behind.members(&suspects)
            };
            let Ok(mut members) = members.map_or_else(list, Ok) else {
                self.counters.add(Count::RepairsFailed, 1);
                continue;
            };
            // A write that failed halfway may have left a member on the list.
            mistakes.retain(|mistake| members.binary_search(mistake).is_err());
            members.extend(new.iter().filter(|hash| suspects.contains(hash)));
            for mistake in mistakes {
                match self.adapt::<B>(mistake, &suspects, &members) {
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

    /// Builds a shard, whose writers wait meanwhile; for so many more entries, if it is too
    /// small. Says which members it has.
    pub(crate) fn rebuild<B: Behind>(
        &self,
        behind: &B,
        shard: usize,
        more: usize,
    ) -> Result<Census, B::Error> {
        let hashes = self.filter.shard_hashes(shard);
        let locked = self.stripes.lock([hashes.clone()]);
        // Before the listing begins.
        let is_trusted = behind.may_trust(shard);
        self.counters.add(Count::BackendScans, 1);
        let members = behind.members(&hashes)?;
        let mut mistakes = locked.mistakes(&hashes);
        if !self.policy.is_listed() {
            // A write that failed halfway may have left a member on the list.
            mistakes.retain(|mistake| members.binary_search(mistake).is_err());
        }
        let needed = members.len() + self.policy.slots(mistakes.len()) + more;
        // A shard keeps its size, unless that is too small.
        let planned = (self.filter.shard_slots(shard) as f64 * PLANNED_LOAD) as usize;
        let capacity = (needed > planned).then_some(needed);
        self.filter.rebuild_shard(shard, capacity, &members, &mistakes)?;
        self.has_rebuilt(shard);
        self.has_ghosts[shard].store(false, Ordering::Release);
        if is_trusted {
            behind.trust(shard);
        }
        self.ready[shard].store(is_trusted, Ordering::Release);
        Ok(members.into_iter().sum())
    }
}

/// Mistakes that a new member may bring back.
pub(super) struct Threatened {
    /// The hashes of all members that the filter could confuse with them.
    suspects: RangeInclusive<Hash>,
    mistakes: Vec<Hash>,
    /// Those of them that are there, if they are listed already.
    members: Option<Vec<Hash>>,
}

/// Returns whether building the shard again wouldn't help: the mistake goes on being made, which must
/// not fail a write.
///
/// A listing that is too short doesn't call for a rebuild either: there are no ghosts, so the listing
/// isn't true, and the shard's would be no better.
fn is_beyond_repair(error: &AdaptError) -> bool {
    matches!(error, AdaptError::Crowded | AdaptError::Inseparable | AdaptError::Unlisted { .. })
}
