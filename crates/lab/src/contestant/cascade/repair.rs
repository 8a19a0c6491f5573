//! Repairs and removals with a list of members.

use super::{QuotientCascade, rehash};
use twiceshy::{
    Answer, Claim, Hash, Member,
    error::{AdaptError, RemoveError},
};

/// Why a list of members is refused.
enum Mismatch {
    Stale,
    Outside { member: Hash },
}

impl From<Mismatch> for AdaptError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Stale => Self::Stale,
            Mismatch::Outside { member } => Self::Outside { member },
        }
    }
}

impl From<Mismatch> for RemoveError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Stale => Self::Stale,
            Mismatch::Outside { member } => Self::Outside { member },
        }
    }
}

/// A checked list of the members of a cell.
struct Listed {
    /// The members, in hash order and without duplicates.
    members: Vec<Member>,
    unlisted: u64,
    surplus: u64,
}

impl QuotientCascade {
    /// Checks a list of members against a claim.
    fn list<L>(&self, claim: &Claim, members: &[L]) -> Result<Listed, Mismatch>
    where
        L: Copy + Into<Member>,
    {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        // A claim is valid as long as the first level would make the same claim.
        match self.first.check(claim.query()) {
            Answer::Maybe(current) if current == *claim => {}
            _ => return Err(Mismatch::Stale),
        }
        let suspects = claim.suspects();
        if let Some(outside) = members.iter().find(|member| !suspects.contains(&member.hash)) {
            return Err(Mismatch::Outside { member: outside.hash });
        }
        let mut members = merged(members);
        members.retain(|member| self.first.may_confuse(member.hash, claim.query()));
        let listed = sum(members.iter().map(|member| member.count));
        let stored = self.first.count(claim.query());
        let unlisted = stored.saturating_sub(listed);
        let surplus = listed.saturating_sub(stored).max(self.surplus_below(claim, &members));
        Ok(Listed { members, unlisted, surplus })
    }

    /// Returns how many of the listed members can't be in the level that answers for the claim's
    /// cell.
    fn surplus_below(&self, claim: &Claim, members: &[Member]) -> u64 {
        let depth = self.depth(claim.query());
        if depth == 0 {
            return 0;
        }
        let Some(level) = self.deeper.get(depth as usize - 1) else {
            return self.surplus_in_last(claim, members);
        };
        // Members that share a fingerprint in that level have one common count.
        let below = members.iter().map(|member| {
            let hash = rehash(member.hash, depth);
            (hash, member.count)
        });
        let mut below: Vec<(Hash, u64)> = below.collect();
        below.sort_unstable();
        let cells = below.chunk_by(|one, other| level.may_confuse(one.0, other.0));
        sum(cells.map(|cell| {
            let listed = sum(cell.iter().map(|&(_, count)| count));
            listed.saturating_sub(level.count(cell[0].0))
        }))
    }

    /// Like [`surplus_below`](Self::surplus_below), but for the last level. That level holds each
    /// hash once. An unlisted hash in it is a member of the cell, so at most the remaining members
    /// can be listed.
    fn surplus_in_last(&self, claim: &Claim, members: &[Member]) -> u64 {
        let absent = members.iter().filter(|member| !self.last.contains(member.hash));
        let absent = sum(absent.map(|member| member.count));
        let is_listed = |hash: &Hash| members.binary_search_by_key(hash, |m| m.hash).is_ok();
        let stored = self.last.range(claim.suspects());
        let stored = stored.filter(|&hash| self.first.may_confuse(hash, claim.query()));
        let unlisted = stored.filter(|hash| !is_listed(hash)).count() as u64;
        let listed = sum(members.iter().map(|member| member.count));
        let all = listed.saturating_add(unlisted);
        absent.max(all.saturating_sub(self.first.count(claim.query())))
    }

    /// Repairs a mistake. The claim's query must not be a member, and `members` must be *all*
    /// members in [`claim.suspects()`](Claim::suspects), in any order, with their counts. From then
    /// on, a deeper level answers for their cell. It is the first level that distinguishes them
    /// from the query, so the filter now answers "absent" for the query.
    ///
    /// # Errors
    /// An [`AdaptError`] if the claim is stale, if `members` are not those of the cell, if the
    /// query is one of them, or if there is no room. The filter is unchanged then.
    pub(super) fn adapt<L>(&mut self, claim: &Claim, members: &[L]) -> Result<(), AdaptError>
    where
        L: Copy + Into<Member>,
    {
        let listed = self.list(claim, members)?;
        check(claim, &listed)?;
        if listed.unlisted > 0 {
            return Err(AdaptError::Unlisted { members: listed.unlisted });
        }
        self.move_down(claim, &listed.members)
    }

