//! Repairing a range that was a mistake.

use super::account::Account;
use super::boxes::{Boxes, Piece, Shelf, Spot};
use super::layout::RangeBox;
use super::{AdaptiveRangeFilter, Listing, MOST_REPAIRED, RangeKey};
use crate::claim::Adaptation;
use crate::claim::{Cells, Version, Versions};
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::table::TableFull;
use crate::{Hash, fingerprint::Fingerprint};
use core::ops::{RangeBounds, RangeInclusive};

/// A filter's answer to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is no member in it, for certain.
    Empty,
    /// There may be one. Should there be none, the claim lets the filter repair itself.
    Maybe(Claim),
}

/// A claim that there may be a member in a range: the parts of it that have one, as it seems, and
/// the versions of the filter where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// None, if the range is so long that it isn't repaired.
    pub(super) parts: Vec<Part>,
}

/// A piece of the range that may have a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) piece: Piece,
    /// The quotient whose members can have caused the answer.
    cells: Cells,
    version: Version,
}

impl Answer {
    /// Whether the answer is "maybe".
    pub const fn is_maybe(&self) -> bool {
        matches!(self, Answer::Maybe(_))
    }
}

impl Claim {
    /// Returns intervals of hashes, in order. To repair a mistake, list all members whose
    /// [partition's hash](AdaptiveRangeFilter::hash_of) is in one of them.
    pub fn suspects(&self) -> impl Iterator<Item = RangeInclusive<Hash>> {
        let mut cells: Vec<Cells> = self.parts.iter().map(|part| part.cells).collect();
        cells.sort_unstable_by_key(|cells| cells.first);
        cells.dedup();
        cells.into_iter().map(Cells::hashes)
    }

    /// Returns whether a member of this [hash](AdaptiveRangeFilter::hash_of) is to be listed.
    pub fn is_suspect(&self, hash: Hash) -> bool {
        self.parts.iter().any(|part| part.has_suspect(hash))
    }
}

impl Part {
    /// Returns whether no member has come or gone since it was claimed.
    pub(super) fn is_current(&self, boxes: &Boxes, versions: &Versions) -> bool {
        let quotient = boxes.scale(self.piece.partition).quotient;
        self.version == versions.at(quotient)
            && self.cells.contain(Cells::one(quotient, boxes.table.slots()))
    }

    fn has_suspect(&self, hash: Hash) -> bool {
        Scaled::new(hash, self.cells.slots).quotient == self.cells.first
    }
}

impl Answer {
    /// What is said of a range that isn't repaired.
    pub(super) fn hopeless() -> Self {
        Self::Maybe(Claim { parts: Vec::new() })
    }

    /// What is said if these are the parts that may have a member.
    pub(super) fn of(parts: Vec<Part>) -> Self {
        if parts.is_empty() {
            return Self::Empty;
        }
        Self::Maybe(Claim { parts })
    }
}

impl Claim {
    /// That something can be done about it.
    pub(super) fn is_repairable(&self) -> Result<(), AdaptError> {
        if self.parts.is_empty() { Err(AdaptError::TooLong) } else { Ok(()) }
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`contains_range`](Self::contains_range), but "maybe" carries a claim, which can be
    /// used to repair the filter if it was a mistake.
    pub fn check_range(&self, range: impl RangeBounds<K>) -> Answer {
        let filter = &self.filter;
        // Most answers are "empty", which this finds fastest.
        if !filter.contains_short_range(&range) {
            return Answer::Empty;
        }
        let Some(span) = filter.span(&range) else { return Answer::Empty };
        if filter.partitions.borders(span) >= MOST_REPAIRED {
            return Answer::hopeless();
        }
        let parts = filter.partitions.pieces(span).filter_map(|piece| self.part(piece));
        Answer::of(parts.collect())
    }

