//! Inserts, removals and rebuilds of an adaptive Bloom filter.

use super::AdaptiveBloomFilter;
use super::level::MOST_MEMBERS;
use crate::error::{BuildError, InsertError, RemoveError};
use crate::{Claim, Hash, Listing, Member};
use std::collections::HashSet;

impl AdaptiveBloomFilter {
    /// Inserts a member. A member whose cells are all set already takes no room.
    ///
    /// # Errors
    /// Returns [`InsertError::Full`] and changes nothing if the members, together with the bits of
    /// removed members, take all the room that was planned. With more members, the false-positive
    /// rate would be higher than requested.
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let probes = self.first.probes(hash);
        let cell = probes.first;
        if !self.first.contains(&probes) {
            if self.first.written >= self.first.plan.room {
                return Err(InsertError::Full { load: self.load() });
            }
            self.first.write(&probes);
        }
        self.insert_below(self.dead.depth(cell), hash);
        self.len += 1;
        self.versions.bump(cell);
        Ok(())
    }

    /// Inserts a member into the level that answers for its cell. Does nothing if the cell is
    /// alive.
    pub(super) fn insert_below(&mut self, depth: u32, hash: Hash) {
        let Some(index) = (depth as usize).checked_sub(1) else { return };
        let Some(level) = self.deeper.get_mut(index) else {
            self.last.insert(hash);
            return;
        };
        let probes = level.probes(hash);
        if !level.contains(&probes) {
            level.write(&probes);
        }
    }

    /// Inserts the claim's query like [`insert`](Self::insert), unless the listing can't be that of
    /// the cell. This method is for code that works with any filter: a Bloom filter never [needs
    /// members](InsertError::NeedsMembers) for an insert.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert), or [`InsertError::Mismatch`] if the claim is
    /// stale, or if the cell has members or ghosts that aren't listed.
    pub fn insert_listed<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        let (_, missing) = self.list(self.cell_of(claim.query), claim, &listing.into())?;
        if missing > 0 {
            return Err(InsertError::Mismatch);
        }
        self.insert(claim.query)
    }

    /// Inserts many members, or none if there is no room for all of them.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert). No member is inserted in that case.
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        if !self.has_room_for(hashes) {
            return Err(InsertError::Full { load: self.load() });
        }
        hashes.iter().try_for_each(|&hash| self.insert(hash))
    }

    /// Returns whether all of these hashes can be inserted, one after the other.
    fn has_room_for(&self, hashes: &[Hash]) -> bool {
        let room = self.first.plan.room.saturating_sub(self.first.written);
        if hashes.len() as u64 <= room {
            return true;
        }
        // A member takes no room if all its cells are set, either in the filter or by hashes before
        // it.
        let mut set = HashSet::new();
        let takes_room = |&&hash: &&Hash| {
            let (probes, before) = (self.first.probes(hash), set.len());
            set.extend(self.first.bits(&probes).filter(|&bit| !self.first.is_set(bit)));
            set.len() > before
        };
        hashes.iter().filter(takes_room).nth(room as usize).is_none()
    }

    /// Removes one copy of a key that is a member.
    ///
    /// Other members may share its bits, so the bits stay set, and the key is still answered
    /// "maybe": it is a ghost, until the filter is [rebuilt](Self::rotated), or until a
    /// [repair](Self::adapt) drops it. This never loses a member, even if the key was not one. If
    /// the members can be listed, [`remove`](Self::remove) leaves fewer ghosts.
    ///
    /// # Errors
    /// Returns [`RemoveError::Absent`] and changes nothing if the key is certainly not a member.
    pub fn remove_trusting(&mut self, hash: Hash) -> Result<(), RemoveError> {
        if self.len == 0 || !self.contains(hash) {
            return Err(RemoveError::Absent);
        }
        self.len -= 1;
        self.ghosts += 1;
        self.vacated += 1;
        self.versions.bump(self.cell_of(hash));
        Ok(())
    }

    /// Removes one copy of the claim's query; see [`Adaptive::remove`](crate::Adaptive::remove).
    ///
    /// **The listing must be complete**, as for [`adapt`](Self::adapt): if the query is the only
    /// listed member, its cell is cleared, and any member of the cell that is missing is lost.
    /// Otherwise the query becomes a ghost, as in [`remove_trusting`](Self::remove_trusting),
    /// unless it is in the last level. The filter checks listed mistakes, but doesn't use them.
    ///
    /// # Errors
    /// Returns a [`RemoveError`] and changes nothing if the claim is stale, if the listed members
    /// can't be those of the cell, if the query is not one of them, or if a listed mistake is a
    /// member that stays.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        let listing = listing.into();
        let cell = self.cell_of(claim.query);
        let (members, missing) = self.list(cell, claim, &listing)?;
        if missing > 0 {
            return Err(RemoveError::Unlisted { members: missing });
        }
        let place = |hash: Hash| members.binary_search_by_key(&hash, |member| member.hash);
        let removed = place(claim.query).map_err(|_| RemoveError::Absent)?;
        let is_last = members[removed].count == 1;
        let stays = |hash: Hash| place(hash).is_ok_and(|at| at != removed || !is_last);
        let mut mistakes = listing.mistakes.iter().flat_map(|mistakes| mistakes.iter().copied());
        if let Some(hash) = mistakes.find(|&hash| stays(hash)) {
            return Err(RemoveError::MistakeIsMember { hash });
        }
        if is_last {
            let is_alone = members.len() == 1;
            let was_in_last_level = self.last.remove(claim.query);
            if is_alone {
                self.clear(cell);
            }
            self.ghosts += u64::from(!is_alone && !was_in_last_level);
            self.vacated += 1;
        }
        self.len = self.len.saturating_sub(1);
        self.versions.bump(cell);
        Ok(())
    }

    /// Clears a cell that has no members.
    pub(super) fn clear(&mut self, cell: u64) {
        self.dead.revive(cell);
        self.first.clear_first(cell);
    }

    /// Returns a filter of the same size, built from all members with new hash functions. It has no
    /// ghosts and no dead cells, so there is room again for members and repairs. Claims of this
    /// filter are stale in the new one.
    ///
    /// The first function of level 0 stays the same, so one of the k cells of
    /// an earlier mistake is certainly set again, and the mistake recurs with probability ε^(1 −
    /// 1/k). If that is too often, or if k is 1, hash the members with a different
    /// [secret](crate::Secret) and build a new filter.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveBloomFilter, Hash};
    /// let mut filter = AdaptiveBloomFilter::builder().capacity(100).build()?;
    /// let [a, b] = [7, 8].map(|key| Hash::from_u128(key << 100));
    /// filter.insert(a)?;
    /// filter.insert(b)?;
    /// filter.remove_trusting(b)?;
    /// let filter = filter.rotated([a])?;
    /// assert!(filter.contains(a) && filter.details().ghosts == 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns a [`BuildError`] if there are more members than the filter is
    /// planned for, if their counts add up to 2^63 or more, or if there is no memory or entropy.
    /// Members up to the capacity always fit. A filter can hold more members than that if their
    /// cells were already set when they were inserted, but then they may not fit again.
    pub fn rotated<L: Into<Member>>(
        &self,
        members: impl IntoIterator<Item = L>,
    ) -> Result<Self, BuildError> {
        let levels = core::iter::once(&self.first).chain(&self.deeper);
        let mut rotated = Self::new(levels.map(|level| level.plan), self.repairs)?;
        for member in members {
            let Member { hash, count } = member.into();
            if count == 0 {
                continue;
            }
            let full = || BuildError::Members { capacity: self.first.plan.room };
            rotated.insert(hash).map_err(|_| full())?;
            let len = rotated.len.checked_add(count - 1).filter(|&len| len < MOST_MEMBERS);
            rotated.len = len.ok_or_else(full)?;
        }
        rotated.adaptations = self.adaptations;
        Ok(rotated)
    }
}
