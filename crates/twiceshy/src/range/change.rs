//! Inserting and removing members.

use super::boxes::{Boxes, Spot};
use super::keepsake::Keepsake;
use crate::bits::machine::{Machine, Operation};
use crate::error::{InsertError, RemoveError};
use crate::hash::Scaled;
use crate::table::{Inserted, TableFull, with_range_width};

impl Boxes {
    pub(super) fn insert(&mut self, spot: Spot) -> Result<(), InsertError> {
        let level = self.table.level();
        if level.run(InsertAlone { boxes: self, spot }) {
            self.len += 1;
            return Ok(());
        }
        self.insert_among(spot)
    }

    /// Inserts a member where there may be boxes of its quotient and remainder, or too little
    /// room.
    fn insert_among(&mut self, spot: Spot) -> Result<(), InsertError> {
        let scaled = self.scale(spot.partition);
        // Older ones have less of it than can be had.
        let shelf = self.shelf_of(scaled, 0);
        let mut boxes = shelf.boxes.clone();
        if let Some(keepsake) = boxes.iter_mut().find(|keepsake| keepsake.covers(scaled)) {
            keepsake.add(spot.memento);
        } else {
            // As long as it takes to tell it from each neighbour, so that these cover no more
            // and no less than before.
            let digits = boxes.iter().map(|keepsake| self.to_tell_apart(scaled, keepsake));
            let fingerprint = self.spelling.digits.fingerprint(scaled, digits.max().unwrap_or(1));
            let at = boxes.partition_point(|keepsake| keepsake.fingerprint < fingerprint);
            boxes.insert(at, Keepsake { fingerprint, age: 0, mementos: vec![spot.memento] });
        }
        let replaced = self.replace(&shelf, &boxes);
        replaced.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// How many digits of a partition a box, which doesn't cover it, lacks.
    fn to_tell_apart(&self, scaled: Scaled, keepsake: &Keepsake) -> u32 {
        let quotient = scaled.quotient;
        let other = Scaled { quotient, fraction: keepsake.fingerprint.prefix() };
        let digits = self.spelling.digits.to_tell_apart(scaled, other);
        digits.expect("a box that doesn't cover it")
    }

    /// Removes a member from the deepest box that may have it: so each other member is still in
    /// one that covers it.
    pub(super) fn remove(&mut self, spot: Spot) -> Result<(), RemoveError> {
        let shelf = self.shelf(spot.partition);
        let scaled = self.scale(spot.partition);
        let mut boxes = shelf.boxes.clone();
        let owners = boxes.iter().enumerate().filter_map(|(index, keepsake)| {
            let at = keepsake.mementos.binary_search(&spot.memento).ok();
            let at = at.filter(|_| keepsake.covers(scaled))?;
            Some((keepsake.fingerprint.bits(), index, at))
        });
        let (_, index, at) = owners.max().ok_or(RemoveError::Absent)?;
        boxes[index].mementos.remove(at);
        if boxes[index].mementos.is_empty() {
            boxes.remove(index);
        }
        self.replace(&shelf, &boxes).expect("it takes less room");
        Ok(())
    }
}

impl Keepsake {
    fn add(&mut self, memento: u64) {
        let at = self.mementos.partition_point(|&other| other < memento);
        self.mementos.insert(at, memento);
    }
}

/// Inserts a member as a box of its own, unless there are boxes of its quotient and remainder;
/// whether it did.
struct InsertAlone<'a> {
    boxes: &'a mut Boxes,
    spot: Spot,
}

impl Operation for InsertAlone<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        with_range_width!(self.boxes.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl InsertAlone<'_> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> bool {
        let Boxes { table, spelling, .. } = self.boxes;
        let scaled = spelling.digits.scale(self.spot.partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let value = spelling.first(remainder, self.spot.memento);
        let home = table.home::<WIDTH>(scaled.quotient);
        match table.insert_here::<M, WIDTH>(machine, home, value, spelling.memento_bits) {
            Inserted::Done => true,
            Inserted::At(spot) => {
                table.insert_at::<M, WIDTH>(machine, home, spot, home.next_block(), value).is_ok()
            }
            Inserted::Nowhere => {
                let mut walk = table.walk::<M, WIDTH>(machine, home);
                let heading = spelling.heading(remainder, 0);
                if table.is_occupied_at::<WIDTH>(home) {
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
                table.insert_at::<M, WIDTH>(machine, home, spot, spot.at, value).is_ok()
            }
        }
    }
}
