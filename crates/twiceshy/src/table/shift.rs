//! Making and closing gaps, a word at a time.

use super::layout::{
    Block, Geometry, Place, Plane, Planes, QuotientTable, SATURATED, set_spill, stored_spill,
    window,
};
use crate::bits::machine::Machine;
use crate::bits::word::{bit_range, low_bits};

/// A slot on its way: its value, and its bits in the planes that move with it.
#[derive(Clone, Copy, Default)]
pub(super) struct Moving {
    pub(super) value: u64,
    pub(super) run_end: u64,
    pub(super) extension: u64,
}

impl QuotientTable {
    /// Makes a gap at `at` for the run of `quotient`: moves the slots `at..unused` up
    /// by one. All of them are used, `unused` is not. The gap is blank and counts as
    /// used.
    pub(super) fn open<M: Machine>(&mut self, machine: M, quotient: u64, at: u64, unused: u64) {
        let (first, last) = (self.place(at), self.place(unused));
        let slot = Moving::default();
        self.insert_slot::<M, 0>(machine, self.place(quotient), first, last, slot);
    }

    /// Moves the slots from `first` up to `unused` up by one, and puts `slot` before them.
    ///
    /// The end of every run from the one of the quotient at `home` up to the gap moves by
    /// one, so each block after `home`'s, up to where the gap was, has one more slot spilt
    /// into it.
    #[inline(always)]
    pub(super) fn insert_slot<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        home: Place,
        first: Place,
        unused: Place,
        mut slot: Moving,
    ) {
        let geometry = self.geometry_of::<WIDTH>();
        let top = geometry.lanes() - 1;
        let mut spilt = home.next_block();
        while spilt.block() < first.block() {
            let block = self.block_mut_of(spilt);
            set_spill(block, stored_spill(block) + 1);
            spilt = spilt.next_block();
        }
        let mut at = first;
        while at.block() < unused.block() {
            let (block, lanes) = (self.block_mut_of(at), (at.lane(), top));
            slot = geometry.push(machine, block, lanes, slot, at >= spilt);
            at = at.next_block();
        }
        let (block, lanes) = (self.block_mut_of(at), (at.lane(), unused.lane()));
        geometry.push(machine, block, lanes, slot, at >= spilt);
        self.used += 1;
    }

    /// Closes the slot at `at`, which belongs to the run of `quotient`: moves the slots
    /// behind it down by one, up to the first that may not move. If the run `vanish`es
    /// with it, its quotient isn't occupied any more.
    pub(super) fn close<M: Machine>(&mut self, machine: M, quotient: u64, at: u64, vanish: bool) {
        let end = self.end_of_movable(machine, quotient);
        if vanish {
            self.set_occupied(quotient, false);
        }
        let geometry = self.geometry();
        let (first, last) = (self.place(at), self.place(end - 1));
        for block in first.block()..=last.block() {
            let low = if block == first.block() { first.lane() } else { 0 };
            let high = if block == last.block() { last.lane() } else { geometry.lanes() - 1 };
            self.change_words(block, |words| {
                for &plane in geometry.moving() {
                    let at = geometry.plane_at(plane);
                    shift_down(words, at + low, at + high, 1);
                }
                let (slots, end) = (geometry.slot_at(low), geometry.slot_at(high + 1));
                shift_down(words, slots, end - 1, geometry.width());
            });
            if block < last.block() {
                self.copy_slot(self.start_of(block + 1), self.start_of(block + 1) - 1);
            }
        }
        let mut before = None;
        for block in self.place(quotient).block() + 1..=last.block() {
            before = match self.stored_spill(block) {
                SATURATED => {
                    let before = before.unwrap_or_else(|| self.spill(machine, block - 1));
                    let spill = self.spill_after(machine, block - 1, before);
                    self.set_spill(block, spill);
                    Some(spill)
                }
                exact => {
                    self.set_spill(block, exact - 1);
                    Some(exact - 1)
                }
            };
        }
        self.used -= 1;
    }

    /// The first slot behind the run of `quotient` that can't move down: an unused
    /// one, or the beginning of a run that is at home.
    fn end_of_movable<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        let mut end = self.run_end(machine, quotient);
        let mut from = quotient + 1;
        while let Some(next) = self.first_occupied(from, end) {
            end = self.end_of_nth_run(machine, end, 1);
            from = next + 1;
        }
        end
    }

    /// The first quotient in `from..to` that has a run.
    pub(super) fn first_occupied(&self, from: u64, to: u64) -> Option<u64> {
        let place = self.place(from);
        let (mut block, lane) = (place.block(), place.lane());
        let mut bits = if block < self.blocks() { self.occupied(block) >> lane << lane } else { 0 };
        while bits == 0 {
            block += 1;
            if block >= self.blocks() || self.start_of(block) >= to {
                return None;
            }
            bits = self.occupied(block);
        }
        let found = self.start_of(block) + u64::from(bits.trailing_zeros());
        (found < to).then_some(found)
    }

    /// Copies a slot across a block's border, with its bits in both planes.
    fn copy_slot(&mut self, from: u64, to: u64) {
        let value = self.value(from);
        self.set_value(to, value);
        for &plane in self.geometry().moving() {
            self.set_bit(to, plane, self.bit(from, plane));
        }
    }
}