    /// Returns what can be claimed of a piece, if a member may be in it.
    fn part(&self, piece: Piece) -> Option<Part> {
        let boxes = &self.filter.boxes;
        boxes.may_have(piece).then(|| {
            let quotient = boxes.scale(piece.partition).quotient;
            let cells = Cells::one(quotient, boxes.table.slots());
            Part { piece, cells, version: self.versions.at(quotient) }
        })
    }

    /// Returns the hashes that a claim of this key would name: those that share the quotient of its
    /// partition's hash.
    pub fn suspects(&self, key: K) -> RangeInclusive<Hash> {
        let boxes = &self.filter.boxes;
        let quotient = boxes.scale(self.filter.hash_of(key)).quotient;
        Cells::one(quotient, boxes.table.slots()).hashes()
    }

    /// Returns whether inserting a key may turn a range near another key into a mistake: whether their
    /// partitions share quotient and remainder.
    pub fn may_confuse(&self, key: K, other: K) -> bool {
        let boxes = &self.filter.boxes;
        let scaled = boxes.scale(self.filter.hash_of(key));
        boxes.cell(scaled, boxes.age_around(scaled)).covers(self.filter.hash_of(other))
    }

    /// Repairs a mistake: there is no member in the claim's range, and `listing` has *all* members
    /// that are [suspects](Claim::suspects). Afterwards the filter answers "empty" to the range.
    ///
    /// The filter ignores listed suspects that have nothing to do with the answer. Repairing a
    /// mistake again is not an error.
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if the listed members are
    /// not those of the boxes, if one of them is in the range, if that is too long, or if there is no
    /// room.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l, K>>,
    ) -> Result<Adaptation, AdaptError>
    where
        K: 'l,
    {
        let Listing { members, drops_ghosts, .. } = listing.into();
        claim.is_repairable()?;
        let spots = members.iter().map(|&key| self.filter.partitions.spot(key)).collect();
        self.adapt_parts(&claim.parts, spots, drops_ghosts)
    }

    /// Repairs what these parts claim, in one go.
    fn adapt_parts(
        &mut self,
        parts: &[Part],
        mut members: Vec<Spot>,
        drops_ghosts: bool,
    ) -> Result<Adaptation, AdaptError> {
        let boxes = &mut self.filter.boxes;
        if parts.iter().any(|part| !part.is_current(boxes, &self.versions)) {
            return Err(AdaptError::Stale);
        }
        members.sort_unstable();
        let is_suspect = |spot: &Spot| parts.iter().any(|part| part.has_suspect(spot.partition));
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
            let repaired = boxes.repair(&shelf, &part.piece, &members, drops_ghosts);
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
    boxes: Vec<RangeBox>,
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
        drops_ghosts: bool,
    ) -> Result<Repaired, AdaptError> {
        let members = self.within(members, &shelf.cell);
        let account = Account::new(self.spelling, &shelf.boxes, &members)?;
        if account.unlisted > 0 && !drops_ghosts {
            return Err(AdaptError::Unlisted { members: account.unlisted });
        }
        let query = self.scale(piece.partition);
        let digits = self.spelling.digits;
        let needed = |spot: &Spot, range_box: &RangeBox, had: u32| {
            if !range_box.covers(query) || !piece.has(spot.memento) {
                return Ok(had);
            }
            let needed = digits.to_tell_apart(self.scale(spot.partition), query);
            Ok(needed.ok_or(AdaptError::IsMember)?.max(had))
        };
        let (boxes, lengthened) = account.settle(self.spelling, needed)?;
        Ok(Repaired { boxes, lengthened, ghosts: account.unlisted })
    }

    /// Returns those of some members, which are in order, whose partitions are in a cell.
    pub(super) fn within(&self, members: &[Spot], cell: &Fingerprint) -> Vec<Spot> {
        let quotient = |spot: &Spot| self.scale(spot.partition).quotient;
        let first = members.partition_point(|spot| quotient(spot) < cell.quotient());
        let of_quotient = members[first..].iter();
        let of_quotient = of_quotient.take_while(|spot| quotient(spot) == cell.quotient());
        of_quotient.filter(|spot| cell.covers(spot.partition)).copied().collect()
    }
}
