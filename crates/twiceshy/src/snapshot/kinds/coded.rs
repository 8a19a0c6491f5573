//! Snapshots of telescoping, extension and plain quotient filters.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, MAX_COUNT, ShardFormat, bad_header};
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::Sections;
use crate::telescoping::CodedTally;
use crate::{
    Secret,
    hash::HashScheme,
    telescoping::{self, CodedFilter},
};

impl<S: telescoping::Scheme> Describe for CodedFilter<S> {
    const KIND: Kind = match (S::REPAIRS, S::MEMBERS_TO_FORGET) {
        (false, _) => Kind::Plain,
        (true, false) => Kind::Extending,
        (true, true) => Kind::Telescoping,
    };

    /// Includes the odds of the codes, which are a part of the scheme.
    type Header = (telescoping::Parameters, u32, CodedTally);

    fn header(&self) -> Self::Header {
        (self.parameters(), self.odds(), self.tally())
    }

    fn lines(&self) -> &Lines {
        self.lines()
    }

    fn encode(&(parameters, odds, tally): &Self::Header) -> Fields {
        let telescoping::Parameters { slots, remainder_bits, code_bits } = parameters;
        let CodedTally { len, adaptations, forgotten, unrepaired } = tally;
        Fields {
            flags: 0,
            size: slots,
            bits: [remainder_bits, code_bits, odds],
            hash: HashScheme::Aes128SipHash13,
            counts: [
                len,
                forgotten.min(MAX_COUNT),
                unrepaired.min(MAX_COUNT),
                adaptations.min(MAX_COUNT),
            ],
            extra: 0,
        }
    }

    fn decode(fields: &Fields, sections: &Sections) -> Result<Self::Header, SnapshotError> {
        let &Fields { size: slots, bits, counts, .. } = fields;
        let [remainder_bits, code_bits, odds] = bits;
        let [len, forgotten, unrepaired, adaptations] = counts;
        let parameters = telescoping::Parameters { slots, remainder_bits, code_bits };
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
        sections.check_lines(parameters.lines::<S>().map(|lines| lines..=lines), what)?;
        Ok((parameters, odds, CodedTally { len, adaptations, forgotten, unrepaired }))
    }

    fn assemble(
        &(parameters, odds, tally): &Self::Header,
        lines: Lines,
        _: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        let filter = Self::from_parts(parameters, odds, tally, lines);
        filter.ok_or_else(|| bad_header("its odds or counts of repairs are impossible"))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl<S: telescoping::Scheme> ShardFormat for CodedFilter<S> {
    const SHARDS: Kind = match (S::REPAIRS, S::MEMBERS_TO_FORGET) {
        (false, _) => Kind::PlainShards,
        (true, false) => Kind::ExtendingShards,
        (true, true) => Kind::TelescopingShards,
    };
}
