//! Snapshots of yes/no filters and lists.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::list::{Shape, Tally};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Assemble, Describe, Fields, Header, MAX_COUNT, bad_header};
use crate::snapshot::frozen::{Frozen, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::packed::{Pack, Parts, packed_tables, push_hashes};
use crate::{YesNoFilter, YesNoList};

impl Describe for YesNoFilter {
    const KIND: Kind = Kind::Lists;
    /// The bits of the user's label.
    const EXTRA_BITS: u64 = 0xffff_ffff;

    fn lines(&self) -> &Lines {
        self.parts().2
    }

    fn fields(&self) -> Fields {
        let (shape, tally, _) = self.parts();
        let Shape { blocks, remainder_bits, group_bits, low_bits } = shape;
        let Tally { yes, no, fingerprints, rate, label } = tally;
        Fields {
            size: blocks,
            bits: [remainder_bits, group_bits, low_bits],
            counts: [yes, no, fingerprints, rate.to_bits()],
            extra: label.into(),
            ..Fields::default()
        }
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let Fields { size: blocks, bits, counts, extra, .. } = header.fields;
        let [remainder_bits, group_bits, low_bits] = bits;
        let [yes, no, fingerprints, rate] = counts;
        let shape = Shape { blocks, remainder_bits, group_bits, low_bits };
        let rate = f64::from_bits(rate);
        let tally = Tally { yes, no, fingerprints, rate, label: extra as u32 };
        if !shape.is_possible() || !tally.is_possible() {
            return Err(bad_header("its sizes are impossible"));
        }
        Ok(Box::new(move |lines, _| Ok(Self::from_parts(shape, tally, lines))))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl InPlace for YesNoFilter {}

packed_tables!(YesNoList);

/// The snapshot contains only the lists. The filter is built when they are read.
impl Pack for YesNoList {
    const KIND: Kind = Kind::ChangingLists;

    fn pack(&self) -> (Fields, Vec<u8>) {
        let mut parts = Vec::with_capacity(16 * (self.yes().len() + self.no().len()));
        push_hashes(&mut parts, self.yes());
        push_hashes(&mut parts, self.no());
        let [yes, no] = [self.yes(), self.no()].map(|list| list.len() as u64);
        let repairs = self.stats().repairs.min(MAX_COUNT);
        let counts = [yes, no, repairs, self.planned_rate().to_bits()];
        (Fields { counts, ..Fields::default() }, parts)
    }

    fn unpack(fields: &Fields, parts: &[u8]) -> Result<Self, SnapshotError> {
        let [yes, no, repairs, rate] = fields.counts;
        if repairs > MAX_COUNT {
            return Err(bad_header("it counts too many repairs"));
        }
        let mut parts = Parts::new(parts);
        let (yes, no) = (parts.hashes(yes)?, parts.hashes(no)?);
        let list = Self::from_lists(yes, no, f64::from_bits(rate), repairs);
        list.map_err(|error| SnapshotError::Header(error.to_string()))
    }
}

impl Frozen<YesNoFilter> {
    /// Returns the filter's [label](crate::builder::Builder::label), or 0.
    pub fn label(&self) -> u32 {
        self.unchecked().label()
    }
}

#[cfg(feature = "matching")]
mod matching {
    use crate::snapshot::error::with_path;
    use crate::{
        Keyed, MatchingFilter, SecretMode, YesNoFilter,
        snapshot::{KeyedSnapshot, SnapshotError},
    };
    use std::path::Path;

    /// Saves lists to files, and opens them. The files **contain the secret**, because lists are
    /// meant for publication.
    impl MatchingFilter {
        /// Saves the list and its secret to a file; see [`KeyedSnapshot::save`].
        ///
        /// # Errors
        /// If the file can't be replaced.
        pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
            self.keyed().save(path, SecretMode::Include)
        }

        /// Opens a list from a file that contains its secret.
        ///
        /// # Errors
        /// Returns the same errors as [`KeyedSnapshot::open`], or
        /// [`SnapshotError::UnknownMatching`].
        pub fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
            let filter = Keyed::open(&path, None)?;
            with_path(path.as_ref(), |_| Self::try_from(filter))
        }
    }

    /// Fails with [`SnapshotError::UnknownMatching`] if the filter's label doesn't stand for a
    /// [`Matching`](crate::Matching).
    impl TryFrom<Keyed<[u8], YesNoFilter>> for MatchingFilter {
        type Error = SnapshotError;

        fn try_from(filter: Keyed<[u8], YesNoFilter>) -> Result<Self, SnapshotError> {
            let label = filter.filter().label();
            Self::new(filter).ok_or(SnapshotError::UnknownMatching { label })
        }
    }
}
