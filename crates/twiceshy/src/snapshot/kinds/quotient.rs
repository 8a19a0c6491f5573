//! Snapshots of quotient filters.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::quotient::{GROWTH_LOADS, Tally};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, MOST, impossible};
use crate::snapshot::frozen::{HashLookup, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::Sections;
use crate::snapshot::shards::ShardFormat;
use crate::snapshot::verbs::Snapshot;
use crate::{AdaptiveQuotientFilter, Hash, Parameters, Secret};

impl Snapshot for AdaptiveQuotientFilter {}

impl Describe for AdaptiveQuotientFilter {
    const KIND: Kind = Kind::Quotient;
    /// The load at which the filter grows.
    const LAST: u64 = u64::MAX;

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
            counts: [len, extra_slots, used, adaptations.min(MOST)],
            last: growth.map_or(0, f64::to_bits),
        }
    }

    fn decode(fields: &Fields, sections: &Sections) -> Result<Self::Header, SnapshotError> {
        let &Fields { size: slots, bits, hash, counts, last, .. } = fields;
        let [remainder_bits, slot_bits, value_bits] = bits;
        let [len, extra_slots, used, adaptations] = counts;
        let parameters = Parameters { slots, remainder_bits, slot_bits, value_bits, hash };
        parameters.check().map_err(|error| SnapshotError::Header(error.to_string()))?;
        if extra_slots > used || used > slots {
            return Err(impossible("more slots are used than there are"));
        }
        if len > MOST || adaptations > MOST {
            return Err(impossible("more members or repairs than can be counted"));
        }
        let growth = (last != 0).then_some(f64::from_bits(last));
        if growth.is_some_and(|load| !GROWTH_LOADS.contains(&load)) {
            return Err(impossible("no filter grows at such a load"));
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
        Ok(filter.expect("as many lines as the header says"))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.check_invariants().map(drop)
    }

    fn checked(self) -> Result<Self, Invalid> {
        self.validated()
    }
}

impl ShardFormat for AdaptiveQuotientFilter {
    const SHARDS: Kind = Kind::QuotientShards;

    fn check_beside(first: &Self::Header, header: &Self::Header) -> Result<(), SnapshotError> {
        if header.0.value_bits != first.0.value_bits {
            return Err(impossible("its values are not as wide as those of the first shard"));
        }
        if header.1.growth != first.1.growth {
            return Err(impossible("it grows at another load than the first shard"));
        }
        Ok(())
    }
}

impl InPlace for AdaptiveQuotientFilter {
    fn memory(&self) -> u64 {
        self.memory_usage()
    }
}

impl HashLookup for AdaptiveQuotientFilter {
    #[inline(always)]
    fn contains_each<K>(&self, keys: &[K], hash: impl Fn(&K) -> Hash, maybe: &mut Vec<bool>) {
        self.contains_each(keys, hash, maybe);
    }
}
