//! Snapshots of filters of yes and no lists.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::list::{Shape, Tally};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, impossible};
use crate::snapshot::frozen::{Frozen, HashLookup, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::Sections;
use crate::snapshot::verbs::Snapshot;
use crate::{Hash, HashScheme, Secret, YesNoFilter};

impl Snapshot for YesNoFilter {}

impl Describe for YesNoFilter {
    const KIND: Kind = Kind::Lists;
    /// The user's label.
    const LAST: u64 = 0xffff_ffff;
    const IS_PUBLISHED: bool = true;

    type Header = (Shape, Tally);

    fn header(&self) -> Self::Header {
        let (shape, tally, _) = self.parts();
        (shape, tally)
    }

    fn lines(&self) -> &Lines {
        self.parts().2
    }

    fn encode(&(shape, tally): &Self::Header) -> Fields {
        let Shape { blocks, remainder_bits, group_bits, low_bits } = shape;
        let Tally { yes, no, fingerprints, rate, label } = tally;
        Fields {
            flags: 0,
            size: blocks,
            bits: [remainder_bits, group_bits, low_bits],
            hash: HashScheme::Aes128SipHash13,
            counts: [yes, no, fingerprints, rate.to_bits()],
            last: label.into(),
        }
    }

    fn decode(fields: &Fields, _: &Sections) -> Result<Self::Header, SnapshotError> {
        let &Fields { size: blocks, bits, counts, last, .. } = fields;
        let [remainder_bits, group_bits, low_bits] = bits;
        let [yes, no, fingerprints, rate] = counts;
        let shape = Shape { blocks, remainder_bits, group_bits, low_bits };
        let rate = f64::from_bits(rate);
        let tally = Tally { yes, no, fingerprints, rate, label: last as u32 };
        if !shape.is_possible() || !tally.is_possible() {
            return Err(impossible("there is no filter of such sizes"));
        }
        Ok((shape, tally))
    }

    fn assemble(
        &(shape, tally): &Self::Header,
        lines: Lines,
        _: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        Ok(Self::from_parts(shape, tally, lines))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl InPlace for YesNoFilter {
    fn memory(&self) -> u64 {
        self.memory_usage()
    }
}

impl HashLookup for YesNoFilter {
    #[inline(always)]
    fn contains_each<K>(&self, keys: &[K], hash: impl Fn(&K) -> Hash, maybe: &mut Vec<bool>) {
        self.contains_each(keys, hash, maybe);
    }
}

impl Frozen<YesNoFilter> {
    /// The number that the filter was [labelled](crate::YesNoFilterBuilder::label) with, or 0.
    pub fn label(&self) -> u32 {
        self.unchecked().label()
    }

    /// Number of different keys on the yes list.
    pub fn yes_keys(&self) -> u64 {
        self.unchecked().yes_keys()
    }

    /// Number of keys on the no list, repeated keys included.
    pub fn no_keys(&self) -> u64 {
        self.unchecked().no_keys()
    }

    /// The chance that a key on neither list is answered yes.
    pub fn false_positive_rate(&self) -> f64 {
        self.unchecked().false_positive_rate()
    }
}

#[cfg(feature = "matching")]
mod matching {
    use crate::snapshot::error::at;
    use crate::{Keyed, KeyedSnapshot, MatchingFilter, SecretMode, SnapshotError, YesNoFilter};
    use std::path::Path;

    /// Lists to publish: **the secret is in them**.
    impl MatchingFilter {
        /// Saves the list to a file, with its secret; see [`KeyedSnapshot::save`].
        ///
        /// # Errors
        /// If the file can't be replaced.
        pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
            self.keyed().save(path, SecretMode::Include)
        }

        /// Opens a list that was saved with its secret.
        ///
        /// # Errors
        /// As [`KeyedSnapshot::open`], or [`SnapshotError::UnknownMatching`].
        pub fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
            let filter = Keyed::open(&path, None)?;
            at(path.as_ref(), |_| Self::try_from(filter))
        }
    }

    /// Fails with [`SnapshotError::UnknownMatching`] if the filter's label is not that of a
    /// [`Matching`](crate::Matching).
    impl TryFrom<Keyed<[u8], YesNoFilter>> for MatchingFilter {
        type Error = SnapshotError;

        fn try_from(filter: Keyed<[u8], YesNoFilter>) -> Result<Self, SnapshotError> {
            let label = filter.filter().label();
            Self::new(filter).ok_or(SnapshotError::UnknownMatching { label })
        }
    }
}
