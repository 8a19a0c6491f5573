//! The bits of one level: a Bloom filter in which each hash function has its own part.

use crate::bits::memory::{LINE, Lines};
use crate::bits::word::low_bits;
use crate::hash::Scaled;
use crate::{Hash, hash::KeyedHasher};

/// Maximum number of cells per function. With more, one product could not distinguish dead cells.
pub(super) const MOST_CELLS: u64 = 1 << 40;

/// Maximum number of hash functions per level.
const MOST_FUNCTIONS: u32 = 64;

/// The number of functions and of cells per function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) cells: u64,
    pub(super) functions: u32,
}

impl Shape {
    /// Returns the smallest shape with at most this false-positive rate for this many members.
    ///
    /// With `n` members and `c` cells per function, a cell is set with probability
    /// `1 − exp(−n/c)`. This is the k-th root of the rate if there are k functions.
    pub(super) fn for_rate(members: f64, rate: f64) -> Self {
        let shape = |functions: u32| {
            let set = rate.powf(f64::from(functions).recip());
            let cells = (members / -(-set).ln_1p()).ceil().max(1.0) as u64;
            Self { cells, functions }
        };
        let shapes = (1..=MOST_FUNCTIONS).map(shape);
        shapes.min_by_key(|shape| shape.bits()).expect("there is at least one shape")
    }

    pub(super) fn bits(self) -> u64 {
        self.cells.saturating_mul(self.functions.into())
    }

    fn lines(self) -> u64 {
        self.bits().div_ceil(8 * LINE as u64)
    }

    pub(super) fn bytes(self) -> u64 {
        self.lines() * LINE as u64
    }

    /// Returns the false-positive rate with this many members.
    pub(super) fn rate(self, members: u64) -> f64 {
        let set = -(-(members as f64) / self.cells as f64).exp_m1();
        set.powi(self.functions.cast_signed())
    }
}

/// The keys of a level's hash functions.
///
/// A function xors the hash with the key, and multiplies its halves. With a random key, the results
/// for two different hashes are independent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    start: u128,
    step: u128,
}

impl Functions {
    /// Derives the functions of a level from a hasher with a secret of its own.
    pub(super) fn of_level(hasher: &KeyedHasher, number: u32) -> Self {
        let key = |part: u32| hasher.hash(&(2 * number + part)).as_u128();
        Self { start: key(0), step: key(1) }
    }

    /// Returns the fraction of a hash for function 0, and the step from one function to the next.
    #[inline(always)]
    fn fractions(self, hash: Hash) -> (u64, u64) {
        let fold = |key: u128| {
            let value = hash.as_u128() ^ key;
            let product = (value >> 64) * u128::from(value as u64);
            (product >> 64) as u64 ^ product as u64
        };
        (fold(self.start), fold(self.step) | 1)
    }
}

/// The cells of a hash.
///
/// Function 0 has its own cell. The fractions of the others are equally spaced, and each is scaled
/// by the number of cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    /// The cell of function 0.
    pub(super) first: u64,
    start: u64,
    step: u64,
}

/// Returns the integer part of `fraction × cells`.
#[inline(always)]
fn scale(fraction: u64, cells: u64) -> u64 {
    ((u128::from(fraction) * u128::from(cells)) >> 64) as u64
}

impl Probes {
    /// Returns the cells in level 0. The fraction of function 0 is the hash itself, so the hashes
    /// of a cell are an interval.
    #[inline(always)]
    pub(super) fn of_first(hash: Hash, functions: Functions, cells: u64) -> Self {
        let (start, step) = functions.fractions(hash);
        Self { first: Scaled::new(hash, cells).quotient, start, step }
    }

    /// Returns the cells in a deeper level, where function 0 is like the others.
    pub(super) fn of_deeper(hash: Hash, functions: Functions, cells: u64) -> Self {
        let (start, step) = functions.fractions(hash);
        Self { first: scale(start, cells), start, step }
    }

    /// Returns the bit of a function.
    #[inline(always)]
    fn bit(&self, function: u32, cells: u64) -> u64 {
        if function == 0 {
            return self.first;
        }
        let function = u64::from(function);
        let fraction = self.start.wrapping_add(function.wrapping_mul(self.step));
        function * cells + scale(fraction, cells)
    }
}

/// The bits of a level, with one part per function:
///
/// ```text
///        cells             cells                   cells
/// ┌─────────────────┬─────────────────┬┄┄┄┄┄┬─────────────────┬┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┐
/// │ of function 0   │ of function 1   │     │ of function k−1 │ zeros to the   │
/// │                 │                 │     │                 │ end of a line  │
/// └─────────────────┴─────────────────┴┄┄┄┄┄┴─────────────────┴┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┘
/// ```
#[derive(Clone)]
pub(super) struct Cells {
    lines: Lines,
    shape: Shape,
}

