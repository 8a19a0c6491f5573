//! The table of boxes: partitions by their hashes, members by their mementos.

use super::keepsake::{Keepsake, Spelling};
use crate::bits::machine::{Machine, Operation};
use crate::error::{InsertError, RemoveError};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Inserted, Kind, QuotientTable, Scan, Slot, TableFull};
use crate::{Fingerprint, Hash};
use core::ops::{Range, RangeInclusive};

/// Where a member is: the hash of its partition, and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) partition: Hash,
    pub(super) memento: u64,
}

/// Part of a query: some places in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) partition: Hash,
    pub(super) mementos: RangeInclusive<u64>,
}

/// Boxes in a table, sorted by fingerprint; none is a prefix of another, so that at most one
/// covers a partition.
#[derive(Clone)]
pub(super) struct Boxes {
    table: QuotientTable,
    spelling: Spelling,
    /// Members, each as often as it was inserted.
    len: u64,
}

/// The boxes of one quotient and remainder, and where they are.
pub(super) struct Shelf {
    quotient: u64,
    slots: Range<u64>,
    pub(super) boxes: Vec<Keepsake>,
}

impl Boxes {
    /// No boxes, or `None` if there is no memory for such a table.
    pub(super) fn new(slots: u64, remainder_bits: u32, memento_bits: u32) -> Option<Self> {
        let width = remainder_bits + memento_bits;
        let digits = Digits { slots, remainder: remainder_bits, width };
        let table = QuotientTable::new(slots, width)?;
        Some(Self { table, spelling: Spelling { digits, memento_bits }, len: 0 })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn spelling(&self) -> Spelling {
        self.spelling
    }

    pub(super) fn table(&self) -> &QuotientTable {
        &self.table
    }

    pub(super) fn load(&self) -> f64 {
        self.table.used() as f64 / self.table.slots() as f64
    }

    pub(super) fn scale(&self, partition: Hash) -> Scaled {
        self.spelling.digits.scale(partition)
    }

    /// Whether a member may be in a piece.
    pub(super) fn may_have(&self, piece: &Piece) -> bool {
        self.table.level().run(MayHave { boxes: self, piece })
    }

    /// All partitions that can't be told from this one without repairs.
    pub(super) fn cell(&self, partition: Hash) -> Fingerprint {
        self.spelling.digits.fingerprint(self.scale(partition), 1)
    }

    /// The boxes that have a partition's quotient and remainder.
    pub(super) fn shelf(&self, partition: Hash) -> Shelf {
        let scaled = self.scale(partition);
        let slots = self.table.level().run(Find { boxes: self, scaled });
        let quotient = scaled.quotient;
        let boxes = self.table.entries(slots.clone());
        let boxes = boxes.map(|slots| self.read(quotient, slots).expect("a valid table")).collect();
        Shelf { quotient, slots, boxes }
    }

    /// Puts other boxes, in order, in place of a shelf's.
    pub(super) fn replace(&mut self, shelf: &Shelf, boxes: &[Keepsake]) -> Result<(), TableFull> {
        let slots: Vec<Slot> =
            boxes.iter().flat_map(|keepsake| self.spelling.slots(keepsake)).collect();
        let (quotient, range) = (shelf.quotient, &shelf.slots);
        let needed = self.table.used() + slots.len() as u64 - (range.end - range.start);
        while self.table.rewrite(quotient, range.clone(), &slots).is_err() {
            // If it is only that long boxes don't fit where they belong, there is a way.
            if needed > self.table.slots() || !self.table.lengthen_tail() {
                return Err(TableFull);
            }
        }
        let members = |boxes: &[Keepsake]| -> u64 {
            boxes.iter().map(|keepsake| keepsake.mementos.len() as u64).sum()
        };
        self.len = self.len - members(&shelf.boxes) + members(boxes);
        Ok(())
    }

    pub(super) fn insert(&mut self, spot: Spot) -> Result<(), InsertError> {
        let level = self.table.level();
        if level.run(InsertAlone { boxes: self, spot }) {
            self.len += 1;
            return Ok(());
        }
        self.insert_among(spot)
    }

    /// Inserts a member where there may be boxes of its quotient and remainder, or too little
    /// room.
    fn insert_among(&mut self, spot: Spot) -> Result<(), InsertError> {
        let shelf = self.shelf(spot.partition);
        let scaled = self.scale(spot.partition);
        let mut boxes = shelf.boxes.clone();
        if let Some(keepsake) = boxes.iter_mut().find(|keepsake| keepsake.covers(scaled)) {
            keepsake.add(spot.memento);
        } else {
            // As long as it takes to tell it from each neighbour, so that these cover no more
            // and no less than before.
            let digits = boxes.iter().map(|keepsake| self.to_tell_apart(scaled, keepsake));
            let fingerprint = self.spelling.digits.fingerprint(scaled, digits.max().unwrap_or(1));
            let at = boxes.partition_point(|keepsake| keepsake.fingerprint < fingerprint);
            boxes.insert(at, Keepsake { fingerprint, mementos: vec![spot.memento] });
        }
        let replaced = self.replace(&shelf, &boxes);
        replaced.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// How many digits of a partition a box, which doesn't cover it, lacks.
    fn to_tell_apart(&self, scaled: Scaled, keepsake: &Keepsake) -> u32 {
        let quotient = scaled.quotient;
        let other = Scaled { quotient, fraction: keepsake.fingerprint.prefix() };
        let digits = self.spelling.digits.to_tell_apart(scaled, other);
        digits.expect("a box that doesn't cover it")
    }

    pub(super) fn remove(&mut self, spot: Spot) -> Result<(), RemoveError> {
        let shelf = self.shelf(spot.partition);
        let scaled = self.scale(spot.partition);
        let mut boxes = shelf.boxes.clone();
        let at = boxes.iter().position(|keepsake| keepsake.covers(scaled));
        let at = at.ok_or(RemoveError::Absent)?;
        let mementos = &mut boxes[at].mementos;
        mementos.remove(mementos.binary_search(&spot.memento).map_err(|_| RemoveError::Absent)?);
        if mementos.is_empty() {
            boxes.remove(at);
        }
        self.replace(&shelf, &boxes).expect("it takes less room");
        Ok(())
    }

    /// The box in these slots of the run of `quotient`; `None` if it isn't written as it should
    /// be.
    pub(super) fn read(&self, quotient: u64, slots: Range<u64>) -> Option<Keepsake> {
        let (table, spelling) = (&self.table, self.spelling);
        let mut behind = slots.clone().skip(1);
        let end = behind.find(|&slot| table.kind(slot) == Kind::Counter).unwrap_or(slots.end);
        if end - slots.start > spelling.digits.most().into() {
            return None;
        }
        let first = table.value(slots.start);
        let remainder = first >> spelling.memento_bits;
        let digits =
            core::iter::once(remainder).chain((slots.start + 1..end).map(|at| table.value(at)));
        let fingerprint = spelling.digits.spell(quotient, digits);
        let mut mementos = vec![spelling.memento(first)];
        let mut cells = spelling.cells((end..slots.end).map(|at| table.value(at)));
        mementos.extend(cells.by_ref());
        let others = mementos.len() as u64 - 1;
        let is_spelt = cells.ends_blank()
            && spelling.slots_of_cells(others) == slots.end - end
            && (end..slots.end).all(|at| table.kind(at) == Kind::Counter);
        is_spelt.then_some(Keepsake { fingerprint, mementos })
    }
}

impl Keepsake {
    pub(super) fn covers(&self, scaled: Scaled) -> bool {
        self.fingerprint.covers_scaled(scaled)
    }

    fn add(&mut self, memento: u64) {
        let at = self.mementos.partition_point(|&other| other < memento);
        self.mementos.insert(at, memento);
    }
}

/// Inserts a member as a box of its own, unless there are boxes of its quotient and remainder;
/// whether it did.
struct InsertAlone<'a> {
    boxes: &'a mut Boxes,
    spot: Spot,
}

impl Operation for InsertAlone<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Boxes { table, spelling, .. } = self.boxes;
        let scaled = spelling.digits.scale(self.spot.partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let value = spelling.first(remainder, self.spot.memento);
        let home = table.home::<0>(scaled.quotient);
        match table.insert_here::<M, 0>(machine, home, value, spelling.memento_bits) {
            Inserted::Done => true,
            Inserted::At(spot) => {
                table.insert_at::<M, 0>(machine, home, spot, home.next_block(), value).is_ok()
            }
            Inserted::Nowhere => {
                let mut walk = table.walk::<M, 0>(machine, home);
                if table.is_occupied_at::<0>(home) {
                    while walk.remainder() >> spelling.memento_bits <= remainder {
                        if walk.remainder() >> spelling.memento_bits == remainder {
                            return false;
                        }
                        if !walk.advance() {
                            break;
                        }
                    }
                }
                let spot = walk.spot();
                table.insert_at::<M, 0>(machine, home, spot, spot.at, value).is_ok()
            }
        }
    }
}

