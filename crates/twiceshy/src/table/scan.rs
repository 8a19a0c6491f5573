//! What one line tells of a run, without a loop and almost without a branch.
//!
//! Most lookups can be decided within the block of their quotient: with 9-bit slots at
//! 90 % load, 93 of 100 for absent keys, and 85 for members. There, the
//! run's slots are compared with the wanted value all at once: a window of the packed
//! slots, xor the value in each of them, has a slot of zeros exactly where they are
//! equal. Branches that depend on what is in the line are costly: one that is guessed
//! wrong throws away the lookups behind it, which the machine has already begun.

use super::layout::{Geometry, Place, Plane, QuotientTable, stored_spill, window};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use core::ops::RangeInclusive;

/// What a block tells of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// No entry of the run has that remainder.
    Absent,
    /// An entry that is only a remainder, the wanted one, is in the run.
    Present,
    /// The run leaves the block, is too long, or has extensions: look closely.
    Unsure,
}

/// What a block tells of a run, before anything is decided.
#[derive(Clone, Copy)]
pub(crate) struct Evidence {
    /// Not zero if the remainder is in the run, or may be.
    maybe: u64,
    /// Not zero if what `maybe` says is not certain.
    doubts: u64,
}

impl Evidence {
    #[inline(always)]
    pub(crate) fn scan(self) -> Scan {
        match (self.maybe, self.doubts) {
            (0, _) => Scan::Absent,
            (_, 0) => Scan::Present,
            _ => Scan::Unsure,
        }
    }

    /// Whether it is [`Scan::Present`], and whether [`Scan::Unsure`], without a branch.
    #[expect(clippy::needless_bitwise_bool, reason = "that is a branch")]
    #[inline(always)]
    pub(crate) fn flags(self) -> (bool, bool) {
        let (maybe, doubts) = (self.maybe != 0, self.doubts != 0);
        (maybe & !doubts, maybe & doubts)
    }

    /// The same, but what it says is not certain if there `is` a reason to doubt it.
    #[inline(always)]
    pub(crate) fn doubted(self, is: bool) -> Self {
        Self { doubts: self.doubts | u64::from(is), ..self }
    }

    /// The same, but nothing is ruled out unless `it_is`.
    #[inline(always)]
    pub(crate) fn ruled_out_only_if(self, it_is: bool) -> Self {
        Self { maybe: self.maybe | u64::from(!it_is), ..self }
    }

    /// Whether the run's end isn't in view.
    #[inline(always)]
    pub(crate) fn goes_on(self) -> bool {
        self.doubts >> (u64::BITS - 1) == 1
    }
}

/// A run as one block shows it.
struct Here {
    /// Its first slots.
    slots: u64,
    /// A bit for each of its slots: none without a run, all if its end isn't here.
    run: u64,
    /// Those of these slots, and of the one behind them, that aren't the first of an entry; if
    /// there is no run, anything.
    extended: u64,
}

/// A run as two blocks show it.
struct Across {
    here: Here,
    next: Here,
    /// Not zero if that is not all of it.
    crowded: u64,
}

impl QuotientTable {
    /// Asks for the next block, if a run of the quotient at `place` is likely to be there:
    /// if it is one of the last third.
    #[inline(always)]
    pub(crate) fn prefetch_across<const WIDTH: u32>(&self, place: Place) {
        let late = place.lane() > self.geometry_of::<WIDTH>().lanes() * 2 / 3;
        self.prefetch(if late { place.next_block() } else { place });
    }

