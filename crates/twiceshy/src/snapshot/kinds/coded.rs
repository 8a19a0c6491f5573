//! Snapshots of telescoping and extension filters.

use crate::bits::memory::Lines;
use crate::coded::CodedTally;
use crate::error::Invalid;
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, MOST, impossible};
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::Sections;
use crate::snapshot::shards::ShardFormat;
use crate::snapshot::verbs::Snapshot;
use crate::{CodedFilter, CodedParameters, CodedScheme, HashScheme, Secret};

impl<S: CodedScheme> Snapshot for CodedFilter<S> {}

impl<S: CodedScheme> Describe for CodedFilter<S> {
    const KIND: Kind = if S::MEMBERS_TO_FORGET { Kind::Telescoping } else { Kind::Extending };

    /// With the odds of codes, which are a part of the scheme.
    type Header = (CodedParameters, u32, CodedTally);

    fn header(&self) -> Self::Header {
        (self.parameters(), self.odds(), self.tally())
    }

    fn lines(&self) -> &Lines {
        self.lines()
    }

    fn encode(&(parameters, odds, tally): &Self::Header) -> Fields {
        let CodedParameters { slots, remainder_bits, code_bits } = parameters;
        let CodedTally { len, adaptations, forgotten, unrepaired } = tally;
        Fields {
            flags: 0,
            size: slots,
            bits: [remainder_bits, code_bits, odds],
            hash: HashScheme::Aes128SipHash13,
            counts: [len, forgotten.min(MOST), unrepaired.min(MOST), adaptations.min(MOST)],
            last: 0,
        }
    }

    fn decode(fields: &Fields, sections: &Sections) -> Result<Self::Header, SnapshotError> {
        let &Fields { size: slots, bits, counts, .. } = fields;
        let [remainder_bits, code_bits, odds] = bits;
        let [len, forgotten, unrepaired, adaptations] = counts;
        let parameters = CodedParameters { slots, remainder_bits, code_bits };
        parameters.check().map_err(|error| SnapshotError::Header(error.to_string()))?;
        if len > slots {
            return Err(impossible("more slots are used than there are"));
        }
        if [adaptations, forgotten, unrepaired].iter().any(|&count| count > MOST) {
            return Err(impossible("more repairs than can be counted"));
        }
        let what =
            format_args!("{slots} slots of {remainder_bits} bits with codes of {code_bits} bits");
        sections.check_lines(parameters.lines().map(|lines| lines..=lines), what)?;
        Ok((parameters, odds, CodedTally { len, adaptations, forgotten, unrepaired }))
    }

    fn assemble(
        &(parameters, odds, tally): &Self::Header,
        lines: Lines,
        _: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        let filter = Self::from_parts(parameters, odds, tally, lines);
        filter.ok_or_else(|| impossible("no filter has such odds, or repairs nothing"))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl<S: CodedScheme> ShardFormat for CodedFilter<S> {
    const SHARDS: Kind =
        if S::MEMBERS_TO_FORGET { Kind::TelescopingShards } else { Kind::ExtendingShards };
}
