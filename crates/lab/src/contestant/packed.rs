//! An array of slots that have a few bits each, without gaps between them.

/// Words of 1 to 32 bits in cells of 64 bits, lowest bits first. A word may span two cells. With 24
/// bits:
///
/// ```text
/// cell        0                       1
/// bit  0       24      48      64  8       32
///      | word 0 | word 1 | word 2  | word 3 | ...
/// ```
///
/// All words are 0 initially. After the last word, there is an unused cell, so that every word can
/// be read from two cells.
#[derive(Clone)]
pub(super) struct Packed {
    cells: Vec<u64>,
    width: u32,
    len: usize,
}

impl Packed {
    pub(super) fn new(len: usize, width: u32) -> Self {
        assert!((1..=32).contains(&width), "a slot of {width} bits");
        Self { cells: vec![0; (len * width as usize).div_ceil(64) + 1], width, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory usage in bits.
    pub(super) fn bits(&self) -> u64 {
        self.cells.len() as u64 * 64
    }

    /// Returns the index of a word's first cell, its two cells as one number, and its offset in
    /// that number.
    fn window(&self, at: usize) -> (usize, u128, u32) {
        let bit = at * self.width as usize;
        let cell = bit / 64;
        let both = u128::from(self.cells[cell]) | u128::from(self.cells[cell + 1]) << 64;
        (cell, both, (bit % 64) as u32)
    }

    fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    pub(super) fn get(&self, at: usize) -> u64 {
        let (_, both, shift) = self.window(at);
        (both >> shift) as u64 & self.mask()
    }

    pub(super) fn set(&mut self, at: usize, word: u64) {
        debug_assert!(word <= self.mask(), "the word has more bits than a slot");
        let (cell, both, shift) = self.window(at);
        let both = both & !(u128::from(self.mask()) << shift) | u128::from(word) << shift;
        self.cells[cell] = both as u64;
        self.cells[cell + 1] = (both >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn get_returns_the_word_that_was_set(
            width in 1u32..=32,
            writes in prop::collection::vec((0usize..100, any::<u64>()), 1..300),
        ) {
            let mut packed = Packed::new(100, width);
            let mut plain = [0; 100];
            for (at, word) in writes {
                plain[at] = word & packed.mask();
                packed.set(at, plain[at]);
            }
            prop_assert!((0..100).all(|at| packed.get(at) == plain[at]));
            prop_assert!(packed.bits() < 100 * u64::from(width) + 128);
        }
    }
}
