//! Repairs of mistakes.

use super::QuotientFilter;
use super::entry::Entry;
use super::listing::{NoRoom, Owned, append};
use crate::claim::Adaptation;
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::{Claim, Listing};

impl QuotientFilter {
    /// Repairs a mistake: a claim whose query is not a member. `listing` must have *all* members in
    /// [`claim.suspects()`](Claim::suspects). Afterwards, the filter answers "absent" to the query.
    ///
    /// Only members that share the query's quotient and remainder matter. The filter ignores other
    /// listed members of the interval.
    ///
    /// Repairing a mistake again is not an error.
    ///
    /// # Errors
    /// An [`AdaptError`] if the claim is stale, if the listed members are not those of the
    /// fingerprints, if the query is one of them, or if there is no room. No answer has changed
    /// then. Without room, a filter that [grows automatically](crate::builder::Builder::grow_at)
    /// doubles and returns [`AdaptError::Stale`]: check the query again.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let Listing { members, drops_ghosts, .. } = listing.into();
        let (minirun, matched) = self.match_members(claim, &members)?;
        if members.iter().any(|member| member.hash == claim.query && member.count > 0) {
            return Err(AdaptError::IsMember);
        }
        if matched.surplus > 0 {
            return Err(AdaptError::Surplus { members: matched.surplus });
        }
        if matched.unlisted > 0 && !drops_ghosts {
            return Err(AdaptError::Unlisted { members: matched.unlisted });
        }
        let mistake = self.digits.scale(claim.query);
        let (repaired, lengthened) = self.repair(&matched.entries, mistake);
        let adaptation = Adaptation { lengthened, ghosts: matched.unlisted };
        if adaptation == Adaptation::default() {
            return Ok(adaptation);
        }
        self.rewrite_growing(&minirun, &repaired).map_err(|no_room| match no_room {
            NoRoom::Full { load } => AdaptError::Full { load },
            NoRoom::Doubled => AdaptError::Stale,
        })?;
        if adaptation.ghosts > 0 {
            self.len -= adaptation.ghosts;
            self.versions.bump(mistake.quotient);
        }
        self.adaptations = self.adaptations.saturating_add(1);
        Ok(adaptation)
    }

    /// Returns the entries of the listed members after the repair: the entry that covers the
    /// mistake is replaced by longer ones. Also returns the number of these longer entries.
    /// Tombstones stay, because they cover no query.
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
