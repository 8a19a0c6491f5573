//! Reading a table in order, block by block.

use super::block::Plane;
use super::locate::Budget;
use super::scan::Runs;
use super::{Slot, Widths, Words};
use crate::bits::machine::{Machine, Operation};
use core::ops::Range;

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) quotient: u64,
    pub(crate) remainder: u64,
    /// The slots of the entry. There is more than one if the entry is more than a remainder.
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

impl Words {
    /// Returns an iterator over all entries, in order.
    pub(crate) fn stored(&self) -> Reader<'_> {
        Reader { blocks: BlockReader::new(self), firsts: Vec::new(), at: 0 }
    }

    /// Returns the slot at `position` if it continues an entry, else `None`. The table may be
    /// invalid, and `position` may lie past its end.
    #[inline(always)]
    pub(crate) fn continuation(&self, position: u64) -> Option<Slot> {
        let goes_on = position <= self.end() && self.is_extension(position);
        goes_on.then(|| Slot { value: self.value(position), kind: self.kind(position) })
    }

    /// Returns an iterator over the slots from `position` on that continue an entry. The table may
    /// be invalid; the iterator stops when the budget is spent.
    #[inline(always)]
    pub(crate) fn continuations(
        &self,
        position: u64,
        budget: &mut Budget,
    ) -> impl Iterator<Item = Slot> {
        (position..).map_while(|position| {
            if self.place(position).lane() == 0 {
                budget.spend()?;
            }
            self.continuation(position)
        })
    }

    /// Returns an iterator over the entries in `slots`, as the range of slots of each. `slots` must
    /// consist of whole entries.
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
            table.target().run(ReadBlock(self));
        }
        let &First { quotient, remainder, position, more } = self.firsts.get(self.at)?;
        self.at += 1;
        let end = if more { table.skip_extensions(position + 1) } else { position + 1 };
        Some(Stored { quotient, remainder, slots: position..end })
    }
}

/// Reads the blocks of a table, in order.
pub(crate) struct BlockReader<'a> {
    table: &'a Words,
    /// The block to read next.
    next: usize,
    home: Home,
}

/// The block of the current quotient, and its first position. `occupied` has the block's quotients
/// with runs, from the current quotient on.
#[derive(Clone, Copy)]
struct Home {
    block: usize,
    first: u64,
    occupied: u64,
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(table: &'a Words) -> Self {
        let home = Home { block: 0, first: 0, occupied: table.occupied(0) };
        Self { table, next: 0, home }
    }

    /// Calls `each` with the entries that begin in the next block that has any. There are fewer
    /// than 64 of them, and none if there is no such block.
    ///
    /// Whether an entry ends its run is unpredictable, so the code doesn't branch on it.
    #[inline(always)]
    pub(crate) fn read<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        mut each: impl FnMut(First),
    ) {
        let (table, geometry) = (self.table, self.table.geometry_of::<SHAPE>());
        let mut entries = 0;
        while entries == 0 && self.next < table.blocks() {
            entries = table.entries_of::<M, SHAPE>(machine, self.next);
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
            // Clear the lowest bit if the run ends here.
            home.occupied &= home.occupied.wrapping_sub(run_ends >> lane & 1);
        }
        self.home = home;
    }
}

impl Home {
    /// Returns the next block with occupied quotients. A valid table has one as long as entries are
    /// left.
    #[cold]
    #[inline(never)]
    fn next(self, table: &Words) -> Self {
        let found = (self.block + 1..table.blocks()).find(|&block| table.occupied(block) != 0);
        let block = found.expect("a valid table");
        Self { block, first: table.start_of(block), occupied: table.occupied(block) }
    }
}

impl Words {
    /// Returns the lanes of a block where entries begin.
    #[inline(always)]
    fn entries_of<M: Machine, const SHAPE: u32>(&self, machine: M, block: usize) -> u64 {
        let (geometry, block) = (self.geometry_of::<SHAPE>(), self.block(block));
        let runs = Runs::of(machine, geometry, block);
        !runs.extensions & !runs.all_unused(machine)
    }
}

struct ReadBlock<'r, 'a>(&'r mut Reader<'a>);

impl Operation for ReadBlock<'_, '_> {
    type Argument = ();
    type Output = ();
    type Shapes = Widths;
    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        let Reader { blocks, firsts, at } = self.0;
        firsts.clear();
        blocks.read::<M, SHAPE>(machine, |first| firsts.push(first));
        *at = 0;
    }
}