    /// Looks for `remainder` in the run of the quotient at `place`.
    #[inline(always)]
    pub(crate) fn scan<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        remainder: u64,
    ) -> Evidence {
        let geometry = self.geometry_of::<WIDTH>();
        let Here { slots, run, extended } = self.run_here::<M, WIDTH>(machine, place);
        let equal = geometry.equal(machine, slots, remainder);
        let beyond = !low_bits(geometry.slots_per_window());
        Evidence { maybe: (equal | beyond) & run, doubts: run & beyond | extended }
    }

    /// Looks for an entry whose first slot is wanted in the run of the quotient at `place`. What
    /// is in the other slots of an entry isn't known: then it is unsure.
    #[inline(always)]
    pub(crate) fn scan_for<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        wanted: impl Wanted,
    ) -> Evidence {
        let geometry = self.geometry_of::<WIDTH>();
        self.run_here::<M, WIDTH>(machine, place).evidence(machine, geometry, wanted)
    }

    /// As [`scan_for`](Self::scan_for), for a run that may go on in the next block.
    #[inline(always)]
    pub(crate) fn scan_across_for<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        wanted: impl Wanted,
    ) -> Evidence {
        let geometry = self.geometry_of::<WIDTH>();
        let Across { here, next, crowded } = self.run_across::<M, WIDTH>(machine, place);
        let here = here.evidence(machine, geometry, wanted);
        let next = next.evidence(machine, geometry, wanted);
        Evidence {
            maybe: here.maybe | next.maybe | crowded,
            doubts: here.doubts | next.doubts | crowded,
        }
    }

    /// What the block of the quotient at `place` tells of its run.
    #[inline(always)]
    fn run_here<M: Machine, const WIDTH: u32>(&self, machine: M, place: Place) -> Here {
        let geometry = self.geometry_of::<WIDTH>();
        let (block, lane) = (self.block_of(place), place.lane());
        let occupied = geometry.raw_plane(block, Plane::Occupied);
        let extensions = geometry.raw_plane(block, Plane::Extension);
        let spilt = machine.low_bits(stored_spill(block) as u32);
        let before = machine.low_bits(lane);
        let lanes = low_bits(geometry.lanes());
        let ends = geometry.raw_plane(block, Plane::RunEnd) & lanes & !extensions & !spilt;
        // Zero if the quotient has no run, or one that ends in another block.
        let here = occupied >> lane & 1;
        let end = machine.deposit_bit(here << machine.lowest(occupied, lane).count_ones(), ends);
        // Behind the run before it and the spill, and not before the quotient.
        let start = u64::BITS - (ends & end.wrapping_sub(1) | spilt | before).leading_zeros();
        let end = end.wrapping_shr(start);
        let run = end | end.wrapping_sub(here);
        Here {
            slots: window(block, geometry.slot_at(start)),
            run,
            // The slot behind the run counts, too; if it isn't here, it may be an extension.
            extended: (extensions | geometry.unseen(lanes)).wrapping_shr(start) & (run << 1 | 1),
        }
    }

    /// Where the first entry with `remainder` is in the run of the quotient at `place`, and the
    /// last entry of that run, if all of it is in the block and in view. For a run that
    /// [`scan`](Self::scan) isn't sure of: some entry in it is longer than its remainder.
    #[inline(always)]
    pub(crate) fn first_equal<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        remainder: u64,
    ) -> Option<(u64, u64)> {
        let geometry = self.geometry_of::<WIDTH>();
        let (block, lane) = (self.block_of(place), place.lane());
        let occupied = geometry.raw_plane(block, Plane::Occupied);
        let extensions = geometry.raw_plane(block, Plane::Extension);
        let spilt = machine.low_bits(stored_spill(block) as u32);
        let lanes = low_bits(geometry.lanes());
        let ends = geometry.raw_plane(block, Plane::RunEnd) & lanes & !extensions & !spilt;
        let here = occupied >> lane & 1;
        let end = machine.deposit_bit(here << machine.lowest(occupied, lane).count_ones(), ends);
        let before = ends & end.wrapping_sub(1) | spilt | machine.low_bits(lane);
        let start = u64::BITS - before.leading_zeros();
        if end == 0 || end.trailing_zeros() < start {
            return None;
        }
        let last = end.trailing_zeros();
        let equal = geometry.equal(machine, window(block, geometry.slot_at(start)), remainder);
        let first = start + equal.trailing_zeros();
        // What looks equal may be a digit of a longer one, and what is out of view, anything.
        let is_entry = first <= last && extensions >> first & 1 == 0;
        let in_view = last - start < geometry.slots_per_window() && last + 1 < geometry.lanes();
        let at = self.start_of(place.block());
        (is_entry && in_view).then_some((at + u64::from(first), at + u64::from(last)))
    }

    /// As [`scan`](Self::scan), for a run that may go on in the next block.
    #[inline(always)]
    pub(crate) fn scan_across<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        remainder: u64,
    ) -> Evidence {
        let geometry = self.geometry_of::<WIDTH>();
        let Across { here, next, crowded } = self.run_across::<M, WIDTH>(machine, place);
        let beyond = !low_bits(geometry.slots_per_window());
        Evidence {
            maybe: (geometry.equal(machine, here.slots, remainder) | beyond) & here.run
                | (geometry.equal(machine, next.slots, remainder) | beyond) & next.run
                | crowded,
            doubts: (here.run | next.run) & beyond | here.extended | next.extended | crowded,
        }
    }

    /// What the block of the quotient at `place` and the next one tell of its run.
    #[inline(always)]
    fn run_across<M: Machine, const WIDTH: u32>(&self, machine: M, place: Place) -> Across {
        let geometry = self.geometry_of::<WIDTH>();
        let (block, next) = (self.block_of(place), self.block_of(place.next_block()));
        let (lanes, lane) = (low_bits(geometry.lanes()), place.lane());
        let occupied = geometry.raw_plane(block, Plane::Occupied);
        let extensions = geometry.plane(block, Plane::Extension);
        let next_extensions = geometry.plane(next, Plane::Extension);
        let spill = stored_spill(block) as u32;
        let (spilt, before) = (machine.low_bits(spill), machine.low_bits(lane));
        let ends = geometry.raw_plane(block, Plane::RunEnd) & lanes & !extensions & !spilt;
        let next_ends = geometry.raw_plane(next, Plane::RunEnd) & lanes & !next_extensions;

        let here = occupied >> lane & 1;
        let (rank, count) = (machine.lowest(occupied, lane).count_ones(), ends.count_ones());
        let across = here & u64::from(rank >= count);
        let end = machine.deposit_bit(here << rank, ends);
        let start = u64::BITS - (ends & end.wrapping_sub(1) | spilt | before).leading_zeros();
        let end = end.wrapping_shr(start);
        let whole = end | end.wrapping_sub(here);
        // What goes on in the next block begins here, unless another does, too.
        let part = if rank == count { lanes.wrapping_shr(start) } else { 0 };
        let run = if across == 0 { whole } else { part };

        let next_end = machine.deposit_bit(across << (rank.wrapping_sub(count) % 64), next_ends);
        let next_start = u64::BITS - (next_ends & next_end.wrapping_sub(1)).leading_zeros();
        let next_end = next_end.wrapping_shr(next_start);
        let next_run = next_end | next_end.wrapping_sub(across);

        let extended =
            (extensions | next_extensions << geometry.lanes()).wrapping_shr(start) & (run << 1 | 1);
        let next_extended = (next_extensions | geometry.unseen(lanes)).wrapping_shr(next_start)
            & (next_run << 1 | across);
        Across {
            here: Here { slots: window(block, geometry.slot_at(start)), run, extended },
            next: Here {
                slots: window(next, geometry.slot_at(next_start)),
                run: next_run,
                extended: next_extended,
            },
            // Runs of earlier blocks may end in the next one, too: that is not looked at here.
            crowded: here & u64::from(spill > geometry.lanes()),
        }
    }
}

