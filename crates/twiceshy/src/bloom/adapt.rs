//! Repairing a mistake with a list of the members near it.

use super::AdaptiveBloomFilter;
use super::level::Probes;
use crate::claim::{Adaptation, Cells, Mismatch};
use crate::error::AdaptError;
use crate::members::merged;
use crate::{Claim, Hash, Listing, Member};

/// A list of the members of a cell.
pub(super) struct Listed {
    pub(super) cell: u64,
    /// The members in hash order, each once.
    pub(super) members: Vec<Member>,
    /// Number of members that are known to be missing.
    pub(super) unlisted: u64,
    /// Number of members that are not in the filter.
    pub(super) surplus: u64,
}

impl Listed {
    fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.members.iter().map(|member| member.hash)
    }
}

impl AdaptiveBloomFilter {
    /// Checks the list that comes with a claim as far as the filter can.
    ///
    /// Bits don't tell how many members set them. The filter knows only that a cell that is set has
    /// a member or a ghost, and which members are in the last level.
    pub(super) fn list(&self, claim: &Claim, listing: &Listing<'_>) -> Result<Listed, Mismatch> {
        let cell = self.cell_of(claim.query);
        let needed = Cells::one(cell, self.cells());
        claim.check(self.versions.at(cell), needed, &listing.members)?;
        let members = merged(listing.members.to_vec());
        let absent = members.iter().filter(|member| !self.contains(member.hash));
        let surplus = absent.fold(0, |sum: u64, member| sum.saturating_add(member.count));
        let unlisted = if self.dead.depth(cell) == self.last_depth() {
            let is_listed = |hash: Hash| members.binary_search_by_key(&hash, |m| m.hash).is_ok();
            let stored = self.last.range(claim.suspects());
            let unlisted = stored.filter(|&hash| !is_listed(hash)).count();
            unlisted.max(usize::from(members.is_empty())) as u64
        } else {
            u64::from(members.is_empty() && self.first.is_set(cell))
        };
        Ok(Listed { cell, members, unlisted, surplus })
    }

    /// Repairs a mistake: the claim's query is not a member, and `listing` has *all* members in
    /// [`claim.suspects()`](Claim::suspects). Afterwards the filter answers "absent" to the query.
    ///
    /// The cell of that interval dies, or a different level answers for it from now on: the first
    /// lower level that has room for these members and, holding them, doesn't contain the query, or
    /// else the last level. Repairing a mistake again is not an error.
    ///
    /// **The listing must be complete.** Bits don't tell how many members have set them, so the
    /// filter notices only an empty list for a cell that is set, and missing members of the last
    /// level. Any other member that is missing is lost.
    ///
    /// If the listing [drops ghosts](Listing::dropping_ghosts), a cell without members is emptied,
    /// so that its whole interval is absent, and the last level keeps only the listed members. In
    /// other cells the bits of ghosts stay. An emptied cell counts as one
    /// [ghost](Adaptation::ghosts), however many had set it. Ghosts that were never removed stay
    /// counted in [`len`](Self::len) until the filter is [rebuilt](Self::rebuild).
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if the listed members
    /// can't be those of the cell, if the query is one of them, or if there is no room for one more
    /// dead cell.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let listing = listing.into();
        let listed = self.list(claim, &listing)?;
        if listed.hashes().any(|hash| hash == claim.query) {
            return Err(AdaptError::IsMember);
        }
        if listed.surplus > 0 {
            return Err(AdaptError::Surplus { members: listed.surplus });
        }
        let Listed { cell, unlisted: ghosts, .. } = listed;
        if ghosts == 0 {
            return self.repair(claim.query, &listed);
        }
        if !listing.drops_ghosts {
            return Err(AdaptError::Unlisted { members: ghosts });
        }
        if listed.members.is_empty() {
            self.clear(cell, claim);
        } else {
            // Only the last level knows which of its members a list lacks.
            self.last.replace(claim.suspects(), listed.hashes());
        }
        self.vacated += ghosts;
        self.versions.bump(cell);
        self.adaptations += 1;
        Ok(Adaptation { lengthened: 0, ghosts })
    }

    /// Lets another level answer for a cell, unless the query is absent already.
    fn repair(&mut self, query: Hash, listed: &Listed) -> Result<Adaptation, AdaptError> {
        if !self.contains(query) {
            return Ok(Adaptation { lengthened: 0, ghosts: 0 });
        }
        let depth = self.next_depth(query, listed);
        if !self.dead.set(listed.cell, depth) {
            return Err(AdaptError::Full { load: self.wear() });
        }
        listed.hashes().for_each(|hash| self.insert_below(depth, hash));
        self.adaptations += 1;
        Ok(Adaptation { lengthened: listed.members.len(), ghosts: 0 })
    }

    /// Returns the first level below the one that answers now that has room for the listed members,
    /// and that doesn't confuse the query with them or with its other members.
    fn next_depth(&self, query: Hash, listed: &Listed) -> u32 {
        let above = self.dead.depth(listed.cell) as usize;
        let below = self.deeper.iter().skip(above).find(|level| {
            let probes: Vec<Probes> = listed.hashes().map(|hash| level.probes(hash)).collect();
            level.written + probes.len() as u64 <= level.plan.room
                && !level.would_contain(&level.probes(query), &probes)
        });
        below.map_or_else(|| self.last_depth(), |level| level.number)
    }
}
