//! What can be told of a list of members.

use super::AdaptiveBloomFilter;
use crate::claim::{Cells, Mismatch};
use crate::members::merged;
use crate::{Claim, Hash, Listing, Member};

/// A list of the members of a cell.
pub(super) struct Listed {
    pub(super) cell: u64,
    /// In hash order, each once.
    pub(super) members: Vec<Member>,
    /// How many are known to be missing: few can be.
    pub(super) unlisted: u64,
    /// How many are not in the filter.
    pub(super) surplus: u64,
}

impl Listed {
    pub(super) fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.members.iter().map(|member| member.hash)
    }
}

impl AdaptiveBloomFilter {
    /// Looks at the list that comes with a claim.
    ///
    /// Bits don't tell how many members set them. What is known is that a cell that is set has a
    /// member or a ghost, and who is in the last level.
    pub(super) fn list(&self, claim: &Claim, listing: &Listing<'_>) -> Result<Listed, Mismatch> {
        let cell = self.cell_of(claim.query);
        let needed = Cells::one(cell, self.cells());
        claim.check(self.versions.at(cell), needed, &listing.members)?;
        let members = merged(listing.members.clone());
        let absent = members.iter().filter(|member| !self.contains(member.hash));
        let surplus = absent.fold(0, |sum: u64, member| sum.saturating_add(member.count));
        let unlisted = if self.dead.depth(cell) == self.last_depth() {
            let is_listed = |hash: Hash| members.binary_search_by_key(&hash, |m| m.hash).is_ok();
            let stored = self.last.range(claim.suspects());
            let unlisted = stored.filter(|&hash| !is_listed(hash)).count();
            unlisted.max(usize::from(members.is_empty())) as u64
        } else {
            u64::from(members.is_empty() && self.first.cells.is_first_set(cell))
        };
        Ok(Listed { cell, members, unlisted, surplus })
    }
}