impl Cells {
    /// Creates cells that are not set, or returns `None` if there is not enough memory.
    pub(super) fn new(shape: Shape) -> Option<Self> {
        Some(Self { lines: Lines::zeroed(usize::try_from(shape.lines()).ok()?)?, shape })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    #[inline(always)]
    fn is_bit_set(&self, bit: u64) -> bool {
        self.lines.bytes()[(bit / 8) as usize] >> (bit % 8) & 1 == 1
    }

    /// Returns whether the cell of one function is set.
    #[inline(always)]
    pub(super) fn is_set(&self, probes: &Probes, function: u32) -> bool {
        self.is_bit_set(probes.bit(function, self.shape.cells))
    }

    /// Returns whether a cell of function 0 is set.
    pub(super) fn is_first_set(&self, cell: u64) -> bool {
        self.is_bit_set(cell)
    }

    /// Returns whether all cells of a hash are set.
    #[inline(always)]
    pub(super) fn contains(&self, probes: &Probes) -> bool {
        (0..self.shape.functions).all(|function| self.is_set(probes, function))
    }

    /// Iterates over the bits of a hash that are not set.
    pub(super) fn unset(&self, probes: &Probes) -> impl Iterator<Item = u64> {
        let bits = (0..self.shape.functions).map(|function| probes.bit(function, self.shape.cells));
        bits.filter(|&bit| !self.is_bit_set(bit))
    }

    /// Whether they would be, were those of others set, too.
    pub(super) fn would_contain(&self, probes: &Probes, others: &[Probes]) -> bool {
        (0..self.shape.functions).all(|function| {
            let bit = probes.bit(function, self.shape.cells);
            let mut others = others.iter().map(|other| other.bit(function, self.shape.cells));
            self.is_bit_set(bit) || others.any(|other| other == bit)
        })
    }

    /// Sets all cells of a hash.
    pub(super) fn set(&mut self, probes: &Probes) {
        for function in 0..self.shape.functions {
            let bit = probes.bit(function, self.shape.cells);
            self.lines.bytes_mut()[(bit / 8) as usize] |= 1 << (bit % 8);
        }
    }

    /// Clears a cell of function 0.
    pub(super) fn unset_first(&mut self, cell: u64) {
        self.lines.bytes_mut()[(cell / 8) as usize] &= !(1 << (cell % 8));
    }

    /// Prefetches the line of one function's cell.
    #[inline(always)]
    pub(super) fn prefetch(&self, probes: &Probes, function: u32) {
        self.lines.prefetch((probes.bit(function, self.shape.cells) / 8) as usize);
    }

    /// Returns the number of set cells.
    pub(super) fn count_set(&self) -> u64 {
        self.lines.bytes().iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Returns whether all bits after the last cell are 0.
    pub(super) fn has_clean_end(&self) -> bool {
        let bits = self.shape.bits();
        let (whole, rest) = ((bits / 8) as usize, (bits % 8) as u32);
        let mut padding = self.lines.bytes()[whole..].iter();
        let first = padding.next().copied().unwrap_or(0);
        u64::from(first) & !low_bits(rest) == 0 && padding.all(|&byte| byte == 0)
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.lines.len() * LINE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use proptest::prelude::*;

    fn keyed(number: u32) -> Functions {
        Functions::of_level(&KeyedHasher::new(&Secret::from_bytes([7; 16])), number)
    }

    #[test]
    fn shapes_keep_the_rate_and_are_near_the_optimum() {
        for rate in [0.9, 0.5, 0.25, 0.1, 0.01, 0.001, 1e-6, 1e-12] {
            let shape = Shape::for_rate(1e6, rate);
            assert!(shape.rate(1_000_000) <= rate * (1.0 + 1e-9), "{rate}");
            assert!(shape.rate(1_010_000) > rate, "{rate}");
            // One function needs at least one cell per member.
            let optimum = (rate.recip().log2() / core::f64::consts::LN_2).min(f64::MAX);
            let bits = shape.bits() as f64 / 1e6;
            assert!(rate > 0.5 || bits < 1.05 * optimum, "{rate}: {bits} of {optimum}");
        }
    }

    proptest! {
        #[test]
        fn probes_stay_in_their_parts(value: u128, cells in 1u64..1 << 40, number in 1u32..12) {
            let hash = Hash::from_u128(value);
            let functions = keyed(number);
            let first = Probes::of_first(hash, functions, cells);
            for probes in [first, Probes::of_deeper(hash, functions, cells)] {
                for function in 0..MOST_FUNCTIONS {
                    prop_assert_eq!(probes.bit(function, cells) / cells, u64::from(function));
                }
            }
        }

        #[test]
        fn would_contain_predicts_contains(
            values in prop::collection::vec(any::<u128>(), 1..20),
            others in prop::collection::vec(any::<u128>(), 20),
            cells in 1u64..200,
            functions in 1u32..6,
        ) {
            let shape = Shape { cells, functions };
            let mut bits = Cells::new(shape).unwrap();
            let keys = keyed(1);
            let probes = |value: &u128| Probes::of_deeper(Hash::from_u128(*value), keys, cells);
            let all: Vec<Probes> = values.iter().map(probes).collect();
            let foreseen: Vec<bool> =
                others.iter().map(|other| bits.would_contain(&probes(other), &all)).collect();
            for probes in &all {
                bits.set(probes);
            }
            prop_assert!(all.iter().all(|probes| bits.contains(probes)));
            for (other, foreseen) in others.iter().zip(foreseen) {
                prop_assert_eq!(bits.contains(&probes(other)), foreseen);
            }
            prop_assert!(bits.has_clean_end());
            prop_assert!(bits.count_set() <= values.len() as u64 * u64::from(functions));
        }
    }
}