    /// Makes a deeper level answer for the cell of a claim, unless the query is already absent.
    fn move_down(&mut self, claim: &Claim, members: &[Member]) -> Result<(), AdaptError> {
        let query = claim.query();
        if !self.contains(query) {
            return Ok(());
        }
        let above = self.depth(query);
        let is_apart = |depth: &u32| {
            let (level, query) = (&self.deeper[*depth as usize - 1], rehash(query, *depth));
            let mut hashes = members.iter().map(|member| rehash(member.hash, *depth));
            !level.contains(query) && !hashes.any(|hash| level.may_confuse(hash, query))
        };
        let below = (above + 1..self.last_depth()).find(is_apart);
        let mut depth = below.unwrap_or(self.last_depth());
        if let Err(inserted) = self.insert_all(depth, members) {
            self.remove_all(depth, &members[..inserted]);
            depth = self.last_depth();
            let inserted = self.insert_all(depth, members);
            inserted.expect("the last level is never full");
        }
        if self.first.set_value(query, depth.into()).is_err() {
            self.remove_all(depth, members);
            return Err(AdaptError::Full { load: self.first.stats().load });
        }
        self.remove_all(above, members);
        Ok(())
    }

    /// Inserts members into a level. If the level is full, returns how many members it took.
    fn insert_all(&mut self, depth: u32, members: &[Member]) -> Result<(), usize> {
        for (index, &member) in members.iter().enumerate() {
            self.insert_below(depth, member).map_err(|_| index)?;
        }
        Ok(())
    }

    /// Removes members from the level of this depth. Does nothing for the first level.
    fn remove_all(&mut self, depth: u32, members: &[Member]) {
        for member in members.iter().filter(|_| depth > 0) {
            self.remove_below(depth, member.hash, member.count, true);
        }
    }

    /// Removes `times` copies of a member from the level of this depth. `is_last` says whether
    /// these are the last copies.
    fn remove_below(&mut self, depth: u32, hash: Hash, times: u64, is_last: bool) {
        match self.deeper.get_mut(depth as usize - 1) {
            Some(level) => {
                for _ in 0..times {
                    level.remove_trusting(rehash(hash, depth)).expect("a member of that level");
                }
            }
            None if is_last => {
                self.last.remove(hash);
            }
            None => {}
        }
    }

    /// Removes one copy of the member that was queried. `members` must be *all* members in
    /// [`claim.suspects()`](Claim::suspects), including the one to remove.
    ///
    /// # Errors
    /// A [`RemoveError`] if the claim is stale, if the members are not those of the cell, or if the
    /// query is not one of them. The filter is unchanged then.
    pub(super) fn remove_listed<L>(
        &mut self,
        claim: &Claim,
        members: &[L],
    ) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        let Listed { members, unlisted, surplus } = self.list(claim, members)?;
        if surplus > 0 {
            return Err(RemoveError::Surplus { members: surplus });
        }
        if unlisted > 0 {
            return Err(RemoveError::Unlisted { members: unlisted });
        }
        let removed = members.iter().find(|member| member.hash == claim.query());
        let removed = removed.ok_or(RemoveError::Absent)?;
        let depth = self.depth(removed.hash);
        if depth > 0 {
            self.remove_below(depth, removed.hash, 1, removed.count == 1);
        }
        self.first.remove_trusting(removed.hash)
    }
}

/// Sorts members by hash, and adds up the counts of duplicates.
fn merged(mut members: Vec<Member>) -> Vec<Member> {
    members.retain(|member| member.count > 0);
    members.sort_unstable_by_key(|member| member.hash);
    members.dedup_by(|same, member| {
        let is_same = same.hash == member.hash;
        if is_same {
            member.count = member.count.saturating_add(same.count);
        }
        is_same
    });
    members
}

/// Returns the sum of counts, or the maximum if it overflows.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Checks the conditions that every repair requires.
fn check(claim: &Claim, listed: &Listed) -> Result<(), AdaptError> {
    if listed.members.iter().any(|member| member.hash == claim.query()) {
        return Err(AdaptError::IsMember);
    }
    if listed.surplus > 0 {
        return Err(AdaptError::Surplus { members: listed.surplus });
    }
    Ok(())
}
