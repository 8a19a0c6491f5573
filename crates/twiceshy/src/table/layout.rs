//! Where the bits of a table are.

use crate::bits::machine::Level;
use crate::bits::memory::zeroed_words;
use crate::bits::word::low_bits;
use core::ops::RangeInclusive;

/// The slot widths that a table can have.
pub(crate) const WIDTHS: RangeInclusive<u32> = 1..=56;

/// The most home slots that a table can have: positions stay far from overflow, and
/// a fraction keeps at least 80 fresh bits.
pub(super) const MAX_SLOTS: u64 = 1 << 48;

/// Slots in one block, so that each plane of it is one word.
pub(super) const LANES: u64 = 64;

/// A spill that doesn't fit its byte.
pub(super) const SATURATED: u8 = u8::MAX;

const OCCUPIED: usize = 0;
const RUNEND: usize = 1;
const EXTENSION: usize = 2;
const PLANES: usize = 3;

/// What a used slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first slot of an entry.
    Remainder,
    /// More of the entry's fingerprint.
    Extension,
    /// A digit of the entry's counter or value.
    Counter,
}

/// A used slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) value: u64,
    pub(crate) kind: Kind,
}

/// A block and a slot within it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) block: usize,
    pub(super) lane: u32,
}

#[inline(always)]
pub(super) const fn place(position: u64) -> Place {
    Place { block: (position / LANES) as usize, lane: (position % LANES) as u32 }
}

/// The first position of a block.
#[inline(always)]
pub(super) const fn start_of(block: usize) -> u64 {
    block as u64 * LANES
}

/// A table of runs; see the [module](super).
///
/// A *block* of 64 slots is 3 + width words, so that one lookup finds all it needs
/// in neighbouring lines:
///
/// ```text
/// word  0          1        2           3 …                        3+width
///      ┌──────────┬────────┬───────────┬────────┬────────┬─┄┄─┬────────┐
///      │ occupied │ runend │ extension │ slot 0 │ slot 1 │    │ slot 63│
///      └──────────┴────────┴───────────┴────────┴────────┴─┄┄─┴────────┘
///        bit i: slot i of the block       packed, width bits each,
///                                         lowest bits first
/// ```
///
/// The spills are one byte a block, apart, so that words stay aligned: 1/8 bit a
/// slot, 64 times smaller than the blocks. After the last block there is one zero
/// word, so that reading a slot may always read two.
#[derive(Clone)]
pub(crate) struct QuotientTable {
    slots: u64,
    width: u32,
    words: Vec<u64>,
    spills: Vec<u8>,
    pub(super) used: u64,
    level: Level,
}

impl QuotientTable {
    /// An empty table, or `None` if there is no memory for it or no such table:
    /// `slots` must be 1 to 2^48, `width` one of [`WIDTHS`].
    pub(crate) fn new(slots: u64, width: u32) -> Option<Self> {
        Self::for_machine(slots, width, Level::detect())
    }

    pub(crate) fn for_machine(slots: u64, width: u32, level: Level) -> Option<Self> {
        let blocks = Self::blocks_for(slots, width)?;
        let words = zeroed_words(blocks.checked_mul(PLANES + width as usize)?.checked_add(1)?)?;
        Some(Self { slots, width, words, spills: vec![0; blocks], used: 0, level })
    }

    fn blocks_for(slots: u64, width: u32) -> Option<usize> {
        let possible = (1..=MAX_SLOTS).contains(&slots) && WIDTHS.contains(&width);
        possible.then(|| (slots + 4 * slots.isqrt() + LANES).div_ceil(LANES) as usize)
    }

