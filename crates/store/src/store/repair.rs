//! Repairing mistakes.

use super::Inner;
use super::write::Room;
use crate::backend::{Backend, Batch, Keyspace};
use crate::counters::Count;
use crate::error::{Result, StoreError};
use crate::filter::SharedFilter;
use crate::layout;
use crate::stripes::Locked;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use twiceshy::{AdaptError, Answer, Hash, Member};

impl<B: Backend, F: SharedFilter> Inner<B, F> {
    /// Repairs what was "maybe" and not in the backend, if it still is so, and remembers it.
    pub(super) fn repair(&self, mistake: Hash) {
        if !self.repairs {
            self.counters.add(Count::FalsePositives, 1);
            return;
        }
        let is_known = Cell::new(false);
        if self.making_room(|| self.try_repair(mistake, &is_known)).is_err() {
            self.counters.add(Count::RepairsFailed, 1);
        }
    }

    /// `is_known` tells the next try that it is a mistake: a larger filter may not make it, but
    /// it must be remembered all the same.
    fn try_repair(&self, mistake: Hash, is_known: &Cell<bool>) -> Result<Room> {
        let mut locked = self.lock(mistake);
        if let Answer::Maybe(claim) = self.filter.check(mistake) {
            self.counters.add(Count::BackendScans, 1);
            let members = layout::members(&self.backend, &self.hasher, &claim.suspects())?;
            if members.binary_search(&mistake).is_ok() {
                return Ok(Room::Enough);
            }
            is_known.set(true);
            if let Err(error) = self.adapt(mistake, &members) {
                return Ok(Room::Needed { hash: mistake, error: error.into() });
            }
        } else if !is_known.get() {
            // A write, or another repair, came in between.
            return Ok(Room::Enough);
        }
        self.counters.add(Count::FalsePositives, 1);
        self.counters.add(Count::Repairs, 1);
        if locked.has_mistake(mistake) {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        self.remember(&mut locked, mistake)?;
        Ok(Room::Enough)
    }

    /// Tells the filter that a hash is no member, and which are, near it.
    fn adapt(&self, mistake: Hash, members: &[Hash]) -> Result<(), AdaptError> {
        // The shard may grow, and then there are fewer suspects; whatever else makes a claim stale
        // is locked out.
        while let Answer::Maybe(claim) = self.filter.check(mistake) {
            let suspects = members.iter().filter(|member| claim.suspects().contains(member));
            let listed: Vec<Member> = suspects.map(|&member| member.into()).collect();
            match self.filter.adapt(&claim, &listed) {
                Ok(adaptation) => self.counters.add(Count::GhostsCleared, adaptation.ghosts),
                Err(AdaptError::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Repairs the mistakes that new members, which aren't in the backend yet, bring back; says
    /// for which there is no room.
    pub(super) fn defend(
        &self,
        locked: &Locked<'_>,
        new: &[Hash],
    ) -> Result<(), (Hash, StoreError)> {
        for &member in new {
            let suspects = self.filter.suspects(member);
            let mut mistakes = locked.mistakes(&suspects);
            mistakes.retain(|mistake| self.filter.contains(*mistake) && !new.contains(mistake));
            if mistakes.is_empty() {
                continue;
            }
            self.counters.add(Count::BackendScans, 1);
            let Ok(mut members) = layout::members(&self.backend, &self.hasher, &suspects) else {
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

    /// Keeps a mistake, in memory and in the backend, so that it is repaired whenever the
    /// filter is built again, or a member comes that it would collide with.
    fn remember(&self, locked: &mut Locked<'_>, mistake: Hash) -> Result<()> {
        let mut batch = Batch::new();
        batch.insert(Keyspace::Mistakes, layout::mistake_key(mistake), b"");
        if !locked.insert_mistake(mistake) {
            // A write that failed halfway may have left it here, but not there.
        } else if self.mistakes.fetch_add(1, Ordering::Relaxed) >= self.mistakes_kept {
            let forgotten = locked.evict(mistake);
            batch.remove(Keyspace::Mistakes, layout::mistake_key(forgotten));
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
            self.counters.add(Count::MistakesForgotten, 1);
        }
        self.write(&batch)
    }
}
