//! Removes a member and shortens its neighbours' fingerprints, given a list of all members nearby.

use super::account::{self, Account};
use super::adapt::Claim;
use super::boxes::{Boxes, Piece, Shelf, Spot};
use super::query::Span;
use super::{AdaptiveRangeFilter, Listing, MOST_REPAIRED, RangeKey};
use crate::error::{AdaptError, RemoveError};
use crate::table::TableFull;

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Removes a key, once, if it is one of the listed members: all [suspects](Claim::suspects) of a
    /// claim that it may be there. What is left there becomes as short as the listed mistakes allow,
    /// which are all repaired ranges that still matter: boxes that were split because of other
    /// ranges become one again, and free their room.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveRangeFilter, range::{Answer, Listing}};
    /// let mut filter = AdaptiveRangeFilter::<u64>::builder().slots(100).build()?;
    /// filter.insert(70)?;
    /// let Answer::Maybe(claim) = filter.check_range(70..=70) else { panic!("it is a member") };
    /// filter.remove(&claim, 70, Listing::new(&[70]).with_mistakes(&[1000..1010]))?;
    /// assert!(!filter.contains(70));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`RemoveError`], and nothing has changed, if the claim is stale, or not the key's, if the
    /// listed members are not those of the boxes, if the key is not one of them, or if one of them is
    /// in a mistake.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        key: K,
        listing: impl Into<Listing<'l, K>>,
    ) -> Result<(), RemoveError>
    where
        K: 'l,
    {
        let Listing { members, mistakes, .. } = listing.into();
        let filter = &mut self.filter;
        let spot = filter.partitions.spot(key);
        let part = claim.parts.iter().find(|part| part.piece.partition == spot.partition);
        let part = part.ok_or(RemoveError::Stale)?;
        if !part.is_current(&filter.boxes, &self.versions) {
            return Err(RemoveError::Stale);
        }
        if let Some(&outside) = members.iter().find(|&&key| !claim.is_suspect(filter.hash_of(key)))
        {
            return Err(RemoveError::Outside { member: filter.hash_of(outside) });
        }
        let mut members: Vec<Spot> =
            members.iter().map(|&key| filter.partitions.spot(key)).collect();
        members.sort_unstable();
        let shelf = filter.boxes.shelf(spot.partition);
        let spans = mistakes.iter().filter_map(|range| Span::of(range));
        let spans = spans.filter(|&span| filter.partitions.borders(span) < MOST_REPAIRED);
        let pieces = spans.flat_map(|span| filter.partitions.pieces(span));
        let pieces: Vec<Piece> =
            pieces.filter(|piece| shelf.cell.covers(piece.partition)).collect();
        let boxes = &mut filter.boxes;
        boxes.remove_from(&shelf, spot, &boxes.within(&members, &shelf.cell), &pieces)?;
        self.bump(spot);
        Ok(())
    }
}

impl Boxes {
    /// Removes one of the members of a shelf, and makes the other fingerprints as short as the
    /// mistakes allow.
    fn remove_from(
        &mut self,
        shelf: &Shelf,
        spot: Spot,
        members: &[Spot],
        mistakes: &[Piece],
    ) -> Result<(), RemoveError> {
        let listed = Account::new(self.spelling, &shelf.boxes, members).map_err(refused)?;
        if listed.unlisted > 0 {
            return Err(RemoveError::Unlisted { members: listed.unlisted });
        }
        let at = members.binary_search(&spot).map_err(|_| RemoveError::Absent)?;
        let (mut others, mut digits) = (members.to_vec(), Vec::new());
        others.remove(at);
        for other in &others {
            let scaled = self.scale(other.partition);
            let to_tell_apart = |mistake: &Piece| {
                let digits = self.spelling.digits;
                digits.to_tell_apart(scaled, self.scale(mistake.partition))
            };
            let wrong = mistakes.iter().filter(|mistake| mistake.has(other.memento));
            let needed = wrong.map(to_tell_apart).try_fold(1, |most, one| Some(one?.max(most)));
            let member = other.partition;
            digits.push(needed.ok_or(RemoveError::MistakeIsMember { hash: member })?);
        }
        let boxes = account::settle(self.spelling, &others, &digits);
        let replaced = self.replace(shelf, &boxes);
        replaced.map_err(|TableFull| RemoveError::Full { load: self.load() })
    }
}

fn refused(error: AdaptError) -> RemoveError {
    match error {
        AdaptError::Surplus { members } => RemoveError::Surplus { members },
        error => unreachable!("{error}"),
    }
}