struct MayHave<'a> {
    boxes: &'a Boxes,
    piece: &'a Piece,
}

impl Operation for MayHave<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Boxes { table, spelling, .. } = self.boxes;
        let scaled = self.boxes.scale(self.piece.partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let home = table.home::<0>(scaled.quotient);
        let [least, most] = [self.piece.mementos.start(), self.piece.mementos.end()]
            .map(|&memento| spelling.first(remainder, memento));
        match table.scan_between::<M, 0>(machine, home, least..=most).scan() {
            Scan::Absent => return false,
            Scan::Present => return true,
            Scan::Unsure => {}
        }
        let mut walk = table.walk::<M, 0>(machine, home);
        loop {
            let first = walk.remainder();
            match (first >> spelling.memento_bits).cmp(&remainder) {
                core::cmp::Ordering::Greater => return false,
                core::cmp::Ordering::Equal => {
                    let covered = self.boxes.continues(walk.position(), scaled);
                    if let Some(cells) = covered {
                        let others = spelling
                            .cells((cells..).map_while(|at| Some(table.continuation(at)?.value)));
                        let mut all = core::iter::once(spelling.memento(first)).chain(others);
                        return all.any(|memento| self.piece.mementos.contains(&memento));
                    }
                }
                core::cmp::Ordering::Less => {}
            }
            if !walk.advance() {
                return false;
            }
        }
    }
}

impl Boxes {
    /// If the rest of the fingerprint of the box at `start` covers a partition: where its cells
    /// begin.
    #[inline(always)]
    fn continues(&self, start: u64, scaled: Scaled) -> Option<u64> {
        let mut at = start + 1;
        while let Some(Slot { value, kind: Kind::Extension }) = self.table.continuation(at) {
            let index = (at - start) as u32;
            if !self.spelling.digits.has(index)
                || value != self.spelling.digits.digit(scaled.fraction, index)
            {
                return None;
            }
            at += 1;
        }
        Some(at)
    }
}

struct Find<'a> {
    boxes: &'a Boxes,
    scaled: Scaled,
}

impl Operation for Find<'_> {
    type Output = Range<u64>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Range<u64> {
        let Boxes { table, spelling, .. } = self.boxes;
        let remainder = self.scaled.leading(spelling.digits.remainder);
        table.minirun(machine, self.scaled.quotient, remainder, spelling.memento_bits)
    }
}
