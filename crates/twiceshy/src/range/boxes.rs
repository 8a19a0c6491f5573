//! The table of boxes.

use super::layout::{RangeBox, Spelling};
use crate::bits::machine::{AnyShape, Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Budget, Kind, QuotientTable, Slot, Stored, TableFull};
use crate::{Hash, fingerprint::Fingerprint};
use core::ops::Range;

/// The position of a member: the hash of its partition, and its offset in it.
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
/// disjoint or one contains the other. So removing the member from the covering box with the
/// longest fingerprint leaves enough mementos for the other members.
#[derive(Clone)]
pub(super) struct Boxes {
    pub(super) table: QuotientTable,
    pub(super) spelling: Spelling,
    /// Number of members, each counted as often as it was inserted.
    pub(super) len: u64,
    /// An upper bound for the age of boxes.
    pub(super) oldest: u32,
    /// Limit of the lines that a lookup reads, for tables that were not validated.
    pub(super) budget: Budget,
}

/// All boxes whose remainders begin with the same bits, and their slots.
pub(super) struct Shelf {
    /// All partitions that may be in these boxes, and in no others.
    pub(super) cell: Fingerprint,
    /// The age of a remainder that consists of just the common bits.
    age: u32,
    slots: Range<u64>,
    pub(super) boxes: Vec<RangeBox>,
}

impl Shelf {
    /// Returns those of some sorted members that may be in these boxes.
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
        Some(Self { table, spelling, len: 0, oldest: 0, budget: Budget::ENDLESS })
    }

    pub(super) fn load(&self) -> f64 {
        self.table.used() as f64 / self.table.slots() as f64
    }

    pub(super) fn scale(&self, partition: Hash) -> Scaled {
        self.spelling.digits.scale(partition)
    }

    /// Returns the boxes that may cover a partition, and all others that may contain the same
    /// members.
    pub(super) fn shelf(&self, partition: Hash) -> Shelf {
        let scaled = self.scale(partition);
        self.shelf_of(scaled, self.age_around(scaled))
    }

    /// Returns the highest age of the boxes whose remainders cover a partition, or 0 if there are
    /// none.
    pub(super) fn age_around(&self, scaled: Scaled) -> u32 {
        if self.oldest == 0 {
            return 0;
        }
        // At the greatest age all boxes of the quotient match.
        let run = self.find(scaled, self.spelling.greatest_age());
        let remainder = scaled.leading(self.spelling.digits.remainder);
        let firsts = self.table.entries(run).map(|entry| self.table.value(entry.start));
        let covering = firsts.filter(|&first| self.spelling.begins_with(first, remainder));
        covering.map(|first| self.spelling.age(first)).max().unwrap_or(0)
    }

    /// Returns the slots of the boxes whose slots begin with a partition's remainder at this age.
    fn find(&self, scaled: Scaled, age: u32) -> Range<u64> {
        self.table.target().run(Find { boxes: self, scaled, age })
    }

    /// Returns all partitions whose remainders at this age equal that of `scaled`.
    pub(super) fn cell(&self, scaled: Scaled, age: u32) -> Fingerprint {
        self.spelling.digits_at(age).fingerprint(scaled, 1)
    }

    /// Returns the boxes whose fingerprints begin with a partition's remainder at this age.
    pub(super) fn shelf_of(&self, scaled: Scaled, age: u32) -> Shelf {
        let mut slots = self.find(scaled, age);
        let mut boxes = Vec::new();
        for entry in self.table.entries(slots.clone()) {
            let range_box = self.read(scaled.quotient, entry.clone()).expect("a valid table");
            if range_box.age > age {
                // The match includes bits after the remainder of this older box.
                slots.start = entry.end;
            } else {
                boxes.push(range_box);
            }
        }
        Shelf { cell: self.cell(scaled, age), age, slots, boxes }
    }

    /// Replaces the boxes of a shelf with `boxes`, which must be sorted.
    pub(super) fn replace(&mut self, shelf: &Shelf, boxes: &[RangeBox]) -> Result<(), TableFull> {
        let slots: Vec<Slot> =
            boxes.iter().flat_map(|range_box| self.spelling.slots(range_box)).collect();
        let range = &shelf.slots;
        let needed = self.table.used() + slots.len() as u64 - (range.end - range.start);
        while self.table.rewrite(shelf.cell.quotient(), range.clone(), &slots).is_err() {
            // A longer tail helps if there are free slots, but long boxes don't fit near them.
            if needed > self.table.slots() || !self.table.lengthen_tail() {
                return Err(TableFull);
            }
        }
        self.len = self.len - members(&shelf.boxes) + members(boxes);
        Ok(())
    }

    /// Undoes replacements of shelves, the last one first.
    pub(super) fn restore(&mut self, replaced: Vec<Shelf>) {
        for Shelf { cell, age, boxes, .. } in replaced.into_iter().rev() {
            let scaled = Scaled { quotient: cell.quotient(), fraction: cell.prefix() };
            let now = self.shelf_of(scaled, age);
            self.replace(&now, &boxes).expect("there was room for them");
        }
    }

    /// Reads the box in these slots of the run of `quotient`. Returns `None` if it is malformed.
    pub(super) fn read(&self, quotient: u64, slots: Range<u64>) -> Option<RangeBox> {
        let Label { fingerprint, age, end } = self.label(quotient, slots.clone())?;
        let (table, spelling) = (&self.table, self.spelling);
        let mut mementos = vec![spelling.memento(table.value(slots.start))];
        mementos.extend(spelling.cells((end..slots.end).map(|at| table.value(at))));
        Some(RangeBox { fingerprint, age, mementos })
    }

    /// Reads the fingerprint and age of the box in these slots of the run of `quotient`. Returns
    /// `None` if they are malformed.
    pub(super) fn label(&self, quotient: u64, slots: Range<u64>) -> Option<Label> {
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
        let spelt =
            core::iter::once(remainder).chain((slots.start + 1..end).map(|at| table.value(at)));
        Some(Label { fingerprint: digits.spell(quotient, spelt), age, end })
    }

    /// Iterates over all boxes, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = RangeBox> {
        let read = |Stored { quotient, slots, .. }| self.read(quotient, slots);
        self.table.stored().map(move |stored| read(stored).expect("a valid table"))
    }
}

/// The fingerprint and age of a box.
pub(super) struct Label {
    pub(super) fingerprint: Fingerprint,
    pub(super) age: u32,
    /// The first slot of its cells.
    pub(super) end: u64,
}

/// Returns the number of members in these boxes.
pub(super) fn members(boxes: &[RangeBox]) -> u64 {
    boxes.iter().map(|range_box| range_box.mementos.len() as u64).sum()
}

struct Find<'a> {
    boxes: &'a Boxes,
    scaled: Scaled,
    age: u32,
}

impl Operation for Find<'_> {
    type Argument = ();
    type Output = Range<u64>;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Range<u64> {
        let Boxes { table, spelling, .. } = self.boxes;
        let remainder = spelling.digits_at(self.age).digit(self.scaled.fraction, 0);
        let after = spelling.bits_after(self.age);
        table.minirun(machine, self.scaled.quotient, remainder, after)
    }
}
