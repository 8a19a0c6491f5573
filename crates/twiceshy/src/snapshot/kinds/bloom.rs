//! Snapshots of adaptive Bloom filters.

use crate::AdaptiveBloomFilter;
use crate::bits::memory::{LINE, Lines};
use crate::bloom::{LevelParts, Parts as BloomParts};
use crate::error::Invalid;
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Assemble, Describe, Fields, Header, MAX_COUNT, SIZE};
use crate::snapshot::kind::Kind;
use crate::snapshot::packed;
use crate::snapshot::stream::Stream as _;
use std::borrow::Cow;
use std::io::Write as _;

impl Describe for AdaptiveBloomFilter {
    const KIND: Kind = Kind::Bloom;
    /// The number of planned repairs.
    const EXTRA_BITS: u64 = u64::MAX;

    fn fields(&self) -> Fields {
        Fields {
            size: self.last_level().len() as u64,
            bits: [self.levels().count() as u32, 0, 0],
            counts: self.tallies().map(|count| count.min(MAX_COUNT)),
            extra: self.planned_repairs(),
            ..Fields::default()
        }
    }

    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError> {
        let (dead, last) = (self.dead_cell_filter(), self.last_level());
        let levels = self.levels().map(|level| (1 + level.lines.len()) * LINE);
        let size = SIZE + dead.lines().bytes().len() + levels.sum::<usize>() + 16 * last.len();
        packed::lines(size, |mut parts| {
            dead.write(&mut parts)?;
            for LevelParts { cells, functions, room, written, keys, lines } in self.levels() {
                let numbers = [cells, functions.into(), room, written];
                parts.write_all(numbers.map(u64::to_le_bytes).as_flattened())?;
                parts.write_all(keys.map(u128::to_le_bytes).as_flattened())?;
                parts.write_all((*lines).as_ref())?;
            }
            packed::write_hashes(&mut parts, last)
        })
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let Fields { size, bits: [count, ..], counts, extra: repairs, .. } = header.fields;
        Ok(packed::assemble(header, move |mut parts| {
            let dead = parts.filter()?;
            let mut levels = Vec::new();
            for _ in 0..count {
                let [cells, functions, room, written] = parts.numbers()?;
                let functions = u32::try_from(functions).unwrap_or(u32::MAX);
                let keys = [parts.long_number()?, parts.long_number()?];
                let lines = cells.saturating_mul(functions.into()).div_ceil(8 * LINE as u64);
                let lines = Cow::Owned(parts.lines(lines)?);
                levels.push(LevelParts { cells, functions, room, written, keys, lines });
            }
            let last = parts.hashes(size)?;
            Ok(Self::from_parts(BloomParts { levels, dead, last, repairs, tallies: counts })?)
        }))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}
