//! Removing members, and what was repaired because of them.

use super::AdaptiveQuotientFilter;
use super::entry::{Entry, MOST_MEMBERS};
use super::grow::MOST_SLOTS;
use super::insert::Refused;
use super::listing::{Matched, Minirun, Owned, append};
use crate::error::RemoveError;
use crate::hash::Scaled;
use crate::table::TableFull;
use crate::{Claim, Hash, Member};

/// What is left where a member was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Nothing,
    Tombstone,
}

impl AdaptiveQuotientFilter {
    /// Removes a key that is a member: once, if it was inserted more than once.
    ///
    /// The caller must *know* that it is one. A filter can't tell: if the key is none,
    /// but shares a member's fingerprint, that member is lost. Where the members can be
    /// listed, [`remove_listed`](Self::remove_listed) makes sure.
    ///
    /// What was repaired because of this member may be forgotten with it: inserted
    /// again, it may bring an old mistake back. [`bury`](Self::bury) doesn't.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash, RemoveError};
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// filter.remove(hash)?;
    /// assert!(!filter.contains(hash));
    /// assert_eq!(filter.remove(hash), Err(RemoveError::Absent));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RemoveError::Absent`], and nothing has changed, if the key is certainly no member.
    pub fn remove(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove_leaving(hash, Leave::Nothing)
    }

    /// As [`remove`](Self::remove), but of the last member with its fingerprint, a
    /// tombstone stays: the fingerprint, as long as it is, with a count of zero. It covers
    /// no query, but the key, inserted again, takes it as it was, so that what was
    /// repaired because of it stays repaired.
    ///
    /// Tombstones take slots until the filter is rebuilt from its members, or their
    /// minirun by [`remove_listed`](Self::remove_listed) with the mistakes listed.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), or [`RemoveError::Full`]: a tombstone takes a slot more
    /// than a single member.
    pub fn bury(&mut self, hash: Hash) -> Result<(), RemoveError> {
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

    /// Takes one member out of the entry that covers it, without counting it; returns whether
    /// there is one.
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
        self.rewrite(minirun, entries).map_err(|TableFull| RemoveError::Full { load: self.load() })
    }

    /// Removes the member that was queried, once: `members` are *all* members in
    /// [`claim.suspects()`](Claim::suspects), the one to be removed among them, as for
    /// [`adapt`](Self::adapt). A key that is none of them is no member: this is reported,
    /// and nothing changes.
    ///
    /// Without `mistakes`, the fingerprints of the other members stay as they are. If they
    /// are given, all that were repaired in that interval, in any order (others don't
    /// matter), fingerprints become as short as these allow, and tombstones go.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Answer, Hash};
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// let Answer::Maybe(claim) = filter.check(hash) else { panic!("it is a member") };
    /// filter.remove_listed(&claim, &[hash], None)?;
    /// assert!(!filter.contains(hash));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`RemoveError`], and nothing has changed, if the claim is stale, if the members are
    /// not those of the fingerprints, if the query is none of them, or if a mistake is; and,
    /// where mistakes are given, if the others can't be counted together, or need more room.
    /// A filter that [grows by itself](super::Builder::grow_at) does so then, and the claim is
    /// stale.
    pub fn remove_listed<L>(
        &mut self,
        claim: &Claim,
        members: &[L],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        self.remove_listed_leaving(claim, members, mistakes, Leave::Nothing)
    }

    /// As [`remove_listed`](Self::remove_listed) without mistakes, but leaves a tombstone as
    /// [`bury`](Self::bury) does.
    ///
    /// # Errors
    /// As both.
    pub fn bury_listed<L>(&mut self, claim: &Claim, members: &[L]) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        self.remove_listed_leaving(claim, members, None, Leave::Tombstone)
    }

    fn remove_listed_leaving<L>(
        &mut self,
        claim: &Claim,
        members: &[L],
        mistakes: Option<&[Hash]>,
        leave: Leave,
    ) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let (minirun, mut matched) = self.match_exactly(claim, &members)?;
        let mut owned = matched.entries.iter_mut().flat_map(|owned| &mut owned.owners);
        let removed = owned.find(|owner| owner.hash == claim.query).ok_or(RemoveError::Absent)?;
        removed.count -= 1;
        let entries = match mistakes {
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
        match self.write_rest(&minirun, &entries) {
            Ok(()) => {
                self.len -= 1;
                self.versions.bump(minirun.quotient);
                Ok(())
            }
            // If it has doubled, the claim is stale.
            Err(RemoveError::Full { .. }) if self.grow() => {
                self.remove_listed_leaving(claim, &members, mistakes, leave)
            }
            error => error,
        }
    }

    /// Makes fingerprints near the claim's query as short as `mistakes` allow, which are all that
    /// are to stay repaired in [`claim.suspects()`](Claim::suspects), in any order (others don't
    /// matter). `members` are *all* members there, as for [`adapt`](Self::adapt). Tombstones go.
    ///
    /// When a mistake needn't stay repaired any more, this gives the room back that it took. The
    /// claim may be that of any member near it.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Answer, Hash};
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).build()?;
    /// let [member, query] = [7, 8].map(|number| Hash::from_u128(number << 80));
    /// filter.insert(member)?;
    /// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 44 bits") };
    /// filter.adapt(&claim, &[member])?;
    /// assert!(filter.is_lengthened(query) && !filter.contains(query));
    ///
    /// let Answer::Maybe(claim) = filter.check(member) else { panic!("it is a member") };
    /// filter.shorten_listed(&claim, &[member], &[])?;
    /// assert!(!filter.is_lengthened(query) && filter.contains(query));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`remove_listed`](Self::remove_listed) with mistakes.
    pub fn shorten_listed<L>(
        &mut self,
        claim: &Claim,
        members: &[L],
        mistakes: &[Hash],
    ) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let (minirun, matched) = self.match_exactly(claim, &members)?;
        let entries = self.as_short_as_possible(claim, &matched.entries, mistakes)?;
        match self.write_rest(&minirun, &entries) {
            // If it has doubled, the claim is stale.
            Err(RemoveError::Full { .. }) if self.grow() => {
                self.shorten_listed(claim, &members, mistakes)
            }
            written => written,
        }
    }

    /// Whether any fingerprint that could be behind a query is longer than a remainder.
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let minirun = self.minirun_of(self.digits.scale(query));
        minirun.entries.iter().any(|entry| self.digits.count(&entry.fingerprint) > 1)
    }

    /// The minirun of a claim and its members, if all of them are listed, and no others.
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

    /// The entries of the listed members as the constructor would write them.
    fn as_short_as_possible(
        &self,
        claim: &Claim,
        entries: &[Owned],
        mistakes: &[Hash],
    ) -> Result<Vec<Entry>, RemoveError> {
        let mistakes = mistakes.iter().filter(|&&mistake| claim.cell.covers(mistake));
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
