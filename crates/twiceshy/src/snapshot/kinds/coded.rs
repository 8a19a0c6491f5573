//! Snapshots of telescoping, extension and plain quotient filters.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Assemble, Describe, Fields, Header, MAX_COUNT, bad_header};
use crate::snapshot::kind::Kind;
use crate::telescoping::{self, CodedFilter, CodedTally};
use std::borrow::Cow;

impl<S: telescoping::Scheme> Describe for CodedFilter<S> {
    const KIND: Kind = match (S::REPAIRS, S::MEMBERS_TO_FORGET) {
        (false, _) => Kind::Plain,
        (true, false) => Kind::Extending,
        (true, true) => Kind::Telescoping,
    };
    const MIXES: bool = true;

    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError> {
        Ok(Cow::Borrowed(self.shared.table.lines()))
    }

    fn fields(&self) -> Fields {
        let telescoping::Parameters { slots, remainder_bits, code_bits, remainders } =
            self.parameters();
        let CodedTally { adaptations, forgotten, unrepaired } = self.tally;
        let len = self.len() as u64;
        Fields {
            size: slots,
            bits: [remainder_bits, code_bits, self.shared.coding.odds()],
            counts: [len, forgotten, unrepaired, adaptations].map(|count| count.min(MAX_COUNT)),
            remainders,
            ..Fields::default()
        }
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let Fields { size: slots, bits, counts, remainders, .. } = header.fields;
        let [remainder_bits, code_bits, odds] = bits;
        let [len, forgotten, unrepaired, adaptations] = counts;
        let parameters = telescoping::Parameters { slots, remainder_bits, code_bits, remainders };
        parameters.check::<S>().map_err(|error| SnapshotError::Header(error.to_string()))?;
        if !S::REPAIRS && (code_bits, odds, adaptations, forgotten, unrepaired) != (0, 0, 0, 0, 0) {
            return Err(bad_header("a filter that doesn't adapt has no repairs"));
        }
        if len > slots {
            return Err(bad_header("it counts more used slots than slots"));
        }
        if [adaptations, forgotten, unrepaired].iter().any(|&count| count > MAX_COUNT) {
            return Err(bad_header("it counts too many repairs"));
        }
        let what =
            format_args!("{slots} slots of {remainder_bits} bits with codes of {code_bits} bits");
        header.check_lines(parameters.lines::<S>().map(|lines| lines..=lines), what)?;
        let tally = CodedTally { adaptations, forgotten, unrepaired };
        Ok(Box::new(move |lines, _| {
            let filter = Self::from_parts(parameters, odds, len, tally, lines);
            filter.ok_or_else(|| bad_header("its odds or counts of repairs are impossible"))
        }))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}
