//! Fills a table in order, in one pass.
//!
//! The writer collects the slots of the current block, and writes the block to the table once, when
//! it is complete. The processor can't predict whether an entry begins a run, or whether it follows
//! the previous entry without a gap, so the code branches on neither.

use super::TableFull;
use super::block::{Geometry, Plane, set_word, word};
use super::shift::Planes;
use super::{Editor, Kind, Place, QuotientTable, Slot};
use crate::bits::word::low_bits;

/// Appends entries to a table in the order of their quotients. It never moves an entry.
pub(crate) struct TableWriter<'a> {
    table: Editor<'a>,
    hand: Hand,
    /// The slots of the current block.
    slots: [u64; 9],
    /// The place of the last remainder, if its entry continues in a later block.
    last_before: Option<Place>,
    /// Whether to lengthen the tail when it is too short.
    lengthens: bool,
}

/// The state of the current block, and of the home block of the current quotient.
#[derive(Clone, Copy, Default)]
struct Hand {
    block: usize,
    /// The first position of the current block, its first unwritten lane, and the number of its
    /// usable lanes.
    first: u64,
    lane: u32,
    room: u32,
    run_ends: u64,
    extensions: u64,
    /// The quotient of the last entry, and the lane of its remainder. The lane is [`BEFORE`] if the
    /// remainder is in an earlier block, or if there is no entry yet.
    quotient: u64,
    last: u32,
    /// The quotient's home block, the block's first position, and its occupied bits.
    home_block: usize,
    first_home: u64,
    occupied: u64,
    /// Total number of slots written or about to be written.
    used: u64,
}

/// A lane number that no block has. It means that the last remainder is in an earlier block.
const BEFORE: u32 = 63;

impl Hand {
    /// Returns the lane where the run of a quotient continues or begins. That lane may be past the
    /// end of the block.
    #[inline(always)]
    fn lane_of(self, quotient: u64) -> u64 {
        quotient.saturating_sub(self.first).max(self.lane.into())
    }
}

impl<'a> TableWriter<'a> {
    /// Returns a writer to `table`, which must be empty. The table is invalid until
    /// [`finish`](Self::finish) is called.
    pub(crate) fn new(table: Editor<'a>) -> Self {
        debug_assert_eq!(table.usage.used, 0);
        let hand = Hand { room: table.room(0), last: BEFORE, ..Hand::default() };
        Self { table, hand, slots: [0; 9], last_before: None, lengthens: false }
    }

    /// Returns a writer as [`new`](Self::new) does, but one that lengthens the tail as needed. Use
    /// it for hashes that are not uniform, which make longer runs.
    pub(crate) fn lengthening(table: Editor<'a>) -> Self {
        Self { lengthens: true, ..Self::new(table) }
    }

    /// Appends an entry to the run of `quotient`, which must not be less than the previous
    /// quotient.
    pub(crate) fn push(
        &mut self,
        quotient: u64,
        entry: impl IntoIterator<Item = Slot>,
    ) -> Result<(), TableFull> {
        for (index, Slot { value, kind }) in entry.into_iter().enumerate() {
            if index == 0 {
                self.push_remainders::<0>([(quotient, value)].into_iter())?;
            } else {
                self.push_more(value, kind)?;
            }
        }
        Ok(())
    }

