//! Inserts and removes members.

use super::account::Account;
use super::boxes::{BoxGroup, Boxes, Piece, Spot};
use super::layout::RangeBox;
use super::{AdaptiveRangeFilter, Claim, Listing, MOST_REPAIRED, MementoFilter, RangeKey};
use crate::bits::machine::dispatched;
use crate::error::{InsertError, RemoveError};
use crate::hash::Scaled;
use crate::table::{Inserted, RangeWidths, TableFull};

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn insert(&mut self, key: K) -> Result<(), InsertError> {
        if self.boxes.is_due() {
            return self.insert_many(&[key]);
        }
        let spot = self.partitions.spot(key);
        self.boxes.insert(spot)?;
        self.bump(spot);
        Ok(())
    }

    /// Inserts many members, or none if there is no room for all of them.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert). The filter is unchanged in that case.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<(), InsertError> {
        for (index, &key) in keys.iter().enumerate() {
            let inserted = if self.boxes.is_due()
                && let Ok(mut doubled) = self.doubled()
            {
                // `self` doesn't change until all members are in the doubled filter.
                let rest = doubled.insert_many(&keys[index..]);
                if rest.is_ok() {
                    *self = doubled;
                    return Ok(());
                }
                rest
            } else {
                self.boxes.insert(self.partitions.spot(key))
            };
            if inserted.is_err() {
                for &key in keys[..index].iter().rev() {
                    self.boxes.undo_insert(self.partitions.spot(key));
                }
                return inserted;
            }
        }
        for &key in keys {
            self.bump(self.partitions.spot(key));
        }
        Ok(())
    }

    /// Removes one copy of a key that the caller *knows* to be a member. If it is not a member, a
    /// different member that the filter can't distinguish from it may be lost.
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if it is certainly not a member.
    pub fn remove_trusting(&mut self, key: K) -> Result<(), RemoveError> {
        let spot = self.partitions.spot(key);
        self.boxes.remove_from(&self.boxes.group(spot.partition), spot)?;
        self.bump(spot);
        Ok(())
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Removes one copy of the claim's key, if it is one of the listed members.
    ///
    /// The claim must come from a [check](Self::check) of one key, and `listing` must contain all
    /// its [suspects](Claim::suspects). If mistakes are listed, they are all repaired ranges that
    /// still matter: fingerprints that are longer than these mistakes need become shorter, which
    /// frees slots. Otherwise all repairs stay.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveRangeFilter, Answer, range::Listing};
    /// let mut filter = AdaptiveRangeFilter::<u64>::builder().slots(100).build()?;
    /// filter.insert(70)?;
    /// let Answer::Maybe(claim) = filter.check(70) else { panic!("it is a member") };
    /// filter.remove(&claim, Listing::new(&[70]).with_mistakes(&[1000..1010]))?;
    /// assert!(!filter.contains(70));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns a [`RemoveError`] and changes nothing if the claim is stale or of more than one key,
    /// if the listed members don't match the filter, or if the key is not one of them. If mistakes
    /// are listed, also if a member that stays is in one of them, or if there is no room for the
    /// fingerprints that they need.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l, K>>,
    ) -> Result<(), RemoveError>
    where
        K: 'l,
    {
        let Listing { members, mistakes, .. } = listing.into();
        let (part, spot) = claim.key().ok_or(RemoveError::ManyKeys)?;
        if !self.is_current(part) {
            return Err(RemoveError::Stale);
        }
        let members = self.listed(claim, &members)?;
        let group = self.boxes.group(spot.partition);
        let boxes = &mut self.boxes;
        let mut account = Account::new(boxes.spelling, &group.boxes, group.within(&members))?;
        if account.unlisted > 0 {
            return Err(RemoveError::Unlisted { members: account.unlisted });
        }
        let at = account.members.binary_search_by_key(&spot, |&(member, _)| member);
        account.members.remove(at.map_err(|_| RemoveError::Absent)?);
        let Some(mistakes) = mistakes else {
            boxes.remove_from(&group, spot)?;
            self.bump(spot);
            return Ok(());
        };
        let ranges = mistakes.iter().filter_map(|range| K::numbers(range));
        let ranges = ranges.filter(|numbers| self.partitions.borders(numbers) < MOST_REPAIRED);
        let pieces = ranges.flat_map(|numbers| self.partitions.pieces(numbers));
        let mistakes: Vec<Piece> =
            pieces.filter(|piece| group.cell.covers(piece.partition)).collect();
        let needed = |Spot { partition, memento }: Spot| {
            let (digits, member) = (boxes.spelling.digits, boxes.scale(partition));
            let mut near = mistakes.iter().filter(|mistake| mistake.has(memento));
            let most = near.try_fold(1, |most: u32, mistake| {
                Some(digits.to_tell_apart(member, digits.scale(mistake.partition))?.max(most))
            });
            most.ok_or(RemoveError::MistakeIsMember { hash: partition })
        };
        let (settled, _) = account.settle(boxes.spelling, |member, _, _| needed(member))?;
        let replaced = boxes.replace(&group, &settled);
        replaced.map_err(|TableFull| RemoveError::Full { load: boxes.load() })?;
        self.bump(spot);
        Ok(())
    }
}

