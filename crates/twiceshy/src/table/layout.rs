//! Where the bits of a table are.

use crate::bits::machine::Level;
use crate::bits::memory::{LINE, Lines, VIEW};
use crate::bits::word::low_bits;
use core::ops::{Range, RangeInclusive};

/// The slot widths that a table can have.
pub(crate) const WIDTHS: RangeInclusive<u32> = 1..=56;

/// The numbers of home slots that a table can have: positions stay far from overflow,
/// and a fraction keeps at least 80 fresh bits.
pub(crate) const SLOTS: RangeInclusive<u64> = 1..=1 << 48;

/// A spill that doesn't fit its byte.
pub(super) const SATURATED: u64 = low_bits(SPILL_BITS);

const SPILL_BITS: u32 = 8;
/// Occupied, and the ends of runs; some tables have a third one, of extensions.
const PLANES: u32 = 2;
const LINE_BITS: u32 = 8 * LINE as u32;
const WORDS: usize = LINE / 8;

/// Bits that one load brings, wherever they begin: the first may be the eighth of a byte.
pub(super) const WINDOW_BITS: u32 = 57;

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

/// A block and a lane of it, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// Room for a lane in a [`Place`]; a block's first byte is at that many times its number.
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

    /// The first place of the next block.
    #[inline(always)]
    pub(crate) fn next_block(self) -> Self {
        Self((self.0 / STRIDE + 1) * STRIDE)
    }

    /// The place before this one, where blocks have so many lanes; there must be one.
    #[inline(always)]
    pub(super) fn before(self, lanes: u32) -> Self {
        match self.lane() {
            0 => Self::new(self.block() - 1, lanes - 1),
            _ => Self(self.0 - 1),
        }
    }

    /// The place so many lanes further in the same block.
    #[inline(always)]
    pub(super) fn up(self, lanes: u32) -> Self {
        Self(self.0 + u64::from(lanes))
    }
}

/// Does something with the width of a table as a constant `$constant`, if it is a common
/// one, so that all that follows from it is known when compiling; as 0 otherwise.
macro_rules! with_width {
    ($width:expr, $constant:ident => $body:expr) => {
        with_width!(@ $width, $constant => $body; 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@ $width:expr, $constant:ident => $body:expr; $($common:literal)*) => {
        match $width {
            $($common => {
                const $constant: u32 = $common;
                $body
            })*
            _ => {
                const $constant: u32 = 0;
                $body
            }
        }
    };
}
pub(crate) use with_width;

/// As [`with_width`], for what is common where slots have mementos, too.
macro_rules! with_range_width {
    ($width:expr, $constant:ident => $body:expr) => {
        crate::table::with_width!(@ $width, $constant => $body;
            9 10 11 12 13 14 15 16 17 18 19 20 21)
    };
}
pub(crate) use with_range_width;

/// As [`with_width`], for shapes that a function makes of common widths.
macro_rules! with_shape {
    (@ $shape:expr, $of_width:expr, $constant:ident => $body:expr; $($width:literal)*) => {
        match $shape.constant() {
            $(shape if shape == const { $of_width($width).constant() } => {
                const $constant: u32 = $of_width($width).constant();
                $body
            })*
            _ => {
                const $constant: u32 = 0;
                $body
            }
        }
    };
    ($shape:expr, $of_width:expr, $constant:ident => $body:expr) => {
        crate::table::with_shape!(@ $shape, $of_width, $constant => $body; 7 8 9 10 12)
    };
}
pub(crate) use with_shape;

/// The bytes of a block, and the first of the next.
pub(super) type Block = [u8; VIEW];

/// A plane of a block: a bit for each lane.
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

/// The most bits of a block's code.
pub(crate) const MOST_CODE_BITS: u32 = 120;

/// The bits of code for 64 slots that filters have, if nothing else is said.
pub(crate) const USUAL_CODE_BITS: u32 = 56;

/// How wide the slots of a table are, and what else its blocks have: a plane of extensions, a
/// code, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    width: u32,
    extensions: bool,
    /// Bits of code for 64 slots, about.
    code: u32,
}

impl Shape {
    /// With a code of the usual size: three bits a slot, about, are the code, the ends of runs,
    /// the homes and the spill.
    pub(crate) const fn coded(width: u32) -> Self {
        Self::with_code(width, USUAL_CODE_BITS)
    }

