//! Making and closing gaps, a word at a time.

use super::layout::{MOVING, Place, QuotientTable, SATURATED};
use crate::bits::machine::Machine;
use crate::bits::word::bit_range;

impl QuotientTable {
    /// Makes a gap at `at` for the run of `quotient`: moves the slots `at..unused` up
    /// by one. All of them are used, `unused` is not. The gap is blank and counts as
    /// used.
    ///
    /// The end of every run from `quotient`'s up to the gap moves by one, so each
    /// block after the quotient's, up to where the gap was, has one more slot spilt
    /// into it.
    pub(super) fn open(&mut self, quotient: u64, at: u64, unused: u64) {
        let (first, last) = (self.place(at), self.place(unused));
        self.open_places::<0>(self.place(quotient).block(), first, last);
    }

    /// As [`open`](Self::open), for a quotient of block `home`.
    #[inline(always)]
    pub(super) fn open_places<const WIDTH: u32>(&mut self, home: usize, first: Place, last: Place) {
        if first != last {
            self.move_up::<WIDTH>(first, last);
        }
        for block in home + 1..=last.block() {
            // One more at most: a saturated spill stays saturated.
            self.set_spill(block, self.stored_spill(block) + 1);
        }
        self.used += 1;
    }

    /// Moves the slots from `first` up to `last` up by one.
    #[inline(always)]
    fn move_up<const WIDTH: u32>(&mut self, first: Place, last: Place) {
        let geometry = self.geometry_of::<WIDTH>();
        for block in (first.block()..=last.block()).rev() {
            let low = if block == first.block() { first.lane() } else { 0 };
            let high = if block == last.block() { last.lane() } else { geometry.lanes() - 1 };
            self.change_words(block, |words| {
                for plane in MOVING {
                    let at = geometry.plane_at(plane);
                    shift_up(words, at + low, at + high, 1);
                }
                let (slots, end) = (geometry.slot_at(low), geometry.slot_at(high + 1));
                shift_up(words, slots, end - 1, geometry.width());
            });
            if block > first.block() {
                self.copy_slot(self.start_of(block) - 1, self.start_of(block));
            }
        }
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
                for plane in MOVING {
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
        for plane in MOVING {
            self.set_bit(to, plane, self.bit(from, plane));
        }
    }
}

/// Moves the bits `first..=last` up by `by`, less than 64, within themselves: what
/// leaves at the top is gone, what comes in is zero.
#[inline(always)]
fn shift_up(words: &mut [u64; 8], first: u32, last: u32, by: u32) {
    for index in (first / 64..=last / 64).rev() {
        let mask = mask_within(index, first, last);
        let word = words[index as usize];
        let below = if index > first / 64 {
            words[index as usize - 1] & mask_within(index - 1, first, last)
        } else {
            0
        };
        let moved = (word & mask) << by | below >> (64 - by);
        words[index as usize] = word & !mask | moved & mask;
    }
}

/// Moves the bits `first..=last` down by `by`, as [`shift_up`] moves them up.
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
