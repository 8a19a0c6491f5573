//! The quotient filter without repairs and codes.

use super::PlainQuotientFilter;
use super::scheme::Scheme;
use crate::error::RemoveError;
use crate::table::{BareShapes, Shape};
use crate::{Key, Keyed};

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

impl<K: Key + ?Sized> Keyed<K, PlainQuotientFilter> {
    /// Removes a key that the caller *knows* to be a member.
    ///
    /// # Errors
    /// Returns the same errors as [`CodedFilter::remove_trusting`](super::CodedFilter::remove_trusting).
    pub fn remove_trusting(&mut self, key: &K) -> Result<(), RemoveError> {
        let hash = self.hash(key);
        self.filter_mut().remove_trusting(hash)
    }
}
