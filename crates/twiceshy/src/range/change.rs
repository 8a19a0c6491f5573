//! Inserts and removes members.

use super::boxes::{Boxes, Shelf, Spot};
use super::layout::RangeBox;
use super::{MementoFilter, RangeKey};
use crate::bits::machine::{Machine, Operation};
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

    /// Inserts many members, all or none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). The filter is unchanged then.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<(), InsertError> {
        for (index, &key) in keys.iter().enumerate() {
            let inserted = if self.boxes.is_due()
                && let Ok(mut doubled) = self.doubled()
            {
                // This filter stays as it is until the other one has taken all members.
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

    /// Removes a key that the caller *knows* to be a member: once, if it was inserted more than once.
    /// If it is not a member, a different member that can't be told from it may be lost.
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if it is certainly not a member.
    pub fn remove_trusting(&mut self, key: K) -> Result<(), RemoveError> {
        let spot = self.partitions.spot(key);
        self.boxes.remove(spot)?;
        self.bump(spot);
        Ok(())
    }
}

impl Boxes {
    pub(super) fn insert(&mut self, spot: Spot) -> Result<(), InsertError> {
        let target = self.table.target();
        if target.run(InsertNewBox { boxes: self, spot }) {
            self.len += 1;
            return Ok(());
        }
        self.insert_near_others(spot)
    }

    /// Inserts a member if there may be boxes with its quotient and remainder, or too little room.
    fn insert_near_others(&mut self, spot: Spot) -> Result<(), InsertError> {
        let scaled = self.scale(spot.partition);
        // Don't insert into older boxes, because their fingerprints are shorter.
        let shelf = self.shelf_of(scaled, 0);
        let mut boxes = shelf.boxes.clone();
        if let Some(range_box) = boxes.iter_mut().find(|range_box| range_box.covers(scaled)) {
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
        let replaced = self.replace(&shelf, &boxes);
        replaced.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// Removes a member from the box with the longest fingerprint that may contain it. So every
    /// other member is still in a box that covers it.
    pub(super) fn remove(&mut self, spot: Spot) -> Result<(), RemoveError> {
        self.remove_from(&self.shelf(spot.partition), spot)
    }

    /// Removes a member from the box that the last insert put it in, which has age 0. If an older
    /// box with a longer fingerprint contains a member like it, that box must keep it: the new box
    /// may cover a mistake that was repaired in the older one.
    fn undo_insert(&mut self, spot: Spot) {
        let shelf = self.shelf_of(self.scale(spot.partition), 0);
        self.remove_from(&shelf, spot).expect("the member was inserted");
    }

    fn remove_from(&mut self, shelf: &Shelf, spot: Spot) -> Result<(), RemoveError> {
        let scaled = self.scale(spot.partition);
        let mut boxes = shelf.boxes.clone();
        let owners = boxes.iter().enumerate().filter_map(|(index, range_box)| {
            let at = range_box.mementos.binary_search(&spot.memento).ok();
            let at = at.filter(|_| range_box.covers(scaled))?;
            Some((range_box.fingerprint.bits(), index, at))
        });
        let (_, index, at) = owners.max().ok_or(RemoveError::Absent)?;
        boxes[index].mementos.remove(at);
        if boxes[index].mementos.is_empty() {
            boxes.remove(index);
        }
        self.replace(shelf, &boxes).expect("removing needs no more room");
        Ok(())
    }
}

/// Inserts a member as a new box, unless there are boxes with its quotient and remainder. Returns
/// whether it did.
struct InsertNewBox<'a> {
    boxes: &'a mut Boxes,
    spot: Spot,
}

impl Operation for InsertNewBox<'_> {
    type Argument = ();
    type Output = bool;
    type Shapes = RangeWidths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> bool {
        let Boxes { table, spelling, .. } = self.boxes;
        let scaled = spelling.digits.scale(self.spot.partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let value = spelling.first(remainder, self.spot.memento);
        let home = table.home::<SHAPE>(scaled.quotient);
        match table.insert_here::<M, SHAPE, false>(machine, home, value, spelling.memento_bits) {
            Inserted::Done => true,
            Inserted::At(spot) => {
                table.insert_at::<M, SHAPE>(machine, home, spot, home.next_block(), value).is_ok()
            }
            Inserted::Nowhere => {
                let mut walk = table.walk::<M, SHAPE>(machine, home);
                let heading = spelling.heading(remainder, 0);
                if table.is_occupied_at::<SHAPE>(home) {
                    while walk.remainder() >> spelling.memento_bits <= heading {
                        if walk.remainder() >> spelling.memento_bits == heading {
                            return false;
                        }
                        if !walk.advance() {
                            break;
                        }
                    }
                }
                let spot = walk.spot();
                table.insert_at::<M, SHAPE>(machine, home, spot, spot.at, value).is_ok()
            }
        }
    }
}
