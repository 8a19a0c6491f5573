//! Filling a table in order, in one pass.
//!
//! Slots are gathered in a line at hand, and occupied bits in a word; each goes to the
//! table once, when it is complete.

use super::TableFull;
use super::layout::{Kind, Place, Plane, Planes, QuotientTable, Slot, set_word, word};

/// Appends entries to a table in the order of their quotients, without ever moving
/// one.
pub(crate) struct TableWriter<'a> {
    table: &'a mut QuotientTable,
    /// The run being written: its quotient, and where its last remainder is.
    run: Option<Run>,
    /// The first slot that isn't written yet.
    at: Place,
    /// Where the table ends.
    end: Place,
    /// What was written of the block of `at`, but its occupied bits.
    line: [u64; 8],
    /// The occupied bits of the block of the run's quotient.
    occupied: u64,
}

#[derive(Clone, Copy)]
struct Run {
    quotient: u64,
    home: Place,
    last: Place,
}

impl<'a> TableWriter<'a> {
    /// Writes into `table`, which must be empty, and is no table until it is
    /// [finished](Self::finish).
    pub(crate) fn new(table: &'a mut QuotientTable) -> Self {
        debug_assert_eq!(table.used(), 0);
        let end = table.place(table.end());
        Self { table, run: None, at: Place::default(), end, line: [0; 8], occupied: 0 }
    }

    /// Appends an entry to the run of `quotient`, which must not be less than the one
    /// before.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        quotient: u64,
        entry: impl IntoIterator<Item = Slot>,
    ) -> Result<(), TableFull> {
        let home = match self.run {
            Some(run) if run.quotient == quotient => run.home,
            _ => self.begin_run(quotient),
        };
        self.run = Some(Run { quotient, home, last: self.at });
        for slot in entry {
            self.write(slot)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn write(&mut self, slot: Slot) -> Result<(), TableFull> {
        if self.at >= self.end || self.table.used >= self.table.limit {
            return Err(TableFull);
        }
        let (geometry, lane) = (self.table.geometry(), self.at.lane());
        self.put(geometry.slot_at(lane), slot.value);
        if slot.kind != Kind::Remainder {
            self.put(geometry.plane_at(Plane::Extension) + lane, 1);
            self.put(geometry.plane_at(Plane::RunEnd) + lane, (slot.kind == Kind::Counter).into());
        }
        self.table.used += 1;
        if lane + 1 == geometry.lanes() {
            self.move_to(self.at.next_block());
        } else {
            self.at = self.at.up(1);
        }
        Ok(())
    }

    /// Puts bits into the line at hand.
    #[inline(always)]
    fn put(&mut self, at: u32, value: u64) {
        let wide = u128::from(value) << (at % 64);
        self.line[at as usize / 64 % 8] |= wide as u64;
        if wide >> 64 != 0 {
            self.line[at as usize / 64 + 1] |= (wide >> 64) as u64;
        }
    }

    /// Goes on at a place further on; what is passed over is unused.
    #[inline(always)]
    fn move_to(&mut self, place: Place) {
        if place.block() != self.at.block() {
            self.write_line();
        }
        self.at = place;
    }

    fn write_line(&mut self) {
        let line = core::mem::take(&mut self.line);
        let block = self.table.block_mut_of(self.at);
        for (at, part) in (0..).step_by(64).zip(line) {
            set_word(block, at, word(block, at) | part);
        }
    }

    #[inline(always)]
    fn begin_run(&mut self, quotient: u64) -> Place {
        let home = self.table.place(quotient);
        self.end_run(home);
        self.occupied |= 1 << home.lane();
        if home > self.at {
            self.move_to(home);
        }
        home
    }

    /// Marks the end of the run being written, and writes what is known by now of the
    /// blocks before `next`'s.
    #[inline(always)]
    fn end_run(&mut self, next: Place) {
        let mut home = Place::default();
        if let Some(Run { home: its, last, .. }) = self.run {
            home = its;
            if last.block() == self.at.block() {
                self.put(self.table.geometry().plane_at(Plane::RunEnd) + last.lane(), 1);
            } else {
                self.table.set_bit_at::<0>(last, Plane::RunEnd, true);
            }
        }
        if next.block() != home.block() {
            self.end_blocks(home, next);
        }
    }

    /// Writes the occupied bits of the block of `home`, and the spills from there up to
    /// `next`; where there is none they are zero already, and memory that nothing is
    /// written to costs nothing.
    fn end_blocks(&mut self, home: Place, next: Place) {
        let occupied = core::mem::take(&mut self.occupied);
        let flips = Planes { occupied, ..Planes::default() };
        self.table.geometry().flip(self.table.block_mut_of(home), flips);
        let end = self.table.position(self.at);
        for block in home.block() + 1..=next.block() {
            let spill = end.saturating_sub(self.table.start_of(block));
            if spill == 0 {
                break;
            }
            self.table.set_spill(block, spill);
        }
    }

    /// Writes what is still at hand.
    pub(crate) fn finish(mut self) {
        self.end_run(Place::new(self.table.blocks() - 1, 0));
        self.write_line();
    }
}
