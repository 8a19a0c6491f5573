//! Asking boxes.

use super::boxes::{Boxes, Piece};
use crate::bits::machine::{Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Kind, Scan, Slot};

impl Boxes {
    /// Whether a member may be in a piece.
    pub(super) fn may_have(&self, piece: &Piece) -> bool {
        self.table.level().run(MayHave { boxes: self, piece })
    }

    /// Whether the box at `start`, whose remainder covers a partition, covers it and has a
    /// memento in a piece.
    #[inline(always)]
    fn has(&self, start: u64, first: u64, scaled: Scaled, piece: &Piece) -> bool {
        let Self { table, spelling, .. } = self;
        let digits = spelling.digits_at(spelling.age(first));
        let mut at = start + 1;
        while let Some(Slot { value, kind: Kind::Extension }) = table.continuation(at) {
            let index = (at - start) as u32;
            if !digits.has(index) || value != digits.digit(scaled.fraction, index) {
                return false;
            }
            at += 1;
        }
        let others = spelling.cells((at..).map_while(|at| Some(table.continuation(at)?.value)));
        let mut all = core::iter::once(spelling.memento(first)).chain(others);
        all.any(|memento| piece.mementos.contains(&memento))
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
        let mementos = &self.piece.mementos;
        let evidence = if spelling.has_ages {
            let shows = |first| spelling.shows(first, remainder, mementos);
            table.scan_where::<M, 0>(machine, home, shows)
        } else {
            let [least, most] = [mementos.start(), mementos.end()]
                .map(|&memento| spelling.first(remainder, memento));
            table.scan_between::<M, 0>(machine, home, least..=most)
        };
        match evidence.scan() {
            Scan::Absent => return false,
            Scan::Present => return true,
            Scan::Unsure => {}
        }
        let mut walk = table.walk::<M, 0>(machine, home);
        loop {
            let first = walk.remainder();
            if spelling.begins_with(first, remainder)
                && self.boxes.has(walk.position(), first, scaled, self.piece)
            {
                return true;
            }
            if !walk.advance() {
                return false;
            }
        }
    }
}
