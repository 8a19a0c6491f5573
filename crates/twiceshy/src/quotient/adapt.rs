//! Repairing a mistake.

use super::AdaptiveQuotientFilter;
use super::entry::Entry;
use super::listing::{Owned, append};
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::table::TableFull;
use crate::{Adaptation, Claim, Member};

impl AdaptiveQuotientFilter {
    /// Repairs a mistake: the claim's query is no member, and `members` are *all* members
    /// in [`claim.suspects()`](Claim::suspects), in any order: hashes, each as often as it
    /// was inserted, or [`Member`]s with their counts. Afterwards the filter answers
    /// "absent" to the query.
    ///
    /// Repairing a mistake again is not an error.
    ///
    /// The listed hashes must be the members' true ones: numbers and prefixes are
    /// checked, but a fingerprint can't tell its member from another hash that it
    /// covers, and would be lengthened after the wrong one.
    ///
    /// # Errors
    /// An [`AdaptError`], and no answer has changed, if the claim is stale, if `members`
    /// are not those of the fingerprints, if the query is one of them, or if there is no
    /// room. A filter that [grows by itself](super::Builder::grow_at) and has no room has
    /// doubled, and returns [`AdaptError::Stale`]: check the query again.
    pub fn adapt<L>(&mut self, claim: &Claim, members: &[L]) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        self.adapt_with(claim, members, Ghosts::Refuse)
    }

    /// As [`adapt`](Self::adapt), but what no listed member explains is dropped: ghosts,
    /// left for example by a write that failed after the filter's insert.
    ///
    /// By calling this you say that `members` is **complete and current**. If it is
    /// not, a member's fingerprint is taken for a ghost, and the member is lost.
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
        self.adapt_with(claim, members, Ghosts::Drop)
    }

    fn adapt_with<L>(
        &mut self,
        claim: &Claim,
        members: &[L],
        ghosts: Ghosts,
    ) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let (minirun, matched) = self.match_members(claim, &members)?;
        if members.iter().any(|member| member.hash == claim.query && member.count > 0) {
            return Err(AdaptError::IsMember);
        }
        if matched.surplus > 0 {
            return Err(AdaptError::Surplus { members: matched.surplus });
        }
        if matched.unlisted > 0 && ghosts == Ghosts::Refuse {
            return Err(AdaptError::Unlisted { members: matched.unlisted });
        }
        let mistake = self.digits.scale(claim.query);
        let (repaired, lengthened) = self.repair(&matched.entries, mistake);
        let adaptation = Adaptation { lengthened, ghosts: matched.unlisted };
        if adaptation == (Adaptation { lengthened: 0, ghosts: 0 }) {
            return Ok(adaptation);
        }
        if let Err(TableFull) = self.rewrite(&minirun, &repaired) {
            // If it has doubled, the claim is stale.
            if self.grow() {
                return self.adapt_with(claim, &members, ghosts);
            }
            return Err(AdaptError::Full { load: self.load() });
        }
        if adaptation.ghosts > 0 {
            self.len -= adaptation.ghosts;
            self.versions.bump(mistake.quotient);
        }
        self.adaptations = self.adaptations.saturating_add(1);
        Ok(adaptation)
    }

    /// The entries of the listed members, with one that covers the mistake lengthened, and
    /// into how many. Tombstones stay: they cover no query.
    fn repair(&self, entries: &[Owned], mistake: Scaled) -> (Vec<Entry>, usize) {
        let (mut repaired, mut lengthened) = (Vec::new(), 0);
        for owned in entries {
            let Owned { entry, owners } = owned;
            if entry.count == 0 || !entry.fingerprint.covers_scaled(mistake) {
                if entry.count == 0 || owned.listed() > 0 {
                    repaired.push(entry.of(owned.listed()));
                }
                continue;
            }
            let before = repaired.len();
            for owner in owners {
                let count = self.digits.to_tell_apart(owner.scaled, mistake);
                let count = count.expect("the mistake is no member");
                let fingerprint = self.digits.fingerprint(owner.scaled, count);
                append(&mut repaired, Entry { fingerprint, count: owner.count, ..*entry });
            }
            lengthened += repaired.len() - before;
        }
        (repaired, lengthened)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ghosts {
    Refuse,
    Drop,
}
