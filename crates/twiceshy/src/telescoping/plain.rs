//! The quotient filter without repairs and codes.

use super::scheme::Scheme;
use crate::table::{BareShapes, Shape};

/// The scheme of a filter without repairs: there is only level 0, so all entries stay as they were
/// inserted.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Scheme for Plain {
    type Shapes = BareShapes;
    const MEMBERS_TO_FORGET: bool = false;
    const REPAIRS: bool = false;

    fn shape(remainder_bits: u32, _: u32) -> Shape {
        Shape::bare(remainder_bits)
    }

    fn greatest_level(_: u32, _: u32) -> u32 {
        0
    }
}
