//! The table that stores a range filter's boxes.

use super::layout::{RangeBox, Spelling};
use crate::bits::machine::{AnyShape, dispatched};
use crate::hash::Scaled;
use crate::table::{Budget, Editor, Kind, QuotientTable, Slot, TableFull, Usage, rewrite};
use crate::{Hash, fingerprint::Fingerprint};
use core::ops::{Deref, Range};

/// The position of a member: the hash of its partition, and its offset in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) partition: Hash,
    pub(super) memento: u64,
}

/// The part of a query range that lies in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) partition: Hash,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Piece {
    pub(super) fn has(&self, memento: u64) -> bool {
        (self.least..=self.most).contains(&memento)
    }
}

/// Boxes in a table, sorted by heading and fingerprint. Among boxes with the same heading, no
/// fingerprint is a prefix of another, so at most one box of each age covers a partition.
///
/// A member is in one of the boxes that cover it. If several of them contain its memento, it is
/// unknown which one is the member's, but that doesn't matter. Two intervals of hashes are either
/// disjoint or one contains the other, so removing the member from the covering box with the
/// longest fingerprint leaves enough mementos for the other members.
#[derive(Clone)]
pub(super) struct Boxes {
    pub(super) shared: Shared,
    // Lookups don't read the fields below, except `len` if a range is too long to search.
    pub(super) usage: Usage,
    /// Number of members, each counted as often as it was inserted.
    pub(super) len: u64,
    /// An upper bound for the age of boxes.
    pub(super) oldest: u32,
}

/// The part of the boxes that lookups read: the table, and settings that never change.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) table: QuotientTable,
    pub(super) spelling: Spelling,
    /// Limit on the number of lines that a lookup reads, for tables that were not validated.
    pub(super) budget: Budget,
}

impl Deref for Boxes {
    type Target = Shared;

    #[inline(always)]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// All boxes whose remainders begin with the same bits, and their slots.
pub(super) struct BoxGroup {
    /// The partitions whose members may be in these boxes. None of their members are in other
    /// boxes.
    pub(super) cell: Fingerprint,
    slots: Range<u64>,
    pub(super) boxes: Vec<RangeBox>,
}

impl BoxGroup {
    /// Returns the members that may be in these boxes. `members` must be sorted.
    pub(super) fn within<'m>(&self, members: &'m [Spot]) -> &'m [Spot] {
        let hashes = self.cell.hashes();
        let first = members.partition_point(|spot| spot.partition < *hashes.start());
        let end = members.partition_point(|spot| spot.partition <= *hashes.end());
        &members[first..end]
    }
}

impl Boxes {
    /// Returns an empty table, or `None` if there is not enough memory.
    pub(super) fn new(spelling: Spelling) -> Option<Self> {
        let table = QuotientTable::new(spelling.digits.slots, spelling.digits.width)?;
        Some(Self::over(table, spelling, 0))
    }

    /// Returns the boxes in an existing table with `used` used slots. The number of members is 0
    /// until the caller sets it.
    pub(super) fn over(table: QuotientTable, spelling: Spelling, used: u64) -> Self {
        let usage = table.usage(used);
        let shared = Shared { table, spelling, budget: Budget::ENDLESS };
        Self { shared, usage, len: 0, oldest: 0 }
    }

