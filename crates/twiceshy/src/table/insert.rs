//! Inserting an entry that is only a remainder, which is most of what happens to a table.

use super::TableFull;
use super::layout::{Geometry, Place, Plane, Planes, QuotientTable, stored_spill, window};
use super::locate::Clusters;
use super::shift::Moving;
use super::walk::Spot;
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;

/// How far an insert came within one block.
#[derive(Clone, Copy)]
pub(crate) enum Inserted {
    /// The entry is in.
    Done,
    /// It goes there, but the next unused slot is in another block.
    At(Spot),
    /// The run ends in another block, is too long, has extensions, or has such a
    /// remainder; or the table is full.
    Nowhere,
}

impl QuotientTable {
    /// Inserts an entry that is only a remainder, above so many other bits, into the run of the
    /// quotient at `home`, behind all that are smaller, if nothing but `home`'s block has to
    /// change, and the run has neither extensions nor that remainder.
    ///
    /// Finds the run as a [scan](QuotientTable::scan) does.
    #[inline(always)]
    pub(crate) fn insert_here<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
        other_bits: u32,
    ) -> Inserted {
        self.put_here::<M, WIDTH, false>(machine, home, value, other_bits)
    }

    /// As [`insert_here`](Self::insert_here), behind all others of the run, whatever they are.
    #[inline(always)]
    pub(crate) fn append_here<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
    ) -> Inserted {
        self.put_here::<M, WIDTH, true>(machine, home, value, 0)
    }

    #[inline(always)]
    fn put_here<M: Machine, const WIDTH: u32, const LAST: bool>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
        other_bits: u32,
    ) -> Inserted {
        if self.used >= self.limit {
            return Inserted::Nowhere;
        }
        let geometry = self.geometry_of::<WIDTH>();
        let (block, lane) = (self.block_mut_of(home), home.lane());
        let lanes = low_bits(geometry.lanes());
        let occupied = geometry.raw_plane(block, Plane::Occupied) & lanes;
        let extensions = geometry.raw_plane(block, Plane::Extension) & lanes;
        let run_ends = geometry.raw_plane(block, Plane::RunEnd) & lanes;
        let spill = stored_spill(block) as u32;
        let (spilt, before) = (machine.low_bits(spill), machine.low_bits(lane));
        let ends = run_ends & !extensions & !spilt;

        let clusters = Clusters { occupied, ends, extensions, lanes: geometry.lanes() };
        let foreign = (extensions | spilt) >> lane & 1;
        let unfinished = clusters.unfinished(machine, lane);
        if u64::from(unfinished) | foreign == 0 {
            let flips = Planes { occupied: 1 << lane, run_end: 1 << lane, extension: 0 };
            geometry.flip(block, flips);
            geometry.set_slot(block, lane, value);
            self.used += 1;
            return Inserted::Done;
        }

        let here = occupied >> lane & 1;
        let rank = machine.lowest(occupied, lane).count_ones();
        if rank + here as u32 > ends.count_ones() || spill >= geometry.lanes() {
            return Inserted::Nowhere;
        }
        let end = machine.select_bit(ends, rank);
        let start = u64::BITS - (ends & end.wrapping_sub(1) | spilt | before).leading_zeros();
        let end = end.wrapping_shr(start);
        let run = (end | end.wrapping_sub(1)) & here.wrapping_neg();
        let beyond = !low_bits(geometry.slots_per_window());
        let extended = (extensions | !lanes).wrapping_shr(start) & (run << 1 | 1);
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
            geometry.larger(machine, slots, value) & run
        };
        let behind = start + run.count_ones();

        let at = behind - larger.count_ones();
        let last = u64::from(larger == 0);
        let unused = clusters.unused(machine, lane, unfinished) >> (behind - lane);
        let unused = if unused != 0 {
            behind + unused.trailing_zeros()
        } else if let Some(unused) = clusters.first_unused(machine, behind.max(lane + 32)) {
            unused
        } else {
            return Inserted::At(Spot { at: Place::new(home.block(), at), last: last == 1 });
        };
        let moving = machine.low_bits(unused + 1) & !machine.low_bits(at);
        let moved = |plane: u64| plane & moving ^ (plane & moving) << 1;
        let flips = Planes {
            occupied: (1 - here) << lane,
            // The entry before it isn't the run's last any more.
            run_end: moved(run_ends) ^ last << at ^ (last & here) << at >> 1,
            extension: moved(extensions),
        };
        geometry.push_value(machine, block, (at, unused), value, geometry.flips(flips));
        self.used += 1;
        Inserted::Done
    }

    /// Inserts an entry that is only a remainder into the run of the quotient at `home`,
    /// at some spot in it; there is no unused slot between that and `from`.
    #[inline(always)]
    pub(crate) fn insert_at<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        home: Place,
        spot: Spot,
        from: Place,
        value: u64,
    ) -> Result<(), TableFull> {
        let Spot { at, last } = spot;
        if self.used >= self.limit {
            return Err(TableFull);
        }
        let unused = self.first_unused::<M, WIDTH>(machine, from).ok_or(TableFull)?;
        let is_new = !self.is_occupied_at::<WIDTH>(home);
        let run_end = u64::from(last || is_new);
        let slot = Moving { value, run_end, extension: 0 };
        self.insert_slot::<M, WIDTH>(machine, home, at, unused, slot);
        if is_new {
            self.set_bit_at::<WIDTH>(home, Plane::Occupied, true);
        } else if last {
            // The entry before it isn't the run's last any more.
            self.set_bit_at::<WIDTH>(self.entry_before_at::<WIDTH>(at), Plane::RunEnd, false);
        }
        Ok(())
    }
}

impl Geometry {
    /// Which slots of a window are larger than `value`: one bit for each.
    #[inline(always)]
    fn larger<M: Machine>(self, machine: M, slots: u64, value: u64) -> u64 {
        self.less(machine, value.wrapping_mul(self.lowest), slots)
    }

    /// Which of `values`, whole slots of a window, are less than the slots of another: one
    /// bit for each.
    #[inline(always)]
    pub(super) fn less<M: Machine>(self, machine: M, values: u64, slots: u64) -> u64 {
        machine.pack(!self.not_less(values, slots), self.highest)
    }

    /// Which of `values`, whole slots of a window, are not less than the slots of another: the
    /// highest bit of each. Other bits may be anything.
    #[inline(always)]
    pub(super) fn not_less(self, values: u64, slots: u64) -> u64 {
        // Without their highest bits, and one set there to borrow from, the slots don't
        // interfere; where the highest bits differ, they decide.
        let not_less = (values | self.highest).wrapping_sub(slots & !self.highest);
        values & !slots | !(values ^ slots) & not_less
    }
}
