//! Repairing a range that was a mistake.

use super::boxes::{Boxes, Piece, Shelf, Spot};
use super::keepsake::Keepsake;
use super::{AdaptiveRangeFilter, RangeKey};
use crate::claim::Version;
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
    parts: Vec<Part>,
    /// Whether the range is so long that it isn't looked at.
    is_hopeless: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    piece: Piece,
    cell: Fingerprint,
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
        self.parts.iter().map(|part| part.cell.hashes())
    }

    /// Whether a member of this [hash](AdaptiveRangeFilter::hash_of) is to be listed.
    pub fn is_suspect(&self, hash: Hash) -> bool {
        self.parts.iter().any(|part| part.cell.covers(hash))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ghosts {
    Refuse,
    Drop,
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`contains_range`](Self::contains_range), but "maybe" carries a claim, which can be
    /// used to repair the filter if it was a mistake.
    pub fn check_range(&self, range: impl RangeBounds<K>) -> RangeAnswer {
        let filter = &self.filter;
        let Some(span) = filter.span(&range) else { return RangeAnswer::Empty };
        if filter.is_hopeless(span) {
            return RangeAnswer::Maybe(RangeClaim { parts: Vec::new(), is_hopeless: true });
        }
        let pieces = filter.partitions.pieces(span).filter(|piece| filter.boxes.may_have(piece));
        let parts: Vec<Part> = pieces
            .map(|piece| Part {
                cell: filter.boxes.cell(piece.partition),
                version: self.versions.at(filter.boxes.scale(piece.partition).quotient),
                piece,
            })
            .collect();
        if parts.is_empty() {
            return RangeAnswer::Empty;
        }
        RangeAnswer::Maybe(RangeClaim { parts, is_hopeless: false })
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
        if claim.is_hopeless {
            return Err(AdaptError::TooLong);
        }
        let boxes = &mut self.filter.boxes;
        let is_stale = |part: &Part| {
            part.version != self.versions.at(boxes.scale(part.piece.partition).quotient)
        };
        if claim.parts.iter().any(is_stale) {
            return Err(AdaptError::Stale);
        }
        let mut members: Vec<Spot> =
            members.iter().map(|&key| self.filter.partitions.spot(key)).collect();
        members.sort_unstable();
        if let Some(outside) = members.iter().find(|spot| !claim.is_suspect(spot.partition)) {
            return Err(AdaptError::Outside { member: outside.partition });
        }

        let mut adaptation = Adaptation { lengthened: 0, ghosts: 0 };
        let mut undone: Vec<(Hash, Vec<Keepsake>)> = Vec::new();
        let mut changed = Vec::new();
        for part in &claim.parts {
            let shelf = boxes.shelf(part.piece.partition);
            let repaired = boxes.repair(&shelf, part, &members, ghosts);
            let repaired = repaired.and_then(|repaired| {
                if repaired.boxes == shelf.boxes {
                    return Ok(repaired);
                }
                let replaced = boxes.replace(&shelf, &repaired.boxes);
                replaced.map_err(|TableFull| AdaptError::Full { load: boxes.load() })?;
                undone.push((part.piece.partition, shelf.boxes));
                Ok(repaired)
            });
            match repaired {
                Ok(repaired) => {
                    adaptation.lengthened += repaired.lengthened;
                    adaptation.ghosts += repaired.ghosts;
                    if repaired.ghosts > 0 {
                        changed.push(boxes.scale(part.piece.partition).quotient);
                    }
                }
                Err(error) => {
                    for (partition, before) in undone.into_iter().rev() {
                        let shelf = boxes.shelf(partition);
                        boxes.replace(&shelf, &before).expect("there was room for it");
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
    /// The boxes of a shelf, with the one that covers a part of a mistake split, so that no other
    /// partition's memento is in that part.
    fn repair(
        &self,
        shelf: &Shelf,
        part: &Part,
        members: &[Spot],
        ghosts: Ghosts,
    ) -> Result<Repaired, AdaptError> {
        let Part { piece, cell, .. } = part;
        let first = members.partition_point(|spot| spot.partition < *cell.hashes().start());
        let members = &members[first..];
        let members = &members[..members.partition_point(|spot| cell.covers(spot.partition))];
        let query = self.scale(piece.partition);
        let mut repaired = Repaired { boxes: Vec::new(), lengthened: 0, ghosts: 0 };
        let mut explained = 0;
        for keepsake in &shelf.boxes {
            let owners = members.iter().filter(|spot| keepsake.covers(self.scale(spot.partition)));
            let owners: Vec<Spot> = owners.copied().collect();
            explained += owners.len();
            let mut listed: Vec<u64> = owners.iter().map(|spot| spot.memento).collect();
            listed.sort_unstable();
            let (unlisted, surplus) = differences(&keepsake.mementos, &listed);
            if surplus > 0 {
                return Err(AdaptError::Surplus { members: surplus });
            }
            if unlisted > 0 && ghosts == Ghosts::Refuse {
                return Err(AdaptError::Unlisted { members: unlisted });
            }
            repaired.ghosts += unlisted;
            let is_wrong = |spot: &&Spot| piece.mementos.contains(&spot.memento);
            let to_tell_apart = |spot: &Spot| {
                let digits = self.spelling().digits;
                digits.to_tell_apart(self.scale(spot.partition), query).ok_or(AdaptError::IsMember)
            };
            let digits = if keepsake.covers(query) {
                owners.iter().filter(is_wrong).map(to_tell_apart).max_by_key(|digits| {
                    // Errors first.
                    digits.as_ref().map_or(u32::MAX, |&digits| digits)
                })
            } else {
                None
            };
            let Some(digits) = digits.transpose()? else {
                if !listed.is_empty() {
                    let mementos = listed;
                    repaired.boxes.push(Keepsake { mementos, ..keepsake.clone() });
                }
                continue;
            };
            // All of them, so that no fingerprint is a prefix of another; members are in order.
            let before = repaired.boxes.len();
            for spot in owners {
                let fingerprint =
                    self.spelling().digits.fingerprint(self.scale(spot.partition), digits);
                let mementos = vec![spot.memento];
                match repaired.boxes[before..].last_mut() {
                    Some(last) if last.fingerprint == fingerprint => last.mementos.extend(mementos),
                    _ => repaired.boxes.push(Keepsake { fingerprint, mementos }),
                }
            }
            let split = &mut repaired.boxes[before..];
            for keepsake in &mut *split {
                keepsake.mementos.sort_unstable();
            }
            repaired.lengthened += split.len();
        }
        match (members.len() - explained) as u64 {
            0 => Ok(repaired),
            surplus => Err(AdaptError::Surplus { members: surplus }),
        }
    }
}

/// How many of `stored` are not `listed`, and the other way round; both are sorted.
fn differences(stored: &[u64], listed: &[u64]) -> (u64, u64) {
    let (mut shared, mut others) = (0, listed.iter().copied().peekable());
    for &memento in stored {
        while others.next_if(|&other| other < memento).is_some() {}
        shared += usize::from(others.next_if_eq(&memento).is_some());
    }
    ((stored.len() - shared) as u64, (listed.len() - shared) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_differ_by_what_one_has_more_often() {
        assert_eq!(differences(&[1, 2, 2, 5], &[1, 2, 2, 5]), (0, 0));
        assert_eq!(differences(&[1, 2, 2, 5], &[2, 3, 5, 5]), (2, 2));
        assert_eq!(differences(&[], &[7]), (0, 1));
        assert_eq!(differences(&[7, 7], &[]), (2, 0));
    }
}
