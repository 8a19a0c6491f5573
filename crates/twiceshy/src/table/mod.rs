//! The quotient table: runs of packed slots, located by rank and select.
//!
//! A table has `slots` *home slots*. For each quotient in `0..slots` it holds a *run* of entries.
//! An *entry* is a slot of kind [`Kind::Remainder`], followed by any number of [`Kind::Extension`]
//! and [`Kind::Counter`] slots. The filter that uses the table decides what the values mean and how
//! a run orders its entries.
//!
//! # Invariants
//! [`QuotientTable::validate`] checks all of them.
//!
//! 1. Runs lie in the order of their quotients, and each run is contiguous. No run starts before
//!    its home slot. A run starts after its home slot only if earlier runs push it there:
//!    `start(q) = max(q, end of the last run before q)`.
//! 2. `occupied[q]` is set exactly if quotient `q` has a run.
//! 3. Every run begins with a remainder. Exactly one remainder per run has its `runend` bit set:
//!    the last one. (The extension slots of that entry follow it, so a run ends before the first
//!    slot after its run end that isn't an extension.)
//! 4. The two bits (runend, extension) of a used slot give its kind: (·, 0) is a remainder, (0, 1)
//!    an extension, (1, 1) a counter. So a run end is always a set `runend` bit *whose `extension`
//!    bit is clear*.
//! 5. `spill[b]` is the number of slots, from the start of block `b` on, that belong to runs of
//!    earlier blocks. It is 255 if there are more than 254; then [`locate`] computes the number
//!    from the blocks before `b`.
//! 6. Unused slots and their bits in both planes are zero. So are the bits of a line after its
//!    slots. The very last slot is never used.
//! 7. [`Usage`] counts the used slots. There are at most `slots`.
//!
//! # What is read, and what only the writer knows
//! A [`QuotientTable`] consists of a header, which never changes, and the cache lines. Lookups read
//! nothing else. The writer also keeps a [`Usage`], and changes the table through an [`Editor`],
//! which refers to both.
//!
//! All operations rely on these invariants, except lookups. A lookup accepts lines with any
//! content; if they are not a valid table, its answer may be wrong, but it ends ([`Budget`]).
//!
//! # Spill-over tail
//! Runs that are pushed past the last home slot continue in a tail; nothing wraps around. With
//! uniform hashes, a full table needs a tail of about √slots. The tail has 4·√slots + 64 slots,
//! which are too few with a probability of e^-32. If the hashes are not uniform, the tail can fill
//! up; then an insert that finds no unused slot is refused.

mod block;
mod code;
mod edit;
mod insert;
mod locate;
mod read;
mod scan;
mod shift;
mod validate;
mod words;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use block::{
    BareShapes, CodedShapes, MOST_CODE_BITS, Place, RangeWidths, SLOTS, Shape, USUAL_CODE_BITS,
    WIDTHS, Widths,
};
pub(crate) use edit::rewrite;
pub(crate) use insert::Inserted;
pub(crate) use locate::{Budget, Spot};
pub(crate) use read::{BlockReader, First, Stored};
pub(crate) use scan::{Equal, Evidence, Scan, Wanted, Window};
pub(crate) use words::{Kind, Slot};
pub(crate) use write::TableWriter;

use crate::bits::machine::Level;
use crate::bits::memory::{LINE, Lines};
use block::Geometry;
use core::ops::{Deref, DerefMut};

/// The error when there are not enough unused slots where they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// A table of runs: all that lookups read. See the [module](self).
#[derive(Clone)]
pub(crate) struct QuotientTable {
    header: Header,
    lines: Lines,
}

/// The part of a table that never changes.
#[derive(Clone, Copy)]
struct Header {
    slots: u64,
    geometry: Geometry,
    level: Level,
}

/// The writer's state of a table. Lookups don't need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Number of used slots.
    pub(crate) used: u64,
    /// Maximum number of slots that may be used. It is at most the number of home slots.
    pub(crate) limit: u64,
}

/// A table that is being changed, and its writer's state.
pub(crate) struct Editor<'a> {
    table: &'a mut QuotientTable,
    usage: &'a mut Usage,
}

impl Deref for Editor<'_> {
    type Target = QuotientTable;

    #[inline(always)]
    fn deref(&self) -> &QuotientTable {
        self.table
    }
}

impl DerefMut for Editor<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut QuotientTable {
        self.table
    }
}

impl QuotientTable {
    /// Returns an empty table. Returns `None` if there is not enough memory, or if the parameters
    /// are invalid: `slots` must be in [`SLOTS`], and the width in [`WIDTHS`].
    pub(crate) fn new(slots: u64, shape: impl Into<Shape>) -> Option<Self> {
        let shape = shape.into();
        Self::over(Lines::zeroed(Self::blocks_for(slots, shape)?)?, slots, shape)
    }

    /// Returns a table of the given shape that uses `lines` as its memory. Returns `None` if the
    /// table needs more lines. The content is not checked, so it may be invalid; call
    /// [`validate`](Self::validate) to check it.
    pub(crate) fn over(lines: Lines, slots: u64, shape: impl Into<Shape>) -> Option<Self> {
        let shape = shape.into();
        let fits = Self::blocks_for(slots, shape)? <= lines.len();
        let header = Header { slots, geometry: Geometry::of(shape), level: Level::detect() };
        fits.then_some(Self { header, lines })
    }

    /// Returns the number of lines of a table of this shape, or `None` if the parameters are
    /// invalid.
    pub(crate) fn blocks_for(slots: u64, shape: impl Into<Shape>) -> Option<usize> {
        let shape = shape.into();
        let possible = SLOTS.contains(&slots) && WIDTHS.contains(&shape.width);
        let lanes = possible.then(|| u64::from(Geometry::of(shape).lanes))?;
        usize::try_from((slots + 4 * slots.isqrt() + 64).div_ceil(lanes)).ok()
    }

    /// Returns the number of bytes of a table of this shape, or `None` if the parameters are
    /// invalid.
    pub(crate) fn bytes_for(slots: u64, shape: impl Into<Shape>) -> Option<u64> {
        Some(Self::blocks_for(slots, shape)? as u64 * LINE as u64)
    }

    /// Lengthens the tail by 1 % of the table, for hashes that are not uniform and so make longer
    /// runs. Returns whether there was enough memory.
    pub(crate) fn lengthen_tail(&mut self) -> bool {
        let lengthened = self.lines.extended(self.blocks() / 100 + 1);
        lengthened.map(|lines| self.lines = lines).is_some()
    }

    /// Returns the writer's state for this table, in which `used` slots are used.
    pub(crate) fn usage(&self, used: u64) -> Usage {
        Usage { used, limit: self.slots() }
    }

    #[inline(always)]
    pub(crate) fn editor<'a>(&'a mut self, usage: &'a mut Usage) -> Editor<'a> {
        Editor { table: self, usage }
    }
}

impl Editor<'_> {
    /// Removes all runs.
    pub(crate) fn clear(&mut self) {
        self.lines.bytes_mut().fill(0);
        self.usage.used = 0;
    }
}