    /// Bits of code for 64 slots, about, as they were asked for.
    pub(crate) const fn code(self) -> u32 {
        self.code
    }

    pub(crate) const fn with_code(width: u32, code: u32) -> Self {
        Self { width, extensions: false, code }
    }

    /// With neither extensions nor a code.
    pub(crate) const fn bare(width: u32) -> Self {
        Self::with_code(width, 0)
    }

    /// As one number, which is the width if there are extensions.
    pub(crate) const fn constant(self) -> u32 {
        (!self.extensions as u32) << 16 | self.code << 8 | self.width
    }

    /// The width of the slots, by way of [`with_shape`], if that is known.
    pub(crate) const fn width_of(constant: u32) -> Option<u32> {
        if constant == 0 { None } else { Some(Self::of_constant(constant).width) }
    }

    /// What [`constant`](Self::constant) is the number of.
    pub(super) const fn of_constant(constant: u32) -> Self {
        Self { width: constant & 0xff, extensions: constant >> 16 == 0, code: constant >> 8 & 0xff }
    }
}

/// Slots that wide, with extensions.
impl From<u32> for Shape {
    fn from(width: u32) -> Self {
        Self { width, extensions: true, code: 0 }
    }
}

/// How a block of slots of some width is laid out.
///
/// A *block* is one cache line, so that most lookups touch one line. It holds as many
/// slots as fit, its *lanes*: 42 of 9 bits, which makes 12.19 bits a slot in all.
///
/// ```text
/// bit 0      8            8+L        8+2L         8+3L                     8+3L+L·width
///     ┌──────┬────────────┬──────────┬────────────┬────────┬────────┬─┄┄─┬──────────┐
///     │ spill│ occupied   │ runend   │ extension  │ slot 0 │ slot 1 │    │ slot L-1 │
///     └──────┴────────────┴──────────┴────────────┴────────┴────────┴─┄┄─┴──────────┘
///              bit i: lane i of the block            width bits each
/// ```
///
/// Bits are counted from the lowest of the first byte. Lanes are at most 56, so that
/// one load brings a plane; slots of less than 6 bits leave some of the line unused.
///
/// A table of another [`Shape`] has no extensions, but in each block a *code* in the place of
/// their plane: a number, whose meaning is up to the filter above. All bits that neither planes
/// nor slots need are the code's: 44, beside 46 slots of 8 bits, which makes 11.13 bits a slot.
/// A bare one has neither, and 50 such slots in a block; what is left of the line is before them,
/// so that slots of 8 bits are whole bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    width: u32,
    /// See [`Shape`].
    extensions: bool,
    code: u32,
    code_bits: u32,
    lanes: u32,
    /// 2^64 / lanes, rounded up: dividing positions below 2^57 by it is exact.
    reciprocal: u64,
    /// The first bit of the slots.
    slots_at: u32,
    /// The lowest, and the highest, bit of each whole slot in a window.
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

    /// Whether slots may be extensions.
    #[inline(always)]
    pub(super) fn has_extensions(self) -> bool {
        self.extensions
    }

    #[inline(always)]
    pub(super) fn code_bits(self) -> u32 {
        self.code_bits
    }

    /// The first bit of the code.
    #[inline(always)]
    pub(super) fn code_at(self) -> u32 {
        SPILL_BITS + PLANES * self.lanes
    }

    /// The bits before the slots that are nothing's.
    #[inline(always)]
    pub(super) fn gap(self) -> Range<u32> {
        let planes = PLANES + u32::from(self.extensions);
        SPILL_BITS + planes * self.lanes + self.code_bits..self.slots_at
    }

    /// The planes that move with the slots.
    #[inline(always)]
    pub(super) fn moving(self) -> &'static [Plane] {
        if self.has_extensions() { &MOVING } else { &MOVING[..1] }
    }

    /// Whole slots in a window.
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
    fn has(self, plane: Plane) -> bool {
        !matches!(plane, Plane::Extension) || self.has_extensions()
    }

    #[inline(always)]
    pub(super) fn plane_at(self, plane: Plane) -> u32 {
        SPILL_BITS + plane as u32 * self.lanes
    }

    /// The first bit of a slot.
    #[inline(always)]
    pub(super) fn slot_at(self, lane: u32) -> u32 {
        self.slots_at + lane * self.width
    }

    /// The value of a slot.
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

    /// A plane, and whatever is behind it.
    #[inline(always)]
    pub(super) fn raw_plane(self, block: &Block, plane: Plane) -> u64 {
        if !self.has(plane) {
            return 0;
        }
        window(block, self.plane_at(plane))
    }

    /// Changes the bits of the planes that are set in `flips`, all in one pass: what is
    /// read again right after only a part of it was written costs dearly.
    #[inline(always)]
    pub(super) fn flip(self, block: &mut Block, flips: Planes) {
        for (at, flips) in (0..).step_by(64).zip(self.flips(flips)) {
            set_word(block, at, word(block, at) ^ flips);
        }
    }

    /// The bits of a block's first words that are those bits of its planes.
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
            // Zero, if it is behind the last.
            flips[(at as usize / 64 + 1) % 3] ^= (wide >> 64) as u64;
        }
        flips
    }

    /// The true run ends of a block: a set bit on an extension is a counter.
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

