//! Snapshots of adaptive Bloom filters.

use crate::AdaptiveBloomFilter;
use crate::bits::memory::LINE;
use crate::bloom::{LevelParts, Parts as BloomParts};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Fields, MAX_COUNT};
use crate::snapshot::kind::Kind;
use crate::snapshot::packed::{Pack, Parts, packed_tables, push_hashes};
use crate::snapshot::stream::{Input, Stream as _};

packed_tables!(AdaptiveBloomFilter);

impl Pack for AdaptiveBloomFilter {
    const KIND: Kind = Kind::Bloom;
    /// The number of planned repairs.
    const EXTRA_BITS: u64 = u64::MAX;

    fn pack(&self) -> (Fields, Vec<u8>) {
        let (levels, dead, last) = (self.levels(), self.dead_cell_filter(), self.last_level());
        let mut parts = Vec::new();
        dead.write(&mut parts).expect("a vector takes all bytes");
        let mut count = 0;
        for LevelParts { cells, functions, room, written, keys, bits } in levels {
            for number in [cells, functions.into(), room, written] {
                parts.extend(number.to_le_bytes());
            }
            parts.extend(keys.iter().flat_map(|key| key.to_le_bytes()));
            parts.extend(bits);
            count += 1;
        }
        push_hashes(&mut parts, last);
        let fields = Fields {
            size: last.len() as u64,
            bits: [count, 0, 0],
            counts: self.tallies().map(|count| count.min(MAX_COUNT)),
            extra: self.planned_repairs(),
            ..Fields::default()
        };
        (fields, parts)
    }

    fn unpack(fields: &Fields, parts: &[u8]) -> Result<Self, SnapshotError> {
        let &Fields { size, bits: [count, ..], counts, extra: repairs, .. } = fields;
        let mut input = Input::new(parts);
        let dead = crate::QuotientFilter::read(&mut input)?;
        let mut parts = Parts::new(&parts[input.found as usize..]);
        let mut levels = Vec::new();
        for _ in 0..count {
            let [cells, functions, room, written] = parts.numbers()?;
            let functions = u32::try_from(functions).unwrap_or(u32::MAX);
            let keys = [parts.long_number()?, parts.long_number()?];
            let lines = cells.saturating_mul(functions.into()).div_ceil(8 * LINE as u64);
            let bits = parts.bytes(lines.saturating_mul(LINE as u64))?;
            levels.push(LevelParts { cells, functions, room, written, keys, bits });
        }
        let last = parts.hashes(size)?;
        let filter = Self::from_parts(BloomParts { levels, dead, last, repairs, tallies: counts })?;
        filter.validate()?;
        Ok(filter)
    }
}
