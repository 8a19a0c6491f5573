//! Reading a table in order, entry by entry, block by block.

use super::layout::{Geometry, Place, Plane, QuotientTable, Slot, window};
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

/// A run: its quotient and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) quotient: u64,
    pub(crate) slots: Range<u64>,
}

impl QuotientTable {
    /// All entries, in order.
    pub(crate) fn stored(&self) -> Reader<'_> {
        let mut reader = Reader {
            table: self,
            geometry: self.geometry(),
            home_block: 0,
            first_home: 0,
            occupied: self.occupied(0),
            position: 0,
            at: Place::default(),
            first: 0,
            run_ends: 0,
            extensions: 0,
        };
        reader.enter();
        reader.go_home();
        reader
    }

    /// The slot at `position`, if an entry goes on there; in any table, and behind it.
    #[inline(always)]
    pub(crate) fn continuation(&self, position: u64) -> Option<Slot> {
        let goes_on = position <= self.end() && self.is_extension(position);
        goes_on.then(|| Slot { value: self.value(position), kind: self.kind(position) })
    }

    /// The entries in `slots`, which are whole ones: each one's slots.
    pub(crate) fn entries(&self, slots: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut start = slots.start;
        core::iter::from_fn(move || {
            if start == slots.end {
                return None;
            }
            let entry = start..self.skip_extensions(start + 1);
            start = entry.end;
            Some(entry)
        })
    }
}

/// Reads the entries of a table, in order.
///
/// Whether an entry ends its run can't be foreseen, so there is no branch on it.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    table: &'a QuotientTable,
    geometry: Geometry,
    /// The block of the quotient at hand, its first position, and its quotients that have
    /// runs, from that one on; none, if there are no more.
    home_block: usize,
    first_home: u64,
    occupied: u64,
    /// The slot to be read next, its block, that block's first position, and its planes.
    position: u64,
    at: Place,
    first: u64,
    run_ends: u64,
    extensions: u64,
}

impl Reader<'_> {
    #[inline(always)]
    fn quotient(&self) -> u64 {
        self.first_home + u64::from(self.occupied.trailing_zeros())
    }

    #[inline(always)]
    fn lane(&self) -> u32 {
        (self.position - self.first) as u32
    }

    /// Goes on to where the run of the quotient at hand goes on, or begins.
    #[inline(always)]
    fn go_home(&mut self) {
        if self.occupied == 0 {
            self.find_home();
        }
        self.position = self.position.max(self.quotient());
        if self.lane() >= self.geometry.lanes() {
            self.enter();
        }
    }

    /// Goes on to the next block that has quotients with runs.
    #[inline(never)]
    fn find_home(&mut self) {
        while self.occupied == 0 && self.home_block + 1 < self.table.blocks() {
            self.home_block += 1;
            self.occupied = self.table.occupied(self.home_block);
        }
        self.first_home = self.table.start_of(self.home_block);
    }

    /// Reads the planes of the block of the position at hand.
    #[inline(never)]
    fn enter(&mut self) {
        let place = self.table.place(self.position);
        if place.block() < self.table.blocks() {
            let block = self.table.block_of(place);
            self.at = Place::new(place.block(), 0);
            self.first = self.table.start_of(place.block());
            self.extensions = self.geometry.plane(block, Plane::Extension);
            self.run_ends = self.geometry.plane(block, Plane::RunEnd);
        }
    }

    /// Goes on behind what is more of the entry at hand than a remainder.
    #[inline(never)]
    fn pass_extensions(&mut self) {
        loop {
            self.position += 1;
            if self.lane() >= self.geometry.lanes() {
                self.enter();
            }
            if self.extensions >> self.lane() & 1 == 0 {
                return;
            }
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
        let (quotient, start, lane) = (self.quotient(), self.position, self.lane());
        let slot = self.geometry.slot_at(lane);
        let remainder =
            window(self.table.block_of(self.at), slot) & low_bits(self.geometry.width());
        let is_last = self.run_ends >> lane & 1;
        if lane + 1 < self.geometry.lanes() && self.extensions >> (lane + 1) & 1 == 0 {
            self.position += 1;
        } else {
            self.pass_extensions();
        }
        let end = self.position;
        // The lowest bit goes, if the run ends here.
        self.occupied &= self.occupied.wrapping_sub(is_last);
        self.go_home();
        Some(Stored { quotient, remainder, slots: start..end })
    }
}