/// The aligned word of a block that has bit `at`.
#[inline(always)]
pub(super) fn word(block: &Block, at: u32) -> u64 {
    u64::from_le_bytes(block.as_chunks().0[at as usize / 64 % WORDS])
}

#[inline(always)]
pub(super) fn set_word(block: &mut Block, at: u32, word: u64) {
    block.as_chunks_mut().0[at as usize / 64 % WORDS] = word.to_le_bytes();
}

/// At least [`WINDOW_BITS`] bits of a block from bit `at` on; what would be behind its
/// end is arbitrary.
#[inline(always)]
pub(super) fn window(block: &Block, at: u32) -> u64 {
    let byte = (at / 8) as usize % LINE;
    let word: [u8; 8] = block[byte..byte + 8].try_into().expect("8 bytes");
    u64::from_le_bytes(word) >> (at % 8)
}

/// Replaces `count` bits of a block from bit `at` on; at most 56.
#[inline(always)]
pub(super) fn set_window(block: &mut Block, at: u32, count: u32, value: u64) {
    let byte = (at / 8) as usize % LINE;
    let word: &mut [u8; 8] = (&mut block[byte..byte + 8]).try_into().expect("8 bytes");
    let (mask, value) = (low_bits(count) << (at % 8), value << (at % 8));
    *word = (u64::from_le_bytes(*word) & !mask | value).to_le_bytes();
}

/// A table of runs; see the [module](super).
#[derive(Clone)]
pub(crate) struct QuotientTable {
    slots: u64,
    geometry: Geometry,
    lines: Lines,
    pub(super) used: u64,
    /// The most slots that may be used, at most all of them.
    pub(super) limit: u64,
    level: Level,
}

impl QuotientTable {
    /// An empty table, or `None` if there is no memory for it or no such table:
    /// `slots` must be one of [`SLOTS`], the width one of [`WIDTHS`].
    pub(crate) fn new(slots: u64, shape: impl Into<Shape>) -> Option<Self> {
        Self::for_machine(slots, shape, Level::detect())
    }

    pub(crate) fn for_machine(slots: u64, shape: impl Into<Shape>, level: Level) -> Option<Self> {
        let shape = shape.into();
        let lines = Lines::zeroed(Self::blocks_for(slots, shape)?)?;
        Some(Self { slots, geometry: Geometry::of(shape), lines, used: 0, limit: slots, level })
    }

    /// A table of that shape that is in `lines`, or `None` if they are fewer than it has.
    /// What they hold is not looked at: it may be no table, until it is
    /// [validated](Self::validate).
    pub(crate) fn over(
        lines: Lines,
        slots: u64,
        shape: impl Into<Shape>,
        used: u64,
    ) -> Option<Self> {
        let shape = shape.into();
        let fits = Self::blocks_for(slots, shape)? <= lines.len();
        let (geometry, level) = (Geometry::of(shape), Level::detect());
        fits.then_some(Self { slots, geometry, lines, used, limit: slots, level })
    }

