//! Repairing a range that was a mistake.

use super::account::Account;
use super::boxes::{Boxes, Piece, Shelf, Spot};
use super::keepsake::Keepsake;
use super::{AdaptiveRangeFilter, MOST_REPAIRED, RangeKey};
use crate::claim::{Version, Versions};
use crate::error::AdaptError;
use crate::table::TableFull;
use crate::{Adaptation, Fingerprint, Hash};
use core::ops::{RangeBounds, RangeInclusive};

/// A filter's answer to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// There is no member in it, for certain.
    Empty,
    /// There may be one. Should there be none, the claim lets the filter repair itself.
    Maybe(RangeClaim),
}

/// A claim that there may be a member in a range: the parts of it that have one, as it seems, and
/// the versions of the filter where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeClaim {
    /// None, if the range is so long that it isn't repaired.
    pub(super) parts: Vec<Part>,
}

/// A piece of the range that may have a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) piece: Piece,
    /// All partitions whose members can have caused the answer.
    suspects: Fingerprint,
    version: Version,
}

impl RangeAnswer {
    /// Whether the answer is "maybe".
    pub const fn is_maybe(&self) -> bool {
        matches!(self, RangeAnswer::Maybe(_))
    }
}

impl RangeClaim {
    /// Intervals of hashes. To repair a mistake, list all members whose
    /// [partition's hash](AdaptiveRangeFilter::hash_of) is in one of them.
    pub fn suspects(&self) -> impl Iterator<Item = RangeInclusive<Hash>> {
        self.parts.iter().map(|part| part.suspects.hashes())
    }

    /// Whether a member of this [hash](AdaptiveRangeFilter::hash_of) is to be listed.
    pub fn is_suspect(&self, hash: Hash) -> bool {
        self.parts.iter().any(|part| part.suspects.covers(hash))
    }
}

impl Part {
    /// Whether nothing came or went since it was claimed.
    pub(super) fn is_current(&self, boxes: &Boxes, versions: &Versions) -> bool {
        self.version == versions.at(boxes.scale(self.piece.partition).quotient)
    }
}

impl RangeAnswer {
    /// What is said of a range that isn't repaired.
    pub(super) fn hopeless() -> Self {
        Self::Maybe(RangeClaim { parts: Vec::new() })
    }

    /// What is said if these are the parts that may have a member.
    pub(super) fn of(parts: Vec<Part>) -> Self {
        if parts.is_empty() {
            return Self::Empty;
        }
        Self::Maybe(RangeClaim { parts })
    }
}

impl RangeClaim {
    /// That something can be done about it.
    pub(super) fn is_repairable(&self) -> Result<(), AdaptError> {
        if self.parts.is_empty() { Err(AdaptError::TooLong) } else { Ok(()) }
    }
}

