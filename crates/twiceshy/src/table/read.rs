//! Reading a table in order, entry by entry, block by block.

use super::layout::{Geometry, Place, Plane, QuotientTable, window};
use crate::bits::word::low_bits;
use core::ops::Range;

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) quotient: u64,
    pub(crate) remainder: u64,
    /// Its slots; more than one, if there is more of it than a remainder.
    pub(crate) slots: Range<u64>,
}

impl QuotientTable {
    /// All entries, in order.
    pub(crate) fn stored(&self) -> Reader<'_> {
        let mut reader = Reader {
            table: self,
            geometry: self.geometry(),
            home_block: 0,
            occupied: self.occupied(0),
            quotient: 0,
            position: 0,
            at: Place::default(),
            block: 0,
            run_ends: 0,
            extensions: 0,
        };
        reader.find_home();
        reader.enter(reader.place());
        reader
    }
}

/// Reads the entries of a table, in order.
///
/// Whether an entry ends its run can't be foreseen, so there is no branch on it.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    table: &'a QuotientTable,
    geometry: Geometry,
    /// The block of the quotient at hand, and those of it that have runs, from it on; none,
    /// if there are no more.
    home_block: usize,
    occupied: u64,
    quotient: u64,
    /// The slot to be read next, its block, that block's first position, and its planes.
    position: u64,
    at: Place,
    block: u64,
    run_ends: u64,
    extensions: u64,
}

impl Reader<'_> {
    /// Goes on to a quotient that has a run, from the block at hand on.
    #[inline(always)]
    fn find_home(&mut self) {
        while self.occupied == 0 {
            self.home_block += 1;
            if self.home_block >= self.table.blocks() {
                return;
            }
            self.occupied = self.table.occupied(self.home_block);
        }
        let first = self.table.start_of(self.home_block);
        self.quotient = first + u64::from(self.occupied.trailing_zeros());
        self.position = self.position.max(self.quotient);
    }

    fn place(&self) -> Place {
        self.table.place(self.position)
    }

    /// Reads the planes of the block of the position at hand.
    fn enter(&mut self, place: Place) {
        if place.block() < self.table.blocks() {
            let block = self.table.block_of(place);
            self.at = place;
            self.block = self.table.start_of(place.block());
            self.extensions = self.geometry.plane(block, Plane::Extension);
            self.run_ends = self.geometry.plane(block, Plane::RunEnd);
        }
    }

    #[inline(always)]
    fn lane(&self) -> u32 {
        (self.position - self.block) as u32
    }

    /// Makes the planes those of the block of the position.
    #[inline(always)]
    fn follow(&mut self) {
        if self.lane() >= self.geometry.lanes() {
            self.enter(self.place());
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Stored;

    #[inline(always)]
    fn next(&mut self) -> Option<Stored> {
        if self.occupied == 0 {
            return None;
        }
        let lane = self.lane();
        let block = self.table.block_of(self.at);
        let remainder =
            window(block, self.geometry.slot_at(lane)) & low_bits(self.geometry.width());
        let (quotient, start) = (self.quotient, self.position);
        let is_last = self.run_ends >> lane & 1;
        self.position += 1;
        self.follow();
        while self.extensions >> self.lane() & 1 == 1 {
            self.position += 1;
            self.follow();
        }
        let end = self.position;
        // The lowest bit goes, if the run ends here.
        self.occupied &= self.occupied.wrapping_sub(is_last);
        self.find_home();
        self.follow();
        Some(Stored { quotient, remainder, slots: start..end })
    }
}
