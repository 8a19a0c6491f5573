//! Repairs a mistake about a range.

use super::account::Account;
use super::boxes::{BoxGroup, Boxes, Piece, Spot};
use super::layout::RangeBox;
use super::{AdaptiveRangeFilter, MOST_REPAIRED, RangeKey};
use crate::claim::{Adaptation, Answer, Cells, Mismatch, Version};
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::table::TableFull;
use crate::traits;
use crate::{Checked, Hash};
use core::ops::{Bound, RangeBounds, RangeInclusive};
use std::borrow::Cow;

/// A claim that a range may contain a member: the parts of the range that seem to contain one, and
/// the version of the filter near each part.
///
/// A claim names several intervals of hashes, because a range touches several partitions, and hashes
/// scatter neighbouring partitions over the whole range of hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The pieces that may contain a member. Empty if the range is too long to be repaired.
    pub(super) parts: Vec<Part>,
    is_of_one_key: bool,
}

/// A piece of the range that may contain a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) piece: Piece,
    /// The quotient whose members can have caused the answer.
    cells: Cells,
    version: Version,
}

impl Claim {
    /// Returns the intervals of hashes whose members may have caused the answer, in order. To
    /// repair a mistake, list all members whose [partition's hash](AdaptiveRangeFilter::hash_of) is
    /// in one of them.
    pub fn suspects(&self) -> impl Iterator<Item = RangeInclusive<Hash>> {
        let mut cells: Vec<Cells> = self.parts.iter().map(|part| part.cells).collect();
        cells.sort_unstable_by_key(|cells| cells.first);
        cells.dedup();
        cells.into_iter().map(Cells::hashes)
    }

    /// Returns the only part of the claim and the claimed key, or `None` if the claim covers more
    /// than one key.
    pub(super) fn key(&self) -> Option<(&Part, Spot)> {
        let part = self.parts.first().filter(|_| self.is_of_one_key)?;
        Some((part, Spot { partition: part.piece.partition, memento: part.piece.least }))
    }

    /// Returns whether a member with this [hash](AdaptiveRangeFilter::hash_of) must be listed.
    pub fn is_suspect(&self, hash: Hash) -> bool {
        let mut cells = self.parts.iter().map(|part| part.cells);
        cells.any(|cells| Scaled::new(hash, cells.slots).quotient == cells.first)
    }
}

/// A list of the keys in a claim's intervals, like a [`Listing`](crate::Listing). Any list of keys
/// converts to it. It has keys instead of hashes, because all keys of a partition have the same
/// hash, and a repair must know where each of them is in the partition.
///
/// List *all* members whose [partition's hash](AdaptiveRangeFilter::hash_of) is in one of the
/// [suspects](Claim::suspects), in any order, each as often as it was inserted.
#[derive(Clone, Debug)]
pub struct Listing<'a, K: RangeKey> {
    pub(super) members: Cow<'a, [K]>,
    pub(super) mistakes: Option<Vec<(Bound<K>, Bound<K>)>>,
    pub(super) drops_ghosts: bool,
}

impl<K: RangeKey> Listing<'_, K> {
    /// Returns a listing of these keys, without mistakes.
    pub fn new(members: impl Into<Self>) -> Self {
        members.into()
    }

    /// Sets the repaired ranges that must stay repaired. They may be in any order. When a key is
    /// removed, fingerprints near it become as short as these ranges allow. Unless ranges are
    /// listed, all repairs stay as they are.
    #[must_use]
    pub fn with_mistakes<R: RangeBounds<K>>(mut self, mistakes: &[R]) -> Self {
        let bounds = |range: &R| (range.start_bound().cloned(), range.end_bound().cloned());
        self.mistakes = Some(mistakes.iter().map(bounds).collect());
        self
    }

    /// Allows a repair to drop members that are not listed; see
    /// [`Listing::dropping_ghosts`](crate::Listing::dropping_ghosts).
    ///
    /// Call this only if the listing is **complete and current**. Otherwise a member is taken for a
    /// ghost, and lost.
    #[must_use]
    pub fn dropping_ghosts(mut self) -> Self {
        self.drops_ghosts = true;
        self
    }
}

impl<'a, K: RangeKey, L: AsRef<[K]> + ?Sized> From<&'a L> for Listing<'a, K> {
    fn from(members: &'a L) -> Self {
        Self { members: members.as_ref().into(), mistakes: None, drops_ghosts: false }
    }
}

