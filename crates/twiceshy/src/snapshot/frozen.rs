//! Snapshots that are read in place.
#![expect(private_bounds, reason = "the lookups of a frozen filter must not trust its bytes")]

use super::describe::{Describe, Header, SIZE};
use super::error::SnapshotError;
use super::kind::Kind;
use super::sections::SecretRecord;
use super::stream::{Input, Table};
use super::verbs::InMemory;
use crate::bits::memory::{LINE, Lines, Source};
use crate::traits::filter_traits;
use crate::{Filter, Hash, Key, Keyed, QuotientFilter, Secret, Stats, quotient::Parameters};
use core::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// A read-only filter that answers directly from the bytes of a [snapshot](crate::snapshot).
///
/// The snapshot can be that of a [`QuotientFilter`], a [`YesNoFilter`](crate::YesNoFilter) or a
/// [`RangeFilter`](crate::RangeFilter). Wrap the first two to use keys: `Keyed<str, Frozen<_>>`.
///
/// [`from_bytes`](Self::from_bytes) doesn't read the table, so it takes constant time. A
/// [`MappedFile`](crate::snapshot::MappedFile) is read page by page when lookups need it.
/// [`open`](super::Snapshot::open) reads a whole file into memory, but doesn't check the table's
/// checksum. Afterwards, the file may be changed or deleted.
///
/// # Guarantees
/// Lookups don't trust the bytes. If the filter is invalid, lookups may give wrong answers, even
/// "no" for members. But they never panic or cause undefined behaviour, and never read more than
/// about 2^19 cache lines, plus eight per partition of a long range. A lookup that would read more
/// answers "maybe"; in a list, its answer is arbitrary. In a valid filter, a lookup reaches this
/// limit only in a cluster of more than 2^16 lines. [`validate`](Self::validate) checks whether the
/// filter is valid.
///
/// [`MappedFile`](crate::snapshot::MappedFile) has an example.
pub struct Frozen<F: InPlace> {
    /// A filter with shared, unchecked lines. It must never be changed.
    filter: F,
    header: Header,
    source: Arc<dyn Source>,
}

/// A filter whose lookups are safe, and read a bounded number of lines, whatever its table holds.
pub(crate) trait InPlace: Describe {
    /// Turns on the limit for lookups, if the filter doesn't always have it.
    fn limit_lookups(&mut self) {}

    /// Returns the secret, if the filter contains it.
    fn own_secret(&self) -> Option<Secret> {
        None
    }
}

impl<F: InPlace> Frozen<F> {
    /// Returns the unchecked filter. Call only methods that are safe for any table.
    #[inline(always)]
    pub(super) fn unchecked(&self) -> &F {
        &self.filter
    }

    fn lines(&self) -> Result<Lines, SnapshotError> {
        self.header.lines_in(&self.source)
    }

    /// Checks the checksums and every invariant of the filter. Takes time in proportion to
    /// its size.
    ///
    /// # Errors
    /// The same errors as reading the snapshot into memory.
    pub fn validate(&self) -> Result<(), SnapshotError> {
        self.header.verify(&*self.source, &self.lines()?)?;
        Ok(self.filter.check_all()?)
    }

    /// Returns a [validated](Self::validate) copy in memory that can be changed. Only a range
    /// filter contains its secret; for keys, use [`Keyed::to_filter`].
    ///
    /// # Errors
    /// Returns the same errors as [`validate`](Self::validate), or an error if there is not enough
    /// memory.
    pub fn to_filter(&self) -> Result<F, SnapshotError> {
        let lines = self.lines()?.copied().ok_or(self.header.out_of_memory())?;
        // Check the copy, because the bytes of the original may change meanwhile.
        self.header.verify(&*self.source, &lines)?;
        Ok(self.header.assemble::<F>(lines, self.filter.own_secret())?.checked()?)
    }
}

impl<F: InPlace + Filter> Frozen<F> {
    /// Opens a snapshot in memory, which may be a vector, an `Arc<[u8]>`, a `&'static [u8]`, or a
    /// [`MappedFile`](crate::snapshot::MappedFile). Lookups are fastest if the address is a
    /// multiple of 64.
    ///
    /// # Errors
    /// If the header or the secret is invalid, or if the number of bytes doesn't match the header.
    pub fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Self, SnapshotError> {
        Ok(Self::of_bytes(Arc::new(bytes), None)?.0)
    }

    /// Returns whether a key with this hash may be a member. "No" is certain if the snapshot is
    /// valid.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.filter.contains(hash)
    }

    /// Looks up many hashes; see [`Filter::contains_many`].
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.filter.contains_many(hashes, answers);
    }

    /// Returns statistics that are computed from the header. `memory` includes the whole snapshot.
    /// A mapped file counts in full, although the system keeps only the pages in memory that were
    /// read.
    ///
    /// A header doesn't say how many fingerprints are tombstones, so the expected rate counts them
    /// as if they had members.
    pub fn stats(&self) -> Stats {
        let stats = self.filter.stats();
        let besides_table = stats.memory - (self.header.lines * LINE) as u64;
        let snapshot = size_of::<Header>() as u64 + self.header.total_size();
        Stats { memory: besides_table + snapshot, ..stats }
    }

    /// Returns the number of members that the header records, each counted as often as it was
    /// inserted.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    filter_traits!(@is_empty);
}

impl Frozen<QuotientFilter> {
    /// Returns the parameters of the filter.
    pub fn parameters(&self) -> Parameters {
        self.filter.parameters()
    }
}

/// Writes a snapshot by copying the table and its checksum, without checking them.
impl<F: InPlace> Table for Frozen<F> {
    const KIND: Kind = F::KIND;

    fn write_table(
        &self,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        self.header.with_secret(secret).write(&self.lines()?, secret, writer)
    }

    fn read_table(
        input: &mut Input<impl Read>,
        secret: Option<Secret>,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let (start, header) = input.read_header::<F>()?;
        let expected = input.end_of(&header);
        // Every section is made of whole lines.
        let lines = usize::try_from(header.total_size() / LINE as u64).ok();
        let lines = lines.and_then(Lines::zeroed);
        let mut lines = lines.ok_or_else(|| io::Error::from(ErrorKind::OutOfMemory))?;
        lines.bytes_mut()[..SIZE].copy_from_slice(&start);
        input.fill(&mut lines.bytes_mut()[SIZE..], expected)?;
        Self::of_bytes(Arc::new(lines), secret)
    }
}

impl<F: InPlace> InMemory for Frozen<F> {
    fn of_bytes(
        source: Arc<dyn Source>,
        secret: Option<Secret>,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let header = Header::read::<F>(source.bytes())?;
        let lines = header.lines_in(&source)?;
        let secret = header.mark.secret(secret, source.bytes())?;
        let mut filter = header.assemble::<F>(lines, secret.clone())?;
        filter.limit_lookups();
        Ok((Self { filter, header, source }, secret))
    }
}

filter_traits!([F: InPlace + Filter] Frozen<F>, Frozen<F>: Filter);

impl<K: Key + ?Sized, F: InPlace + Filter> Keyed<K, Frozen<F>> {
    /// Returns a copy in memory that can be changed, with the same secret.
    ///
    /// # Errors
    /// Returns the same errors as [`Frozen::to_filter`].
    pub fn to_filter(&self) -> Result<Keyed<K, F>, SnapshotError> {
        Ok(Keyed::new(self.filter().to_filter()?, self.secret().clone()))
    }
}

impl<F: InPlace + fmt::Debug> fmt::Debug for Frozen<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Frozen").field(&self.filter).finish()
    }
}