    pub(super) fn editor(&mut self) -> Editor<'_> {
        self.shared.table.editor(&mut self.usage)
    }

    pub(super) fn load(&self) -> f64 {
        self.usage.used as f64 / self.table.slots() as f64
    }

    /// Returns the boxes that may cover a partition, and all others that may contain the same
    /// members.
    pub(super) fn group(&self, partition: Hash) -> BoxGroup {
        let scaled = self.scale(partition);
        self.group_of(scaled, self.age_around(scaled))
    }

    /// Returns the highest age of the boxes whose remainders cover a partition, or 0 if there are
    /// none.
    pub(super) fn age_around(&self, scaled: Scaled) -> u32 {
        if self.oldest == 0 {
            return 0;
        }
        // At the greatest age, all boxes of the quotient match.
        let run = find(self, scaled, self.spelling.greatest_age());
        let remainder = scaled.leading(self.spelling.digits.remainder);
        let firsts = self.table.entries(run).map(|entry| self.table.value(entry.start));
        let covering = firsts.filter(|&first| self.spelling.begins_with(first, remainder));
        covering.map(|first| self.spelling.age(first)).max().unwrap_or(0)
    }

    /// Replaces the boxes of a group with `boxes`, which must be sorted.
    pub(super) fn replace(
        &mut self,
        group: &BoxGroup,
        boxes: &[RangeBox],
    ) -> Result<(), TableFull> {
        let slots: Vec<Slot> =
            boxes.iter().flat_map(|range_box| self.spelling.slots(range_box)).collect();
        let range = &group.slots;
        let needed = self.usage.used + slots.len() as u64 - (range.end - range.start);
        let quotient = group.cell.quotient();
        while rewrite(&mut self.editor(), quotient, range.clone(), &slots).is_err() {
            // A longer tail helps if the table has enough free slots, but not where these boxes
            // need them.
            if needed > self.table.slots() || !self.editor().lengthen_tail() {
                return Err(TableFull);
            }
        }
        let members =
            |boxes: &[RangeBox]| boxes.iter().map(|each| each.mementos.len() as u64).sum::<u64>();
        self.len = self.len - members(&group.boxes) + members(boxes);
        Ok(())
    }

    /// Undoes replacements of groups, the last one first.
    pub(super) fn restore(&mut self, replaced: Vec<BoxGroup>) {
        for BoxGroup { cell, boxes, .. } in replaced.into_iter().rev() {
            let scaled = Scaled { quotient: cell.quotient(), fraction: cell.prefix() };
            let now = self.group_of(scaled, self.spelling.digits.remainder - cell.bits());
            self.replace(&now, &boxes).expect("there was room for them");
        }
    }
}

impl Shared {
    pub(super) fn scale(&self, partition: Hash) -> Scaled {
        self.spelling.digits.scale(partition)
    }

    /// Returns the fingerprint of all partitions that have the same remainder as `scaled` at this
    /// age.
    pub(super) fn cell(&self, scaled: Scaled, age: u32) -> Fingerprint {
        self.spelling.digits_at(age).fingerprint(scaled, 1)
    }

    /// Returns the boxes whose fingerprints begin with the remainder that a partition has at this
    /// age.
    pub(super) fn group_of(&self, scaled: Scaled, age: u32) -> BoxGroup {
        let mut slots = find(self, scaled, age);
        let mut boxes = Vec::new();
        for entry in self.table.entries(slots.clone()) {
            let range_box = self.read(scaled.quotient, entry.clone());
            if range_box.age > age {
                // This older box has a shorter remainder. It matched only with the bits after its
                // remainder.
                slots.start = entry.end;
            } else {
                boxes.push(range_box);
            }
        }
        BoxGroup { cell: self.cell(scaled, age), slots, boxes }
    }

    /// Reads the box in these slots of the run of `quotient`. The table must be valid.
    pub(super) fn read(&self, quotient: u64, slots: Range<u64>) -> RangeBox {
        let (mut range_box, cells) = self.read_first(quotient, slots).expect("a valid table");
        let cells = self.spelling.cells(cells.map(|at| self.table.value(at)));
        range_box.mementos.extend(cells);
        range_box
    }

    /// Reads the box in these slots of the run of `quotient`, with only the least memento. Also
    /// returns the slots of the other mementos. Returns `None` if the fingerprint or the age is
    /// malformed.
    pub(super) fn read_first(
        &self,
        quotient: u64,
        slots: Range<u64>,
    ) -> Option<(RangeBox, Range<u64>)> {
        let (table, spelling) = (&self.table, self.spelling);
        let first = table.value(slots.start);
        let age = spelling.age(first);
        if age > spelling.greatest_age() {
            return None;
        }
        let digits = spelling.digits_at(age);
        let mut others = slots.clone().skip(1);
        let end = others.find(|&slot| table.kind(slot) == Kind::Counter).unwrap_or(slots.end);
        if end - slots.start > digits.most().into() {
            return None;
        }
        let remainder = first >> spelling.bits_after(age);
        let others = (slots.start + 1..end).map(|at| table.value(at));
        let fingerprint = digits.spell(quotient, core::iter::once(remainder).chain(others));
        let mementos = vec![spelling.memento(first)];
        Some((RangeBox { fingerprint, age, mementos }, end..slots.end))
    }
}

dispatched! {
    /// Returns the slots of all boxes that begin with the remainder that a partition has at this
    /// age.
    fn find<'a>(boxes: &'a Shared, scaled: Scaled, age: u32) -> Range<u64>
    => boxes.table.target(), AnyShape, |machine| {
        let Shared { table, spelling, .. } = boxes;
        let remainder = spelling.digits_at(age).digit(scaled.fraction, 0);
        table.minirun(machine, scaled.quotient, remainder, spelling.bits_after(age))
    }
}
