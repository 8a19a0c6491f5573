//! Removal of members, and of the repairs that they caused.

use super::QuotientFilter;
use super::entry::{Entry, MOST_MEMBERS};
use super::grow::MOST_SLOTS;
use super::insert::Refused;
use super::listing::{Matched, Minirun, NoRoom, Owned, append};
use crate::error::RemoveError;
use crate::hash::Scaled;
use crate::{Claim, Hash, Listing, Member};

/// What a removed member leaves in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Nothing,
    Tombstone,
}

impl QuotientFilter {
    /// Removes the claim's query from the members, once. `listing` must have *all* members in
    /// [`claim.suspects()`](Claim::suspects), including the one to remove. If the query is not
    /// listed, it is not a member, and the call fails.
    ///
    /// Without listed mistakes, the fingerprints of the other members stay as they are. With listed
    /// mistakes, they become as short as these mistakes allow, and tombstones are dropped. Only
    /// members and mistakes that share the query's quotient and remainder matter; others are
    /// ignored.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Answer, Hash};
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// let Answer::Maybe(claim) = filter.check(hash) else { panic!("it is a member") };
    /// filter.remove(&claim, &[hash])?;
    /// assert!(!filter.contains(hash));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`RemoveError`] if the claim is stale, if the listed members are not exactly those of the
    /// fingerprints, if the query is not one of them, or if a mistake is a member. If mistakes are
    /// listed, also if too many members would share a fingerprint, or if there is no room for
    /// longer fingerprints. The members and answers are unchanged then. Without room, a filter that
    /// [grows automatically](crate::builder::Builder::grow_at) grows, and the claim becomes stale.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.remove_listed(claim, &listing.into(), Leave::Nothing)
    }

    /// Removes a listed member like [`remove`](Self::remove), but keeps the repairs that it caused.
    /// If the member is inserted again, no old mistake comes back. Listed mistakes are ignored.
    ///
    /// The last member of a fingerprint leaves a *tombstone*: the same fingerprint with a count of
    /// zero. A tombstone covers no query. It takes slots until the filter is rebuilt from its
    /// members, or until [`remove`](Self::remove) is called near it with listed mistakes.
    ///
    /// # Errors
    /// The same as for [`remove`](Self::remove), or [`RemoveError::Full`], because a tombstone
    /// takes one slot more than a single member.
    pub fn remove_keeping_repairs<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        let listing = Listing { mistakes: None, ..listing.into() };
        self.remove_listed(claim, &listing, Leave::Tombstone)
    }

    /// Removes a key that the caller *knows* to be a member. If it was inserted several times,
    /// removes it once.
    ///
    /// The filter can't check this: if the key is not a member but shares a member's fingerprint,
    /// that member is lost. If the caller can list the members, [`remove`](Self::remove) is safe.
    ///
    /// The repairs that this member caused may be forgotten. If it is inserted again, it may bring
    /// an old mistake back.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash, error::RemoveError};
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// filter.remove_trusting(hash)?;
    /// assert!(!filter.contains(hash));
    /// assert_eq!(filter.remove_trusting(hash), Err(RemoveError::Absent));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if the key is certainly not a member. The filter is unchanged then.
    pub fn remove_trusting(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove_leaving(hash, Leave::Nothing)
    }

    /// Removes a key like [`remove_trusting`](Self::remove_trusting), but keeps the repairs that it
    /// caused, like [`remove_keeping_repairs`](Self::remove_keeping_repairs).
    ///
    /// # Errors
    /// The same as for these two methods.
    pub fn remove_trusting_keeping_repairs(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove_leaving(hash, Leave::Tombstone)
    }

    fn remove_leaving(&mut self, hash: Hash, leave: Leave) -> Result<(), RemoveError> {
        let removed = self.with_room(MOST_SLOTS, |filter| {
            let scaled = filter.digits.scale(hash);
            let removed = filter.take_out(scaled, leave)?;
            if removed {
                filter.len -= 1;
                filter.versions.bump(scaled.quotient);
            }
            Ok(removed)
        });
        match removed {
            Ok(true) => Ok(()),
            Ok(false) => Err(RemoveError::Absent),
            Err(_) => Err(RemoveError::Full { load: self.load() }),
        }
    }

    /// Takes one member out of the entry that covers it. Returns whether there is such an entry.
    /// Doesn't update the number of members.
    pub(super) fn take_out(&mut self, member: Scaled, leave: Leave) -> Result<bool, Refused> {
        let minirun = self.minirun_of(member);
        let covering = |entry: &Entry| entry.count > 0 && entry.fingerprint.covers_scaled(member);
        let Some(at) = minirun.entries.iter().position(covering) else { return Ok(false) };
        let mut entries = minirun.entries.clone();
        entries[at].count -= 1;
        if entries[at].count == 0 && leave == Leave::Nothing {
            entries.remove(at);
        }
        self.rewrite(&minirun, &entries)?;
        Ok(true)
    }

    fn write_rest(&mut self, minirun: &Minirun, entries: &[Entry]) -> Result<(), RemoveError> {
        self.rewrite_growing(minirun, entries).map_err(|no_room| match no_room {
            NoRoom::Full { load } => RemoveError::Full { load },
            NoRoom::Doubled => RemoveError::Stale,
        })
    }

    fn remove_listed(
        &mut self,
        claim: &Claim,
        listing: &Listing<'_>,
        leave: Leave,
    ) -> Result<(), RemoveError> {
        let (minirun, mut matched) = self.match_exactly(claim, &listing.members)?;
        let mut owned = matched.entries.iter_mut().flat_map(|owned| &mut owned.owners);
        let removed = owned.find(|owner| owner.hash == claim.query).ok_or(RemoveError::Absent)?;
        removed.count -= 1;
        let entries = match &listing.mistakes {
            Some(mistakes) => self.as_short_as_possible(claim, &matched.entries, mistakes)?,
            None => matched
                .entries
                .iter()
                .filter(|owned| {
                    owned.listed() > 0 || owned.entry.count == 0 || leave == Leave::Tombstone
                })
                .map(|owned| owned.entry.of(owned.listed()))
                .collect(),
        };
        self.write_rest(&minirun, &entries)?;
        self.len -= 1;
        self.versions.bump(minirun.quotient);
        Ok(())
    }

    /// Shortens the fingerprints near a claim's query as far as the listed mistakes allow.
    /// `listing` must have *all* members in [`claim.suspects()`](Claim::suspects), and all mistakes
    /// there that must stay repaired. Tombstones are dropped. Without listed mistakes, nothing
    /// changes.
    ///
    /// This frees the room of repairs that are no longer needed. The claim may be that of such a
    /// mistake; see [`claim_near`](Self::claim_near).
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Answer, Hash, Listing};
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// let [member, query] = [7, 8].map(|number| Hash::from_u128(number << 80));
    /// filter.insert(member)?;
    /// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 44 bits") };
    /// filter.adapt(&claim, &[member])?;
    /// assert!(filter.is_lengthened(query) && !filter.contains(query));
    ///
    /// let claim = filter.claim_near(query);
    /// filter.shorten(&claim, Listing::new(&[member]).with_mistakes(&[]))?;
    /// assert!(!filter.is_lengthened(query) && filter.contains(query));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`remove`](Self::remove) with listed mistakes.
    pub fn shorten<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        let Listing { members, mistakes, .. } = listing.into();
        let (minirun, matched) = self.match_exactly(claim, &members)?;
        let Some(mistakes) = mistakes else { return Ok(()) };
        let entries = self.as_short_as_possible(claim, &matched.entries, &mistakes)?;
        self.write_rest(&minirun, &entries)
    }

    /// Returns whether a fingerprint that shares the query's quotient and remainder has been
    /// lengthened.
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let minirun = self.minirun_of(self.digits.scale(query));
        minirun.entries.iter().any(|entry| self.digits.count(&entry.fingerprint) > 1)
    }

    /// Returns the minirun of a claim's query and its members, if the list has exactly these
    /// members.
    fn match_exactly(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<(Minirun, Matched), RemoveError> {
        let (minirun, matched) = self.match_members(claim, members)?;
        if matched.surplus > 0 {
            return Err(RemoveError::Surplus { members: matched.surplus });
        }
        if matched.unlisted > 0 {
            return Err(RemoveError::Unlisted { members: matched.unlisted });
        }
        Ok((minirun, matched))
    }

    /// Returns the shortest possible entries of the listed members, as the constructor would write
    /// them.
    fn as_short_as_possible(
        &self,
        claim: &Claim,
        entries: &[Owned],
        mistakes: &[Hash],
    ) -> Result<Vec<Entry>, RemoveError> {
        let cell = self.digits.fingerprint(self.digits.scale(claim.query), 1);
        let mistakes = mistakes.iter().filter(|&&mistake| cell.covers(mistake));
        let mut shortened = Vec::new();
        for owned in entries {
            for owner in owned.owners.iter().filter(|owner| owner.count > 0) {
                let mut count = 1;
                for &mistake in mistakes.clone() {
                    let needed =
                        self.digits.to_tell_apart(owner.scaled, self.digits.scale(mistake));
                    let needed = needed.ok_or(RemoveError::MistakeIsMember { hash: mistake })?;
                    count = count.max(needed);
                }
                let fingerprint = self.digits.fingerprint(owner.scaled, count);
                append(&mut shortened, Entry { fingerprint, count: owner.count, ..owned.entry });
            }
        }
        if shortened.iter().any(|entry| entry.count > MOST_MEMBERS) {
            return Err(RemoveError::Uncountable);
        }
        Ok(shortened)
    }
}
