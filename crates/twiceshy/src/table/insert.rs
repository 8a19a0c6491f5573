//! Inserts an entry that is only a remainder. This is the most common change to a table.

use super::TableFull;
use super::block::{Plane, window};
use super::locate::Spot;
use super::scan::Runs;
use super::shift::{Moving, Planes};
use super::{Editor, Place};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;

/// The result of an insert that changes at most one block.
#[derive(Clone, Copy)]
pub(crate) enum Inserted {
    /// The entry was inserted.
    Done,
    /// The entry belongs at this spot, but the next unused slot is in a different block.
    At(Spot),
    /// The spot was not determined, because the table is full, or because the run ends in a
    /// different block, is too long, has extensions, or already has this remainder.
    Nowhere,
}

impl Editor<'_> {
    /// Inserts an entry that is only a remainder into the run of the quotient at `home`, after all
    /// smaller entries. The remainder is the part of `value` above its lowest `other_bits` bits. If
    /// `LAST` is true, the entry becomes the last of its run, whatever the values are.
    ///
    /// Changes nothing if a different block would have to change, or if the run has extensions. If
    /// `LAST` is false, also changes nothing if the run already has an entry with that remainder.
    #[inline(always)]
    pub(crate) fn insert_here<M: Machine, const SHAPE: u32, const LAST: bool>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
        other_bits: u32,
    ) -> Inserted {
        if self.usage.used >= self.usage.limit {
            return Inserted::Nowhere;
        }
        let geometry = self.geometry_of::<SHAPE>();
        let (block, lane) = (self.block_mut_of(home), home.lane());
        let runs = Runs::of(machine, geometry, block);
        let Runs { extensions, ends, spilt, .. } = runs;
        let foreign = (extensions | spilt) >> lane & 1;
        let unfinished = runs.unfinished(machine, lane);
        if u64::from(unfinished) | foreign == 0 {
            let flips = Planes { occupied: 1 << lane, run_end: 1 << lane, extension: 0 };
            geometry.flip(block, flips);
            geometry.set_slot(block, lane, value);
            self.usage.used += 1;
            return Inserted::Done;
        }

        let exists = runs.exists(lane);
        let rank = runs.rank(machine, lane);
        if rank + exists as u32 > ends.count_ones() || runs.spill >= geometry.lanes {
            return Inserted::Nowhere;
        }
        let located = runs.locate(machine, lane, 1);
        let (start, run) = (located.start, located.slots(1) & exists.wrapping_neg());
        let beyond = !low_bits(geometry.slots_per_window());
        let extended = extensions.wrapping_shr(start) & (run << 1 | 1);
        let larger = if LAST {
            if extended != 0 {
                return Inserted::Nowhere;
            }
            0
        } else {
            let slots = window(block, geometry.slot_at(start));
            let remainders = !(geometry.lowest * low_bits(other_bits));
            let equal = geometry.equal(machine, slots & remainders, value & remainders);
            if run & beyond | extended | run & equal != 0 {
                return Inserted::Nowhere;
            }
            geometry.less(machine, value.wrapping_mul(geometry.lowest), slots) & run
        };
        let behind = start + run.count_ones();

        let at = behind - larger.count_ones();
        let last = u64::from(larger == 0);
        let unused = runs.unused(machine, lane, unfinished) >> (behind - lane);
        let unused = if unused != 0 {
            behind + unused.trailing_zeros()
        } else if let Some(unused) = runs.first_unused(machine, behind.max(lane + 32)) {
            unused
        } else {
            return Inserted::At(Spot { at: Place::new(home.block(), at), last: last == 1 });
        };
        let moving = machine.low_bits(unused + 1) & !machine.low_bits(at);
        let run_ends = geometry.raw_plane(block, Plane::RunEnd);
        let moved = |plane: u64| plane & moving ^ (plane & moving) << 1;
        let flips = Planes {
            occupied: (1 - exists) << lane,
            // The previous entry is no longer the run's last.
            run_end: moved(run_ends) ^ last << at ^ (last & exists) << at >> 1,
            extension: moved(extensions),
        };
        geometry.push_value(machine, block, (at, unused), value, geometry.flips(flips));
        self.usage.used += 1;
        Inserted::Done
    }

    /// Inserts an entry that is only a remainder into the run of the quotient at `home`, at `spot`.
    /// There must be no unused slot between `spot` and `from`.
    #[inline(always)]
    pub(crate) fn insert_at<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        home: Place,
        spot: Spot,
        from: Place,
        value: u64,
    ) -> Result<(), TableFull> {
        let Spot { at, last } = spot;
        if self.usage.used >= self.usage.limit {
            return Err(TableFull);
        }
        let unused = self.first_unused::<M, SHAPE>(machine, from).ok_or(TableFull)?;
        let is_new = !self.is_occupied_at::<SHAPE>(home);
        let run_end = u64::from(last || is_new);
        let slot = Moving { value, run_end, extension: 0 };
        self.insert_slot::<M, SHAPE>(machine, home, at, unused, slot);
        if is_new {
            self.set_bit_at::<SHAPE>(home, Plane::Occupied, true);
        } else if last {
            // The previous entry is no longer the run's last.
            let before = self.entry_before::<SHAPE>(at);
            self.set_bit_at::<SHAPE>(before, Plane::RunEnd, false);
        }
        Ok(())
    }
}
