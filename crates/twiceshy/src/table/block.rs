//! The layout of a table: shapes of blocks, places in them, and the bits of one block.

use crate::bits::machine::{Choice, Machine, Shapes};
use crate::bits::memory::{LINE, VIEW};
use crate::bits::word::low_bits;
use core::ops::{Range, RangeInclusive};

/// The slot widths that a table can have.
pub(crate) const WIDTHS: RangeInclusive<u32> = 1..=56;

/// The numbers of home slots that a table can have. These limits keep positions from overflowing,
/// and leave at least 80 bits of a hash after the quotient.
pub(crate) const SLOTS: RangeInclusive<u64> = 1..=1 << 48;

/// Maximum number of bits in a block's code.
pub(crate) const MOST_CODE_BITS: u32 = 120;

/// Default number of code bits per 64 slots.
pub(crate) const USUAL_CODE_BITS: u32 = 56;

/// The width of a table's slots, and whether its blocks also contain a plane of extensions or a
/// code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(super) width: u32,
    /// Whether slots may be extensions.
    pub(super) extensions: bool,
    /// Requested number of code bits per 64 slots. The actual number is approximately that.
    pub(crate) code: u32,
}

impl Shape {
    /// Returns a shape with extensions and no code.
    pub(crate) const fn extended(width: u32) -> Self {
        Self { width, extensions: true, code: 0 }
    }

    /// Returns a shape with a code of the default size. The code, the run ends, the occupied bits
    /// and the spill together take about three bits per slot.
    pub(crate) const fn coded(width: u32) -> Self {
        Self::with_code(width, USUAL_CODE_BITS)
    }

    pub(crate) const fn with_code(width: u32, code: u32) -> Self {
        Self { width, extensions: false, code }
    }

    /// Returns a shape with neither extensions nor a code.
    pub(crate) const fn bare(width: u32) -> Self {
        Self::with_code(width, 0)
    }

    /// Returns the number of slots of a block, and the number of bits of its code.
    pub(crate) const fn lanes_and_code_bits(self) -> (u32, u32) {
        let Geometry { lanes, code_bits, .. } = Geometry::of(self);
        (lanes, code_bits)
    }

    /// Encodes the shape as one number. If it has extensions, the number is its width.
    pub(crate) const fn constant(self) -> u32 {
        (!self.extensions as u32) << 16 | self.code << 8 | self.width
    }

    /// Returns the slot width of the shape that `constant` encodes. Returns `None` for 0, which
    /// means that the shape is not known at compile time.
    pub(crate) const fn width_of(constant: u32) -> Option<u32> {
        if constant == 0 { None } else { Some(Self::of_constant(constant).width) }
    }

    /// Decodes the number that [`constant`](Self::constant) returns.
    pub(super) const fn of_constant(constant: u32) -> Self {
        Self { width: constant & 0xff, extensions: constant >> 16 == 0, code: constant >> 8 & 0xff }
    }
}

/// Converts a width to the shape with extensions and slots of that width.
impl From<u32> for Shape {
    fn from(width: u32) -> Self {
        Self::extended(width)
    }
}

/// Defines lists of common shapes. A list gives the widths of their slots.
macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = $shape:path: $($width:literal)*;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Shapes for $name {
            #[inline(always)]
            fn choose<C: Choice>(shape: u32, choice: C) -> C::Output {
                match shape {
                    $(common if common == const { $shape($width).constant() } => {
                        choice.with::<{ $shape($width).constant() }>()
                    })*
                    _ => choice.with::<0>(),
                }
            }
        }
    )*};
}

shapes! {
    /// The common shapes of quotient filters.
    Widths = Shape::extended: 6 7 8 9 10 11 12 13 14 15 16;
    /// The common shapes of range filters, whose slots also contain mementos.
    RangeWidths = Shape::extended: 9 10 11 12 13 14 15 16 17 18 19 20 21;
    /// The common shapes of filters with codes.
    CodedShapes = Shape::coded: 7 8 9 10 12;
    /// The common shapes of filters that can't adapt.
    BareShapes = Shape::bare: 7 8 9 10 12;
}

/// A block and a lane in that block, packed into one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// Number of values that a [`Place`] reserves for a lane. It equals the bytes per block, so a block
/// number times `STRIDE` is also the block's first byte.
const STRIDE: u64 = LINE as u64;

impl Place {
    #[inline(always)]
    pub(crate) fn new(block: usize, lane: u32) -> Self {
        Self((block as u64 * STRIDE) | (u64::from(lane) % STRIDE))
    }

    #[inline(always)]
    pub(crate) fn block(self) -> usize {
        (self.0 / STRIDE) as usize
    }

    #[inline(always)]
    pub(crate) fn lane(self) -> u32 {
        (self.0 % STRIDE) as u32
    }

    /// Returns the index of some byte in the place's block, which is enough to address the block.
    #[inline(always)]
    pub(super) fn byte(self) -> usize {
        self.0 as usize
    }

    /// Returns the first place of the next block.
    #[inline(always)]
    pub(crate) fn next_block(self) -> Self {
        Self((self.0 / STRIDE + 1) * STRIDE)
    }

    /// Returns the previous place, which must exist. `lanes` is the number of lanes per block.
    #[inline(always)]
    pub(super) fn before(self, lanes: u32) -> Self {
        match self.lane() {
            0 => Self::new(self.block() - 1, lanes - 1),
            _ => Self(self.0 - 1),
        }
    }

