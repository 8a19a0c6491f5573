//! Removes a member and shortens its neighbours' fingerprints, given a list of all members nearby.

use super::account::Account;
use super::adapt::Claim;
use super::boxes::{Piece, Spot};
use super::query::Span;
use super::{AdaptiveRangeFilter, Listing, MOST_REPAIRED, RangeKey};
use crate::error::RemoveError;
use crate::table::TableFull;

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Removes a key, once, if it is one of the listed members.
    ///
    /// The claim must come from a check of the key, and `listing` must contain all its
    /// [suspects](Claim::suspects). The listed mistakes are all repaired ranges that still matter.
    /// Fingerprints that are longer than these mistakes need become shorter, which frees slots.
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
    /// A [`RemoveError`], and nothing has changed, if the claim is stale or of a different key, if
    /// the listed members don't match the filter, if the key is not one of them, or if one of them
    /// is in a mistake.
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
        let spot = self.partitions.spot(key);
        let part = claim.parts.iter().find(|part| part.piece.partition == spot.partition);
        if !part.is_some_and(|part| self.is_current(part)) {
            return Err(RemoveError::Stale);
        }
        let members = self.listed(claim, members)?;
        let shelf = self.boxes.shelf(spot.partition);
        let spans = mistakes.iter().filter_map(|range| Span::of(range));
        let spans = spans.filter(|&span| self.partitions.borders(span) < MOST_REPAIRED);
        let pieces = spans.flat_map(|span| self.partitions.pieces(span));
        let mistakes: Vec<Piece> =
            pieces.filter(|piece| shelf.cell.covers(piece.partition)).collect();

        let boxes = &mut self.boxes;
        let mut account = Account::new(boxes.spelling, &shelf.boxes, shelf.within(&members))?;
        if account.unlisted > 0 {
            return Err(RemoveError::Unlisted { members: account.unlisted });
        }
        let at = account.members.binary_search_by_key(&spot, |&(member, _)| member);
        account.members.remove(at.map_err(|_| RemoveError::Absent)?);
        let needed = |Spot { partition, memento }: Spot| {
            let digits = |mistake: &Piece| {
                let [member, mistake] =
                    [partition, mistake.partition].map(|hash| boxes.scale(hash));
                boxes.spelling.digits.to_tell_apart(member, mistake)
            };
            let near = mistakes.iter().filter(|mistake| mistake.has(memento)).map(digits);
            let most = near.into_iter().try_fold(1, |most: u32, one| Some(one?.max(most)));
            most.ok_or(RemoveError::MistakeIsMember { hash: partition })
        };
        let (settled, _) = account.settle(boxes.spelling, |member, _, _| needed(member))?;
        let replaced = boxes.replace(&shelf, &settled);
        replaced.map_err(|TableFull| RemoveError::Full { load: boxes.load() })?;
        self.bump(spot);
        Ok(())
    }
}
