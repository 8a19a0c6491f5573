//! A level: a Bloom filter in which each hash function has its own part of the bits.

use super::plan::{LevelPlan, MOST_CELLS, MOST_FUNCTIONS};
use crate::bits::memory::{LINE, Lines};
use crate::error::{BuildError, Invalid};
use crate::hash::Scaled;
use crate::{Hash, hash::KeyedHasher};
use std::borrow::Cow;

/// The highest number of members or repairs in a snapshot. Later single inserts can't overflow it.
pub(super) const MOST_MEMBERS: u64 = 1 << 63;

/// A level other than the last. Each function has its own part of the bits:
///
/// ```text
///        cells             cells                   cells
/// ┌─────────────────┬─────────────────┬┄┄┄┄┄┬─────────────────┬┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┐
/// │ of function 0   │ of function 1   │     │ of function k−1 │ zeros to the   │
/// │                 │                 │     │                 │ end of a line  │
/// └─────────────────┴─────────────────┴┄┄┄┄┄┴─────────────────┴┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┘
/// ```
///
/// A function xors the hash with a key, and multiplies the two halves of the result. With a random
/// key, the values for two different hashes are independent. Only two functions are computed in
/// this way; the others are sums of the first and multiples of the second.
#[derive(Clone)]
pub(super) struct Level {
    pub(super) number: u32,
    pub(super) plan: LevelPlan,
    start_key: u128,
    step_key: u128,
    lines: Lines,
    /// Number of members that set at least one cell.
    pub(super) written: u64,
}

/// The parts of a level, for snapshots.
pub(crate) struct LevelParts<'a> {
    /// Number of cells per function.
    pub(crate) cells: u64,
    pub(crate) functions: u32,
    /// Number of members that the level has room for.
    pub(crate) room: u64,
    /// Number of members that set at least one cell.
    pub(crate) written: u64,
    /// The keys of the hash functions.
    pub(crate) keys: [u128; 2],
    /// The bits of all functions, and zeros to the end of a line.
    pub(crate) lines: Cow<'a, Lines>,
}

/// The cells of a hash: that of function 0, and a start and a step for the others. The cell of
/// function i is the fraction `start + i · step`, scaled by the number of cells.
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

impl Level {
    /// Creates an empty level. The hasher's secret must not be used for anything except the levels
    /// of this filter.
    pub(super) fn new(
        number: u32,
        plan: LevelPlan,
        hasher: &KeyedHasher,
    ) -> Result<Self, BuildError> {
        let bytes = plan.bytes();
        let lines = usize::try_from(bytes / LINE as u64).ok().and_then(Lines::zeroed);
        let lines = lines.ok_or(BuildError::Memory { bytes })?;
        let key = |part: u32| hasher.hash(&(2 * number + part)).as_u128();
        let (start_key, step_key) = (key(0), key(1));
        Ok(Self { number, plan, start_key, step_key, lines, written: 0 })
    }

    /// Makes a level from its parts. Returns `None` if they don't fit together.
    pub(super) fn from_parts(number: u32, parts: LevelParts<'_>) -> Option<Self> {
        let LevelParts { cells, functions, room, written, keys: [start_key, step_key], lines } =
            parts;
        let is_possible =
            (1..=MOST_CELLS).contains(&cells) && (1..=MOST_FUNCTIONS).contains(&functions);
        // The limit keeps counters from overflowing.
        let is_possible = is_possible && room.max(written) <= MOST_MEMBERS;
        let plan = LevelPlan { cells, functions, room };
        if !is_possible || plan.bytes() != (lines.len() * LINE) as u64 {
            return None;
        }
        let lines = lines.into_owned();
        Some(Self { number, plan, start_key, step_key, lines, written })
    }

