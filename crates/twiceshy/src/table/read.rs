//! Reads a table in order, block by block.

use super::block::Plane;
use super::scan::Runs;
use super::{QuotientTable, Widths};
use crate::bits::machine::{Machine, dispatched};
use core::ops::Range;

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) quotient: u64,
    pub(crate) remainder: u64,
    /// The slots of the entry. An entry that is only a remainder has one slot.
    pub(crate) slots: Range<u64>,
}

/// The first slot of an entry.
#[derive(Clone, Copy)]
pub(crate) struct First {
    pub(crate) quotient: u64,
    pub(crate) remainder: u64,
    pub(crate) position: u64,
    /// Whether the entry has more slots.
    pub(crate) more: bool,
}

impl QuotientTable {
    /// Returns an iterator over all entries, in order.
    pub(crate) fn stored(&self) -> Reader<'_> {
        Reader { blocks: BlockReader::new(self), firsts: Vec::new(), at: 0 }
    }

    /// Returns an iterator over the entries in `slots`. Each item is the range of one entry's
    /// slots. `slots` must consist of whole entries.
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
pub(crate) struct Reader<'a> {
    blocks: BlockReader<'a>,
    /// The entries of the current block, and how many of them have been returned.
    firsts: Vec<First>,
    at: usize,
}

impl Iterator for Reader<'_> {
    type Item = Stored;

    #[inline]
    fn next(&mut self) -> Option<Stored> {
        let table = self.blocks.table;
        if self.at == self.firsts.len() {
            read_block(self);
        }
        let &First { quotient, remainder, position, more } = self.firsts.get(self.at)?;
        self.at += 1;
        let end = if more { table.skip_extensions(position + 1) } else { position + 1 };
        Some(Stored { quotient, remainder, slots: position..end })
    }
}

/// Reads the blocks of a table, in order.
pub(crate) struct BlockReader<'a> {
    table: &'a QuotientTable,
    /// The block to read next.
    next: usize,
    home: Home,
}

/// The home block of the current quotient, and the block's first position. The set bits of
/// `occupied` are the block's quotients with runs, from the current quotient on.
#[derive(Clone, Copy)]
struct Home {
    block: usize,
    first: u64,
    occupied: u64,
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(table: &'a QuotientTable) -> Self {
        let home = Home { block: 0, first: 0, occupied: table.occupied(0) };
        Self { table, next: 0, home }
    }

    /// Finds the next block in which entries begin, and calls `each` with each of these entries.
    /// There are fewer than 64 of them, and none if no such block is left.
    ///
    /// The processor can't predict whether an entry ends its run, so the code doesn't branch on
    /// that.
    #[inline(always)]
    pub(crate) fn read<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        mut each: impl FnMut(First),
    ) {
        let (table, geometry) = (self.table, self.table.geometry_of::<SHAPE>());
        let mut entries = 0;
        while entries == 0 && self.next < table.blocks() {
            let runs = Runs::of(machine, geometry, table.block(self.next));
            entries = !runs.extensions & !runs.all_unused(machine);
            self.next += 1;
        }
        if entries == 0 {
            return;
        }
        let at = self.next - 1;
        let (block, start) = (table.block(at), table.start_of(at));
        let run_ends = geometry.raw_plane(block, Plane::RunEnd);
        let goes_on =
            self.next < table.blocks() && table.is_extension(start + u64::from(geometry.lanes));
        let extensions =
            geometry.plane(block, Plane::Extension) | u64::from(goes_on) << geometry.lanes;
        let mut home = self.home;
        while entries != 0 {
            let lane = entries.trailing_zeros();
            entries &= entries - 1;
            if home.occupied == 0 {
                home = home.next(table);
            }
            each(First {
                quotient: home.first + u64::from(home.occupied.trailing_zeros()),
                remainder: geometry.slot(block, lane),
                position: start + u64::from(lane),
                more: extensions >> (lane + 1) & 1 == 1,
            });
            // If the run ends here, clear the lowest bit, which is that of the current quotient.
            home.occupied &= home.occupied.wrapping_sub(run_ends >> lane & 1);
        }
        self.home = home;
    }
}

impl Home {
    /// Returns the next block with occupied quotients. In a valid table there is one as long as
    /// entries are left.
    #[cold]
    #[inline(never)]
    fn next(self, table: &QuotientTable) -> Self {
        let found = (self.block + 1..table.blocks()).find(|&block| table.occupied(block) != 0);
        let block = found.expect("a valid table");
        Self { block, first: table.start_of(block), occupied: table.occupied(block) }
    }
}

dispatched! {
    fn read_block<'r, 'a>(reader: &'r mut Reader<'a>) -> ()
    => reader.blocks.table.target(), Widths, |machine| {
        reader.firsts.clear();
        reader.blocks.read::<M, SHAPE>(machine, |first| reader.firsts.push(first));
        reader.at = 0;
    }
}
