//! Changes the entries of a run.

use super::TableFull;
use super::block::Plane;
use super::shift::Moving;
use super::{Editor, Kind, Slot};
use crate::bits::machine::{AnyShape, Machine, dispatched};
use core::ops::Range;

impl Editor<'_> {
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
            // Find all gaps before the first slot moves, so that a failure changes nothing.
            if self.usage.used + new - old > self.usage.limit {
                return Err(TableFull);
            }
            let (home, at) = (self.place(quotient), self.place(range.end));
            let mut gaps = Vec::new();
            let mut from = at;
            for _ in old..new {
                let unused = self.first_unused::<M, 0>(machine, from).ok_or(TableFull)?;
                gaps.push(unused);
                from = self.place(self.position(unused) + 1);
            }
            for unused in gaps {
                self.insert_slot::<M, 0>(machine, home, at, unused, Moving::default());
            }
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

    /// Closes the slots `range` of the run of `quotient`. `was_last` says whether they are the
    /// run's last entries. If so, the run end moves to the entry before them; if there is none, the
    /// run is removed.
    ///
    /// Until they are closed, the slots are marked as extensions, so the run's end is correct after
    /// each step, and that is all that closing a slot relies on.
    fn take_away<M: Machine>(
        &mut self,
        machine: M,
        quotient: u64,
        range: Range<u64>,
        was_last: bool,
    ) {
        let vanish = was_last && range.start == self.run_start(machine, quotient);
        let mut rest = range.clone();
        if vanish {
            self.write(range.start, Slot { value: 0, kind: Kind::Remainder });
            self.set_bit(range.start, Plane::RunEnd, true);
            rest.start += 1;
        } else if was_last {
            let before = self.entry_before::<0>(self.place(range.start));
            self.set_bit_at::<0>(before, Plane::RunEnd, true);
        }
        for position in rest.clone() {
            self.write(position, Slot { value: 0, kind: Kind::Extension });
        }
        for position in rest.rev() {
            self.close(machine, quotient, position, false);
        }
        if vanish {
            self.close(machine, quotient, range.start, true);
        }
    }
}

dispatched! {
    /// Replaces slots as [`Editor::replace`] does.
    pub(crate) fn rewrite<'e, 'a>(
        table: &'e mut Editor<'a>,
        quotient: u64,
        range: Range<u64>,
        slots: &'e [Slot],
    ) -> Result<(), TableFull> => table.target(), AnyShape, |machine| {
        table.replace(machine, quotient, range, slots)
    }
}