    /// The bytes that a table of that shape takes, or `None` if there is no such table.
    pub(crate) fn bytes_for(slots: u64, width: u32) -> Option<u64> {
        let blocks = Self::blocks_for(slots, width)? as u64;
        Some(blocks * (8 * (PLANES as u64 + u64::from(width)) + 1) + 8)
    }

    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * 8 + self.spills.len()) as u64
    }

    #[inline(always)]
    pub(super) fn blocks(&self) -> usize {
        self.spills.len()
    }

    /// One past the last slot of the tail that may be used. There is one more, which
    /// stays blank, so that looking behind an entry is always possible.
    #[inline(always)]
    pub(super) fn end(&self) -> u64 {
        start_of(self.blocks()) - 1
    }

    #[inline(always)]
    fn plane(&self, block: usize, plane: usize) -> u64 {
        self.words[block * (PLANES + self.width as usize) + plane]
    }

    #[inline(always)]
    fn plane_mut(&mut self, block: usize, plane: usize) -> &mut u64 {
        &mut self.words[block * (PLANES + self.width as usize) + plane]
    }

    #[inline(always)]
    pub(super) fn occupied(&self, block: usize) -> u64 {
        self.plane(block, OCCUPIED)
    }

    #[inline(always)]
    pub(super) fn extensions(&self, block: usize) -> u64 {
        self.plane(block, EXTENSION)
    }

    /// The true run ends of a block: a set bit on an extension is a counter.
    #[inline(always)]
    pub(super) fn run_ends(&self, block: usize) -> u64 {
        self.plane(block, RUNEND) & !self.plane(block, EXTENSION)
    }

    /// Both planes that move with the slots, to be shifted.
    pub(super) fn moving_planes(&mut self, block: usize) -> &mut [u64] {
        let start = block * (PLANES + self.width as usize);
        &mut self.words[start + RUNEND..=start + EXTENSION]
    }

    /// The packed slots of a block, to be shifted.
    pub(super) fn packed(&mut self, block: usize) -> &mut [u64] {
        let start = block * (PLANES + self.width as usize) + PLANES;
        &mut self.words[start..start + self.width as usize]
    }

    /// What comes after the last block: always zero.
    pub(super) fn guard(&self) -> u64 {
        self.words[self.words.len() - 1]
    }

    #[inline(always)]
    pub(super) fn stored_spill(&self, block: usize) -> u8 {
        self.spills[block]
    }

    pub(super) fn set_spill(&mut self, block: usize, spill: u64) {
        self.spills[block] = spill.min(SATURATED.into()) as u8;
    }

    /// Spills only ever grow by one here, so a saturated one stays saturated.
    pub(super) fn increment_spill(&mut self, block: usize) {
        self.spills[block] = self.spills[block].saturating_add(1);
    }

    #[inline(always)]
    pub(crate) fn is_occupied(&self, quotient: u64) -> bool {
        let Place { block, lane } = place(quotient);
        self.occupied(block) >> lane & 1 == 1
    }

    pub(super) fn set_occupied(&mut self, quotient: u64, occupied: bool) {
        self.set_bit(quotient, OCCUPIED, occupied);
    }

    fn set_bit(&mut self, position: u64, plane: usize, value: bool) {
        let Place { block, lane } = place(position);
        let word = self.plane_mut(block, plane);
        *word = *word & !(1 << lane) | u64::from(value) << lane;
    }

    /// Where the slot at `position` begins: a word and a bit of it.
    #[inline(always)]
    fn packed_at(&self, position: u64) -> (usize, u32) {
        let Place { block, lane } = place(position);
        let bit = lane * self.width;
        (block * (PLANES + self.width as usize) + PLANES + (bit / 64) as usize, bit % 64)
    }

    #[inline(always)]
    pub(crate) fn value(&self, position: u64) -> u64 {
        let (word, bit) = self.packed_at(position);
        let low = self.words[word] >> bit;
        let high = self.words[word + 1] << 1 << (63 - bit);
        (low | high) & low_bits(self.width)
    }

    pub(super) fn set_value(&mut self, position: u64, value: u64) {
        debug_assert!(value <= low_bits(self.width), "a value wider than the slot");
        let (word, bit) = self.packed_at(position);
        let mask = low_bits(self.width);
        self.words[word] = self.words[word] & !(mask << bit) | value << bit;
        if bit + self.width > 64 {
            let (mask, value) = (mask >> (64 - bit), value >> (64 - bit));
            self.words[word + 1] = self.words[word + 1] & !mask | value;
        }
    }

    /// Whether the remainder at `position` is the last of its run.
    #[inline(always)]
    pub(crate) fn is_run_end(&self, position: u64) -> bool {
        let Place { block, lane } = place(position);
        self.run_ends(block) >> lane & 1 == 1
    }

    #[inline(always)]
    pub(crate) fn is_extension(&self, position: u64) -> bool {
        let Place { block, lane } = place(position);
        self.extensions(block) >> lane & 1 == 1
    }

    pub(crate) fn kind(&self, position: u64) -> Kind {
        let Place { block, lane } = place(position);
        match (self.plane(block, RUNEND) >> lane & 1, self.extensions(block) >> lane & 1) {
            (_, 0) => Kind::Remainder,
            (0, _) => Kind::Extension,
            _ => Kind::Counter,
        }
    }

    /// Writes a slot; a remainder's run-end bit is cleared.
    pub(super) fn write(&mut self, position: u64, slot: Slot) {
        self.set_value(position, slot.value);
        self.set_bit(position, RUNEND, slot.kind == Kind::Counter);
        self.set_bit(position, EXTENSION, slot.kind != Kind::Remainder);
    }

    pub(super) fn set_run_end(&mut self, position: u64, run_end: bool) {
        debug_assert!(!self.is_extension(position));
        self.set_bit(position, RUNEND, run_end);
    }

    /// Whether value and bits of a slot are all zero, as an unused one's must be.
    pub(super) fn is_blank(&self, position: u64) -> bool {
        let Place { block, lane } = place(position);
        let bits = self.plane(block, RUNEND) | self.plane(block, EXTENSION);
        bits >> lane & 1 == 0 && self.value(position) == 0
    }
}
