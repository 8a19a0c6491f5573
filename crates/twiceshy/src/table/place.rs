//! Places: a block, and a lane in it.

use crate::bits::memory::LINE;

/// A block and a lane of it, in one word.
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

    /// Returns the index of some byte in the place's block. Memory is addressed with it.
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