/// What becomes of mementos that nobody listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ghosts {
    Refuse,
    Drop,
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`contains_range`](Self::contains_range), but "maybe" carries a claim, which can be
    /// used to repair the filter if it was a mistake.
    pub fn check_range(&self, range: impl RangeBounds<K>) -> RangeAnswer {
        let filter = &self.filter;
        let Some(span) = filter.span(&range) else { return RangeAnswer::Empty };
        if filter.partitions.borders(span) >= MOST_REPAIRED {
            let is_maybe = filter.contains_range_of_any_length(&range);
            return if is_maybe { RangeAnswer::hopeless() } else { RangeAnswer::Empty };
        }
        let parts = filter.partitions.pieces(span).filter_map(|piece| self.part(piece));
        RangeAnswer::of(parts.collect())
    }

    /// What can be claimed of a piece, if a member may be in it.
    fn part(&self, piece: Piece) -> Option<Part> {
        let boxes = &self.filter.boxes;
        boxes.may_have(piece).then(|| {
            let scaled = boxes.scale(piece.partition);
            let cell = boxes.cell(scaled, boxes.age_around(scaled));
            let version = self.versions.at(scaled.quotient);
            Part { piece, suspects: cell, version }
        })
    }

    /// The hashes that a claim of this key would name: all partitions that can't be told from its
    /// own without repairs.
    pub fn suspects(&self, key: K) -> RangeInclusive<Hash> {
        let boxes = &self.filter.boxes;
        let scaled = boxes.scale(self.filter.hash_of(key));
        boxes.cell(scaled, boxes.age_around(scaled)).hashes()
    }

    /// Repairs a mistake: there is no member in the claim's range, and `members` are *all* members
    /// that are [suspects](RangeClaim::suspects), in any order, each as often as it was inserted.
    /// Afterwards the filter answers "empty" to the range.
    ///
    /// A mistake that was repaired already is no error.
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if `members` are not
    /// those of the boxes, if one of them is in the range, if that is too long, or if there is no
    /// room.
    pub fn adapt(&mut self, claim: &RangeClaim, members: &[K]) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, Ghosts::Refuse)
    }

    /// As [`adapt`](Self::adapt), but what no listed member explains is dropped: ghosts, left for
    /// example by a write that failed after the filter's insert.
    ///
    /// By calling this you say that `members` is **complete and current**. If it is not, a member
    /// is taken for a ghost, and lost.
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt), but for [`AdaptError::Unlisted`].
    pub fn adapt_dropping_ghosts(
        &mut self,
        claim: &RangeClaim,
        members: &[K],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, Ghosts::Drop)
    }

    fn adapt_with(
        &mut self,
        claim: &RangeClaim,
        members: &[K],
        ghosts: Ghosts,
    ) -> Result<Adaptation, AdaptError> {
        claim.is_repairable()?;
        let spots = members.iter().map(|&key| self.filter.partitions.spot(key)).collect();
        self.adapt_parts(&claim.parts, spots, ghosts)
    }

    /// Repairs what these parts claim, in one go.
    fn adapt_parts(
        &mut self,
        parts: &[Part],
        mut members: Vec<Spot>,
        ghosts: Ghosts,
    ) -> Result<Adaptation, AdaptError> {
        let boxes = &mut self.filter.boxes;
        if parts.iter().any(|part| !part.is_current(boxes, &self.versions)) {
            return Err(AdaptError::Stale);
        }
        members.sort_unstable();
        let is_suspect =
            |spot: &Spot| parts.iter().any(|part| part.suspects.covers(spot.partition));
        if let Some(outside) = members.iter().find(|spot| !is_suspect(spot)) {
            return Err(AdaptError::Outside { member: outside.partition });
        }

        let load = boxes.load();
        let mut adaptation = Adaptation { lengthened: 0, ghosts: 0 };
        let mut undone: Vec<Shelf> = Vec::new();
        let mut changed = Vec::new();
        for part in parts {
            let partition = part.piece.partition;
            let shelf = boxes.shelf(partition);
            let repaired = boxes.repair(&shelf, &part.piece, &members, ghosts);
            let repaired = repaired.and_then(|repaired| {
                if repaired.boxes != shelf.boxes {
                    let replaced = boxes.replace(&shelf, &repaired.boxes);
                    replaced.map_err(|TableFull| AdaptError::Full { load })?;
                    undone.push(shelf);
                }
                Ok(repaired)
            });
            match repaired {
                Ok(repaired) => {
                    adaptation.lengthened += repaired.lengthened;
                    adaptation.ghosts += repaired.ghosts;
                    if repaired.ghosts > 0 {
                        changed.push(boxes.scale(partition).quotient);
                    }
                }
                Err(error) => {
                    for before in undone.into_iter().rev() {
                        let now = boxes.shelf_now(&before);
                        boxes.replace(&now, &before.boxes).expect("there was room for it");
                    }
                    return Err(error);
                }
            }
        }
        for quotient in changed {
            self.versions.bump(quotient);
        }
        self.adaptations += u64::from(adaptation.lengthened > 0);
        Ok(adaptation)
    }
}

struct Repaired {
    boxes: Vec<Keepsake>,
    lengthened: usize,
    ghosts: u64,
}

impl Boxes {
    /// The boxes of a shelf, spelt anew: young ones, that were old, and longer ones, so that none
    /// that covers the piece has a memento in it.
    fn repair(
        &self,
        shelf: &Shelf,
        piece: &Piece,
        members: &[Spot],
        ghosts: Ghosts,
    ) -> Result<Repaired, AdaptError> {
        let members = within(members, &shelf.cell);
        let account = Account::new(self.spelling, &shelf.boxes, members)?;
        if account.unlisted > 0 && ghosts == Ghosts::Refuse {
            return Err(AdaptError::Unlisted { members: account.unlisted });
        }
        let query = self.scale(piece.partition);
        let digits = self.spelling.digits;
        let needed = |spot: &Spot, keepsake: &Keepsake, had: u32| {
            if !keepsake.covers(query) || !piece.has(spot.memento) {
                return Ok(had);
            }
            let needed = digits.to_tell_apart(self.scale(spot.partition), query);
            Ok(needed.ok_or(AdaptError::IsMember)?.max(had))
        };
        let (boxes, lengthened) = account.settle(self.spelling, needed)?;
        Ok(Repaired { boxes, lengthened, ghosts: account.unlisted })
    }
}

/// Those of some members, which are in order, whose partitions are in a cell.
pub(super) fn within<'a>(members: &'a [Spot], cell: &Fingerprint) -> &'a [Spot] {
    let first = members.partition_point(|spot| spot.partition < *cell.hashes().start());
    let members = &members[first..];
    &members[..members.partition_point(|spot| cell.covers(spot.partition))]
}