    /// Returns the place `lanes` lanes further in the same block.
    #[inline(always)]
    pub(super) fn up(self, lanes: u32) -> Self {
        Self(self.0 + u64::from(lanes))
    }
}

/// Stored spill of a block whose real spill doesn't fit in a byte.
pub(super) const SATURATED: u64 = low_bits(SPILL_BITS);

const SPILL_BITS: u32 = 8;
/// Number of planes that every table has: occupied and run ends. Some tables have a third one for
/// extensions.
const PLANES: u32 = 2;
const LINE_BITS: u32 = 8 * LINE as u32;
const WORDS: usize = LINE / 8;

/// Number of bits that one load can return from any bit position. The load starts at a byte, so up
/// to 7 of its 64 bits may precede the first bit.
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
    pub(super) shape: Shape,
    pub(super) width: u32,
    pub(super) code_bits: u32,
    pub(super) lanes: u32,
    /// 2^64 / lanes, rounded up. Multiplying by it divides positions below 2^57 exactly.
    reciprocal: u64,
    /// Position of the first bit of the slots.
    slots_at: u32,
    /// Masks for the whole slots in a window: the lowest bit of each slot (`lowest`), and the
    /// highest (`highest`).
    pub(super) lowest: u64,
    pub(super) highest: u64,
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
        let most = if code == 0 { 0 } else { MOST_CODE_BITS };
        let code_bits = if rest < most { rest } else { most };
        let mut lowest = 0;
        let mut slot = 0;
        while slot < WINDOW_BITS / width {
            lowest |= 1 << (slot * width);
            slot += 1;
        }
        Self {
            shape,
            width,
            code_bits,
            lanes,
            reciprocal: u64::MAX / lanes as u64 + 1,
            slots_at: SPILL_BITS + planes * lanes + if bare { rest } else { code_bits },
            lowest,
            highest: lowest << (width - 1),
        }
    }

    /// Returns the first bit of the code.
    #[inline(always)]
    pub(super) fn code_at(self) -> u32 {
        SPILL_BITS + PLANES * self.lanes
    }

    /// Returns the range of unused bits before the slots.
    #[inline(always)]
    pub(super) fn gap(self) -> Range<u32> {
        let planes = PLANES + u32::from(self.shape.extensions);
        SPILL_BITS + planes * self.lanes + self.code_bits..self.slots_at
    }

    /// Returns the planes that move with the slots.
    #[inline(always)]
    pub(super) fn moving(self) -> &'static [Plane] {
        if self.shape.extensions { &MOVING } else { &MOVING[..1] }
    }

    /// Returns the number of whole slots in a window.
    #[inline(always)]
    pub(super) fn slots_per_window(self) -> u32 {
        self.lowest.count_ones()
    }

    #[inline(always)]
    pub(super) fn place(self, position: u64) -> Place {
        let block = ((u128::from(position) * u128::from(self.reciprocal)) >> 64) as u64;
        let lane = (position as u32).wrapping_sub((block as u32).wrapping_mul(self.lanes));
        Place::new(block as usize, lane)
    }

    #[inline(always)]
    pub(super) fn has(self, plane: Plane) -> bool {
        !matches!(plane, Plane::Extension) || self.shape.extensions
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

    /// Returns the bits of a plane, and arbitrary bits above the last lane.
    #[inline(always)]
    pub(super) fn raw_plane(self, block: &Block, plane: Plane) -> u64 {
        if !self.has(plane) {
            return 0;
        }
        window(block, self.plane_at(plane))
    }

    /// Returns the true run ends of a block. (A set bit on an extension slot means a counter
    /// instead.)
    #[inline(always)]
    pub(super) fn run_ends(self, block: &Block) -> u64 {
        self.plane(block, Plane::RunEnd) & !self.plane(block, Plane::Extension)
    }
}

/// Compares all slots of a window in parallel.
impl Geometry {
    /// Returns which slots of a window are equal to `value`, one bit per slot. Bits above the
    /// lowest set one may be wrong.
    #[inline(always)]
    pub(super) fn equal<M: Machine>(self, machine: M, slots: u64, value: u64) -> u64 {
        machine.pack(self.unpacked_equal(slots, value), self.highest)
    }

    /// Returns the result of [`equal`](Self::equal) in the highest bit of each slot. Other bits are
    /// arbitrary.
    #[inline(always)]
    pub(super) fn unpacked_equal(self, slots: u64, value: u64) -> u64 {
        let differs = slots ^ value.wrapping_mul(self.lowest);
        // Subtracting 1 from the lowest slot that is zero borrows through all bits of that slot.
        differs.wrapping_sub(self.lowest) & !differs
    }

    /// Compares the whole slots of two windows. Returns which slots of `values` are less than those
    /// of `slots`, one bit per slot.
    #[inline(always)]
    pub(super) fn less<M: Machine>(self, machine: M, values: u64, slots: u64) -> u64 {
        machine.pack(!self.not_less(values, slots), self.highest)
    }

    /// Compares the whole slots of two windows. The result has the highest bit of each slot set
    /// where `values` is not less than `slots`. Its other bits are arbitrary.
    #[inline(always)]
    pub(super) fn not_less(self, values: u64, slots: u64) -> u64 {
        // Compare the bits below the top bits by subtraction. Each minuend's top bit is set first,
        // so that no borrow reaches the next slot. Where the actual top bits differ, they decide.
        let not_less = (values | self.highest).wrapping_sub(slots & !self.highest);
        values & !slots | !(values ^ slots) & not_less
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

/// Returns the aligned word that contains bit `at` of a block.
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
