//! Snapshots of yes/no filters and lists.

use crate::bits::memory::Lines;
use crate::error::{BuildError, Invalid};
use crate::list::{ListError, Shape, Tally};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Assemble, Describe, Fields, Header, MAX_COUNT, bad_header};
use crate::snapshot::frozen::{Frozen, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::packed;
use crate::{YesNoFilter, YesNoList};
use std::borrow::Cow;

/// Highest planned number of keys in a snapshot, so that a short file can't make its reader
/// allocate much memory. A list that is planned for more keys writes this number.
const MOST_PLANNED: usize = 1 << 24;

impl Describe for YesNoFilter {
    const KIND: Kind = Kind::Lists;
    /// The bits of the user's label.
    const EXTRA_BITS: u64 = 0xffff_ffff;

    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError> {
        Ok(Cow::Borrowed(self.parts().2))
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

/// The snapshot contains only the lists. The filter is built when they are read.
impl Describe for YesNoList {
    const KIND: Kind = Kind::ChangingLists;
    /// The number of no-list keys that the filter is planned for.
    const EXTRA_BITS: u64 = u64::MAX;

    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError> {
        let size = 16 * (self.yes().len() + self.no().len());
        packed::lines(size, |mut parts| {
            packed::write_hashes(&mut parts, self.yes())?;
            packed::write_hashes(&mut parts, self.no())
        })
    }

    fn fields(&self) -> Fields {
        let [yes, no] = [self.yes(), self.no()].map(|list| list.len() as u64);
        let [size, extra] = self.planned().map(|keys| keys.min(MOST_PLANNED) as u64);
        let counts = [yes, no, self.stats().repairs.min(MAX_COUNT), self.planned_rate().to_bits()];
        Fields { size, counts, extra, ..Fields::default() }
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let Fields { size, counts: [yes, no, repairs, rate], extra, .. } = header.fields;
        if repairs > MAX_COUNT {
            return Err(bad_header("it counts too many repairs"));
        }
        if size.max(extra) > MOST_PLANNED as u64 {
            return Err(bad_header("it is planned for too many keys"));
        }
        let planned = [size, extra].map(|keys| keys as usize);
        Ok(packed::assemble(header, move |mut parts| {
            let (yes, no) = (parts.hashes(yes)?, parts.hashes(no)?);
            let list = Self::from_lists(yes, no, planned, f64::from_bits(rate), repairs);
            list.map_err(|error| match error {
                ListError::Build(BuildError::Memory { bytes }) => SnapshotError::Memory { bytes },
                other => SnapshotError::Header(other.to_string()),
            })
        }))
    }

    /// Reading builds the filter, so there is nothing else to check.
    fn check_all(&self) -> Result<(), Invalid> {
        Ok(())
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
        Frozen, Keyed, MatchingFilter, SecretMode, YesNoFilter,
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

    macro_rules! from_keyed {
        ($($filter:ty),+) => {$(
            /// Fails with [`SnapshotError::UnknownMatching`] if the filter's label doesn't stand for
            /// a [`Matching`](crate::Matching).
            impl TryFrom<Keyed<[u8], $filter>> for MatchingFilter<$filter> {
                type Error = SnapshotError;

                fn try_from(filter: Keyed<[u8], $filter>) -> Result<Self, SnapshotError> {
                    let label = filter.filter().label();
                    Self::new(filter, label).ok_or(SnapshotError::UnknownMatching { label })
                }
            }
        )+};
    }

    from_keyed!(YesNoFilter, Frozen<YesNoFilter>);
}
