//! The calls that change the filter: inserting, removing and repairing one hash. The caller holds the
//! hash's stripes.

use super::{MaintainedFilter, Source};
use crate::stats::Count;
use scopeguard::defer_on_unwind;
use std::ops::RangeInclusive;
use twiceshy::{
    Answer, Claim, Hash, Listing, Member,
    concurrent::Shard,
    error::{AdaptError, InsertError, RemoveError},
};

/// The most times that members are listed for one hash that is inserted or removed.
const LISTINGS: usize = 32;

impl<F: Shard> MaintainedFilter<F> {
    /// Inserts a new member into the filter, which may ask for the members near it. `others` are in the
    /// filter, but not in the database yet.
    pub(super) fn insert_hash<S: Source>(
        &self,
        source: &S,
        hash: Hash,
        others: &[Hash],
    ) -> Result<(), S::Error> {
        for _ in 0..LISTINGS {
            let claim = match self.filter.insert(hash) {
                Err(InsertError::NeedsMembers(claim)) => claim,
                inserted => return Ok(inserted?),
            };
            let members = self.listed(source, &claim, others)?;
            match self.filter.insert_listed(&claim, &members) {
                // A member that shares the claim's version came or went, or there is a ghost.
                Err(InsertError::Mismatch) => {}
                inserted => return Ok(inserted?),
            }
        }
        Err(InsertError::Mismatch.into())
    }

    /// Removes a member from the filter, which may ask for the members near it. `others` are in the
    /// filter, but not in the database. Returns whether the member was removed; otherwise it is a ghost.
    pub(super) fn remove_hash<S: Source>(&self, source: &S, hash: Hash, others: &[Hash]) -> bool {
        // Listing members may panic.
        defer_on_unwind! { self.leave_ghost(hash) }
        match self.filter.remove_trusting(hash) {
            Ok(()) => return true,
            Err(RemoveError::Ambiguous) => {}
            Err(_) => return false,
        }
        let others = [others, &[hash]].concat();
        for _ in 0..LISTINGS {
            let Answer::Maybe(claim) = self.filter.check(hash) else { return false };
            let Ok(members) = self.listed(source, &claim, &others) else { return false };
            match self.filter.remove(&claim, &members) {
                Ok(()) => return true,
                Err(RemoveError::Stale) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Removes hashes that were inserted and are not in the database, the last one first.
    pub(super) fn undo_inserts<S: Source>(&self, source: &S, inserted: &[Hash]) {
        for left in (0..inserted.len()).rev() {
            if !self.remove_hash(source, inserted[left], &inserted[..left]) {
                self.leave_ghost(inserted[left]);
            }
        }
    }

    /// Repairs a claim's query, which is not a member. `members` are all members in `interval`.
    pub(super) fn adapt<S: Source>(
        &self,
        mut claim: Claim,
        interval: &RangeInclusive<Hash>,
        members: &[Hash],
    ) -> Result<(), AdaptError> {
        let mistake = claim.query();
        let mut crowded = None;
        loop {
            let suspects = claim.suspects();
            if suspects.start() < interval.start() || suspects.end() > interval.end() {
                // Members outside the interval would be taken for ghosts.
                return Err(crowded.map_or(AdaptError::Stale, |_| AdaptError::Crowded));
            }
            let listed = members.iter().filter(|member| suspects.contains(member));
            let mut listing: Listing<'_> = listed.copied().collect();
            if self.may_have_ghosts::<S>(mistake) {
                listing = listing.dropping_ghosts();
            }
            match self.filter.adapt(&claim, listing) {
                Ok(adaptation) => {
                    self.counters.add(Count::GhostsCleared, adaptation.ghosts);
                    return Ok(());
                }
                // The claim is older than the lock, the shard has grown, or a member that shares the
                // claim's version came or went.
                Err(AdaptError::Stale) => {}
                // The next claim may name more members, so that other repairs can be forgotten.
                Err(AdaptError::Crowded) if crowded.as_ref() != Some(&suspects) => {
                    crowded = Some(suspects);
                }
                Err(error) => return Err(error),
            }
            match self.filter.check(mistake) {
                Answer::Maybe(next) => claim = next,
                Answer::Absent => return Ok(()),
            }
        }
    }

    /// Lists the members in an interval, in order, and counts the scan.
    pub(super) fn scan<S: Source>(
        &self,
        source: &S,
        hashes: &RangeInclusive<Hash>,
    ) -> Result<Vec<Hash>, S::Error> {
        self.counters.add(Count::BackendScans, 1);
        let mut members = source.members(hashes.clone())?;
        members.sort_unstable();
        Ok(members)
    }

    /// Lists the members in a claim's interval: those in the database, and `others` that are only in the
    /// filter.
    fn listed<S: Source>(
        &self,
        source: &S,
        claim: &Claim,
        others: &[Hash],
    ) -> Result<Vec<Member>, S::Error> {
        let suspects = claim.suspects();
        let mut members = self.scan(source, &suspects)?;
        members.extend(others.iter().filter(|hash| suspects.contains(hash)));
        members.sort_unstable();
        members.dedup();
        Ok(members.into_iter().map(Member::from).collect())
    }
}
