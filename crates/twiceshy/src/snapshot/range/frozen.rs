//! A snapshot of a filter for ranges, read where it is.

use super::header::Header;
use super::validated;
use crate::bits::map::FileBytes;
use crate::bits::memory::{LINE, Source};
use crate::snapshot::error::{SnapshotError, at};
use crate::snapshot::sections::check_mark;
use crate::{AdaptiveRangeFilter, Hash, RangeFilter, RangeKey, Secret};
use core::fmt;
use core::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

/// A read-only range filter that answers from the bytes of a [snapshot](crate::snapshot) in place,
/// as a [`FrozenFilter`](crate::FrozenFilter) does.
///
/// # Guarantees
/// The bytes are not trusted. If they aren't those of a valid filter, lookups may answer
/// wrongly, also "no" where there are members, but nothing else can happen: no panic, no undefined
/// behaviour, and no lookup looks at more than some 2^19 cache lines, and eight for each partition
/// of a long range: then it answers "maybe", which in a valid filter happens only in a cluster of
/// more than 2^16 of them. [`verify`](Self::verify) tells whether the filter is valid.
///
/// # Examples
/// ```
/// use twiceshy::{FrozenRangeFilter, RangeFilter};
/// let filter = RangeFilter::<u64>::builder().build_from(&[7, 1000])?;
/// let mut snapshot = Vec::new();
/// filter.save(&mut snapshot)?;
///
/// let frozen = FrozenRangeFilter::<u64>::open(snapshot, filter.secret().clone())?;
/// assert!(frozen.contains(7) && frozen.contains_range(990..1010));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FrozenRangeFilter<K> {
    /// Over shared lines, so that it must never be changed.
    filter: RangeFilter<K>,
    header: Header,
    source: Arc<dyn Source>,
}

impl<K: RangeKey> FrozenRangeFilter<K> {
    /// Opens a snapshot in memory: a vector, an `Arc<[u8]>`, a `&'static [u8]`, or a
    /// [`MappedFile`](crate::MappedFile). Lookups are fastest if its address is a multiple of 64.
    ///
    /// # Errors
    /// If the header is not right, if there aren't as many bytes as it says, if its keys have
    /// another width, or [`SnapshotError::OtherSecret`].
    pub fn open(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        secret: Secret,
    ) -> Result<Self, SnapshotError> {
        Self::of(Arc::new(bytes), secret)
    }

    /// Reads a file into memory, and opens the snapshot in it; see
    /// [`FrozenFilter::open_file`](crate::FrozenFilter::open_file).
    ///
    /// # Errors
    /// If the file can't be read, if there is no memory for it, or as [`open`](Self::open).
    pub fn open_file(path: impl AsRef<Path>, secret: Secret) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| Self::open(FileBytes::read(path)?, secret))
    }

    fn of(source: Arc<dyn Source>, secret: Secret) -> Result<Self, SnapshotError> {
        let header = Header::read::<K>(source.bytes())?;
        let lines = header.sections.lines_in(&source)?;
        check_mark(header.sections.mark, &secret)?;
        let filter = RangeFilter::over(header.shape, lines, secret);
        let filter = filter.expect("no fewer lines than the header allows");
        Ok(Self { filter, header, source })
    }

    /// Whether a key may be a member. "No" is certain, if the snapshot is that of a valid filter.
    pub fn contains(&self, key: K) -> bool {
        self.filter.contains(key)
    }

    /// Whether a member may be in a range; see [`RangeFilter::contains_range`]. "No" is certain,
    /// if the snapshot is that of a valid filter.
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.filter.contains_range(range)
    }

    /// Answers for many ranges; see [`RangeFilter::contains_ranges`].
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        self.filter.contains_ranges(ranges, maybe);
    }

    /// How many members there are, each counted as often as it was inserted; as the header
    /// says.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// The length of the longest range that the rate of false positives holds for.
    pub fn longest_range(&self) -> u64 {
        self.filter.longest_range()
    }

    /// Bits of a fingerprint's remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.filter.remainder_bits()
    }

    /// The hash of a key's partition, by which members are listed.
    pub fn hash_of(&self, key: K) -> Hash {
        self.filter.hash_of(key)
    }

    /// Bytes of memory that the filter takes, the snapshot's among them; those of a mapped
    /// file only as far as they were touched, and until the system needs them.
    pub fn memory_usage(&self) -> u64 {
        let beside = self.filter.memory_usage() - (self.filter.lines().len() * LINE) as u64;
        beside + size_of::<Header>() as u64 + self.header.sections.total_size()
    }

    /// Checks the checksums and every invariant of the filter. Takes time in proportion to
    /// its size.
    ///
    /// # Errors
    /// What [`restore`](RangeFilter::restore) would find wrong with the snapshot.
    pub fn verify(&self) -> Result<(), SnapshotError> {
        self.header.sections.verify(&*self.source, self.filter.lines())?;
        Ok(self.filter.validate()?)
    }

    /// A copy in memory that can be changed, [verified](Self::verify).
    ///
    /// # Errors
    /// As [`verify`](Self::verify), or if there is no memory for it.
    pub fn to_filter(&self) -> Result<RangeFilter<K>, SnapshotError> {
        let lines = self.header.sections.copied(&*self.source, self.filter.lines())?;
        validated(self.header.shape, lines, self.filter.secret().clone())
    }

    /// As [`to_filter`](Self::to_filter), one that adapts.
    ///
    /// # Errors
    /// As there.
    pub fn to_adaptive_filter(&self) -> Result<AdaptiveRangeFilter<K>, SnapshotError> {
        Ok(AdaptiveRangeFilter::of(self.to_filter()?, self.header.shape.adaptations))
    }
}

impl<K: RangeKey> fmt::Debug for FrozenRangeFilter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FrozenRangeFilter").field(&self.filter).finish()
    }
}
