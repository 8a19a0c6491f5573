//! Snapshots of quotient filters.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::quotient::{GROWTH_LOADS, Tally};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Assemble, Describe, Fields, Header, MAX_COUNT, bad_header};
use crate::snapshot::frozen::InPlace;
use crate::snapshot::kind::Kind;
use crate::{QuotientFilter, quotient::Parameters};
use std::borrow::Cow;

impl Describe for QuotientFilter {
    const KIND: Kind = Kind::Quotient;
    /// The bits of the load at which the filter grows.
    const EXTRA_BITS: u64 = u64::MAX;
    const MIXES: bool = true;

    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError> {
        Ok(Cow::Borrowed(self.lines()))
    }

    fn fields(&self) -> Fields {
        let Parameters { slots, remainder_bits, slot_bits, value_bits, remainders, .. } =
            self.parameters();
        let Tally { len, extra_slots, adaptations, growth, .. } = self.tally;
        Fields {
            size: slots,
            bits: [remainder_bits, slot_bits, value_bits],
            counts: [len, extra_slots, self.used(), adaptations.min(MAX_COUNT)],
            extra: growth.map_or(0, f64::to_bits),
            remainders,
            ..Fields::default()
        }
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let Fields { size: slots, bits, counts, extra, remainders, .. } = header.fields;
        let [remainder_bits, slot_bits, value_bits] = bits;
        let [len, extra_slots, used, adaptations] = counts;
        let parameters = Parameters { slots, remainder_bits, slot_bits, value_bits, remainders };
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
        header.check_lines(lines, format_args!("{slots} slots of {slot_bits} bits"))?;
        let tally = Tally { len, extra_slots, tombstones: 0, adaptations, growth };
        Ok(Box::new(move |lines, _| {
            let filter = Self::from_parts(parameters, used, tally, lines);
            Ok(filter.expect("decoding checked the number of lines"))
        }))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.check_invariants().map(drop)
    }

    fn checked(self) -> Result<Self, Invalid> {
        self.validated()
    }

    fn check_compatible(first: &Fields, shard: &Fields) -> Result<(), SnapshotError> {
        if shard.bits[2] != first.bits[2] {
            return Err(bad_header("its values are not as wide as those of the first shard"));
        }
        Ok(())
    }
}

impl InPlace for QuotientFilter {}