    /// Appends entries of one slot each, given as pairs of a quotient and the content of the slot.
    #[inline(always)]
    pub(crate) fn push_remainders<const SHAPE: u32>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (u64, u64)>,
    ) -> Result<(), TableFull> {
        let geometry = self.table.geometry_of::<SHAPE>();
        self.hand.used += entries.len() as u64;
        let mut hand = self.hand;
        for (quotient, value) in entries {
            hand.run_ends |= u64::from(quotient != hand.quotient) << hand.last;
            let mut lane = hand.lane_of(quotient);
            let elsewhere = lane >= hand.room.into();
            if elsewhere || quotient - hand.first_home >= geometry.lanes.into() {
                self.hand = hand;
                self.go_to(quotient)?;
                hand = self.hand;
                lane = hand.lane_of(quotient);
            }
            hand.occupied |= 1 << (quotient - hand.first_home);
            hand.quotient = quotient;
            hand.last = lane as u32;
            hand.lane = hand.last + 1;
            put(geometry, &mut self.slots, hand.last, value);
        }
        self.hand = hand;
        Ok(())
    }

    /// Appends a slot to the last entry.
    fn push_more(&mut self, value: u64, kind: Kind) -> Result<(), TableFull> {
        if self.is_out_of_room() {
            let Hand { block, last, .. } = self.hand;
            self.write_block();
            if last != BEFORE {
                self.last_before = Some(Place::new(block, last));
            }
            self.hand.last = BEFORE;
            self.enter(block + 1)?;
        }
        let hand = &mut self.hand;
        put(self.table.header.geometry, &mut self.slots, hand.lane, value);
        hand.extensions |= 1 << hand.lane;
        hand.run_ends |= u64::from(kind == Kind::Counter) << hand.lane;
        hand.lane += 1;
        hand.used += 1;
        Ok(())
    }

    /// Makes the block of `quotient` the home block, and enters the block where its run is to be
    /// written.
    #[cold]
    #[inline(never)]
    fn go_to(&mut self, quotient: u64) -> Result<(), TableFull> {
        let home = self.table.place(quotient);
        if home.block() != self.hand.home_block {
            self.end_homes(home.block());
        }
        let Hand { block, .. } = self.hand;
        if home.block() > block || self.is_out_of_room() {
            self.write_block();
            self.enter(home.block().max(block + 1))?;
        }
        Ok(())
    }

    /// Returns whether the current block is full. If it is the last block and the writer may
    /// lengthen the tail, first does so, because the block then gains one usable slot.
    fn is_out_of_room(&mut self) -> bool {
        let Hand { block, lane, room, .. } = self.hand;
        let is_last = block + 1 == self.table.blocks();
        if lane >= room && self.lengthens && is_last && self.table.lengthen_tail() {
            self.hand.room = self.table.room(block);
        }
        lane >= self.hand.room
    }

    /// Writes the occupied bits of the home block, and the spills of the blocks after it, up to
    /// block `next`. Spills of zero are not written, because the memory is zero already, and
    /// untouched memory costs nothing.
    fn end_homes(&mut self, next: usize) {
        let Hand { home_block, occupied, first, lane, .. } = self.hand;
        let flips = Planes { occupied, ..Planes::default() };
        self.table.header.geometry.flip(self.table.block_mut_of(Place::new(home_block, 0)), flips);
        let end = first + u64::from(lane);
        for block in home_block + 1..=next {
            let spill = end.saturating_sub(self.table.start_of(block));
            if spill == 0 {
                break;
            }
            self.table.set_spill(block, spill);
        }
        self.hand.occupied = 0;
        self.hand.home_block = next;
        self.hand.first_home = self.table.start_of(next);
    }

    /// Writes the current block to the table.
    fn write_block(&mut self) {
        let Hand { block, run_ends, extensions, .. } = self.hand;
        if let Some(last) = self.last_before.take_if(|_| run_ends >> BEFORE == 1) {
            self.table.set_bit_at::<0>(last, Plane::RunEnd, true);
        }
        let geometry = self.table.header.geometry;
        let run_end = run_ends & low_bits(geometry.lanes);
        let planes = Planes { occupied: 0, run_end, extension: extensions };
        let mut words = core::mem::take(&mut self.slots);
        words.iter_mut().zip(geometry.flips(planes)).for_each(|(word, bits)| *word |= bits);
        let block = self.table.block_mut_of(Place::new(block, 0));
        for (at, bits) in (0..).step_by(64).zip(&words[..8]) {
            set_word(block, at, word(block, at) | bits);
        }
        (self.hand.run_ends, self.hand.extensions) = (0, 0);
    }

    /// Makes a block the current one.
    fn enter(&mut self, block: usize) -> Result<(), TableFull> {
        if block >= self.table.blocks() || self.hand.used > self.table.usage.limit {
            return Err(TableFull);
        }
        self.hand.block = block;
        self.hand.first = self.table.start_of(block);
        self.hand.lane = 0;
        self.hand.room = self.table.room(block);
        Ok(())
    }

    /// Writes the current block and the remaining spills.
    pub(crate) fn finish(mut self) -> Result<(), TableFull> {
        self.hand.run_ends |= 1 << self.hand.last;
        self.end_homes(self.table.blocks() - 1);
        self.write_block();
        self.table.usage.used = self.hand.used;
        if self.table.usage.used > self.table.usage.limit { Err(TableFull) } else { Ok(()) }
    }
}

impl QuotientTable {
    /// Returns the number of usable slots of a block.
    fn room(&self, block: usize) -> u32 {
        u64::from(self.header.geometry.lanes).min(self.end() - self.start_of(block)) as u32
    }
}

/// Appends a slot's value to the slots of the current block.
#[inline(always)]
fn put(geometry: Geometry, slots: &mut [u64; 9], lane: u32, value: u64) {
    let at = geometry.slot_at(lane);
    let (word, bit) = (at as usize / 64 % 8, at % 64);
    slots[word] |= value << bit;
    // The next word holds nothing yet, so it needs no OR.
    slots[word + 1] = value >> 1 >> (63 - bit);
}
