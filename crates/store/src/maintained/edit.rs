//! The steps that change the filter. The caller holds the stripes of the hash. Each step also notes
//! the change for a rebuild, while it holds the lock of the shard's [writes](super::notes::Writes).

use super::notes::Writes;
use super::upkeep::{Change, LONGEST_DELAY};
use super::{MaintainedFilter, Source};
use crate::stats::Count;
use crate::stripes::Locked;
use crate::sync::{atomic::Ordering, sleep};
use scopeguard::ScopeGuard;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use twiceshy::{
    Answer, Claim, Hash, Listing, Member,
    claim::Adaptation,
    concurrent::Shard,
    error::{AdaptError, RemoveError},
};

/// The maximum number of listings of members per inserted or removed hash.
pub(super) const LISTINGS: usize = 32;

impl<F: Shard> MaintainedFilter<F> {
    /// Ends the write of a key that is certainly absent from the database. If `is_held` returns
    /// `true`, the filter counts the key as a member, so this removes the key from the filter. The
    /// filter may need a listing of the members near it. `others` are in the filter, but not in the
    /// database. A key that can't be removed stays as a ghost. In a store, that includes a key
    /// whose removal has no room for the trace of a repair.
    ///
    /// The shard may have been rebuilt since the caller locked its stripes, and the listing may reach
    /// beyond them. Then another thread's write may be in the filter, but not in the listing, and the
    /// filter refuses the listing. That write ends soon, so this lists again after a pause. The caller
    /// can't begin again with more stripes, because its own write is under way.
    pub(super) fn remove_hash<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        hash: Hash,
        others: &[Hash],
        is_held: impl Fn(&Writes) -> bool,
    ) {
        // If listing the members panics, the key stays as a ghost.
        let in_flight = scopeguard::guard((), |()| self.leave_ghost(hash));
        let mut listed: Option<(Claim, Vec<Member>)> = None;
        let mut is_covered = true;
        for _ in 0..LISTINGS {
            let mut writes = self.writes(hash);
            let is_held = self.is_ready(hash) && is_held(&writes);
            let removed = match (is_held, listed.take()) {
                (false, _) => Ok(()),
                (true, None) if S::KEEPS_RECORDS => {
                    self.filter.remove_trusting_keeping_repairs(hash)
                }
                (true, None) => self.filter.remove_trusting(hash),
                (true, Some((claim, members))) if S::KEEPS_RECORDS => {
                    self.filter.remove_keeping_repairs(&claim, &members)
                }
                (true, Some((claim, members))) => self.filter.remove(&claim, &members),
            };
            match removed {
                Ok(()) => {
                    ScopeGuard::into_inner(in_flight);
                    writes.end(hash, false);
                    drop(writes);
                    self.changed(hash, Change::Addition);
                    return;
                }
                Err(RemoveError::Ambiguous | RemoveError::Stale) => drop(writes),
                Err(RemoveError::Full { .. }) => {
                    self.wants_room(self.filter.shard_of(hash));
                    break;
                }
                Err(RemoveError::Unlisted { .. }) if !is_covered => {
                    drop(writes);
                    sleep(LONGEST_DELAY);
                }
                Err(_) => break,
            }
            let Answer::Maybe(claim) = self.filter.check(hash) else { break };
            is_covered = locked.covers(&claim.suspects());
            let others = [others, &[hash]].concat();
            let Ok(members) = self.listed(source, &claim, &others) else { break };
            listed = Some((claim, members));
        }
        ScopeGuard::into_inner(in_flight);
        let mut writes = self.writes(hash);
        writes.has_ghosts = true;
        writes.end(hash, false);
        self.counters.add(Count::GhostsLeft, 1);
    }

    /// Repairs the mistake of a claim, whose query is not a member. `members` are all members in
    /// `interval`. Returns whether the filter has changed. `false` means that the mistake was gone
    /// already. Refuses a shard that was rebuilt after this `epoch` as stale.
    pub(super) fn adapt<S: Source>(
        &self,
        mut claim: Claim,
        interval: &RangeInclusive<Hash>,
        members: &[Hash],
        epoch: u64,
    ) -> Result<bool, AdaptError> {
        let mistake = claim.query();
        let mut crowded = None;
        loop {
            let suspects = claim.suspects();
            if suspects.start() < interval.start() || suspects.end() > interval.end() {
                // The list lacks the members outside the interval, so the filter would treat them
                // as ghosts.
                return Err(crowded.map_or(AdaptError::Stale, |_| AdaptError::Crowded));
            }
            let listed = members.iter().filter(|member| suspects.contains(member));
            let listing: Listing<'_> = listed.copied().collect();
            let mut writes = self.writes(mistake);
            if writes.epoch != epoch {
                return Err(AdaptError::Stale);
            }
            let drops_ghosts = S::LEAVES_GHOSTS || writes.has_ghosts;
            let listing = match drops_ghosts {
                // A later insert must see that something was repaired here.
                true if S::KEEPS_RECORDS => listing.leaving_tombstones(),
                true => listing.dropping_ghosts(),
                false => listing,
            };
            match self.filter.adapt(&claim, listing) {
                Ok(adaptation) => {
                    writes.note_repair(mistake);
                    drop(writes);
                    self.changed(mistake, Change::Addition);
                    self.counters.add(Count::GhostsCleared, adaptation.ghosts);
                    let has_changed = adaptation != Adaptation::default();
                    self.is_changed.fetch_or(has_changed, Ordering::Release);
                    return Ok(has_changed);
                }
                // The claim was made before the lock was taken, or a member that shares the claim's
                // version was added or removed. Try again with a new claim.
                Err(AdaptError::Stale) => {}
                // Try again: the next claim may cover a wider range. If all members in it are
                // listed, the filter can make room by forgetting older repairs.
                Err(AdaptError::Crowded) if crowded.as_ref() != Some(&suspects) => {
                    crowded = Some(suspects);
                }
                Err(error) => return Err(error),
            }
            drop(writes);
            match self.filter.check(mistake) {
                Answer::Maybe(next) => claim = next,
                Answer::Absent => return Ok(false),
            }
        }
    }

    /// Repairs the mistakes that a new member may have brought back. A quotient filter keeps new members
    /// apart from them; other filters may not. A repair that fails is counted. `others` returns the hashes
    /// that are in the filter, but not in the database yet.
    pub(super) fn repair_again<S: Source>(
        &self,
        source: &S,
        locked: &Locked<'_>,
        mistakes: &[Hash],
        others: impl Fn() -> SmallVec<[Hash; 8]>,
    ) {
        for &mistake in mistakes {
            if !self.filter.contains(mistake) {
                continue;
            }
            let epoch = self.writes(mistake).epoch;
            let (suspects, others) = (self.filter.suspects(mistake), others());
            let members = self.scan(source, &suspects).map(|mut members| {
                members.extend(others.iter().filter(|hash| suspects.contains(hash)));
                members.sort_unstable();
                members.dedup();
                members
            });
            let is_repaired = match members {
                // The mistake has become a member, so there is nothing to repair.
                Ok(members) if members.binary_search(&mistake).is_ok() => continue,
                Ok(members) if locked.covers(&suspects) => match self.filter.check(mistake) {
                    Answer::Maybe(claim) => {
                        self.adapt::<S>(claim, &suspects, &members, epoch).is_ok()
                    }
                    Answer::Absent => continue,
                },
                _ => false,
            };
            self.counters.add(Count::RepairsFailed, u64::from(!is_repaired));
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

    /// Lists the members in a part of a shard for a rebuild, and counts the scan.
    pub(super) fn scan_part<S: Source>(
        &self,
        source: &S,
        hashes: &RangeInclusive<Hash>,
        is_checked: &mut bool,
    ) -> Result<Vec<Hash>, S::Error> {
        self.counters.add(Count::BackendScans, 1);
        source.part(hashes, is_checked)
    }

    /// Lists the members in a claim's interval: those in the database, and `others` that are only in the
    /// filter.
    pub(super) fn listed<S: Source>(
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
