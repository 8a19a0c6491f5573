//! Inserts, removals and rebuilds.

use super::AdaptiveBloomFilter;
use super::adapt::Listed;
use crate::error::{BuildError, InsertError, RemoveError};
use crate::{Claim, Hash, Listing, Member};
use std::collections::HashSet;

/// Maximum number of members; single inserts can't overflow the counter from there.
const MOST_MEMBERS: u64 = u64::MAX / 2;

impl AdaptiveBloomFilter {
    /// Inserts a member. A member whose cells are all set takes no room.
    ///
    /// # Errors
    /// [`InsertError::Full`], and nothing has changed, if the members, and the bits of removed
    /// members, take all the room that was planned. With more members, the false-positive rate
    /// would be higher than requested.
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let probes = self.first.probes(hash);
        let cell = probes.first;
        if !self.first.contains(&probes) {
            if self.first.written >= self.first.plan.room {
                return Err(InsertError::Full { load: self.load() });
            }
            self.first.write(&probes);
        }
        // A dead cell is always set, so a cell that was not set is alive.
        match self.dead.depth(cell) {
            0 => {}
            depth => self.insert_below(depth, hash),
        }
        self.len += 1;
        self.versions.bump(cell);
        Ok(())
    }

    /// Inserts a member into the level that answers for its cell.
    pub(super) fn insert_below(&mut self, depth: u32, hash: Hash) {
        match self.deeper.get_mut(depth as usize - 1) {
            Some(level) => {
                let probes = level.probes(hash);
                if !level.contains(&probes) {
                    level.write(&probes);
                }
            }
            None => {
                self.last.insert(hash);
            }
        }
    }

    /// Inserts the claim's query like [`insert`](Self::insert), for code that works with any filter.
    /// A Bloom filter never [needs members](InsertError::NeedsMembers) to insert one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_listed<'l>(
        &mut self,
        claim: &Claim,
        _listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        self.insert(claim.query)
    }

    /// Inserts many members, all or none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). No member was inserted then.
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        if !self.has_room_for(hashes) {
            return Err(InsertError::Full { load: self.load() });
        }
        hashes.iter().try_for_each(|&hash| self.insert(hash))
    }

    /// Returns whether all of these can be inserted, one after the other.
    fn has_room_for(&self, hashes: &[Hash]) -> bool {
        let mut room = self.first.plan.room.saturating_sub(self.first.written);
        if hashes.len() as u64 <= room {
            return true;
        }
        // A member whose cells are all set, by others or by those before it, takes no room.
        let mut set = HashSet::new();
        for &hash in hashes {
            let unset: Vec<u64> = self.first.unset(&self.first.probes(hash)).collect();
            if unset.iter().any(|bit| !set.contains(bit)) {
                if room == 0 {
                    return false;
                }
                room -= 1;
                set.extend(unset);
            }
        }
        true
    }

    /// Removes a key that is a member: once, if it was inserted more than once.
    ///
    /// Other members may share its bits, so the bits stay set, and the key is still answered
    /// "maybe": it is a ghost, until the filter is [rebuilt](Self::rebuild), or until a
    /// [repair](Self::adapt) drops it. This never loses a member, even if the key was not one. If
    /// the members can be listed, [`remove`](Self::remove) leaves fewer ghosts.
    ///
    /// # Errors
    /// [`RemoveError::Absent`], and nothing has changed, if the key is certainly not a member.
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

    /// Removes the claim's query from the members, once. `listing` has *all* members in
    /// [`claim.suspects()`](Claim::suspects), including the one to remove. If the query is not
    /// listed, it is not a member, and the call is refused.
    ///
    /// **The listing must be complete**, as for [`adapt`](Self::adapt): if the query is the only
    /// listed member, its cell is cleared, and any member of the cell that is missing is lost.
    ///
    /// The last member of a cell takes it along, so that its whole interval is absent. A member
    /// that the last level holds leaves nothing, either. Any other leaves a ghost, as
    /// [`remove_trusting`](Self::remove_trusting) does. Listed mistakes are only checked.
    ///
    /// # Errors
    /// A [`RemoveError`], and nothing has changed, if the claim is stale, if the listed members
    /// can't be those of the cell, if the query is not one of them, or if a mistake is one that
    /// stays.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        let listing = listing.into();
        let Listed { cell, members, unlisted, surplus } = self.list(claim, &listing)?;
        if surplus > 0 {
            return Err(RemoveError::Surplus { members: surplus });
        }
        if unlisted > 0 {
            return Err(RemoveError::Unlisted { members: unlisted });
        }
        let place = |hash: Hash| members.binary_search_by_key(&hash, |member| member.hash);
        let removed = place(claim.query).map_err(|_| RemoveError::Absent)?;
        let is_last = members[removed].count == 1;
        let stays = |hash: Hash| place(hash).is_ok_and(|at| at != removed || !is_last);
        let mut mistakes = listing.mistakes.iter().flat_map(|mistakes| mistakes.iter());
        if let Some(&hash) = mistakes.find(|&&hash| stays(hash)) {
            return Err(RemoveError::MistakeIsMember { hash });
        }
        if is_last && members.len() == 1 {
            self.clear(cell, claim);
        } else if is_last && self.dead.depth(cell) == self.last_depth() {
            self.last.remove(claim.query);
        } else {
            self.ghosts += u64::from(is_last);
        }
        self.vacated += u64::from(is_last);
        self.len = self.len.saturating_sub(1);
        self.versions.bump(cell);
        Ok(())
    }

    /// Clears the cell of a claim, which has no members.
    pub(super) fn clear(&mut self, cell: u64, claim: &Claim) {
        if self.dead.depth(cell) == self.last_depth() {
            self.last.replace(claim.suspects(), core::iter::empty());
        }
        self.dead.revive(cell);
        self.first.clear_first(cell);
    }

    /// Rebuilds the filter from all its members, without ghosts and dead cells, so that there is
    /// room again for members and repairs. All claims become stale.
    ///
    /// The hash functions are new, except the first function of level 0. So a mistake from before
    /// has one of its k cells set for certain, and occurs again with probability ε^(1 − 1/k). If
    /// that is too often, or if k is 1, hash the members with another [secret](crate::Secret) and
    /// build a new filter.
    ///
    /// The paper rebuilds after as many queries as there are members;
    /// [`rebuild_due`](super::Details::rebuild_due) says when the planned repairs are used up.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveBloomFilter, Hash};
    /// let mut filter = AdaptiveBloomFilter::builder().capacity(100).build()?;
    /// let [a, b] = [7, 8].map(|key| Hash::from_u128(key << 100));
    /// filter.insert(a)?;
    /// filter.insert(b)?;
    /// filter.remove_trusting(b)?;
    /// filter.rebuild([a])?;
    /// assert!(filter.contains(a) && filter.details().ghosts == 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`BuildError`], and nothing has changed, if there are more members than the filter is
    /// planned for, if their counts add up to 2^63 or more, or if there is no memory or entropy.
    /// As many members as the capacity always fit. A filter can hold more than that, if their cells
    /// happened to be set when they were inserted, and those may not fit again.
    pub fn rebuild<L: Into<Member>>(
        &mut self,
        members: impl IntoIterator<Item = L>,
    ) -> Result<(), BuildError> {
        let levels = core::iter::once(&self.first).chain(&self.deeper);
        let mut rebuilt = Self::new(levels.map(|level| level.plan), self.repairs)?;
        for member in members {
            let Member { hash, count } = member.into();
            if count == 0 {
                continue;
            }
            let full = || BuildError::Members { capacity: self.first.plan.room };
            rebuilt.insert(hash).map_err(|_| full())?;
            let len = rebuilt.len.checked_add(count - 1).filter(|&len| len <= MOST_MEMBERS);
            rebuilt.len = len.ok_or_else(full)?;
        }
        *self = rebuilt;
        Ok(())
    }
}
