//! The quotient table: runs of packed slots, located by rank and select.
//!
//! A table has `slots` *home slots* and holds, for each quotient `0..slots`, a
//! *run* of entries. An *entry* is a slot of kind [`Kind::Remainder`] and any number
//! of [`Kind::Extension`] and [`Kind::Counter`] slots behind it. What the values
//! mean, and in which order a run keeps its entries, is up to the filter above.
//!
//! # Invariants
//! [`QuotientTable::validate`] checks all of them.
//!
//! 1. Runs lie in the order of their quotients, each in one piece, none before its
//!    home slot, none further from it than the runs before it force it to be:
//!    `start(q) = max(q, end of the last run before q)`.
//! 2. `occupied[q]` is set exactly if quotient `q` has a run.
//! 3. Every run begins with a remainder. Exactly one remainder of it has its
//!    `runend` bit set: the last. (The slots of that entry's extension follow it, so
//!    a run's end is the first slot behind its run end that isn't an extension.)
//! 4. The pair of bits (runend, extension) of a used slot tells its kind: (·, 0)
//!    remainder, (0, 1) extension, (1, 1) counter. So a run end is a set `runend` bit
//!    *whose `extension` bit is clear*, everywhere and always.
//! 5. `spill[b]` is the number of slots from the start of block `b` on that belong
//!    to runs of earlier blocks, or 255 if there are more than 254; then it is
//!    computed anew from the blocks before ([`locate`]).
//! 6. Unused slots, and their bits in both planes, are zero, as are the bits of a line
//!    behind its slots. The very last slot is never used.
//! 7. `used` is the number of used slots, at most `slots`.
//!
//! All operations rely on them, but for lookups: these go through lines that hold anything,
//! and at worst answer wrongly ([`budget`]).
//!
//! # Spill-over tail
//! Runs that are pushed past the last home slot go on in a tail; nothing wraps. With
//! uniform hashes a full table needs about √slots of it; 4·√slots + 64 are there
//! (a chance of e^-32 that they don't suffice). Where hashes are not uniform an
//! insert that finds no room is refused.
//!
//! # Files
//! [`layout`]: where the bits are. [`code`]: blocks that have one. [`locate`]: where a run is. [`scan`]: what one line
//! tells of a run, quickly. [`walk`]: through a run. [`budget`]: how far. [`shift`]: making
//! and closing gaps. [`insert`] and [`edit`]: changing entries. [`read`] and [`write`](mod@write):
//! reading and filling a table in order. [`validate`]: the invariants.

mod budget;
mod code;
mod edit;
mod insert;
mod layout;
mod locate;
mod read;
mod scan;
mod shift;
mod validate;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use budget::Budget;
pub(crate) use insert::Inserted;
pub(crate) use layout::{
    Kind, MOST_CODE_BITS, Place, QuotientTable, SLOTS, Shape, Slot, USUAL_CODE_BITS, WIDTHS,
    with_range_width, with_shape, with_width,
};
pub(crate) use read::{BlockReader, First, Reader, Stored};
pub(crate) use scan::{Evidence, Scan, Wanted, Window};
pub(crate) use walk::Spot;
pub(crate) use write::TableWriter;

/// There are not enough unused slots where they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;
