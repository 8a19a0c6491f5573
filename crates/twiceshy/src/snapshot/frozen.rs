//! Snapshots that are read in place.
#![expect(private_bounds, reason = "the lookups of a frozen filter must not trust its bytes")]

use super::describe::{Contents, Describe, SIZE};
use super::error::SnapshotError;
use super::sections::{Need, Telling};
use super::stream::{Input, Table};
use super::verbs::Snapshot;
use crate::bits::memory::{AlignedBytes, LINE, Source};
use crate::{
    AdaptiveQuotientFilter, Filter, Hash, HashScheme, Key, Keyed, Parameters, Secret, Statistics,
};
use core::borrow::Borrow;
use core::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// A read-only filter that answers from the bytes of a [snapshot](crate::snapshot) in place: an
/// [`AdaptiveQuotientFilter`], a [`YesNoFilter`](crate::YesNoFilter) or a
/// [`RangeFilter`](crate::RangeFilter). For keys, the first two are wrapped: `Keyed<str, Frozen<_>>`.
///
/// [`from_bytes`](Self::from_bytes) reads only the header, so it takes constant time, however large
/// the filter is. A [`MappedFile`](crate::MappedFile) is read page by page, as lookups touch it.
/// [`open`](Snapshot::open) reads a file into memory, without its checksums; the file may be
/// changed or removed afterwards.
///
/// # Guarantees
/// The bytes are not trusted. If they aren't those of a valid filter, lookups may answer wrongly,
/// also "no" for members, but nothing else can happen: no panic, no undefined behaviour, and no
/// lookup reads more than about 2^19 cache lines, plus eight for each partition of a long range.
/// A lookup that would read more answers "maybe", or any answer in a list. In a valid filter that
/// happens only in a cluster of more than 2^16 lines. [`validate`](Self::validate) tells whether
/// the filter is valid.
///
/// # Examples
/// ```
/// use twiceshy::{Frozen, Keyed, KeyedSnapshot, SecretMode, YesNoFilter};
/// # let path = std::env::temp_dir().join(format!("twiceshy-frozen-{}", std::process::id()));
/// let list = Keyed::<str, YesNoFilter>::build(&["evil.example"], &["good.example"], 0.01)?;
/// list.save(&path, SecretMode::Include)?;
///
/// let frozen = Keyed::<str, Frozen<YesNoFilter>>::open(&path, None)?;
/// assert!(frozen.contains("evil.example") && !frozen.contains("good.example"));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Frozen<F: InPlace> {
    /// Over shared lines that nobody has checked: it must never be changed.
    filter: F,
    contents: Contents<F>,
    source: Arc<dyn Source>,
}

/// A filter whose lookups are safe, and end soon, whatever bytes its table has.
pub(crate) trait InPlace: Describe {
    /// Makes lookups end soon where that takes time; they do by themselves otherwise.
    fn limit_lookups(&mut self) {}

    /// The secret, if the filter carries one.
    fn own_secret(&self) -> Option<Secret> {
        None
    }

    /// Bytes of memory, including those of the table.
    fn memory(&self) -> u64;
}

/// A filter of hashes that is read in place.
pub(crate) trait HashLookup: InPlace + Filter {
    /// Answers lookups of many keys.
    fn contains_each<K>(&self, keys: &[K], hash: impl Fn(&K) -> Hash, maybe: &mut Vec<bool>);
}

impl<F: InPlace> Frozen<F> {
    /// Opens a snapshot in memory; with the secret, if one is needed.
    pub(super) fn of(
        source: Arc<dyn Source>,
        need: Need,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let contents = Contents::<F>::read(source.bytes())?;
        let lines = contents.sections.lines_in(&source)?;
        let secret = contents.sections.secret(need, || contents.sections.secret_in(&*source))?;
        let mut filter = F::assemble(&contents.header, lines, secret.clone())?;
        filter.limit_lookups();
        Ok((Self { filter, contents, source }, secret))
    }

    /// The filter, to be asked only what is safe whatever its table is.
    #[inline(always)]
    pub(super) fn unchecked(&self) -> &F {
        &self.filter
    }

    /// Bytes of memory that the filter takes, including the snapshot. Those of a mapped file
    /// count in full, though the system keeps only the pages that were touched.
    pub fn memory_usage(&self) -> u64 {
        let beside = self.filter.memory() - (self.filter.lines().len() * LINE) as u64;
        beside + size_of::<Contents<F>>() as u64 + self.contents.sections.total_size()
    }

    /// Checks the checksums and every invariant of the filter. Takes time in proportion to
    /// its size.
    ///
    /// # Errors
    /// What reading the snapshot into memory would find wrong with it.
    pub fn validate(&self) -> Result<(), SnapshotError> {
        self.contents.sections.verify(&*self.source, self.filter.lines())?;
        Ok(self.filter.check_all()?)
    }

