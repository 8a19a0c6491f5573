//! Repairs of mistakes.

use super::QuotientFilter;
use super::entry::Entry;
use crate::claim::Adaptation;
use crate::error::AdaptError;
use crate::{Claim, Listing};

impl QuotientFilter {
    /// Repairs a mistake; see [`Adaptive::adapt`](crate::Adaptive::adapt).
    ///
    /// Only members that share the query's quotient and remainder matter; others are ignored.
    /// Repairing a mistake again is not an error. After a repair without ghosts, or one that
    /// [leaves tombstones](Listing::leaving_tombstones), the filter
    /// [has repairs near](Self::has_repairs_near) the query.
    ///
    /// # Errors
    /// If the claim is stale, if the listed members don't match the fingerprints, if the query is
    /// one of them, or if there is no room. The filter is unchanged in that case.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let Listing { members, drops_ghosts, leaves_tombstones, .. } = listing.into();
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
            let stays = |entry: &Entry| is_tombstone(entry) || leaves_tombstones;
            listed.respell(entries, stays, |entry, member| {
                if !is_wrong(entry) {
                    return Ok(digits.count(&entry.fingerprint));
                }
                digits.to_tell_apart(member, mistake).ok_or(AdaptError::IsMember)
            })?;
            let is_longer = |entry: &&Entry| {
                let is_within = |wrong: Entry| wrong.fingerprint.covers_all(&entry.fingerprint);
                !is_tombstone(entry) && wrong.is_some_and(is_within)
            };
            Ok(Adaptation { lengthened: entries.iter().filter(is_longer).count(), ghosts })
        })?;
        if adaptation != Adaptation::default() {
            self.tally.adaptations = self.tally.adaptations.saturating_add(1);
        }
        Ok(adaptation)
    }
}
