//! The table of boxes: partitions by their hashes, members by their mementos.

use super::keepsake::{Keepsake, Spelling};
use crate::bits::machine::{Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Budget, Kind, QuotientTable, Slot, Stored, TableFull};
use crate::{Fingerprint, Hash};
use core::ops::Range;

/// Where a member is: the hash of its partition, and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) partition: Hash,
    pub(super) memento: u64,
}

/// Part of a query: some places in one partition.
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

/// Boxes in a table, sorted by heading and fingerprint. Of those with one heading, no fingerprint
/// is a prefix of another; so at most one of each age covers a partition.
///
/// A member is in one of the boxes that cover it. Which one can't be told, if more of them have
/// its memento, and need not be: intervals of hashes either contain each other or have nothing in
/// common, so what is taken for the deepest box that covers it leaves the others enough.
#[derive(Clone)]
pub(super) struct Boxes {
    pub(super) table: QuotientTable,
    pub(super) spelling: Spelling,
    /// Members, each as often as it was inserted.
    pub(super) len: u64,
    /// No box is older.
    pub(super) oldest: u32,
    /// How far a lookup goes: to the end, unless nobody has validated the table.
    pub(super) budget: Budget,
}

/// All boxes whose remainders begin alike, and where they are.
pub(super) struct Shelf {
    /// All partitions that may be in these boxes, and in no others.
    pub(super) cell: Fingerprint,
    /// The age of remainders as long as what they have in common.
    age: u32,
    slots: Range<u64>,
    pub(super) boxes: Vec<Keepsake>,
}

impl Boxes {
    /// No boxes, or `None` if there is no memory for such a table.
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

    /// The boxes that may cover a partition, and all that may have members which these may have.
    pub(super) fn shelf(&self, partition: Hash) -> Shelf {
        let scaled = self.scale(partition);
        self.shelf_of(scaled, self.age_around(scaled))
    }

    /// The greatest age of the boxes whose remainders cover a partition; 0 if there are none.
    pub(super) fn age_around(&self, scaled: Scaled) -> u32 {
        if self.oldest == 0 { 0 } else { self.table.level().run(AgeAround { boxes: self, scaled }) }
    }

    /// The partitions that share all of a remainder of that age with one.
    pub(super) fn cell(&self, scaled: Scaled, age: u32) -> Fingerprint {
        self.spelling.digits_at(age).fingerprint(scaled, 1)
    }

    /// The boxes whose fingerprints begin with as much of a partition's remainder as one of that
    /// age has.
    pub(super) fn shelf_of(&self, scaled: Scaled, age: u32) -> Shelf {
        let mut slots = self.table.level().run(Find { boxes: self, scaled, age });
        let mut boxes = Vec::new();
        for entry in self.table.entries(slots.clone()) {
            let keepsake = self.read(scaled.quotient, entry.clone()).expect("a valid table");
            if keepsake.age > age {
                // It looks alike, but it is what is behind its remainder that does.
                slots.start = entry.end;
            } else {
                boxes.push(keepsake);
            }
        }
        Shelf { cell: self.cell(scaled, age), age, slots, boxes }
    }

    /// What has become of a shelf.
    pub(super) fn shelf_now(&self, before: &Shelf) -> Shelf {
        let Shelf { cell, age, .. } = before;
        self.shelf_of(Scaled { quotient: cell.quotient(), fraction: cell.prefix() }, *age)
    }

    /// Puts other boxes, in order, in place of a shelf's.
    pub(super) fn replace(&mut self, shelf: &Shelf, boxes: &[Keepsake]) -> Result<(), TableFull> {
        let slots: Vec<Slot> =
            boxes.iter().flat_map(|keepsake| self.spelling.slots(keepsake)).collect();
        let range = &shelf.slots;
        let needed = self.table.used() + slots.len() as u64 - (range.end - range.start);
        while self.table.rewrite(shelf.cell.quotient(), range.clone(), &slots).is_err() {
            // If it is only that long boxes don't fit where they belong, there is a way.
            if needed > self.table.slots() || !self.table.lengthen_tail() {
                return Err(TableFull);
            }
        }
        self.len = self.len - members(&shelf.boxes) + members(boxes);
        Ok(())
    }

    /// The box in these slots of the run of `quotient`; `None` if it isn't written as it should
    /// be.
    pub(super) fn read(&self, quotient: u64, slots: Range<u64>) -> Option<Keepsake> {
        let Label { fingerprint, age, end } = self.label(quotient, slots.clone())?;
        let (table, spelling) = (&self.table, self.spelling);
        let mut mementos = vec![spelling.memento(table.value(slots.start))];
        mementos.extend(spelling.cells((end..slots.end).map(|at| table.value(at))));
        Some(Keepsake { fingerprint, age, mementos })
    }

    /// What is written on the box in these slots of the run of `quotient`; `None` if it isn't as
    /// it should be.
    pub(super) fn label(&self, quotient: u64, slots: Range<u64>) -> Option<Label> {
        let (table, spelling) = (&self.table, self.spelling);
        let first = table.value(slots.start);
        let age = spelling.age(first);
        if age > spelling.greatest_age() {
            return None;
        }
        let digits = spelling.digits_at(age);
        let mut behind = slots.clone().skip(1);
        let end = behind.find(|&slot| table.kind(slot) == Kind::Counter).unwrap_or(slots.end);
        if end - slots.start > digits.most().into() {
            return None;
        }
        let remainder = first >> spelling.bits_behind(age);
        let spelt =
            core::iter::once(remainder).chain((slots.start + 1..end).map(|at| table.value(at)));
        Some(Label { fingerprint: digits.spell(quotient, spelt), age, end })
    }

    /// All boxes, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Keepsake> {
        let read = |Stored { quotient, slots, .. }| self.read(quotient, slots);
        self.table.stored().map(move |stored| read(stored).expect("a valid table"))
    }
}

/// What is written on a box.
pub(super) struct Label {
    pub(super) fingerprint: Fingerprint,
    pub(super) age: u32,
    /// Where its cells begin.
    pub(super) end: u64,
}

/// How many members these boxes have.
pub(super) fn members(boxes: &[Keepsake]) -> u64 {
    boxes.iter().map(|keepsake| keepsake.mementos.len() as u64).sum()
}

struct AgeAround<'a> {
    boxes: &'a Boxes,
    scaled: Scaled,
}

impl Operation for AgeAround<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> u32 {
        let Boxes { table, spelling, .. } = self.boxes;
        let remainder = self.scaled.leading(spelling.digits.remainder);
        let home = table.home::<0>(self.scaled.quotient);
        if !table.is_occupied_at::<0>(home) {
            return 0;
        }
        let mut walk = table.walk::<M, 0>(machine, home);
        let mut greatest = 0;
        loop {
            let first = walk.remainder();
            if spelling.begins_with(first, remainder) {
                greatest = greatest.max(spelling.age(first));
            }
            if !walk.advance() {
                return greatest;
            }
        }
    }
}

struct Find<'a> {
    boxes: &'a Boxes,
    scaled: Scaled,
    age: u32,
}

impl Operation for Find<'_> {
    type Output = Range<u64>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Range<u64> {
        let Boxes { table, spelling, .. } = self.boxes;
        let remainder = spelling.digits_at(self.age).digit(self.scaled.fraction, 0);
        let behind = spelling.bits_behind(self.age);
        table.minirun(machine, self.scaled.quotient, remainder, behind)
    }
}
