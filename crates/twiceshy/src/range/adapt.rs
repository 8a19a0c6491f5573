//! Repairs a mistake about a range.

use super::account::Account;
use super::boxes::{Boxes, Piece, Shelf, Spot};
use super::layout::RangeBox;
use super::{AdaptiveRangeFilter, Listing, MOST_REPAIRED, RangeKey};
use crate::Hash;
use crate::claim::{Adaptation, Cells, Mismatch, Version};
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::table::TableFull;
use core::ops::{RangeBounds, RangeInclusive};

/// A filter's answer to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The range certainly contains no member.
    Empty,
    /// The range may contain a member. If it does not, the claim lets the filter repair its mistake.
    Maybe(Claim),
}

impl Answer {
    /// Returns whether the answer is "maybe".
    pub const fn is_maybe(&self) -> bool {
        matches!(self, Answer::Maybe(_))
    }
}

/// A claim that a range may contain a member: the parts of the range that seem to contain one, and
/// the version of the filter near each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The pieces that may contain a member. Empty if the range is too long to be repaired.
    pub(super) parts: Vec<Part>,
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
    /// Returns intervals of hashes, in order. To repair a mistake, list all members whose
    /// [partition's hash](AdaptiveRangeFilter::hash_of) is in one of them.
    pub fn suspects(&self) -> impl Iterator<Item = RangeInclusive<Hash>> {
        let mut cells: Vec<Cells> = self.parts.iter().map(|part| part.cells).collect();
        cells.sort_unstable_by_key(|cells| cells.first);
        cells.dedup();
        cells.into_iter().map(Cells::hashes)
    }

    /// Returns whether a member with this [hash](AdaptiveRangeFilter::hash_of) must be listed.
    pub fn is_suspect(&self, hash: Hash) -> bool {
        let mut cells = self.parts.iter().map(|part| part.cells);
        cells.any(|cells| Scaled::new(hash, cells.slots).quotient == cells.first)
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Looks up a range as [`contains_range`](Self::contains_range) does, but returns "maybe"
    /// together with a claim.
    pub fn check_range(&self, range: impl RangeBounds<K>) -> Answer {
        // Most answers are "empty", which this finds fastest.
        if !self.may_contain(&range) {
            return Answer::Empty;
        }
        let Some(span) = self.span(&range) else { return Answer::Empty };
        if self.partitions.borders(span) >= MOST_REPAIRED {
            return Answer::Maybe(Claim { parts: Vec::new() });
        }
        let pieces = self.partitions.pieces(span).filter(|&piece| self.boxes.may_have(piece));
        let parts: Vec<Part> = pieces.map(|piece| self.part(piece)).collect();
        if parts.is_empty() { Answer::Empty } else { Answer::Maybe(Claim { parts }) }
    }

    /// Returns the claim that a piece may contain a member.
    fn part(&self, piece: Piece) -> Part {
        let cells = self.cells(piece.partition);
        Part { piece, cells, version: self.versions.at(cells.first) }
    }

    /// Returns the quotient of a partition.
    fn cells(&self, partition: Hash) -> Cells {
        Cells::one(self.boxes.scale(partition).quotient, self.boxes.table.slots())
    }

    /// Returns whether no member near a part has changed since it was claimed.
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

    /// Returns the hashes that a claim of this key would name: those that share the quotient of its
    /// partition's hash.
    pub fn suspects(&self, key: K) -> RangeInclusive<Hash> {
        self.cells(self.hash_of(key)).hashes()
    }

    /// Returns whether inserting a key may turn a range near another key into a mistake: whether their
    /// partitions share quotient and remainder.
    pub fn may_confuse(&self, key: K, other: K) -> bool {
        let scaled = self.boxes.scale(self.hash_of(key));
        self.boxes.cell(scaled, self.boxes.age_around(scaled)).covers(self.hash_of(other))
    }

    /// Repairs a mistake, so that the filter answers "empty" to the claim's range from now on. The
    /// range must not contain a member, and `listing` must contain *all* members that are
    /// [suspects](Claim::suspects).
    ///
    /// The filter ignores listed suspects that have nothing to do with the answer. Repairing a
    /// mistake again is not an error.
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if the listed members
    /// don't match the filter, if one of them is in the range, if the range is too long, or if there
    /// is no room.
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
        let members = self.listed(claim, members)?;
        let load = self.load();
        let mut adaptation = Adaptation::default();
        let mut replaced: Vec<Shelf> = Vec::new();
        for Part { piece, .. } in &claim.parts {
            let boxes = &mut self.boxes;
            let shelf = boxes.shelf(piece.partition);
            let repaired = boxes.repaired(&shelf, piece, &members, drops_ghosts);
            let repaired =
                repaired.and_then(|(repaired, part)| match boxes.replace(&shelf, &repaired) {
                    Ok(()) => Ok(part),
                    Err(TableFull) => Err(AdaptError::Full { load }),
                });
            match repaired {
                Ok(part) => {
                    adaptation.lengthened += part.lengthened;
                    adaptation.ghosts += part.ghosts;
                    replaced.push(shelf);
                }
                Err(error) => {
                    boxes.restore(replaced);
                    return Err(error);
                }
            }
        }
        if adaptation.ghosts > 0 {
            for part in &claim.parts {
                self.versions.bump(part.cells.first);
            }
        }
        self.adaptations += u64::from(adaptation.lengthened > 0);
        Ok(adaptation)
    }
}

impl Boxes {
    /// Computes new boxes of age 0 for the members of a shelf. Fingerprints are long enough that no
    /// box that covers the piece has a memento in it.
    fn repaired(
        &self,
        shelf: &Shelf,
        piece: &Piece,
        members: &[Spot],
        drops_ghosts: bool,
    ) -> Result<(Vec<RangeBox>, Adaptation), AdaptError> {
        let account = Account::new(self.spelling, &shelf.boxes, shelf.within(members))?;
        let ghosts = account.unlisted;
        if ghosts > 0 && !drops_ghosts {
            return Err(AdaptError::Unlisted { members: ghosts });
        }
        let query = self.scale(piece.partition);
        let needed = |spot: Spot, range_box: &RangeBox, had: u32| -> Result<u32, AdaptError> {
            if !range_box.covers(query) || !piece.has(spot.memento) {
                return Ok(had);
            }
            let digits = self.spelling.digits.to_tell_apart(self.scale(spot.partition), query);
            Ok(digits.ok_or(AdaptError::IsMember)?.max(had))
        };
        let (boxes, lengthened) = account.settle(self.spelling, needed)?;
        Ok((boxes, Adaptation { lengthened, ghosts }))
    }
}
