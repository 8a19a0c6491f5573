//! Accessors: the layout, the slots and the bits of a table.
//!
//! Some methods have a twin that takes a [`Place`] and the constant `SHAPE`. The twin is faster,
//! because it needs no division and knows the geometry at compile time.

use super::QuotientTable;
use super::block::{Block, Geometry, Place, Plane, Shape, set_spill, set_window, stored_spill};
use crate::bits::machine::Target;
use crate::bits::memory::{LINE, Lines};
use crate::bits::word::low_bits;

/// The kind of a used slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first slot of an entry.
    Remainder,
    /// A continuation of the entry's fingerprint.
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

/// The layout, and conversions between positions and places.
impl QuotientTable {
    pub(crate) fn slots(&self) -> u64 {
        self.header.slots
    }

    #[inline(always)]
    pub(crate) fn width(&self) -> u32 {
        self.header.geometry.width
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> Shape {
        self.header.geometry.shape
    }

    /// Returns the target for operations on this table.
    #[inline(always)]
    pub(crate) fn target(&self) -> Target {
        Target { level: self.header.level, shape: self.shape().constant() }
    }

    /// Returns the geometry, which is known at compile time if `SHAPE` isn't 0.
    #[inline(always)]
    pub(super) fn geometry_of<const SHAPE: u32>(&self) -> Geometry {
        if SHAPE == 0 {
            return self.header.geometry;
        }
        debug_assert_eq!(SHAPE, self.shape().constant());
        const { Geometry::of(Shape::of_constant(if SHAPE == 0 { 1 } else { SHAPE })) }
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        self.lines.len()
    }

    /// Returns the memory of the table. [`QuotientTable::over`] can
    /// make a table from it again.
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks() * LINE) as u64
    }

    #[inline(always)]
    pub(super) fn place(&self, position: u64) -> Place {
        self.header.geometry.place(position)
    }

    /// Returns the position of a place.
    #[inline(always)]
    pub(super) fn position(&self, place: Place) -> u64 {
        self.start_of(place.block()) + u64::from(place.lane())
    }

    /// Returns the place of a quotient's home slot.
    #[inline(always)]
    pub(crate) fn home<const SHAPE: u32>(&self, quotient: u64) -> Place {
        self.geometry_of::<SHAPE>().place(quotient)
    }

    /// Returns the first position of a block.
    #[inline(always)]
    pub(super) fn start_of(&self, block: usize) -> u64 {
        block as u64 * u64::from(self.header.geometry.lanes)
    }

    /// Returns the end of the usable slots of the tail. One more slot follows, which stays blank,
    /// so that code can always read the slot after an entry.
    #[inline(always)]
    pub(super) fn end(&self) -> u64 {
        self.start_of(self.blocks()) - 1
    }
}

/// Methods that read the table.
impl QuotientTable {
    /// Prefetches a block, which need not exist.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: Place) {
        self.lines.prefetch(place.byte());
    }

    /// Returns the block that a place is in.
    #[inline(always)]
    pub(super) fn block_of(&self, place: Place) -> &Block {
        self.lines.view(place.byte())
    }

    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &Block {
        self.lines.view(block * LINE)
    }

    /// Returns the quotients of a block that have runs.
    #[inline(always)]
    pub(super) fn occupied(&self, block: usize) -> u64 {
        self.header.geometry.plane(self.block(block), Plane::Occupied)
    }

    #[inline(always)]
    pub(super) fn stored_spill(&self, block: usize) -> u64 {
        stored_spill(self.block(block))
    }

    #[inline(always)]
    fn bit_at<const SHAPE: u32>(&self, place: Place, plane: Plane) -> bool {
        let geometry = self.geometry_of::<SHAPE>();
        geometry.raw_plane(self.block_of(place), plane) >> place.lane() & 1 == 1
    }

    #[inline(always)]
    pub(super) fn bit(&self, position: u64, plane: Plane) -> bool {
        self.bit_at::<0>(self.place(position), plane)
    }

    #[inline(always)]
    pub(crate) fn is_occupied_at<const SHAPE: u32>(&self, place: Place) -> bool {
        self.bit_at::<SHAPE>(place, Plane::Occupied)
    }

    #[inline(always)]
    pub(crate) fn is_occupied(&self, quotient: u64) -> bool {
        self.bit(quotient, Plane::Occupied)
    }

    #[inline(always)]
    pub(super) fn is_extension(&self, position: u64) -> bool {
        self.bit(position, Plane::Extension)
    }

    #[inline(always)]
    pub(crate) fn value_at<const SHAPE: u32>(&self, place: Place) -> u64 {
        self.geometry_of::<SHAPE>().slot(self.block_of(place), place.lane())
    }

    #[inline(always)]
    pub(crate) fn value(&self, position: u64) -> u64 {
        self.value_at::<0>(self.place(position))
    }

    pub(crate) fn kind(&self, position: u64) -> Kind {
        match (self.bit(position, Plane::RunEnd), self.is_extension(position)) {
            (_, false) => Kind::Remainder,
            (false, true) => Kind::Extension,
            (true, true) => Kind::Counter,
        }
    }

    /// Returns the place where the previous entry of a run begins. That entry must end right before
    /// `place`.
    #[inline(always)]
    pub(super) fn entry_before<const SHAPE: u32>(&self, place: Place) -> Place {
        let lanes = self.geometry_of::<SHAPE>().lanes;
        let mut head = place.before(lanes);
        while self.bit_at::<SHAPE>(head, Plane::Extension) {
            head = head.before(lanes);
        }
        head
    }
}

/// Methods that write to the table.
impl QuotientTable {
    #[inline(always)]
    pub(super) fn block_mut_of(&mut self, place: Place) -> &mut Block {
        self.lines.view_mut(place.byte())
    }

    pub(super) fn set_spill(&mut self, block: usize, spill: u64) {
        set_spill(self.lines.view_mut(block * LINE), spill);
    }

    #[inline(always)]
    pub(super) fn set_bit_at<const SHAPE: u32>(&mut self, place: Place, plane: Plane, value: bool) {
        let geometry = self.geometry_of::<SHAPE>();
        if !geometry.has(plane) {
            debug_assert!(!value, "there are no extensions");
            return;
        }
        let at = geometry.plane_at(plane) + place.lane();
        set_window(self.block_mut_of(place), at, 1, value.into());
    }

    #[inline(always)]
    pub(super) fn set_bit(&mut self, position: u64, plane: Plane, value: bool) {
        self.set_bit_at::<0>(self.place(position), plane, value);
    }

    #[inline(always)]
    pub(crate) fn set_value(&mut self, position: u64, value: u64) {
        debug_assert!(value <= low_bits(self.width()), "a value wider than the slot");
        let (geometry, place) = (self.header.geometry, self.place(position));
        geometry.set_slot(self.block_mut_of(place), place.lane(), value);
    }

    /// Writes a slot. Clears the run-end bit of a remainder.
    #[inline(always)]
    pub(super) fn write(&mut self, position: u64, slot: Slot) {
        self.set_value(position, slot.value);
        self.set_bit(position, Plane::RunEnd, slot.kind == Kind::Counter);
        self.set_bit(position, Plane::Extension, slot.kind != Kind::Remainder);
    }
}