    /// What a table [over](Self::over) them would be made of.
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The lines that a table of that shape takes, or `None` if there is no such table.
    pub(crate) fn blocks_for(slots: u64, shape: impl Into<Shape>) -> Option<usize> {
        let shape = shape.into();
        let possible = SLOTS.contains(&slots) && WIDTHS.contains(&shape.width);
        let lanes = possible.then(|| u64::from(Geometry::of(shape).lanes))?;
        usize::try_from((slots + 4 * slots.isqrt() + 64).div_ceil(lanes)).ok()
    }

    /// Gives the tail as many lines more as all of the table has in a hundred, for runs that are
    /// longer than those of uniform hashes; whether there was memory for them.
    pub(crate) fn lengthen_tail(&mut self) -> bool {
        let lengthened = self.lines.extended(self.blocks() / 100 + 1);
        lengthened.map(|lines| self.lines = lines).is_some()
    }

    /// Forgets all runs.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.used = 0;
    }

    /// The bytes that a table of that shape takes, or `None` if there is no such table.
    pub(crate) fn bytes_for(slots: u64, shape: impl Into<Shape>) -> Option<u64> {
        Some(Self::blocks_for(slots, shape)? as u64 * u64::from(LINE_BITS / 8))
    }

    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    #[inline(always)]
    pub(crate) fn width(&self) -> u32 {
        self.geometry.width
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> Shape {
        let Geometry { width, extensions, code, .. } = self.geometry;
        Shape { width, extensions, code }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Sets how many slots may be used, at most all of them. Returns how many might be
    /// before.
    pub(crate) fn set_limit(&mut self, limit: u64) -> u64 {
        core::mem::replace(&mut self.limit, limit)
    }

    #[inline(always)]
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks() * LINE) as u64
    }

    #[inline(always)]
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The geometry, by way of [`with_width`].
    #[inline(always)]
    pub(super) fn geometry_of<const WIDTH: u32>(&self) -> Geometry {
        if WIDTH == 0 {
            return self.geometry;
        }
        debug_assert_eq!(WIDTH, self.shape().constant());
        const { Geometry::of(Shape::of_constant(if WIDTH == 0 { 1 } else { WIDTH })) }
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        self.lines.len()
    }

    #[inline(always)]
    pub(super) fn place(&self, position: u64) -> Place {
        self.geometry.place(position)
    }

    /// Where the home slot of a quotient is, by way of [`with_width`].
    #[inline(always)]
    pub(crate) fn home<const WIDTH: u32>(&self, quotient: u64) -> Place {
        self.geometry_of::<WIDTH>().place(quotient)
    }

    /// The first position of a block.
    #[inline(always)]
    pub(super) fn start_of(&self, block: usize) -> u64 {
        block as u64 * u64::from(self.geometry.lanes)
    }

    /// One past the last slot of the tail that may be used. There is one more, which
    /// stays blank, so that looking behind an entry is always possible.
    #[inline(always)]
    pub(super) fn end(&self) -> u64 {
        self.start_of(self.blocks()) - 1
    }

    /// Asks the machine to fetch a block; it need not exist.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: Place) {
        self.lines.prefetch(place.0 as usize);
    }

    /// The block that a place is in.
    #[inline(always)]
    pub(super) fn block_of(&self, place: Place) -> &Block {
        self.lines.view(place.0 as usize)
    }

    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &Block {
        self.lines.view(block * LINE)
    }

    #[inline(always)]
    fn block_mut(&mut self, block: usize) -> &mut Block {
        self.lines.view_mut(block * LINE)
    }

    /// As [`block_of`](Self::block_of), to be changed.
    #[inline(always)]
    pub(super) fn block_mut_of(&mut self, place: Place) -> &mut Block {
        self.lines.view_mut(place.0 as usize)
    }

    /// Changes the words of a block.
    #[inline(always)]
    pub(super) fn change_words(&mut self, block: usize, change: impl FnOnce(&mut [u64; 8])) {
        let (bytes, _) = self.block_mut(block).as_chunks_mut::<8>();
        let mut words: [u64; 8] = core::array::from_fn(|word| u64::from_le_bytes(bytes[word]));
        change(&mut words);
        for (bytes, word) in bytes.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }

    #[inline(always)]
    pub(super) fn occupied(&self, block: usize) -> u64 {
        self.geometry.plane(self.block(block), Plane::Occupied)
    }

    #[inline(always)]
    pub(super) fn extensions(&self, block: usize) -> u64 {
        self.geometry.plane(self.block(block), Plane::Extension)
    }

    #[inline(always)]
    pub(super) fn run_ends(&self, block: usize) -> u64 {
        self.geometry.run_ends(self.block(block))
    }

    #[inline(always)]
    pub(super) fn stored_spill(&self, block: usize) -> u64 {
        stored_spill(self.block(block))
    }

    pub(super) fn set_spill(&mut self, block: usize, spill: u64) {
        set_spill(self.block_mut(block), spill);
    }

    #[inline(always)]
    pub(crate) fn is_occupied(&self, quotient: u64) -> bool {
        self.bit(quotient, Plane::Occupied)
    }

    #[inline(always)]
    pub(crate) fn is_occupied_at<const WIDTH: u32>(&self, place: Place) -> bool {
        self.bit_at::<WIDTH>(place, Plane::Occupied)
    }

    pub(super) fn set_occupied(&mut self, quotient: u64, occupied: bool) {
        self.set_bit(quotient, Plane::Occupied, occupied);
    }

    #[inline(always)]
    pub(super) fn bit(&self, position: u64, plane: Plane) -> bool {
        self.bit_at::<0>(self.place(position), plane)
    }

    #[inline(always)]
    pub(super) fn bit_at<const WIDTH: u32>(&self, place: Place, plane: Plane) -> bool {
        let geometry = self.geometry_of::<WIDTH>();
        geometry.raw_plane(self.block_of(place), plane) >> place.lane() & 1 == 1
    }

    #[inline(always)]
    pub(super) fn set_bit(&mut self, position: u64, plane: Plane, value: bool) {
        self.set_bit_at::<0>(self.place(position), plane, value);
    }

    #[inline(always)]
    pub(super) fn set_bit_at<const WIDTH: u32>(&mut self, place: Place, plane: Plane, value: bool) {
        let geometry = self.geometry_of::<WIDTH>();
        if !geometry.has(plane) {
            debug_assert!(!value, "there are no extensions");
            return;
        }
        let at = geometry.plane_at(plane) + place.lane();
        set_window(self.block_mut(place.block()), at, 1, value.into());
    }

    #[inline(always)]
    pub(crate) fn value(&self, position: u64) -> u64 {
        let place = self.place(position);
        window(self.block_of(place), self.geometry.slot_at(place.lane())) & low_bits(self.width())
    }

    #[inline(always)]
    pub(super) fn set_value(&mut self, position: u64, value: u64) {
        self.set_value_at::<0>(self.place(position), value);
    }

    #[inline(always)]
    pub(super) fn set_value_at<const WIDTH: u32>(&mut self, place: Place, value: u64) {
        debug_assert!(value <= low_bits(self.width()), "a value wider than the slot");
        self.geometry_of::<WIDTH>().set_slot(self.block_mut_of(place), place.lane(), value);
    }

    #[inline(always)]
    pub(crate) fn is_extension(&self, position: u64) -> bool {
        self.bit(position, Plane::Extension)
    }

    pub(crate) fn kind(&self, position: u64) -> Kind {
        match (self.bit(position, Plane::RunEnd), self.is_extension(position)) {
            (_, false) => Kind::Remainder,
            (false, true) => Kind::Extension,
            (true, true) => Kind::Counter,
        }
    }

    /// The position of a place.
    #[inline(always)]
    pub(super) fn position(&self, place: Place) -> u64 {
        self.start_of(place.block()) + u64::from(place.lane())
    }

    /// Writes a slot; a remainder's run-end bit is cleared.
    #[inline(always)]
    pub(super) fn write(&mut self, position: u64, slot: Slot) {
        self.set_value(position, slot.value);
        self.set_bit(position, Plane::RunEnd, slot.kind == Kind::Counter);
        self.set_bit(position, Plane::Extension, slot.kind != Kind::Remainder);
    }

    #[inline(always)]
    pub(super) fn set_run_end(&mut self, position: u64, run_end: bool) {
        debug_assert!(!self.is_extension(position));
        self.set_bit(position, Plane::RunEnd, run_end);
    }

    /// Whether value and bits of a slot are all zero, as an unused one's must be.
    pub(super) fn is_blank(&self, position: u64) -> bool {
        let set = self.geometry.moving().iter().any(|&plane| self.bit(position, plane));
        !set && self.value(position) == 0
    }
}
