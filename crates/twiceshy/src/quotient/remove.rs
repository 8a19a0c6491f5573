//! Removal of members, and of the repairs that they caused.

use super::entry::{Entry, MOST_MEMBERS};
use super::{QuotientFilter, Shared};
use crate::error::RemoveError;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::{Claim, Hash, Listing};

/// Whether the last member of a fingerprint leaves a tombstone in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Nothing,
    /// A tombstone if the fingerprint has an extension. A fingerprint without one is alone in its
    /// minirun and covers all of it, so no mistake is repaired there.
    Repairs,
    /// A tombstone in any case, to undo an insert that replaced one.
    Tombstone,
}

impl Leave {
    /// Returns whether an entry that has lost its last member becomes a tombstone.
    fn leaves(self, digits: Digits, entry: &Entry) -> bool {
        match self {
            Self::Nothing => false,
            Self::Repairs => digits.count(&entry.fingerprint) > 1,
            Self::Tombstone => true,
        }
    }
}

impl QuotientFilter {
    /// Removes one copy of the claim's query; see [`Adaptive::remove`](crate::Adaptive::remove).
    ///
    /// Without listed mistakes, the fingerprints of the other members stay as they are. With listed
    /// mistakes, they become as short as these mistakes allow, and tombstones are dropped. Only
    /// members and mistakes that share the query's quotient and remainder matter.
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
    /// longer fingerprints. The filter is unchanged in that case.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.change_exactly(claim, &listing.into(), Some(Leave::Nothing))
    }

    /// Removes a listed member like [`remove`](Self::remove), but keeps the repairs that it caused.
    /// If the member is inserted again, no old mistake comes back. Listed mistakes are ignored.
    ///
    /// The last member of a fingerprint with an extension leaves a *tombstone*: the same
    /// fingerprint with a count of zero. A tombstone covers no query. It takes slots until the
    /// filter is rebuilt from its members, or until [`remove`](Self::remove) is called near it with
    /// listed mistakes. A fingerprint without an extension leaves nothing, because no mistake near
    /// it is repaired. A repair therefore stays visible: see [`has_repairs_near`](Self::has_repairs_near).
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
        self.change_exactly(claim, &listing, Some(Leave::Repairs))
    }

    /// Removes one copy of a key that the caller *knows* to be a member; see
    /// [`Dynamic::remove_trusting`](crate::Dynamic::remove_trusting). If the caller can list the
    /// members, [`remove`](Self::remove) is safe.
    ///
    /// The repairs that this member caused may be forgotten. If it is inserted again, it may bring
    /// an old mistake back.
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if the key is certainly not a member. The filter is unchanged in
    /// that case.
    pub fn remove_trusting(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove_leaving(hash, Leave::Nothing)
    }

    /// Removes a key like [`remove_trusting`](Self::remove_trusting), and keeps the repairs that
    /// the key caused, like [`remove_keeping_repairs`](Self::remove_keeping_repairs).
    ///
    /// # Errors
    /// The same as for these two methods.
    pub fn remove_trusting_keeping_repairs(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove_leaving(hash, Leave::Repairs)
    }

    fn remove_leaving(&mut self, hash: Hash, leave: Leave) -> Result<(), RemoveError> {
        let full = |load| RemoveError::Full { load };
        self.change(hash, full, |digits, entries| {
            take_out(digits, entries, digits.scale(hash), leave).ok_or(RemoveError::Absent)
        })
    }

    /// Shortens the fingerprints near a claim's query as far as the listed mistakes allow.
    /// `listing` must have *all* members in [`claim.suspects()`](Claim::suspects), and all mistakes
    /// there that must stay repaired. Tombstones are dropped. Without listed mistakes, nothing
    /// changes.
    ///
    /// This frees the room of repairs that are no longer needed. The claim's query may be the
    /// mistake of such a repair; see [`claim_near`](Self::claim_near).
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
        self.change_exactly(claim, &listing.into(), None)
    }

    /// Returns whether a fingerprint that shares the query's quotient and remainder has been
    /// lengthened.
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let mut entries = self.shared.entries_near(self.shared.digits.scale(query));
        entries.any(|entry| self.shared.digits.count(&entry.fingerprint) > 1)
    }

    /// Returns whether a repair may have left traces near a hash: whether the entries with its
    /// quotient and remainder include an extension or a tombstone. If not, inserting the hash
    /// brings back no mistake that was repaired since the filter was built, as long as every
    /// removal [keeps repairs](Self::remove_keeping_repairs), and every repair that drops ghosts
    /// [leaves tombstones](Listing::leaving_tombstones).
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Answer, Hash};
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// let [member, query] = [7, 8].map(|number| Hash::from_u128(number << 80));
    /// filter.insert(member)?;
    /// assert!(!filter.has_repairs_near(member));
    /// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 44 bits") };
    /// filter.adapt(&claim, &[member])?;
    /// filter.remove_trusting_keeping_repairs(member)?;
    /// assert!(filter.has_repairs_near(member) && filter.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_repairs_near(&self, hash: Hash) -> bool {
        let Shared { digits, .. } = self.shared;
        let is_trace = |entry: Entry| entry.count == 0 || digits.count(&entry.fingerprint) > 1;
        // Extensions and tombstones take extra slots.
        self.tally.extra_slots > 0 && self.shared.entries_near(digits.scale(hash)).any(is_trace)
    }

    /// Removes one copy of the claim's query, and shortens fingerprints if mistakes are listed.
    /// `removed` says whether the copy leaves a tombstone; if it is `None`, nothing is removed.
    fn change_exactly(
        &mut self,
        claim: &Claim,
        listing: &Listing<'_>,
        removed: Option<Leave>,
    ) -> Result<(), RemoveError> {
        let full = |load| RemoveError::Full { load };
        self.change_listed(claim, &listing.members, full, |mut listed, entries| {
            let unlisted = listed.count_unlisted(entries)?;
            if unlisted > 0 {
                return Err(RemoveError::Unlisted { members: unlisted });
            }
            let (digits, query) = (listed.digits, listed.query);
            if removed.is_some() {
                let owner = listed.owners.iter_mut().find(|owner| owner.scaled == query);
                owner.ok_or(RemoveError::Absent)?.count -= 1;
            }
            let Some(mistakes) = &listing.mistakes else {
                let leaves =
                    |entry: &Entry| removed.is_some_and(|leave| leave.leaves(digits, entry));
                let stays = |entry: &Entry| entry.count == 0 || leaves(entry);
                return listed
                    .respell(entries, stays, |entry, _| Ok(digits.count(&entry.fingerprint)));
            };
            // Make the entries as short as they would be in a newly built filter.
            let minirun = digits.fingerprint(query, 1);
            let near = mistakes.iter().copied().filter(|&mistake| minirun.covers(mistake));
            listed.respell(
                entries,
                |_| false,
                |_, member| {
                    near.clone().try_fold(1, |length, hash| {
                        let needed = digits.to_tell_apart(member, digits.scale(hash));
                        let length = needed.map(|needed| needed.max(length));
                        length.ok_or(RemoveError::MistakeIsMember { hash })
                    })
                },
            )?;
            if entries.iter().any(|entry| entry.count > MOST_MEMBERS) {
                return Err(RemoveError::Uncountable);
            }
            Ok(())
        })
    }
}

/// Takes one member out of the entry that covers it. Returns `None` if there is no such entry.
pub(super) fn take_out(
    digits: Digits,
    entries: &mut Vec<Entry>,
    member: Scaled,
    leave: Leave,
) -> Option<()> {
    let covering = |entry: &Entry| entry.count > 0 && entry.fingerprint.covers_scaled(member);
    let at = entries.iter().position(covering)?;
    entries[at].count -= 1;
    if entries[at].count == 0 && !leave.leaves(digits, &entries[at]) {
        entries.remove(at);
    }
    Some(())
}