impl Boxes {
    pub(super) fn insert(&mut self, spot: Spot) -> Result<(), InsertError> {
        if insert_new_box(self, spot) {
            self.len += 1;
            return Ok(());
        }
        self.insert_near_others(spot)
    }

    /// Inserts a member when [`insert_new_box`] can't, because there are other boxes with its
    /// quotient and remainder, or because there is no room nearby.
    fn insert_near_others(&mut self, spot: Spot) -> Result<(), InsertError> {
        let scaled = self.scale(spot.partition);
        // Don't insert into older boxes, because their fingerprints are shorter.
        let group = self.group_of(scaled, 0);
        let mut boxes = group.boxes.clone();
        let covering = boxes.iter_mut().find(|each| each.fingerprint.covers_scaled(scaled));
        if let Some(range_box) = covering {
            let at = range_box.mementos.partition_point(|&other| other < spot.memento);
            range_box.mementos.insert(at, spot.memento);
        } else {
            // The fingerprint is long enough to differ from each neighbour's, so the neighbours
            // don't change.
            let digits = boxes.iter().map(|range_box| {
                let other = Scaled { fraction: range_box.fingerprint.prefix(), ..scaled };
                let digits = self.spelling.digits.to_tell_apart(scaled, other);
                digits.expect("the box doesn't cover the partition")
            });
            let fingerprint = self.spelling.digits.fingerprint(scaled, digits.max().unwrap_or(1));
            let at = boxes.partition_point(|range_box| range_box.fingerprint < fingerprint);
            boxes.insert(at, RangeBox { fingerprint, age: 0, mementos: vec![spot.memento] });
        }
        let replaced = self.replace(&group, &boxes);
        replaced.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// Removes a member from the box that the last insert put it in, which has age 0. An older box
    /// with a longer fingerprint may contain a member with the same memento. That box must keep it,
    /// because the new box may cover a mistake that was repaired in the older one.
    fn undo_insert(&mut self, spot: Spot) {
        let group = self.group_of(self.scale(spot.partition), 0);
        self.remove_from(&group, spot).expect("the member was inserted");
    }

    /// Removes a member from the box with the longest fingerprint that may contain it. This leaves
    /// every other member in a box that covers it.
    fn remove_from(&mut self, group: &BoxGroup, spot: Spot) -> Result<(), RemoveError> {
        let scaled = self.scale(spot.partition);
        let mut boxes = group.boxes.clone();
        let owners = boxes.iter().enumerate().filter_map(|(index, range_box)| {
            let at = range_box.mementos.binary_search(&spot.memento).ok();
            let at = at.filter(|_| range_box.fingerprint.covers_scaled(scaled))?;
            Some((range_box.fingerprint.bits(), index, at))
        });
        let (_, index, at) = owners.max().ok_or(RemoveError::Absent)?;
        boxes[index].mementos.remove(at);
        if boxes[index].mementos.is_empty() {
            boxes.remove(index);
        }
        self.replace(group, &boxes).expect("removing needs no more room");
        Ok(())
    }
}

dispatched! {
    /// Inserts a member as a new box, unless there are boxes with its quotient and remainder.
    /// Returns whether the member was inserted.
    #[inline(always)]
    fn insert_new_box<'a>(boxes: &'a mut Boxes, spot: Spot) -> bool
    => boxes.table.target(), RangeWidths, |machine| {
        let Spot { partition, memento } = spot;
        let (spelling, mut table) = (boxes.spelling, boxes.editor());
        let scaled = spelling.digits.scale(partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let value = spelling.first(remainder, memento);
        let home = table.home::<SHAPE>(scaled.quotient);
        let bits = spelling.memento_bits;
        let (spot, from) = match table.insert_here::<M, SHAPE, false>(machine, home, value, bits) {
            Inserted::Done => return true,
            Inserted::At(spot) => (spot, home.next_block()),
            Inserted::Nowhere => match table.spot_for::<M, SHAPE>(machine, home, value, bits) {
                Some(spot) => (spot, spot.at),
                None => return false,
            },
        };
        table.insert_at::<M, SHAPE>(machine, home, spot, from, value).is_ok()
    }
}