impl Geometry {
    /// Moves the slots `first..=last` of a block up by one, and puts `slot` before them.
    /// Returns the one that has no place any more. With `spilt` the block has one more slot
    /// spilt into it.
    #[inline(always)]
    fn push<M: Machine>(
        self,
        machine: M,
        block: &mut Block,
        (first, last): (u32, u32),
        slot: Moving,
        spilt: bool,
    ) -> Moving {
        let moving = bit_range(first, last);
        let pushed = |old: u64, bit: u64| {
            let new = (old & moving) << 1 & moving | bit << first;
            (old & moving ^ new, old >> last & 1)
        };
        let value = window(block, self.slot_at(last)) & low_bits(self.width());
        let (run_end, pushed_run_end) = pushed(self.plane(block, Plane::RunEnd), slot.run_end);
        let (extension, pushed_extension) =
            pushed(self.plane(block, Plane::Extension), slot.extension);
        let mut flips = self.flips(Planes { occupied: 0, run_end, extension });
        // One more at most: a saturated spill stays saturated.
        let spill = stored_spill(block);
        flips[0] ^= spill ^ (spill + u64::from(spilt)).min(SATURATED);
        self.push_value(machine, block, (first, last), slot.value, flips);
        Moving { value, run_end: pushed_run_end, extension: pushed_extension }
    }

    /// As [`push`](Self::push), the value alone; and flips bits of the first words.
    #[inline(always)]
    pub(super) fn push_value<M: Machine>(
        self,
        machine: M,
        block: &mut Block,
        (first, last): (u32, u32),
        value: u64,
        flips: [u64; 3],
    ) {
        let line = block.first_chunk_mut().expect("a line");
        let bits = (self.slot_at(first), self.slot_at(last + 1) - 1);
        machine.push_bits(line, bits, self.width(), value, flips);
    }
}

/// Moves the bits `first..=last` down by `by`, less than 64, within themselves: what
/// leaves at the bottom is gone, what comes in is zero.
#[inline(always)]
fn shift_down(words: &mut [u64; 8], first: u32, last: u32, by: u32) {
    for index in first / 64..=last / 64 {
        let mask = mask_within(index, first, last);
        let word = words[index as usize];
        let above = if index < last / 64 {
            words[index as usize + 1] & mask_within(index + 1, first, last)
        } else {
            0
        };
        let moved = (word & mask) >> by | above << (64 - by);
        words[index as usize] = word & !mask | moved & mask;
    }
}

/// The bits of word `index` of a bit string that lie in `first..=last`.
#[inline(always)]
fn mask_within(index: u32, first: u32, last: u32) -> u64 {
    let start = index * 64;
    bit_range(first.saturating_sub(start), (last - start).min(63))
}
