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
            homes: Homes { block: 0, occupied: self.occupied(0) },
            at: Place::default(),
            run_ends: 0,
            extensions: 0,
            run: None,
        };
        reader.enter(Place::default());
        reader
    }
}

/// Which quotients have runs, from some one on.
#[derive(Clone)]
struct Homes {
    block: usize,
    /// Those of the block that are still to come.
    occupied: u64,
}

/// Reads the entries of a table, in order.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    table: &'a QuotientTable,
    geometry: Geometry,
    homes: Homes,
    /// The first slot that isn't read yet, and the planes of its block.
    at: Place,
    run_ends: u64,
    extensions: u64,
    /// The quotient of the run that goes on there.
    run: Option<u64>,
}

impl Reader<'_> {
    /// Goes on at a place of another block.
    #[inline(always)]
    fn enter(&mut self, place: Place) {
        self.at = place;
        if place.block() < self.table.blocks() {
            let block = self.table.block_of(place);
            self.extensions = self.geometry.plane(block, Plane::Extension);
            self.run_ends = self.geometry.plane(block, Plane::RunEnd);
        }
    }

    #[inline(always)]
    fn step(&mut self) {
        if self.at.lane() + 1 == self.geometry.lanes() {
            self.enter(self.at.next_block());
        } else {
            self.at = self.at.up(1);
        }
    }

    /// The next quotient that has a run, and its home.
    #[inline(always)]
    fn next_home(&mut self) -> Option<(u64, Place)> {
        while self.homes.occupied == 0 {
            self.homes.block += 1;
            if self.homes.block >= self.table.blocks() {
                return None;
            }
            self.homes.occupied = self.table.occupied(self.homes.block);
        }
        let lane = self.homes.occupied.trailing_zeros();
        self.homes.occupied &= self.homes.occupied - 1;
        let home = Place::new(self.homes.block, lane);
        Some((self.table.position(home), home))
    }
}

impl Iterator for Reader<'_> {
    type Item = Stored;

    #[inline(always)]
    fn next(&mut self) -> Option<Stored> {
        let quotient = if let Some(quotient) = self.run {
            quotient
        } else {
            let (quotient, home) = self.next_home()?;
            if home.block() > self.at.block() {
                self.enter(home);
            } else if home > self.at {
                self.at = home;
            }
            quotient
        };
        let slot = self.geometry.slot_at(self.at.lane());
        let remainder =
            window(self.table.block_of(self.at), slot) & low_bits(self.geometry.width());
        let start = self.table.position(self.at);
        self.run = (self.run_ends >> self.at.lane() & 1 == 0).then_some(quotient);
        let mut end = start + 1;
        self.step();
        while self.extensions >> self.at.lane() & 1 == 1 {
            end += 1;
            self.step();
        }
        Some(Stored { quotient, remainder, slots: start..end })
    }
}
