//! Shapes: how wide the slots of a table are, and what else its blocks contain.

use crate::bits::machine::{Choice, Shapes};
use core::ops::RangeInclusive;

/// The slot widths that a table can have.
pub(crate) const WIDTHS: RangeInclusive<u32> = 1..=56;

/// The numbers of home slots that a table can have. With these, positions can't overflow, and a
/// fraction keeps at least 80 unused bits.
pub(crate) const SLOTS: RangeInclusive<u64> = 1..=1 << 48;

/// Maximum number of bits of a block's code.
pub(crate) const MOST_CODE_BITS: u32 = 120;

/// Default number of code bits per 64 slots.
pub(crate) const USUAL_CODE_BITS: u32 = 56;

/// The width of a table's slots, and what else its blocks contain: a plane of extensions, a code,
/// or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(super) width: u32,
    pub(super) extensions: bool,
    /// Approximate number of code bits per 64 slots.
    pub(super) code: u32,
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

    /// Returns the requested number of code bits per 64 slots. The actual number is approximately
    /// that.
    pub(crate) const fn code(self) -> u32 {
        self.code
    }

    pub(crate) const fn with_code(width: u32, code: u32) -> Self {
        Self { width, extensions: false, code }
    }

    /// Returns a shape with neither extensions nor a code.
    pub(crate) const fn bare(width: u32) -> Self {
        Self::with_code(width, 0)
    }

    /// Encodes the shape as one number. With extensions, that is the width.
    pub(crate) const fn constant(self) -> u32 {
        (!self.extensions as u32) << 16 | self.code << 8 | self.width
    }

    /// Returns the slot width of a shape that is known at compile time, or `None` if `constant` is
    /// 0.
    pub(crate) const fn width_of(constant: u32) -> Option<u32> {
        if constant == 0 { None } else { Some(Self::of_constant(constant).width) }
    }

    /// Decodes the number that [`constant`](Self::constant) returns.
    pub(super) const fn of_constant(constant: u32) -> Self {
        Self { width: constant & 0xff, extensions: constant >> 16 == 0, code: constant >> 8 & 0xff }
    }
}

/// A width stands for slots of that width, with extensions.
impl From<u32> for Shape {
    fn from(width: u32) -> Self {
        Self::extended(width)
    }
}

/// Defines a list of common shapes.
macro_rules! shapes {
    ($(#[$doc:meta])* $name:ident = $shape:expr; $($width:literal)*) => {
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
    };
}

shapes! {
    /// The common shapes of quotient filters, by the width of their slots.
    Widths = Shape::extended; 6 7 8 9 10 11 12 13 14 15 16
}

shapes! {
    /// The common shapes of range filters, whose slots also contain mementos.
    RangeWidths = Shape::extended; 9 10 11 12 13 14 15 16 17 18 19 20 21
}

shapes! {
    /// The common shapes of filters with codes.
    CodedShapes = Shape::coded; 7 8 9 10 12
}

shapes! {
    /// The common shapes of filters that can't adapt.
    BareShapes = Shape::bare; 7 8 9 10 12
}
