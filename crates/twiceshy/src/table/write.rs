//! Filling a table in order, in one pass.

use super::TableFull;
use super::layout::{QuotientTable, Slot};

/// Appends entries to a table in the order of their quotients, without ever moving
/// one.
pub(crate) struct TableWriter {
    table: QuotientTable,
    /// The quotient of the run being written, and the remainder of its last entry.
    run: Option<(u64, u64)>,
    /// One past the last slot written.
    end: u64,
}

impl TableWriter {
    /// Writes into `table`, which must be empty.
    pub(crate) fn new(table: QuotientTable) -> Self {
        debug_assert_eq!(table.used(), 0);
        Self { table, run: None, end: 0 }
    }

    /// Appends an entry to the run of `quotient`, which must not be less than the one
    /// before.
    pub(crate) fn push(
        &mut self,
        quotient: u64,
        entry: impl IntoIterator<Item = Slot>,
    ) -> Result<(), TableFull> {
        if self.run.is_none_or(|(current, _)| current != quotient) {
            self.begin_run(quotient);
        }
        let head = self.end;
        for slot in entry {
            if self.end == self.table.end() || self.table.used == self.table.slots() {
                return Err(TableFull);
            }
            self.table.write(self.end, slot);
            self.table.used += 1;
            self.end += 1;
        }
        self.run = Some((quotient, head));
        Ok(())
    }

    fn begin_run(&mut self, quotient: u64) {
        let first = self.end_run();
        self.write_spills(first, self.table.place(quotient).block() + 1);
        self.table.set_occupied(quotient, true);
        self.end = self.end.max(quotient);
    }

    /// Marks the end of the run being written. Returns the first block that has no
    /// spill yet.
    fn end_run(&mut self) -> usize {
        self.run.take().map_or(0, |(quotient, last)| {
            self.table.set_run_end(last, true);
            self.table.place(quotient).block() + 1
        })
    }

    /// Writes the spills of some blocks; where there is none they are zero already, and
    /// memory that nothing is written to costs nothing.
    fn write_spills(&mut self, first: usize, end: usize) {
        for block in first..end {
            let spill = self.end.saturating_sub(self.table.start_of(block));
            if spill == 0 {
                break;
            }
            self.table.set_spill(block, spill);
        }
    }

    /// The table with all that was written.
    pub(crate) fn finish(mut self) -> QuotientTable {
        let first = self.end_run();
        self.write_spills(first, self.table.blocks());
        self.table
    }
}