/// Says which slots are wanted. No closure: that isn't compiled for the machine.
pub(crate) trait Wanted: Copy {
    /// Of a window, one bit for each slot.
    fn of<M: Machine>(self, machine: M, window: Window) -> u64;
}

/// The first slots of a run.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    geometry: Geometry,
    slots: u64,
}

impl Window {
    /// Those that are equal to `value`, and maybe some behind one that is.
    #[inline(always)]
    pub(crate) fn equal<M: Machine>(self, machine: M, value: u64) -> u64 {
        self.geometry.equal(machine, self.slots, value)
    }

    /// Those that are equal to one of the values, and maybe some behind one that is.
    #[inline(always)]
    pub(crate) fn equal_any<M: Machine, const VALUES: usize>(
        self,
        machine: M,
        values: [u64; VALUES],
    ) -> u64 {
        let Self { geometry, slots } = self;
        let mut equal = 0;
        for value in values {
            equal |= geometry.unpacked_equal(slots, value);
        }
        machine.pack(equal, geometry.highest)
    }

    /// Those within bounds.
    #[inline(always)]
    pub(crate) fn between<M: Machine>(self, machine: M, bounds: RangeInclusive<u64>) -> u64 {
        let Self { geometry, slots } = self;
        let least = bounds.start().wrapping_mul(geometry.lowest);
        let most = bounds.end().wrapping_mul(geometry.lowest);
        let within = geometry.not_less(slots, least) & geometry.not_less(most, slots);
        machine.pack(within, geometry.highest)
    }

    /// Those of which that is true.
    #[inline(always)]
    pub(crate) fn such_as(self, is_such: impl Fn(u64) -> bool) -> u64 {
        let Self { geometry, slots } = self;
        let mut such = 0;
        for index in 0..geometry.slots_per_window() {
            let slot = slots >> (index * geometry.width()) & low_bits(geometry.width());
            such |= u64::from(is_such(slot)) << index;
        }
        such
    }
}

impl Here {
    #[inline(always)]
    fn evidence<M: Machine>(self, machine: M, geometry: Geometry, wanted: impl Wanted) -> Evidence {
        let Self { slots, run, extended } = self;
        let beyond = !low_bits(geometry.slots_per_window());
        // Not if there is no run.
        let doubts = run & beyond | extended & (run << 1 | run);
        let wanted = wanted.of(machine, Window { geometry, slots });
        Evidence { maybe: wanted & run | doubts, doubts }
    }
}

impl Geometry {
    /// Lanes that may be extensions for all that a block with these lanes tells.
    #[inline(always)]
    fn unseen(self, lanes: u64) -> u64 {
        if self.has_extensions() { !lanes } else { 0 }
    }

    /// Which slots of a window are equal to `value`: one bit for each. Above the lowest
    /// one that is, some may be wrong.
    #[inline(always)]
    pub(super) fn equal<M: Machine>(self, machine: M, slots: u64, value: u64) -> u64 {
        machine.pack(self.unpacked_equal(slots, value), self.highest)
    }

    /// The same, as the highest bit of each slot. Other bits may be anything.
    #[inline(always)]
    fn unpacked_equal(self, slots: u64, value: u64) -> u64 {
        let differs = slots ^ value.wrapping_mul(self.lowest);
        // The lowest slot that is zero borrows through all its bits.
        differs.wrapping_sub(self.lowest) & !differs
    }
}
