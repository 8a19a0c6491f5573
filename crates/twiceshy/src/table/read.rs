//! Reading a table in order, block by block.

use super::budget::Budget;
use super::layout::{Plane, QuotientTable, Slot, stored_spill, with_width};
use super::locate::Clusters;
use crate::bits::machine::{Machine, Operation};
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

/// The first slot of an entry.
#[derive(Clone, Copy)]
pub(crate) struct First {
    pub(crate) quotient: u64,
    pub(crate) remainder: u64,
    pub(crate) position: u64,
    /// Whether there is more of the entry.
    pub(crate) more: bool,
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
        Reader { blocks: BlockReader::new(self), firsts: Vec::new(), at: 0 }
    }

    /// The entry that begins with a slot.
    #[inline]
    pub(crate) fn stored_from(&self, first: First) -> Stored {
        let First { quotient, remainder, position, more } = first;
        let end = if more { self.skip_extensions(position + 1) } else { position + 1 };
        Stored { quotient, remainder, slots: position..end }
    }

    /// The slot at `position`, if an entry goes on there; in any table, and behind it.
    #[inline(always)]
    pub(crate) fn continuation(&self, position: u64) -> Option<Slot> {
        let goes_on = position <= self.end() && self.is_extension(position);
        goes_on.then(|| Slot { value: self.value(position), kind: self.kind(position) })
    }

    /// The slots from `position` on where an entry goes on; in any table, as far as a budget
    /// allows.
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

    /// The entries in `slots`, which are whole ones: each one's slots.
    pub(crate) fn entries(&self, slots: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut start = slots.start;
        core::iter::from_fn(move || {
            if start == slots.end {
                return None;
            }
            let behind = start + 1;
            let more = self.is_extension(behind);
            let entry = start..if more { self.skip_extensions(behind) } else { behind };
            start = entry.end;
            Some(entry)
        })
    }
}

/// Reads the entries of a table, in order.
pub(crate) struct Reader<'a> {
    blocks: BlockReader<'a>,
    /// The entries of a block, and how many of them are passed.
    firsts: Vec<First>,
    at: usize,
}

impl Iterator for Reader<'_> {
    type Item = Stored;

    #[inline]
    fn next(&mut self) -> Option<Stored> {
        let table = self.blocks.table;
        if self.at == self.firsts.len() {
            table.level().run(ReadBlock(self));
        }
        let first = *self.firsts.get(self.at)?;
        self.at += 1;
        Some(table.stored_from(first))
    }
}

/// Reads the blocks of a table, in order.
pub(crate) struct BlockReader<'a> {
    table: &'a QuotientTable,
    /// The block to be read next.
    next: usize,
    home: Home,
}

/// The block of the quotient at hand, its first position, and its quotients that have runs,
/// from that one on.
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

    /// Calls `each` with the entries that begin in the next block that has any: fewer than
    /// 64, and none if there is no such block.
    ///
    /// Whether an entry ends its run can't be foreseen, so there is no branch on it.
    #[inline(always)]
    pub(crate) fn read<M: Machine>(&mut self, machine: M, each: impl FnMut(First)) {
        with_width!(self.table.shape().constant(), WIDTH => self.read_with::<M, WIDTH>(machine, each));
    }

    #[inline(always)]
    fn read_with<M: Machine, const WIDTH: u32>(&mut self, machine: M, mut each: impl FnMut(First)) {
        let (table, geometry) = (self.table, self.table.geometry_of::<WIDTH>());
        let mut entries = 0;
        while entries == 0 && self.next < table.blocks() {
            entries = table.entries_of::<M, WIDTH>(machine, self.next);
            self.next += 1;
        }
        if entries == 0 {
            return;
        }
        let at = self.next - 1;
        let (block, start) = (table.block(at), table.start_of(at));
        let run_ends = geometry.raw_plane(block, Plane::RunEnd);
        let goes_on = self.next < table.blocks() && table.extensions(self.next) & 1 == 1;
        let extensions =
            geometry.plane(block, Plane::Extension) | u64::from(goes_on) << geometry.lanes();
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
            // The lowest bit goes, if the run ends here.
            home.occupied &= home.occupied.wrapping_sub(run_ends >> lane & 1);
        }
        self.home = home;
    }
}

impl Home {
    /// The next one; of a valid table, there is one as long as there are entries.
    #[cold]
    #[inline(never)]
    fn next(self, table: &QuotientTable) -> Self {
        let found = (self.block + 1..table.blocks()).find(|&block| table.occupied(block) != 0);
        let block = found.expect("a valid table");
        Self { block, first: table.start_of(block), occupied: table.occupied(block) }
    }
}

impl QuotientTable {
    /// The lanes of a block where entries begin.
    #[inline(always)]
    fn entries_of<M: Machine, const WIDTH: u32>(&self, machine: M, block: usize) -> u64 {
        let (geometry, block) = (self.geometry_of::<WIDTH>(), self.block(block));
        let extensions = geometry.plane(block, Plane::Extension);
        // A saturated spill is all of the block, too.
        let spill = geometry.lanes().min(stored_spill(block) as u32);
        let clusters = Clusters {
            occupied: geometry.plane(block, Plane::Occupied),
            ends: geometry.run_ends(block) & !low_bits(spill),
            extensions,
            lanes: geometry.lanes(),
        };
        low_bits(geometry.lanes()) & !extensions & !clusters.all_unused(machine, spill)
    }
}

struct ReadBlock<'r, 'a>(&'r mut Reader<'a>);

impl Operation for ReadBlock<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Reader { blocks, firsts, at } = self.0;
        firsts.clear();
        blocks.read(machine, |first| firsts.push(first));
        *at = 0;
    }
}
