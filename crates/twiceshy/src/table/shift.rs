//! Changes planes, and opens and closes gaps between slots, a word at a time.

use super::block::{
    Block, Geometry, Plane, SATURATED, set_spill, set_word, stored_spill, window, word,
};
use super::locate::VALID;
use super::{Editor, Place, QuotientTable};
use crate::bits::machine::Machine;
use crate::bits::word::{bit_range, low_bits};

/// A slot that is being moved: its value, and its bits in the planes that move with it.
#[derive(Clone, Copy, Default)]
pub(super) struct Moving {
    pub(super) value: u64,
    pub(super) run_end: u64,
    pub(super) extension: u64,
}

/// Bits in each plane of a block.
#[derive(Clone, Copy, Default)]
pub(super) struct Planes {
    pub(super) occupied: u64,
    pub(super) run_end: u64,
    pub(super) extension: u64,
}

impl Editor<'_> {
    /// Moves the slots from `first` to `unused` up by one, and puts `slot` before them.
    ///
    /// All runs from that of the quotient at `home` up to `unused` then end one slot later, so the
    /// spill of each block after that of `home`, up to the block of `unused`, grows by one.
    #[inline(always)]
    pub(super) fn insert_slot<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        home: Place,
        first: Place,
        unused: Place,
        mut slot: Moving,
    ) {
        let geometry = self.geometry_of::<SHAPE>();
        let top = geometry.lanes - 1;
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
        self.usage.used += 1;
    }

    /// Closes the slot at `at`, which belongs to the run of `quotient`. Moves the slots after it
    /// down by one, up to the first slot that must not move. With `vanish`, the run becomes empty,
    /// so its quotient is no longer occupied.
    pub(super) fn close<M: Machine>(&mut self, machine: M, quotient: u64, at: u64, vanish: bool) {
        let end = self.end_of_movable(machine, quotient);
        if vanish {
            self.set_bit(quotient, Plane::Occupied, false);
        }
        let geometry = self.header.geometry;
        let (first, last) = (self.place(at), self.place(end - 1));
        for block in first.block()..=last.block() {
            let low = if block == first.block() { first.lane() } else { 0 };
            let high = if block == last.block() { last.lane() } else { geometry.lanes - 1 };
            let line = self.block_mut_of(Place::new(block, 0));
            for &plane in geometry.moving() {
                let at = geometry.plane_at(plane);
                shift_down(line, at + low, at + high, 1);
            }
            let (slots, end) = (geometry.slot_at(low), geometry.slot_at(high + 1));
            shift_down(line, slots, end - 1, geometry.width);
            if block < last.block() {
                let next = self.start_of(block + 1);
                let value = self.value(next);
                self.set_value(next - 1, value);
                for &plane in geometry.moving() {
                    let bit = self.bit(next, plane);
                    self.set_bit(next - 1, plane, bit);
                }
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
        self.usage.used -= 1;
    }
}

impl QuotientTable {
    /// Returns the first slot after the run of `quotient` that can't move down: an unused slot, or
    /// the first slot of a run that starts at its home slot.
    fn end_of_movable<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        let mut end = self.run_end(machine, quotient);
        let mut from = quotient + 1;
        while let Some(next) = self.first_occupied(from, end) {
            end = self.end_of_run_from(machine, end).expect(VALID);
            from = next + 1;
        }
        end
    }

    /// Returns the first quotient in `from..to` that has a run.
    fn first_occupied(&self, from: u64, to: u64) -> Option<u64> {
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
}

impl Geometry {
    /// Flips those bits of the planes that are set in `flips`. It does so in one pass over whole
    /// words, because reading a word right after writing only part of it is slow.
    #[inline(always)]
    pub(super) fn flip(self, block: &mut Block, flips: Planes) {
        for (at, flips) in (0..).step_by(64).zip(self.flips(flips)) {
            set_word(block, at, word(block, at) ^ flips);
        }
    }

    /// Converts bits of the planes to bits of the block's first three words.
    #[inline(always)]
    pub(super) fn flips(self, planes: Planes) -> [u64; 3] {
        let mut flips = [0; 3];
        for (plane, bits) in [
            (Plane::Occupied, planes.occupied),
            (Plane::RunEnd, planes.run_end),
            (Plane::Extension, planes.extension),
        ] {
            if !self.has(plane) {
                continue;
            }
            let at = self.plane_at(plane);
            let wide = u128::from(bits) << (at % 64);
            flips[at as usize / 64 % 3] ^= wide as u64;
            // If the index wraps around to word 0, the right-hand side is zero.
            flips[(at as usize / 64 + 1) % 3] ^= (wide >> 64) as u64;
        }
        flips
    }

    /// Moves the slots `first..=last` of a block up by one, and puts `slot` before them. Returns
    /// the slot that was pushed out. With `spilt`, also increases the block's spill by one.
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
        let value = window(block, self.slot_at(last)) & low_bits(self.width);
        let (run_end, pushed_run_end) = pushed(self.plane(block, Plane::RunEnd), slot.run_end);
        let (extension, pushed_extension) =
            pushed(self.plane(block, Plane::Extension), slot.extension);
        let mut flips = self.flips(Planes { occupied: 0, run_end, extension });
        // The spill grows by at most one, and a saturated spill stays saturated.
        let spill = stored_spill(block);
        flips[0] ^= spill ^ (spill + u64::from(spilt)).min(SATURATED);
        self.push_value(machine, block, (first, last), slot.value, flips);
        Moving { value, run_end: pushed_run_end, extension: pushed_extension }
    }

    /// Moves values as [`push`](Self::push) does, but not planes. Also flips the given bits of the
    /// first three words.
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
        machine.push_bits(line, bits, self.width, value, flips);
    }
}

/// Moves the bits `first..=last` down by `by`, which must be less than 64. The lowest `by` bits
/// are dropped, and zeros come in at the top. Bits outside the range don't change.
#[inline(always)]
fn shift_down(block: &mut Block, first: u32, last: u32, by: u32) {
    // Returns which bits of the word that begins at bit `at` are in the range.
    let mask = |at: u32| bit_range(first.saturating_sub(at), (last - at).min(63));
    for at in (first / 64 * 64..=last).step_by(64) {
        let (old, mine) = (word(block, at), mask(at));
        let above = if at + 64 <= last { word(block, at + 64) & mask(at + 64) } else { 0 };
        let moved = (old & mine) >> by | above << (64 - by);
        set_word(block, at, old & !mine | moved & mine);
    }
}
