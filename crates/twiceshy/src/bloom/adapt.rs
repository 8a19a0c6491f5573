//! Repairing a mistake with a list of the members near it.

use super::AdaptiveBloomFilter;
use super::level::Probes;
use crate::claim::{Adaptation, Cells, Mismatch};
use crate::error::AdaptError;
use crate::members::merged;
use crate::{Claim, Hash, Listing, Member};

impl AdaptiveBloomFilter {
    /// Checks the listed members of a claim's cell, as far as the filter's bits allow. Returns the
    /// listed members in hash order, each once, and the number of members that are certainly
    /// missing.
    ///
    /// Bits don't tell how many members set them. The filter knows only that a set cell has a
    /// member or a ghost, and which members are in the last level.
    pub(super) fn list(
        &self,
        cell: u64,
        claim: &Claim,
        listing: &Listing<'_>,
    ) -> Result<(Vec<Member>, u64), Mismatch> {
        claim.check(self.versions.at(cell), Cells::one(cell, self.cells()), &listing.members)?;
        let listed = merged(listing.members.clone());
        let absent = listed.iter().filter(|member| !self.contains(member.hash));
        let members = absent.fold(0, |sum: u64, member| sum.saturating_add(member.count));
        if members > 0 {
            return Err(Mismatch::Surplus { members });
        }
        let is_listed = |hash: Hash| listed.binary_search_by_key(&hash, |m| m.hash).is_ok();
        let stored = self.last.range(claim.suspects());
        let missing = stored.filter(|&hash| !is_listed(hash)).count() as u64;
        let is_one_missing = listed.is_empty() && self.first.is_set(cell);
        Ok((listed, missing.max(is_one_missing.into())))
    }

    /// Repairs a mistake; see [`Adaptive::adapt`](crate::Adaptive::adapt).
    ///
    /// If the cell of the claim's interval was alive, it dies. A lower level then answers for it: the
    /// first that has room for these members and doesn't contain the query after they are
    /// inserted, or else the last level. Repairing a mistake again is not an error.
    ///
    /// **The listing must be complete.** The filter notices only an empty list for a cell that is
    /// set, and missing members of the last level. Any other missing member is lost: it may be
    /// answered "absent" afterwards.
    ///
    /// If the listing [drops ghosts](Listing::dropping_ghosts), a cell without members is cleared,
    /// and the last level keeps only the listed members. In other cells the bits of ghosts stay. A
    /// cleared cell counts as one [ghost](Adaptation::ghosts). Ghosts that were never removed stay
    /// counted in [`len`](Self::len) until the filter is [rebuilt](Self::rotated).
    ///
    /// # Errors
    /// Returns an [`AdaptError`] and changes nothing if the claim is stale, if the listed members
    /// can't be those of the cell, if the query is one of them, or if there is no room for one more
    /// dead cell.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let listing = listing.into();
        let cell = self.cell_of(claim.query);
        let (members, ghosts) = self.list(cell, claim, &listing)?;
        let members: Vec<Hash> = members.iter().map(|member| member.hash).collect();
        if members.contains(&claim.query) {
            return Err(AdaptError::IsMember);
        }
        if ghosts == 0 {
            return self.repair(claim.query, cell, &members);
        }
        if !listing.drops_ghosts {
            return Err(AdaptError::Unlisted { members: ghosts });
        }
        // Only the last level stores whole hashes, so only there can the members be removed that the
        // listing lacks.
        let mut stored: Vec<Hash> = self.last.range(claim.suspects()).collect();
        stored.retain(|hash| members.binary_search(hash).is_err());
        for ghost in stored {
            self.last.remove(ghost);
        }
        if members.is_empty() {
            self.clear(cell);
        }
        self.vacated += ghosts;
        self.versions.bump(cell);
        self.adaptations += 1;
        Ok(Adaptation { lengthened: 0, ghosts })
    }

    /// Makes a lower level answer for the cell of a mistake, unless the filter already answers
    /// "absent" to the query. `members` are the members of the cell.
    ///
    /// This is the first level below the current one that has room for the members and doesn't
    /// confuse the query with them or with its other members. If there is no such level, the last
    /// level answers.
    fn repair(
        &mut self,
        query: Hash,
        cell: u64,
        members: &[Hash],
    ) -> Result<Adaptation, AdaptError> {
        if !self.contains(query) {
            return Ok(Adaptation::default());
        }
        let below = self.deeper.iter().skip(self.dead.depth(cell) as usize).find(|level| {
            let probes: Vec<Probes> = members.iter().map(|&hash| level.probes(hash)).collect();
            level.written + probes.len() as u64 <= level.plan.room
                && !level.would_contain(&level.probes(query), &probes)
        });
        let depth = below.map_or_else(|| self.last_depth(), |level| level.number);
        if !self.dead.set(cell, depth) {
            return Err(AdaptError::Full { load: self.wear() });
        }
        for &hash in members {
            self.insert_below(depth, hash);
        }
        self.adaptations += 1;
        Ok(Adaptation { lengthened: members.len(), ghosts: 0 })
    }
}