    /// Returns a copy in memory that can be changed, [validated](Self::validate). It knows nothing
    /// of a secret, unless it is a filter for ranges or that of a [keyed one](Keyed::to_filter).
    ///
    /// # Errors
    /// As [`validate`](Self::validate), or if there is no memory for it.
    pub fn to_filter(&self) -> Result<F, SnapshotError> {
        let lines = self.contents.sections.copied(&*self.source, self.filter.lines())?;
        self.contents.checked(lines, self.filter.own_secret())
    }
}

impl<F: HashLookup> Frozen<F> {
    /// Opens a snapshot in memory: a vector, an `Arc<[u8]>`, a `&'static [u8]`, or a
    /// [`MappedFile`](crate::MappedFile). Lookups are fastest if its address is a multiple of 64.
    ///
    /// # Errors
    /// If the header is not right, or if there aren't as many bytes as it says.
    pub fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Self, SnapshotError> {
        Ok(Self::of(Arc::new(bytes), Need::Nothing)?.0)
    }

    /// Whether a key of this hash may be a member. "No" is certain if the snapshot is valid.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.filter.contains(hash)
    }

    /// Answers many lookups: `maybe` is cleared and then has one answer per hash, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger
    /// than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.filter.contains_each(hashes, |&hash| hash, maybe);
    }

    /// Number of members, each counted as often as it was inserted, as the header says.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }
}

impl Frozen<AdaptiveQuotientFilter> {
    /// What the filter is made of.
    pub fn parameters(&self) -> Parameters {
        self.filter.parameters()
    }

    /// Returns what the filter holds, and what adapting has cost, as the header says. The header
    /// doesn't tell how many fingerprints are tombstones: the expected rate counts them as if
    /// they had members.
    pub fn statistics(&self) -> Statistics {
        Statistics { bytes: self.memory_usage(), ..self.filter.statistics() }
    }
}

impl<F: HashLookup> Snapshot for Frozen<F> {}

/// Writing copies the table and its checksum as they are, unchecked.
impl<F: InPlace> Table for Frozen<F> {
    const IS_PUBLISHED: bool = F::IS_PUBLISHED;

    fn write_table(
        &self,
        telling: Telling<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        let sections = self.contents.sections.telling(telling);
        let contents = Contents::<F> { header: self.contents.header.clone(), sections };
        contents.write(self.filter.lines(), telling, writer).map(drop)
    }

    fn read_table(
        input: &mut Input<impl Read>,
        need: Need,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let (header, contents) = input.read_header::<F>()?;
        let expected = input.end_of(&contents.sections);
        let size = usize::try_from(contents.sections.total_size()).ok();
        let bytes = size.and_then(AlignedBytes::zeroed);
        let mut bytes = bytes.ok_or_else(|| io::Error::from(ErrorKind::OutOfMemory))?;
        let (start, rest) = bytes.as_mut().split_at_mut(SIZE);
        start.copy_from_slice(&header);
        input.fill(rest, expected)?;
        Self::of(Arc::new(bytes), need)
    }
}

impl<F: HashLookup> Filter for Frozen<F> {
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
        self.filter.hash_scheme()
    }
}

impl<K: ?Sized, F: HashLookup> Keyed<K, Frozen<F>> {
    /// Opens a snapshot in memory; see [`Frozen::from_bytes`]. Without a `secret`, it must contain
    /// its own.
    ///
    /// # Errors
    /// As there, or as [`KeyedSnapshot::open`](super::KeyedSnapshot::open) if the secret is missing
    /// or wrong.
    pub fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        let (filter, secret) = Frozen::of(Arc::new(bytes), Need::from(secret))?;
        Ok(Self::new(filter, secret.ok_or(SnapshotError::NoSecret)?))
    }

    /// Returns a copy in memory that can be changed, for the same keys; see [`Frozen::to_filter`].
    ///
    /// # Errors
    /// As there.
    pub fn to_filter(&self) -> Result<Keyed<K, F>, SnapshotError> {
        Ok(Keyed::new(self.filter().to_filter()?, self.secret().clone()))
    }
}

impl<K: Key + ?Sized, F: HashLookup> Keyed<K, Frozen<F>> {
    /// Answers many lookups, as of [`contains`](Self::contains); see [`Frozen::contains_many`].
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], maybe: &mut Vec<bool>) {
        self.filter().filter.contains_each(keys, |key| self.hash(key.borrow()), maybe);
    }
}

impl<F: InPlace + fmt::Debug> fmt::Debug for Frozen<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Frozen").field(&self.filter).finish()
    }
}
