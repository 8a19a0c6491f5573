//! A snapshot, read where it is.

use super::error::{SnapshotError, at};
use super::header::Header;
use super::restore::validated;
use super::sections::check_mark;
use crate::bits::map::FileBytes;
use crate::bits::memory::{LINE, Source};
use crate::{AdaptiveQuotientFilter, Filter, Hash, HashScheme, Parameters, Secret, Statistics};
use core::fmt;
use std::path::Path;
use std::sync::Arc;

/// A read-only filter that answers from the bytes of a [snapshot](crate::snapshot) in place.
///
/// [`open`](Self::open) looks at the header only, so it takes constant time, however large the
/// filter is. [`open_file`](Self::open_file) reads a file into memory; a
/// [`MappedFile`](crate::MappedFile) is read page by page, as lookups touch it.
///
/// # Guarantees
/// The bytes are not trusted. If they aren't those of a valid filter, lookups may answer
/// wrongly, also "absent" for members, but nothing else can happen: no panic, no undefined
/// behaviour, and no lookup looks at more than some 2^19 cache lines: then it answers "maybe",
/// which in a valid filter happens only in a cluster of more than 2^16 of them.
/// [`verify`](Self::verify) tells whether the filter is valid.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, FrozenFilter, Keyed, Secret};
/// # let path = std::env::temp_dir().join(format!("twiceshy-frozen-{}", std::process::id()));
/// let mut filter = AdaptiveQuotientFilter::builder().capacity(1000).build_keyed::<str>()?;
/// filter.insert("alice")?;
/// filter.save_to(&path)?;
/// let secret = filter.secret().clone();    // kept elsewhere
///
/// let frozen = Keyed::<str, FrozenFilter>::open_file(&path, secret)?;
/// assert!(frozen.contains("alice"));
/// assert_eq!(frozen.len(), 1);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FrozenFilter {
    /// Over shared lines, so that it must never be changed.
    filter: AdaptiveQuotientFilter,
    header: Header,
    source: Arc<dyn Source>,
}

impl FrozenFilter {
    /// Opens a snapshot in memory: a vector, an `Arc<[u8]>`, a `&'static [u8]`, or a
    /// [`MappedFile`](crate::MappedFile). Lookups are fastest if its address is a multiple of 64.
    ///
    /// # Errors
    /// If the header is not right, or if there aren't as many bytes as it says.
    pub fn open(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self, SnapshotError> {
        Self::of(Arc::new(bytes))
    }

    /// Reads a file into memory, and opens the snapshot in it. Checksums aren't checked: see
    /// [`verify`](Self::verify).
    ///
    /// The file may be changed, truncated or removed afterwards. To share the file's pages with
    /// other processes instead, open a [`MappedFile`](crate::MappedFile).
    ///
    /// # Errors
    /// If the file can't be read, if there is no memory for it, or as [`open`](Self::open).
    pub fn open_file(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| Self::open(FileBytes::read(path)?))
    }

    fn of(source: Arc<dyn Source>) -> Result<Self, SnapshotError> {
        let header = Header::read(source.bytes())?;
        let lines = header.sections.lines_in(&source)?;
        let filter = AdaptiveQuotientFilter::from_parts(header.parameters, header.tally, lines);
        let filter = filter.expect("as many lines as the header says");
        Ok(Self { filter, header, source })
    }

    /// Whether a key of this hash may be a member. "No" is certain, if the snapshot is that
    /// of a valid filter.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.filter.contains(hash)
    }

    /// Answers many lookups: `maybe` is cleared and then has one answer per hash, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger
    /// than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.filter.contains_many(hashes, maybe);
    }

    /// As [`contains_many`](Self::contains_many), of keys.
    #[inline(always)]
    pub(super) fn contains_each<K>(
        &self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        maybe: &mut Vec<bool>,
    ) {
        self.filter.contains_each(keys, hash, maybe);
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

    /// What the filter is made of.
    pub fn parameters(&self) -> Parameters {
        self.filter.parameters()
    }

    /// Bytes of memory that the filter takes, the snapshot's among them; those of a mapped
    /// file only as far as they were touched, and until the system needs them.
    pub fn memory_usage(&self) -> u64 {
        let beside = self.filter.memory_usage() - (self.filter.lines().len() * LINE) as u64;
        beside + size_of::<Header>() as u64 + self.header.sections.total_size()
    }

    /// Returns what the filter holds, and what adapting has cost, as the header says. The header
    /// doesn't tell how many fingerprints are tombstones: the expected rate counts them as if
    /// they had members.
    pub fn statistics(&self) -> Statistics {
        Statistics { bytes: self.memory_usage(), ..self.filter.statistics() }
    }

    /// Checks the checksums and every invariant of the filter. Takes time in proportion to
    /// its size.
    ///
    /// # Errors
    /// What [`restore`](AdaptiveQuotientFilter::restore) would find wrong with the snapshot.
    pub fn verify(&self) -> Result<(), SnapshotError> {
        self.header.sections.verify(&*self.source, self.filter.lines())?;
        self.filter.check_invariants()?;
        Ok(())
    }

    /// Whether the secret is the one that the snapshot was saved with, as far as it tells.
    pub(super) fn check_secret(&self, secret: &Secret) -> Result<(), SnapshotError> {
        check_mark(self.header.sections.mark, secret)
    }

    /// A copy in memory that can be changed, [verified](Self::verify). Like a filter that was
    /// [restored](AdaptiveQuotientFilter::restore) without the secret, it knows nothing of it;
    /// that of a filter for keys [does](crate::Keyed::to_filter).
    ///
    /// # Errors
    /// As [`verify`](Self::verify), or if there is no memory for it.
    pub fn to_filter(&self) -> Result<AdaptiveQuotientFilter, SnapshotError> {
        let lines = self.header.sections.copied(&*self.source, self.filter.lines())?;
        validated(&self.header, lines)
    }
}

impl Filter for FrozenFilter {
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        self.parameters().hash
    }
}

impl fmt::Debug for FrozenFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrozenFilter")
            .field("parameters", &self.parameters())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
