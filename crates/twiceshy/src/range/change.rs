//! Inserts and removes members.

use super::boxes::{Boxes, Spot};
use super::layout::RangeBox;
use crate::bits::machine::{Machine, Operation};
use crate::error::{InsertError, RemoveError};
use crate::hash::Scaled;
use crate::table::{Inserted, RangeWidths, TableFull};

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
        // Not into older boxes, because their fingerprints are shorter.
        let shelf = self.shelf_of(scaled, 0);
        let mut boxes = shelf.boxes.clone();
        if let Some(range_box) = boxes.iter_mut().find(|range_box| range_box.covers(scaled)) {
            range_box.add(spot.memento);
        } else {
            // The fingerprint is long enough to differ from each neighbour's, so the neighbours
            // don't change.
            let digits = boxes.iter().map(|range_box| self.to_tell_apart(scaled, range_box));
            let fingerprint = self.spelling.digits.fingerprint(scaled, digits.max().unwrap_or(1));
            let at = boxes.partition_point(|range_box| range_box.fingerprint < fingerprint);
            boxes.insert(at, RangeBox { fingerprint, age: 0, mementos: vec![spot.memento] });
        }
        let replaced = self.replace(&shelf, &boxes);
        replaced.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// Returns the number of digits that distinguish a partition from a box that doesn't cover it.
    fn to_tell_apart(&self, scaled: Scaled, range_box: &RangeBox) -> u32 {
        let quotient = scaled.quotient;
        let other = Scaled { quotient, fraction: range_box.fingerprint.prefix() };
        let digits = self.spelling.digits.to_tell_apart(scaled, other);
        digits.expect("the box doesn't cover the partition")
    }

    /// Removes a member from the box with the longest fingerprint that may contain it. So every
    /// other member is still in a box that covers it.
    pub(super) fn remove(&mut self, spot: Spot) -> Result<(), RemoveError> {
        let shelf = self.shelf(spot.partition);
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
        self.replace(&shelf, &boxes).expect("removing needs no more room");
        Ok(())
    }
}

impl RangeBox {
    fn add(&mut self, memento: u64) {
        let at = self.mementos.partition_point(|&other| other < memento);
        self.mementos.insert(at, memento);
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
