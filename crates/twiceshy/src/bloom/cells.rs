//! The bits of one level: a Bloom filter whose hash functions have a part each.

use crate::bits::memory::{LINE, Lines};
use crate::bits::word::low_bits;
use crate::hash::Scaled;
use crate::{Hash, KeyedHasher};

/// The most cells of a function: with more, dead cells could not be told apart by one product.
pub(super) const MOST_CELLS: u64 = 1 << 40;

/// The most hash functions of a level.
const MOST_FUNCTIONS: u32 = 64;

/// How many cells, for how many functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Cells of each function.
    pub(super) cells: u64,
    /// Hash functions.
    pub(super) functions: u32,
}

impl Shape {
    /// The smallest of all that answer "maybe" for a stranger with at most that probability when
    /// they hold so many members.
    ///
    /// A cell of `c` is set by one of `n` members with probability `1 − exp(−n/c)`, which is the
    /// rate's k-th root if there are k functions.
    pub(super) fn for_rate(members: f64, rate: f64) -> Self {
        let shape = |functions: u32| {
            let set = rate.powf(f64::from(functions).recip());
            let cells = (members / -(-set).ln_1p()).ceil().max(1.0) as u64;
            Self { cells, functions }
        };
        let shapes = (1..=MOST_FUNCTIONS).map(shape);
        shapes.min_by_key(|shape| shape.bits()).expect("some")
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

    /// The probability that a stranger's cells are all set, by so many members.
    pub(super) fn rate(self, members: u64) -> f64 {
        let set = -(-(members as f64) / self.cells as f64).exp_m1();
        set.powi(self.functions.cast_signed())
    }
}

/// The keys of a level's hash functions.
///
/// A function multiplies the halves of a hash, each after it was combined with a half of the key.
/// For two hashes that differ, the results with a random key have nothing to do with each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    start: u128,
    step: u128,
}

impl Functions {
    /// Derives the functions of a level from a hasher whose secret nobody else knows.
    pub(super) fn of_level(hasher: &KeyedHasher, number: u32) -> Self {
        let key = |part: u32| hasher.hash(&(2 * number + part)).as_u128();
        Self { start: key(0), step: key(1) }
    }

    /// The functions' fractions for a hash: where they start, and the step from one to the next.
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

/// Where the cells of a hash are.
///
/// Function 0 has its own; all others are one step after the other through the fractions, and
/// each is scaled by the number of cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    /// The cell of function 0.
    pub(super) first: u64,
    start: u64,
    step: u64,
}

/// The whole part of `fraction × cells`.
#[inline(always)]
fn scale(fraction: u64, cells: u64) -> u64 {
    ((u128::from(fraction) * u128::from(cells)) >> 64) as u64
}

impl Probes {
    /// In level 0: function 0 takes the hash itself as its fraction, so that the hashes of a cell
    /// are an interval.
    #[inline(always)]
    pub(super) fn of_first(hash: Hash, functions: Functions, cells: u64) -> Self {
        let (start, step) = functions.fractions(hash);
        Self { first: Scaled::new(hash, cells).quotient, start, step }
    }

    /// In a deeper level: function 0 is as the others.
    pub(super) fn of_deeper(hash: Hash, functions: Functions, cells: u64) -> Self {
        let (start, step) = functions.fractions(hash);
        Self { first: scale(start, cells), start, step }
    }

    /// Which bit of all belongs to a function.
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

/// Bits, a part for each function:
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
    /// All unset, or `None` if there is no such memory.
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

    /// Whether the cell of one function is set.
    #[inline(always)]
    pub(super) fn is_set(&self, probes: &Probes, function: u32) -> bool {
        self.is_bit_set(probes.bit(function, self.shape.cells))
    }

    /// Whether a cell of function 0 is set.
    pub(super) fn is_first_set(&self, cell: u64) -> bool {
        self.is_bit_set(cell)
    }

    /// Whether all cells of a hash are set.
    #[inline(always)]
    pub(super) fn contains(&self, probes: &Probes) -> bool {
        (0..self.shape.functions).all(|function| self.is_set(probes, function))
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

    /// Unsets a cell of function 0.
    pub(super) fn unset_first(&mut self, cell: u64) {
        self.lines.bytes_mut()[(cell / 8) as usize] &= !(1 << (cell % 8));
    }

    /// Asks for the line of one function's cell.
    #[inline(always)]
    pub(super) fn prefetch(&self, probes: &Probes, function: u32) {
        self.lines.prefetch((probes.bit(function, self.shape.cells) / 8) as usize);
    }

    /// How many cells are set.
    pub(super) fn count_set(&self) -> u64 {
        self.lines.bytes().iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Whether nothing is set behind the last cell.
    pub(super) fn has_clean_end(&self) -> bool {
        let bits = self.shape.bits();
        let (whole, rest) = ((bits / 8) as usize, (bits % 8) as u32);
        let mut behind = self.lines.bytes()[whole..].iter();
        let first = behind.next().copied().unwrap_or(0);
        u64::from(first) & !low_bits(rest) == 0 && behind.all(|&byte| byte == 0)
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
    fn shapes_are_as_good_as_asked_and_near_the_optimum() {
        for rate in [0.9, 0.5, 0.25, 0.1, 0.01, 0.001, 1e-6, 1e-12] {
            let shape = Shape::for_rate(1e6, rate);
            assert!(shape.rate(1_000_000) <= rate * (1.0 + 1e-9), "{rate}");
            assert!(shape.rate(1_010_000) > rate, "{rate}");
            // A cell a member is the least that one function can do with.
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
        fn what_is_set_is_contained_and_can_be_foreseen(
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
