//! Inserting an entry that is only a remainder, which is most of what happens to a table.

use super::TableFull;
use super::layout::{Geometry, Place, Plane, Planes, QuotientTable, stored_spill, window};
use super::shift::Moving;
use super::walk::Spot;
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;

impl QuotientTable {
    /// Inserts an entry that is only a remainder into the run of the quotient at `home`,
    /// behind all that are not larger, if nothing but `home`'s block has to change, and
    /// the run has no extensions; whether it did. There must be room in the table.
    ///
    /// Finds the run as a [scan](QuotientTable::scan) does.
    #[inline(always)]
    pub(crate) fn insert_here<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
    ) -> bool {
        let geometry = self.geometry_of::<WIDTH>();
        let (block, lane) = (self.block_mut_of(home), home.lane());
        let lanes = low_bits(geometry.lanes());
        let occupied = geometry.raw_plane(block, Plane::Occupied) & lanes;
        let extensions = geometry.raw_plane(block, Plane::Extension) & lanes;
        let run_ends = geometry.raw_plane(block, Plane::RunEnd) & lanes;
        let spill = stored_spill(block) as u32;
        let (spilt, before) = (machine.low_bits(spill), machine.low_bits(lane));
        let ends = run_ends & !extensions & !spilt;

        // A slot is unused if as many runs end before it as quotients up to it have some, and
        // it is no extension of theirs.
        let is_unused = |lane: u32| {
            let runs = (occupied & machine.low_bits(lane + 1)).count_ones();
            (runs, runs == (ends & machine.low_bits(lane)).count_ones())
        };
        let foreign = (extensions | spilt) >> lane & 1 == 1;
        if is_unused(lane).1 & !foreign {
            let flips = Planes { occupied: 1 << lane, run_end: 1 << lane, extension: 0 };
            geometry.flip(block, flips);
            geometry.set_slot(block, lane, value);
            self.used += 1;
            return true;
        }

        let here = occupied >> lane & 1;
        let rank = (occupied & before).count_ones();
        if rank + here as u32 > ends.count_ones() {
            return false;
        }
        let end = machine.select_bit(ends, rank);
        let start = u64::BITS - (ends & end.wrapping_sub(1) | spilt | before).leading_zeros();
        let end = end.wrapping_shr(start);
        let run = (end | end.wrapping_sub(1)) & here.wrapping_neg();
        let beyond = !low_bits(geometry.slots_per_window());
        let extended = (extensions | !lanes).wrapping_shr(start) & (run << 1 | 1);
        if run & beyond | extended != 0 {
            return false;
        }
        let larger = geometry.larger(machine, window(block, geometry.slot_at(start)), value) & run;
        let behind = start + run.count_ones();

        let mut unused = behind;
        while let (runs, false) = is_unused(unused) {
            let last = machine.select_bit(ends, runs - 1);
            if last == 0 {
                return false;
            }
            unused = last.trailing_zeros() + 1;
            unused += (extensions >> unused).trailing_ones();
            if unused >= geometry.lanes() {
                return false;
            }
        }

        let at = behind - larger.count_ones();
        let last = u64::from(larger == 0);
        let moving = machine.low_bits(unused + 1) & !machine.low_bits(at);
        let moved = |plane: u64| plane & moving ^ (plane & moving) << 1;
        let flips = Planes {
            occupied: (1 - here) << lane,
            // The entry before it isn't the run's last any more.
            run_end: moved(run_ends) ^ last << at ^ (last & here) << at >> 1,
            extension: moved(extensions),
        };
        geometry.flip(block, flips);
        geometry.push_value(block, at, unused, value);
        self.used += 1;
        true
    }

    /// Inserts an entry that is only a remainder into the run of the quotient at `home`,
    /// at a spot that a [walk](Self::walk) through it came to.
    #[inline(always)]
    pub(crate) fn insert_at<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        home: Place,
        spot: Spot,
        value: u64,
    ) -> Result<(), TableFull> {
        let Spot { at, last } = spot;
        if self.used == self.slots() {
            return Err(TableFull);
        }
        let unused = self.first_unused::<M, WIDTH>(machine, at).ok_or(TableFull)?;
        let is_new = !self.is_occupied_at::<WIDTH>(home);
        if last && !is_new {
            self.set_run_end(self.entry_before(self.position(at)), false);
        }
        let run_end = u64::from(last || is_new);
        self.insert_slot::<WIDTH>(home, at, unused, Moving { value, run_end, extension: 0 });
        self.set_bit_at::<WIDTH>(home, Plane::Occupied, true);
        Ok(())
    }
}

impl Geometry {
    /// Which slots of a window are larger than `value`: one bit for each.
    #[inline(always)]
    fn larger<M: Machine>(self, machine: M, slots: u64, value: u64) -> u64 {
        let values = value.wrapping_mul(self.lowest);
        // Without their highest bits, and one set there to borrow from, the slots don't
        // interfere; where the highest bits differ, they decide.
        let not_less = (values | self.highest).wrapping_sub(slots & !self.highest);
        let less_or_equal = values & !slots | !(values ^ slots) & not_less;
        machine.pack(!less_or_equal, self.highest)
    }
}