impl<K: RangeKey> From<Vec<K>> for Listing<'_, K> {
    fn from(members: Vec<K>) -> Self {
        Self { members: members.into(), mistakes: None, drops_ghosts: false }
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Looks up a key as [`contains`](Self::contains) does, but returns "maybe" together with a
    /// claim.
    pub fn check(&self, key: K) -> Answer<Claim> {
        self.check_range((Bound::Included(key), Bound::Included(key)))
    }

    /// Looks up a range as [`contains_range`](Self::contains_range) does, but returns "maybe"
    /// together with a claim.
    pub fn check_range(&self, range: impl RangeBounds<K>) -> Answer<Claim> {
        // Most answers are "absent", which `may_contain` finds fastest.
        let numbers = K::numbers(&range).filter(|numbers| self.may_contain(numbers));
        let Some(numbers) = numbers else { return Answer::Absent };
        if self.partitions.borders(&numbers) >= MOST_REPAIRED {
            return Answer::Maybe(Claim { parts: Vec::new(), is_of_one_key: false });
        }
        let is_of_one_key = numbers.start() == numbers.end();
        let pieces = self.partitions.pieces(numbers);
        let parts = pieces.filter(|&piece| self.boxes.has_any([piece; 2]));
        let parts: Vec<Part> = parts.map(|piece| self.part(piece)).collect();
        if parts.is_empty() {
            Answer::Absent
        } else {
            Answer::Maybe(Claim { parts, is_of_one_key })
        }
    }

    fn part(&self, piece: Piece) -> Part {
        let cells = self.cells(piece.partition);
        Part { piece, cells, version: self.versions.at(cells.first) }
    }

    fn cells(&self, partition: Hash) -> Cells {
        Cells::one(self.boxes.scale(partition).quotient, self.boxes.table.slots())
    }

    /// Returns whether no member near a part has changed since the claim was made.
    pub(super) fn is_current(&self, part: &Part) -> bool {
        *part == self.part(part.piece)
    }

    /// Returns the listed members in order, if all of them are suspects.
    pub(super) fn listed(&self, claim: &Claim, members: &[K]) -> Result<Vec<Spot>, Mismatch> {
        let mut spots: Vec<Spot> = members.iter().map(|&key| self.partitions.spot(key)).collect();
        spots.sort_unstable();
        match spots.iter().find(|spot| !claim.is_suspect(spot.partition)) {
            Some(outside) => Err(Mismatch::Outside { member: outside.partition }),
            None => Ok(spots),
        }
    }

    /// Returns the interval of hashes that a claim of this key would name: those with the same
    /// quotient as the hash of its partition.
    pub fn suspects(&self, key: K) -> RangeInclusive<Hash> {
        self.cells(self.hash_of(key)).hashes()
    }

    /// Returns whether inserting `key` may turn a range near `other` into a mistake. This is
    /// possible if the partitions of both keys have the same quotient and remainder.
    pub fn may_confuse(&self, key: K, other: K) -> bool {
        let scaled = self.boxes.scale(self.hash_of(key));
        self.boxes.cell(scaled, self.boxes.age_around(scaled)).covers(self.hash_of(other))
    }

    /// Repairs a mistake, so that the filter answers "absent" to the claim's range. The range must not
    /// contain a member, and `listing` must contain *all* members that are
    /// [suspects](Claim::suspects).
    ///
    /// The filter ignores listed suspects that have nothing to do with the answer. Repairing a
    /// mistake again is not an error.
    ///
    /// # Errors
    /// Returns an [`AdaptError`] and changes nothing if the claim is stale, if the listed members
    /// don't match the filter, if one of them is in the range, if the range is too long, or if
    /// there is no room.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l, K>>,
    ) -> Result<Adaptation, AdaptError>
    where
        K: 'l,
    {
        let Listing { members, drops_ghosts, .. } = listing.into();
        if claim.parts.is_empty() {
            return Err(AdaptError::TooLong);
        }
        if claim.parts.iter().any(|part| !self.is_current(part)) {
            return Err(AdaptError::Stale);
        }
        let members = self.listed(claim, &members)?;
        let mut adaptation = Adaptation::default();
        let mut replaced: Vec<BoxGroup> = Vec::new();
        for Part { piece, .. } in &claim.parts {
            let group = self.boxes.group(piece.partition);
            match self.boxes.repair(&group, piece, &members, drops_ghosts) {
                Ok(part) => {
                    adaptation.lengthened += part.lengthened;
                    adaptation.ghosts += part.ghosts;
                    replaced.push(group);
                }
                Err(error) => {
                    self.boxes.restore(replaced);
                    return Err(match error {
                        AdaptError::Full { .. } => AdaptError::Full { load: self.load() },
                        other => other,
                    });
                }
            }
        }
        if adaptation.ghosts > 0 {
            for part in &claim.parts {
                self.versions.bump(part.cells.first);
            }
        }
        self.adaptations += u64::from(adaptation != Adaptation::default());
        Ok(adaptation)
    }

    /// Checks a range, and repairs the filter if "maybe" was a mistake, like
    /// [`Adaptive::check_or_repair`](crate::Adaptive::check_or_repair).
    ///
    /// If the filter answers "maybe", this calls `has_member`, which returns whether the range
    /// contains a member. If it does not, this calls `members` with one interval of hashes at a
    /// time, and repairs the mistake. `members` lists all members whose [partition's
    /// hash](Self::hash_of) is in the interval. The repair drops ghosts only if all these listings
    /// [allow](Listing::dropping_ghosts) it.
    ///
    /// ```
    /// use twiceshy::AdaptiveRangeFilter;
    /// let members: Vec<u64> = (0..100).map(|n| n * 1000).collect();
    /// let builder = AdaptiveRangeFilter::<u64>::builder().remainder_bits(2).longest_range(16);
    /// let mut filter = builder.adaptations(1000).build_from(&members)?;
    /// let partitions = filter.partitions().clone();
    /// for start in (0..100_000u64).step_by(500).filter(|start| start % 1000 > 0) {
    ///     filter.check_or_repair(
    ///         start..start + 16,
    ///         || Ok::<_, std::io::Error>(members.iter().any(|&key| (start..start + 16).contains(&key))),
    ///         // A store would read a range of its index by hash.
    ///         |hashes| {
    ///             let members = members.iter().copied();
    ///             Ok(members.filter(|&key| hashes.contains(&partitions.hash_of(key))).collect::<Vec<_>>())
    ///         },
    ///     )?;
    ///     assert!(!filter.contains_range(start..start + 16));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of the closures. A mistake that could not be repaired is not an error:
    /// the result is [`Checked::Unrepaired`].
    pub fn check_or_repair<'l, E, L: Into<Listing<'l, K>>>(
        &mut self,
        range: impl RangeBounds<K>,
        has_member: impl FnMut() -> Result<bool, E>,
        mut members: impl FnMut(RangeInclusive<Hash>) -> Result<L, E>,
    ) -> Result<Checked, E>
    where
        K: 'l,
    {
        let check = |filter: &Self| filter.check_range((range.start_bound(), range.end_bound()));
        traits::check_or_repair(self, check, has_member, |filter, claim| {
            let mut all = Listing::from(Vec::new()).dropping_ghosts();
            for hashes in claim.suspects() {
                let Listing { members, drops_ghosts, .. } = members(hashes)?.into();
                all.members.to_mut().extend_from_slice(&members);
                all.drops_ghosts &= drops_ghosts;
            }
            Ok(filter.adapt(claim, all))
        })
    }
}

