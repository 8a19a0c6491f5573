//! The bits of one block.

use super::place::Place;
use super::shape::{MOST_CODE_BITS, Shape};
use crate::bits::memory::{LINE, VIEW};
use crate::bits::word::low_bits;
use core::ops::Range;

/// Stored spill of a block whose real spill doesn't fit in a byte.
pub(super) const SATURATED: u64 = low_bits(SPILL_BITS);

const SPILL_BITS: u32 = 8;
/// Planes that every table has: occupied and run ends. Some tables have a third one for extensions.
const PLANES: u32 = 2;
const LINE_BITS: u32 = 8 * LINE as u32;
const WORDS: usize = LINE / 8;

/// Number of bits that one load returns for any first bit. The load starts at a byte, so up to 7 of
/// its 64 bits may precede the first bit.
pub(super) const WINDOW_BITS: u32 = 57;

/// The bytes of a block, and the first bytes of the next one.
pub(super) type Block = [u8; VIEW];

/// A plane of a block: one bit per lane.
#[derive(Clone, Copy)]
pub(super) enum Plane {
    Occupied,
    RunEnd,
    Extension,
}

/// Bits in each plane of a block.
#[derive(Clone, Copy, Default)]
pub(super) struct Planes {
    pub(super) occupied: u64,
    pub(super) run_end: u64,
    pub(super) extension: u64,
}

/// The planes that move with the slots.
const MOVING: [Plane; 2] = [Plane::RunEnd, Plane::Extension];

/// The layout of a block whose slots have a given width.
///
/// A *block* is one cache line, so most lookups touch one line. It holds as many slots as fit.
/// These are its *lanes*: 42 lanes for slots of 9 bits, which makes 12.19 bits per slot in total.
///
/// ```text
/// bit 0      8            8+L        8+2L         8+3L                     8+3L+L·width
///     ┌──────┬────────────┬──────────┬────────────┬────────┬────────┬─┄┄─┬──────────┐
///     │ spill│ occupied   │ runend   │ extension  │ slot 0 │ slot 1 │    │ slot L-1 │
///     └──────┴────────────┴──────────┴────────────┴────────┴────────┴─┄┄─┴──────────┘
///              bit i: lane i of the block            width bits each
/// ```
///
/// Bits are counted from the lowest bit of the first byte. A block has at most 56 lanes, so that
/// one load reads a whole plane. Blocks with slots of less than 6 bits therefore leave part of the
/// line unused.
///
/// Other [`Shape`]s have no extension plane. A *coded* block has a *code* in its place: a number
/// whose meaning is up to the filter that uses the table. The code takes all bits that the planes
/// and slots don't need: 44 bits beside 46 slots of 8 bits, which makes 11.13 bits per slot. A
/// *bare* block has neither extensions nor a code, and holds 50 slots of 8 bits. Its unused bits
/// come before the slots, so that slots of 8 bits are whole bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    width: u32,
    /// See [`Shape`].
    extensions: bool,
    code: u32,
    code_bits: u32,
    lanes: u32,
    /// 2^64 / lanes, rounded up. Multiplying by it divides positions below 2^57 exactly.
    reciprocal: u64,
    /// The first bit of the slots.
    slots_at: u32,
    /// The lowest bit of each whole slot in a window (`lowest`), and the highest (`highest`).
    pub(super) lowest: u64,
    pub(super) highest: u64,
}

impl Shape {
    /// Returns the number of slots of a block, and the number of bits of its code.
    pub(crate) const fn lanes_and_code_bits(self) -> (u32, u32) {
        let Geometry { lanes, code_bits, .. } = Geometry::of(self);
        (lanes, code_bits)
    }
}

impl Geometry {
    pub(super) const fn of(shape: Shape) -> Self {
        let Shape { width, extensions, code } = shape;
        let planes = PLANES + extensions as u32;
        let room = LINE_BITS - SPILL_BITS;
        let fit = 64 * room / (64 * (planes + width) + code);
        let lanes = if fit < WINDOW_BITS { fit } else { WINDOW_BITS - 1 };
        let rest = room - lanes * (planes + width);
        let bare = !extensions && code == 0;
        let code_bits = if code == 0 {
            0
        } else if rest < MOST_CODE_BITS {
            rest
        } else {
            MOST_CODE_BITS
        };
        let mut lowest = 0;
        let mut slot = 0;
        while slot < WINDOW_BITS / width {
            lowest |= 1 << (slot * width);
            slot += 1;
        }
        Self {
            width,
            extensions,
            code,
            code_bits,
            lanes,
            reciprocal: u64::MAX / lanes as u64 + 1,
            slots_at: SPILL_BITS + planes * lanes + if bare { rest } else { code_bits },
            lowest,
            highest: lowest << (width - 1),
        }
    }

    #[inline(always)]
    pub(super) fn shape(self) -> Shape {
        let Self { width, extensions, code, .. } = self;
        Shape { width, extensions, code }
    }

    /// Returns whether slots may be extensions.
    #[inline(always)]
    pub(super) fn has_extensions(self) -> bool {
        self.extensions
    }

