//! Repairs of mistakes.

use super::QuotientFilter;
use super::entry::Entry;
use crate::claim::Adaptation;
use crate::error::AdaptError;
use crate::{Claim, Listing};

impl QuotientFilter {
    /// Repairs a mistake: a claim whose query is not a member. `listing` must have *all* members in
    /// [`claim.suspects()`](Claim::suspects). Afterwards, the filter answers "absent" to the query.
    ///
    /// Only members that share the query's quotient and remainder matter; others are ignored.
    /// Repairing a mistake again is not an error.
    ///
    /// # Errors
    /// An [`AdaptError`] if the claim is stale, if the listed members are not those of the
    /// fingerprints, if the query is one of them, or if there is no room. The filter is unchanged
    /// then.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let Listing { members, drops_ghosts, .. } = listing.into();
        let full = |load| AdaptError::Full { load };
        let adaptation = self.change_listed(claim, &members, full, |listed, entries| {
            let (digits, mistake) = (listed.digits, listed.query);
            if listed.owners.iter().any(|owner| owner.scaled == mistake) {
                return Err(AdaptError::IsMember);
            }
            let ghosts = listed.count_unlisted(entries)?;
            if ghosts > 0 && !drops_ghosts {
                return Err(AdaptError::Unlisted { members: ghosts });
            }
            // Tombstones stay, because they cover no query.
            let is_tombstone = |entry: &Entry| entry.count == 0;
            let is_wrong =
                |entry: &Entry| !is_tombstone(entry) && entry.fingerprint.covers_scaled(mistake);
            let wrong = entries.iter().copied().find(is_wrong);
            listed.respell(entries, is_tombstone, |entry, member| {
                if !is_wrong(entry) {
                    return Ok(digits.count(&entry.fingerprint));
                }
                digits.to_tell_apart(member, mistake).ok_or(AdaptError::IsMember)
            })?;
            let is_longer = |entry: &&Entry| {
                wrong.is_some_and(|wrong| wrong.fingerprint.covers_all(&entry.fingerprint))
            };
            Ok(Adaptation { lengthened: entries.iter().filter(is_longer).count(), ghosts })
        })?;
        if adaptation != Adaptation::default() {
            self.adaptations = self.adaptations.saturating_add(1);
        }
        Ok(adaptation)
    }
}
