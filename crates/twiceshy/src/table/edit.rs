//! Changes the entries of a run.

use super::TableFull;
use super::block::Plane;
use super::{Kind, QuotientTable, Slot};
use crate::bits::machine::{AnyShape, Machine, Operation};
use core::ops::Range;

impl QuotientTable {
    /// Calls [`replace`](Self::replace) with the instructions of this machine.
    pub(crate) fn rewrite(
        &mut self,
        quotient: u64,
        range: Range<u64>,
        slots: &[Slot],
    ) -> Result<(), TableFull> {
        self.target().run(Rewrite { table: self, quotient, range, slots })
    }

    /// Replaces the slots `range` of the run of `quotient` with `slots`. If it fails, the table is
    /// unchanged.
    ///
    /// `range` and `slots` must consist of whole entries. If the quotient has no run, `range` must
    /// be empty and lie at [`run_start`](Self::run_start); the quotient then gets a run. A run
    /// without entries is removed.
    #[inline(always)]
    pub(crate) fn replace<M: Machine>(
        &mut self,
        machine: M,
        quotient: u64,
        range: Range<u64>,
        slots: &[Slot],
    ) -> Result<(), TableFull> {
        let exists = self.is_occupied(quotient);
        debug_assert!(exists || range.is_empty());
        debug_assert!(slots.first().is_none_or(|slot| slot.kind == Kind::Remainder));
        let at_end = range.end == self.run_end(machine, quotient);
        let (old, new) = (range.end - range.start, slots.len() as u64);

        if new > old {
            self.make_room(machine, quotient, range.end, new - old)?;
        }
        if at_end && new > 0 {
            if exists && range.is_empty() {
                let before = self.entry_before::<0>(self.place(range.start));
                self.set_bit_at::<0>(before, Plane::RunEnd, false);
            }
            self.set_bit(quotient, Plane::Occupied, true);
        }
        for (position, &slot) in (range.start..).zip(slots) {
            self.write(position, slot);
        }
        if at_end && new > 0 {
            let last = slots.iter().rposition(|slot| slot.kind == Kind::Remainder);
            let last = range.start + last.expect("an entry") as u64;
            self.set_bit(last, Plane::RunEnd, true);
        }
        if new < old {
            self.take_away(machine, quotient, range.start + new..range.end, at_end && new == 0);
        }
        Ok(())
    }

    /// Opens `count` slots at `at`.
    #[inline(always)]
    fn make_room<M: Machine>(
        &mut self,
        machine: M,
        quotient: u64,
        at: u64,
        count: u64,
    ) -> Result<(), TableFull> {
        if self.used + count > self.limit {
            return Err(TableFull);
        }
        let mut gaps = Vec::new();
        let mut from = at;
        for _ in 0..count {
            let unused = self.first_unused::<M, 0>(machine, self.place(from)).ok_or(TableFull)?;
            gaps.push(self.position(unused));
            from = self.position(unused) + 1;
        }
        for unused in gaps {
            self.open(machine, quotient, at, unused);
        }
        Ok(())
    }

    /// Closes the slots `range` of the run of `quotient`. `was_last` means that they are the run's
    /// last entries: then the run end moves to the entry before them, or the run is removed.
    ///
    /// Until they are closed, the slots are marked as extensions. So the run's end is correct after
    /// each step, and that is all that closing a slot relies on.
    fn take_away<M: Machine>(
        &mut self,
        machine: M,
        quotient: u64,
        range: Range<u64>,
        was_last: bool,
    ) {
        let vanish = was_last && range.start == self.run_start(machine, quotient);
        let junk = Slot { value: 0, kind: Kind::Extension };
        let mut rest = range.clone();
        if vanish {
            self.write(range.start, Slot { value: 0, kind: Kind::Remainder });
            self.set_bit(range.start, Plane::RunEnd, true);
            rest.start += 1;
        }
        for position in rest.clone() {
            self.write(position, junk);
        }
        if was_last && !vanish {
            let before = self.entry_before::<0>(self.place(range.start));
            self.set_bit_at::<0>(before, Plane::RunEnd, true);
        }
        for position in rest.rev() {
            self.close(machine, quotient, position, false);
        }
        if vanish {
            self.close(machine, quotient, range.start, true);
        }
    }
}

struct Rewrite<'a> {
    table: &'a mut QuotientTable,
    quotient: u64,
    range: Range<u64>,
    slots: &'a [Slot],
}

impl Operation for Rewrite<'_> {
    type Argument = ();
    type Output = Result<(), TableFull>;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        self.table.replace(machine, self.quotient, self.range, self.slots)
    }
}
