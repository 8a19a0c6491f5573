//! Snapshots of quotient filters.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::quotient::{GROWTH_LOADS, Tally};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, MAX_COUNT, ShardFormat, bad_header};
use crate::snapshot::frozen::InPlace;
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::Sections;
use crate::{QuotientFilter, Secret, quotient::Parameters};

impl Describe for QuotientFilter {
    const KIND: Kind = Kind::Quotient;
    /// The load at which the filter grows.
    const EXTRA_BITS: u64 = u64::MAX;

    type Header = (Parameters, Tally);

    fn header(&self) -> Self::Header {
        (self.parameters(), self.tally())
    }

    fn lines(&self) -> &Lines {
        self.lines()
    }

    fn encode(&(parameters, tally): &Self::Header) -> Fields {
        let Parameters { slots, remainder_bits, slot_bits, value_bits, hash } = parameters;
        let Tally { len, extra_slots, used, adaptations, growth } = tally;
        Fields {
            flags: 0,
            size: slots,
            bits: [remainder_bits, slot_bits, value_bits],
            hash,
            counts: [len, extra_slots, used, adaptations.min(MAX_COUNT)],
            extra: growth.map_or(0, f64::to_bits),
        }
    }

    fn decode(fields: &Fields, sections: &Sections) -> Result<Self::Header, SnapshotError> {
        let &Fields { size: slots, bits, hash, counts, extra, .. } = fields;
        let [remainder_bits, slot_bits, value_bits] = bits;
        let [len, extra_slots, used, adaptations] = counts;
        let parameters = Parameters { slots, remainder_bits, slot_bits, value_bits, hash };
        parameters.check().map_err(|error| SnapshotError::Header(error.to_string()))?;
        if extra_slots > used || used > slots {
            return Err(bad_header("it counts more used slots than slots"));
        }
        if len > MAX_COUNT || adaptations > MAX_COUNT {
            return Err(bad_header("it counts too many members or repairs"));
        }
        let growth = (extra != 0).then_some(f64::from_bits(extra));
        if growth.is_some_and(|load| !GROWTH_LOADS.contains(&load)) {
            return Err(bad_header("the load at which it grows is impossible"));
        }
        let lines = Self::lines_for(parameters).map(|lines| lines..=lines);
        sections.check_lines(lines, format_args!("{slots} slots of {slot_bits} bits"))?;
        Ok((parameters, Tally { len, extra_slots, used, adaptations, growth }))
    }

    fn assemble(
        &(parameters, tally): &Self::Header,
        lines: Lines,
        _: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        let filter = Self::from_parts(parameters, tally, lines);
        Ok(filter.expect("decoding checked the number of lines"))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.check_invariants().map(drop)
    }

    fn checked(self) -> Result<Self, Invalid> {
        self.validated()
    }
}

impl ShardFormat for QuotientFilter {
    const SHARDS: Kind = Kind::QuotientShards;

    fn check_compatible(first: &Self::Header, header: &Self::Header) -> Result<(), SnapshotError> {
        if header.0.value_bits != first.0.value_bits {
            return Err(bad_header("its values are not as wide as those of the first shard"));
        }
        if header.1.growth != first.1.growth {
            return Err(bad_header("it grows at a different load than the first shard"));
        }
        Ok(())
    }
}

impl InPlace for QuotientFilter {}
