//! Repairing a mistake.

use super::AdaptiveBloomFilter;
use super::cells::Probes;
use super::dead::DeadFull;
use super::listing::Listed;
use crate::error::AdaptError;
use crate::{Adaptation, Claim, Hash, Member};

impl AdaptiveBloomFilter {
    /// Repairs a mistake: the claim's query is no member, and `members` are *all* members
    /// in [`claim.suspects()`](Claim::suspects), in any order: hashes, each as often as it
    /// was inserted, or [`Member`]s with their counts. Afterwards the filter answers
    /// "absent" to the query.
    ///
    /// The cell of that interval dies, or another level answers for it from now on: the first
    /// below that has room for these members and, holding them, doesn't hold the query; in the end
    /// the last one.
    ///
    /// A mistake that was repaired already is no error.
    ///
    /// **The list must be complete.** Bits don't tell how many members have set them, so what the
    /// filter can notice is little: that nobody is listed for a cell that is set, and who is
    /// missing of those in the last level. A member that is missing otherwise is lost.
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if `members` can't be
    /// those of the cell, if the query is one of them, or if there is no room for one more dead
    /// cell.
    pub fn adapt<L>(&mut self, claim: &Claim, members: &[L]) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        let listed = self.list(claim, members)?;
        check(claim, &listed)?;
        if listed.unlisted > 0 {
            return Err(AdaptError::Unlisted { members: listed.unlisted });
        }
        self.repair(claim, &listed)
    }

    /// As [`adapt`](Self::adapt), but what no listed member explains is dropped, as far as that
    /// can be done: a cell without members is emptied, so that all of its interval is absent;
    /// of one for which the last level answers, only the listed members stay. In other cells the
    /// bits of ghosts stay, and the query, ghost or not, is told apart from the listed members as
    /// by [`adapt`](Self::adapt).
    ///
    /// By calling this you say that `members` is **complete and current**. If it is
    /// not, a member is taken for a ghost, and lost.
    ///
    /// [`Adaptation::ghosts`] are those that were seen to go; an emptied cell counts as one, however
    /// many had set it. What was inserted and never removed stays counted in
    /// [`len`](Self::len), as nobody knows how many of these they were, until the filter is
    /// [rebuilt](Self::rebuild).
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt), but for [`AdaptError::Unlisted`].
    pub fn adapt_dropping_ghosts<L>(
        &mut self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        let listed = self.list(claim, members)?;
        check(claim, &listed)?;
        let Listed { cell, unlisted: ghosts, .. } = listed;
        if ghosts == 0 {
            return self.repair(claim, &listed);
        }
        if listed.members.is_empty() {
            self.clear(cell, claim);
        } else {
            // Only the last level knows whom it misses on a list.
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

/// What speaks against any repair.
fn check(claim: &Claim, listed: &Listed) -> Result<(), AdaptError> {
    if listed.hashes().any(|hash| hash == claim.query) {
        return Err(AdaptError::IsMember);
    }
    if listed.surplus > 0 {
        return Err(AdaptError::Surplus { members: listed.surplus });
    }
    Ok(())
}