impl Boxes {
    /// Replaces the boxes of a group with boxes of age 0 for its members. The new fingerprints are
    /// so long that no box covers the piece's partition and has a memento in the piece.
    fn repair(
        &mut self,
        group: &BoxGroup,
        piece: &Piece,
        members: &[Spot],
        drops_ghosts: bool,
    ) -> Result<Adaptation, AdaptError> {
        let account = Account::new(self.spelling, &group.boxes, group.within(members))?;
        let ghosts = account.unlisted;
        if ghosts > 0 && !drops_ghosts {
            return Err(AdaptError::Unlisted { members: ghosts });
        }
        let query = self.scale(piece.partition);
        let needed = |spot: Spot, range_box: &RangeBox, had: u32| -> Result<u32, AdaptError> {
            if !range_box.fingerprint.covers_scaled(query) || !piece.has(spot.memento) {
                return Ok(had);
            }
            let digits = self.spelling.digits.to_tell_apart(self.scale(spot.partition), query);
            Ok(digits.ok_or(AdaptError::IsMember)?.max(had))
        };
        let (boxes, lengthened) = account.settle(self.spelling, needed)?;
        let replaced = self.replace(group, &boxes);
        replaced.map_err(|TableFull| AdaptError::Full { load: self.load() })?;
        Ok(Adaptation { lengthened, ghosts })
    }
}