    #[inline(always)]
    pub(super) fn code_bits(self) -> u32 {
        self.code_bits
    }

    /// Returns the first bit of the code.
    #[inline(always)]
    pub(super) fn code_at(self) -> u32 {
        SPILL_BITS + PLANES * self.lanes
    }

    /// Returns the range of unused bits before the slots.
    #[inline(always)]
    pub(super) fn gap(self) -> Range<u32> {
        let planes = PLANES + u32::from(self.extensions);
        SPILL_BITS + planes * self.lanes + self.code_bits..self.slots_at
    }

    /// Returns the planes that move with the slots.
    #[inline(always)]
    pub(super) fn moving(self) -> &'static [Plane] {
        if self.has_extensions() { &MOVING } else { &MOVING[..1] }
    }

    /// Returns the number of whole slots in a window.
    #[inline(always)]
    pub(super) fn slots_per_window(self) -> u32 {
        self.lowest.count_ones()
    }

    #[inline(always)]
    pub(super) fn lanes(self) -> u32 {
        self.lanes
    }

    #[inline(always)]
    pub(super) fn width(self) -> u32 {
        self.width
    }

    #[inline(always)]
    pub(super) fn place(self, position: u64) -> Place {
        let block = ((u128::from(position) * u128::from(self.reciprocal)) >> 64) as u64;
        let lane = (position as u32).wrapping_sub((block as u32).wrapping_mul(self.lanes));
        Place::new(block as usize, lane)
    }

    #[inline(always)]
    pub(super) fn has(self, plane: Plane) -> bool {
        !matches!(plane, Plane::Extension) || self.has_extensions()
    }

    #[inline(always)]
    pub(super) fn plane_at(self, plane: Plane) -> u32 {
        SPILL_BITS + plane as u32 * self.lanes
    }

    /// Returns the first bit of a slot.
    #[inline(always)]
    pub(super) fn slot_at(self, lane: u32) -> u32 {
        self.slots_at + lane * self.width
    }

    /// Returns the value of a slot.
    #[inline(always)]
    pub(super) fn slot(self, block: &Block, lane: u32) -> u64 {
        window(block, self.slot_at(lane)) & low_bits(self.width)
    }

    #[inline(always)]
    pub(super) fn set_slot(self, block: &mut Block, lane: u32, value: u64) {
        set_window(block, self.slot_at(lane), self.width, value);
    }

    #[inline(always)]
    pub(super) fn plane(self, block: &Block, plane: Plane) -> u64 {
        self.raw_plane(block, plane) & low_bits(self.lanes)
    }

    /// Returns a plane. The bits above the last lane are arbitrary.
    #[inline(always)]
    pub(super) fn raw_plane(self, block: &Block, plane: Plane) -> u64 {
        if !self.has(plane) {
            return 0;
        }
        window(block, self.plane_at(plane))
    }

    /// Flips the bits of the planes that are set in `flips`. It does so in one pass over whole
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
            // This is zero if the index wraps around to word 0.
            flips[(at as usize / 64 + 1) % 3] ^= (wide >> 64) as u64;
        }
        flips
    }

    /// Returns the true run ends of a block. (A set bit on an extension slot means a counter
    /// instead.)
    #[inline(always)]
    pub(super) fn run_ends(self, block: &Block) -> u64 {
        self.plane(block, Plane::RunEnd) & !self.plane(block, Plane::Extension)
    }
}

#[inline(always)]
pub(super) fn stored_spill(block: &Block) -> u64 {
    block[0].into()
}

#[inline(always)]
pub(super) fn set_spill(block: &mut Block, spill: u64) {
    block[0] = spill.min(SATURATED) as u8;
}

/// Returns the aligned word of a block that contains bit `at`.
#[inline(always)]
pub(super) fn word(block: &Block, at: u32) -> u64 {
    u64::from_le_bytes(block.as_chunks().0[at as usize / 64 % WORDS])
}

#[inline(always)]
pub(super) fn set_word(block: &mut Block, at: u32, word: u64) {
    block.as_chunks_mut().0[at as usize / 64 % WORDS] = word.to_le_bytes();
}

/// Returns at least [`WINDOW_BITS`] bits of a block, starting at bit `at`. Bits past the end of the
/// block are arbitrary.
#[inline(always)]
pub(super) fn window(block: &Block, at: u32) -> u64 {
    let byte = (at / 8) as usize % LINE;
    let word: [u8; 8] = block[byte..byte + 8].try_into().expect("8 bytes");
    u64::from_le_bytes(word) >> (at % 8)
}

/// Replaces `count` bits of a block, starting at bit `at`. `count` must be at most 56.
#[inline(always)]
pub(super) fn set_window(block: &mut Block, at: u32, count: u32, value: u64) {
    let byte = (at / 8) as usize % LINE;
    let word: &mut [u8; 8] = (&mut block[byte..byte + 8]).try_into().expect("8 bytes");
    let (mask, value) = (low_bits(count) << (at % 8), value << (at % 8));
    *word = (u64::from_le_bytes(*word) & !mask | value).to_le_bytes();
}
