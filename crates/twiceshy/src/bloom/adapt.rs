//! Repairing a mistake.

use super::AdaptiveBloomFilter;
use super::cells::Probes;
use super::dead::DeadFull;
use super::listing::Listed;
use crate::claim::Adaptation;
use crate::error::AdaptError;
use crate::{Claim, Hash, Listing};

impl AdaptiveBloomFilter {
    /// Repairs a mistake: the claim's query is not a member, and `listing` has *all* members in
    /// [`claim.suspects()`](Claim::suspects). Afterwards the filter answers "absent" to the query.
    ///
    /// The cell of that interval dies, or a different level answers for it from now on: the first
    /// level below that has room for these members and, holding them, doesn't hold the query; in the
    /// end the last one. Repairing a mistake again is not an error.
    ///
    /// **The listing must be complete.** Bits don't tell how many members have set them, so the
    /// filter notices little: that nobody is listed for a cell that is set, and which members of the
    /// last level are missing. Any other member that is missing is lost.
    ///
    /// If the listing [drops ghosts](Listing::dropping_ghosts), a cell without members is emptied, so
    /// that all of its interval is absent, and if the last level answers for a cell, only the listed
    /// members stay there. In other cells the bits of ghosts stay. An emptied cell counts as one
    /// [ghost](Adaptation::ghosts), however many had set it. Ghosts that were never removed stay
    /// counted in [`len`](Self::len) until the filter is [rebuilt](Self::rebuild).
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if the listed members can't
    /// be those of the cell, if the query is one of them, or if there is no room for one more dead
    /// cell.
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
            return self.repair(claim, &listed);
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
    fn repair(&mut self, claim: &Claim, listed: &Listed) -> Result<Adaptation, AdaptError> {
        if !self.contains(claim.query) {
            return Ok(Adaptation { lengthened: 0, ghosts: 0 });
        }
        let depth = self.next_depth(claim.query, listed);
        let set = self.dead.set(listed.cell, depth);
        set.map_err(|DeadFull| AdaptError::Full { load: self.wear() })?;
        listed.hashes().for_each(|hash| self.insert_below(depth, hash));
        self.adaptations += 1;
        Ok(Adaptation { lengthened: listed.members.len(), ghosts: 0 })
    }

    /// The first level below the one that answers now that has room for the listed members, and
    /// doesn't confuse the query with them, or with any that it holds.
    fn next_depth(&self, query: Hash, listed: &Listed) -> u32 {
        let above = self.dead.depth(listed.cell) as usize;
        let plans = self.blueprint.deeper.iter();
        let below = self.deeper.iter().zip(plans).skip(above).find(|(level, plan)| {
            let probes: Vec<Probes> = listed.hashes().map(|hash| level.probes(hash)).collect();
            level.written + probes.len() as u64 <= plan.room
                && !level.cells.would_contain(&level.probes(query), &probes)
        });
        below.map_or_else(|| self.last_depth(), |(level, _)| level.number)
    }
}
