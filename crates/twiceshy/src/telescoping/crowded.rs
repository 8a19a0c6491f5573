//! Blocks whose codes are full.

/// One bit per block: whether its code had no room for the last repair.
///
/// A claim usually names the members of one quotient, which are quick to list. In a crowded block it
/// names those of all quotients, so that a repair can forget others. Without these bits, every claim
/// would have to encode the block to find out.
#[derive(Clone, Debug)]
pub(super) struct Crowded(Box<[u64]>);

impl Crowded {
    pub(super) fn new(blocks: usize) -> Self {
        Self(vec![0; blocks.div_ceil(64)].into())
    }

    pub(super) fn contains(&self, block: usize) -> bool {
        self.0[block / 64] >> (block % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, block: usize, is_crowded: bool) {
        let (word, bit) = (&mut self.0[block / 64], 1 << (block % 64));
        *word = if is_crowded { *word | bit } else { *word & !bit };
    }

    /// Returns the memory that the bits of this many blocks take.
    pub(super) fn bytes_for(blocks: usize) -> u64 {
        (blocks.div_ceil(64) * size_of::<u64>()) as u64
    }
}