    pub(super) fn parts(&self) -> LevelParts<'_> {
        let Self { plan: LevelPlan { cells, functions, room }, written, ref lines, .. } = *self;
        let keys = [self.start_key, self.step_key];
        LevelParts { cells, functions, room, written, keys, lines: Cow::Borrowed(lines) }
    }

    /// Returns the cells of a hash. In level 0, the fraction of function 0 is the hash itself, so
    /// the hashes of a cell are an interval. In deeper levels, function 0 is like the others.
    #[inline(always)]
    pub(super) fn probes(&self, hash: Hash) -> Probes {
        let fold = |key: u128| {
            let value = hash.as_u128() ^ key;
            let product = (value >> 64) * u128::from(value as u64);
            (product >> 64) as u64 ^ product as u64
        };
        let (start, step) = (fold(self.start_key), fold(self.step_key) | 1);
        let first = if self.number == 0 {
            Scaled::new(hash, self.plan.cells).quotient
        } else {
            scale(start, self.plan.cells)
        };
        Probes { first, start, step }
    }

    /// Returns the index of a function's bit.
    #[inline(always)]
    pub(super) fn bit(&self, probes: &Probes, function: u32) -> u64 {
        if function == 0 {
            return probes.first;
        }
        let function = u64::from(function);
        let fraction = probes.start.wrapping_add(function.wrapping_mul(probes.step));
        function * self.plan.cells + scale(fraction, self.plan.cells)
    }

    /// Returns the indices of the bits of all functions.
    #[inline(always)]
    pub(super) fn bits(&self, probes: &Probes) -> impl Iterator<Item = u64> {
        (0..self.plan.functions).map(|function| self.bit(probes, function))
    }

    /// Returns whether a bit is set. A cell of function 0 and its bit have the same index.
    #[inline(always)]
    pub(super) fn is_set(&self, bit: u64) -> bool {
        self.lines.bytes()[(bit / 8) as usize] >> (bit % 8) & 1 == 1
    }

    /// Prefetches the line of one function's cell.
    #[inline(always)]
    pub(super) fn prefetch(&self, probes: &Probes, function: u32) {
        self.lines.prefetch((self.bit(probes, function) / 8) as usize);
    }

    /// Returns whether all cells of a hash are set.
    #[inline(always)]
    pub(super) fn contains(&self, probes: &Probes) -> bool {
        self.bits(probes).all(|bit| self.is_set(bit))
    }

    /// Returns whether all cells of a hash would be set if the cells of `others` were set, too.
    pub(super) fn would_contain(&self, probes: &Probes, others: &[Probes]) -> bool {
        (0..self.plan.functions).all(|function| {
            let bit = self.bit(probes, function);
            self.is_set(bit) || others.iter().any(|other| self.bit(other, function) == bit)
        })
    }

    /// Inserts a member that has at least one cell that is not set.
    pub(super) fn write(&mut self, probes: &Probes) {
        for function in 0..self.plan.functions {
            let bit = self.bit(probes, function);
            self.lines.bytes_mut()[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        self.written += 1;
    }

    /// Clears a cell of function 0.
    pub(super) fn clear_first(&mut self, cell: u64) {
        self.lines.bytes_mut()[(cell / 8) as usize] &= !(1 << (cell % 8));
    }

    /// Checks that no bit after the last cell is set, and that no more cells are set than the
    /// written members can have set.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let Self { number, written, ref lines, plan, .. } = *self;
        if (plan.bits()..8 * lines.bytes().len() as u64).any(|bit| self.is_set(bit)) {
            return Err(Invalid(format!("level {number} has set bits after its last cell")));
        }
        let set = lines.bytes().iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        if set > written.saturating_mul(plan.functions.into()) {
            return Err(Invalid(format!(
                "{written} members of level {number} can't set {set} cells"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use proptest::prelude::*;

    fn level(number: u32, cells: u64, functions: u32) -> Level {
        let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
        Level::new(number, LevelPlan { cells, functions, room: 100 }, &hasher).unwrap()
    }

    proptest! {
        #[test]
        fn each_hash_function_probes_only_its_part_of_the_bits(
            value: u128, cells in 1u64..1 << 40, number in 1u32..12
        ) {
            let hash = Hash::from_u128(value);
            for number in [0, number] {
                // The test computes bits but doesn't read them, so a level of few cells can have
                // any plan.
                let mut level = level(number, 1, 1);
                level.plan = LevelPlan { cells, functions: MOST_FUNCTIONS, room: 100 };
                let probes = level.probes(hash);
                for (function, bit) in (0..).zip(level.bits(&probes)) {
                    prop_assert_eq!(bit / cells, function);
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
            let mut level = level(1, cells, functions);
            let probes = |values: &[u128]| -> Vec<Probes> {
                values.iter().map(|&value| level.probes(Hash::from_u128(value))).collect()
            };
            let (all, others) = (probes(&values), probes(&others));
            let foreseen: Vec<bool> =
                others.iter().map(|other| level.would_contain(other, &all)).collect();
            for probes in &all {
                level.write(probes);
            }
            prop_assert!(all.iter().all(|probes| level.contains(probes)));
            for (other, foreseen) in others.iter().zip(foreseen) {
                prop_assert_eq!(level.contains(other), foreseen);
            }
            level.validate()?;
        }
    }
}
