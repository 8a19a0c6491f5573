//! The four verbs of every filter: `write_to`, `read_from`, `save` and `open`.
#![expect(private_bounds, reason = "only filters of this crate have snapshots")]

use super::error::{SnapshotError, at};
use super::replace::{Readers, replace};
use super::sections::{Need, Telling};
use super::stream::{Input, Stream, Table};
use crate::{Filter, Keyed, Secret};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Filters of hashes that are saved to, and read from, files and streams.
///
/// Filters that know the secret of their keys have a [`KeyedSnapshot`] instead. A filter of hashes
/// knows nothing of secrets: reading ignores a secret in the snapshot, or the mark of one, and
/// writing leaves both out.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, Hash, Snapshot};
/// # let path = std::env::temp_dir().join(format!("twiceshy-doc-{}", std::process::id()));
/// let mut filter = AdaptiveQuotientFilter::builder().slots(1000).build()?;
/// filter.insert(Hash::from_u128(7 << 100))?;
/// filter.save(&path)?;
///
/// let filter = AdaptiveQuotientFilter::open(&path)?;
/// assert!(filter.contains(Hash::from_u128(7 << 100)));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Snapshot: Stream {
    /// Writes a [snapshot](crate::snapshot).
    ///
    /// Other threads may use a concurrent filter at the same time. Each shard is written as it is
    /// at some moment: the snapshot has every member that was inserted before the call, and may
    /// or may not have those that come or go during it. Writers of a shard wait while it is
    /// copied in memory, but never for `writer`.
    ///
    /// # Errors
    /// If writing fails, or if there is no memory for a copy of a shard.
    fn write_to(&self, mut writer: impl Write) -> Result<(), SnapshotError> {
        self.write(&mut writer)?;
        Ok(writer.flush()?)
    }

    /// Reads a [snapshot](crate::snapshot), all of it and not a byte more, and checks its
    /// checksums and every invariant.
    ///
    /// The filter is a new one: claims of the one that was saved are stale.
    ///
    /// # Errors
    /// If reading fails, or if this is not a snapshot of a valid filter.
    fn read_from(reader: impl Read) -> Result<Self, SnapshotError> {
        Stream::read(&mut Input::new(reader))
    }

    /// Writes a [snapshot](crate::snapshot) to a file: after a crash at any moment, the old file
    /// or the new one is there, complete.
    ///
    /// The snapshot is first written to a temporary file beside it, `.NAME.….tmp`, which a crash
    /// may leave. Links are followed. If `path` is not a file, but a device such as
    /// `/dev/stdout`, the snapshot is written to it directly.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), or if the file can't be replaced. The old file is still
    /// there then, unless only syncing its folder failed.
    fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        save(path.as_ref(), Readers::AsBefore, |file| self.write_to(file))
    }

    /// Reads a [snapshot](crate::snapshot) from a file that holds nothing else, as
    /// [`read_from`](Self::read_from) does.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from), or if the file can't be opened or is too long.
    fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        open(path.as_ref(), |input| Stream::read(input))
    }
}

/// Whether a snapshot contains the secret that keys are hashed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretMode {
    /// The secret is kept elsewhere. The snapshot has only a mark of it, by which
    /// [`open`](KeyedSnapshot::open) notices a different one.
    Omit,
    /// **The secret is in the snapshot**: readers of the file can test which keys are members,
    /// and search for false positives offline. Only the file's owner may read it, where the
    /// system has such permissions; except for a [`YesNoFilter`](crate::YesNoFilter), which is
    /// made to be published.
    Include,
}

/// Filters that know the secret of their keys, saved to, and read from, files and streams.
///
/// A snapshot doesn't record the type of the keys, or only their width, in that of a filter for
/// ranges: open it with the type that it was saved with. Filters for ranges that adapt and those
/// that don't can open each other's snapshots. They keep the repairs, but not their number.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, Keyed, KeyedSnapshot, Secret, SecretMode, SnapshotError};
/// # let path = std::env::temp_dir().join(format!("twiceshy-keyed-{}", std::process::id()));
/// type Users = Keyed<str, AdaptiveQuotientFilter>;
/// let mut users: Users = AdaptiveQuotientFilter::builder().capacity(100).build_keyed()?;
/// users.insert("alice")?;
/// users.save(&path, SecretMode::Omit)?;
/// let secret = users.secret().clone();    // kept elsewhere
///
/// assert!(Users::open(&path, Some(secret))?.contains("alice"));
/// let error = Users::open(&path, Some(Secret::generate()?)).unwrap_err();
/// assert!(matches!(error.cause(), SnapshotError::OtherSecret));
///
/// users.save(&path, SecretMode::Include)?;
/// assert!(Users::open(&path, None)?.contains("alice"));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyedSnapshot: WithSecret {
    /// Writes a [snapshot](crate::snapshot).
    ///
    /// # Errors
    /// If writing fails.
    fn write_to(&self, mut writer: impl Write, mode: SecretMode) -> Result<(), SnapshotError> {
        let (table, secret) = self.parts();
        let telling = match mode {
            SecretMode::Omit => Telling::Mark(secret),
            SecretMode::Include => Telling::All(secret),
        };
        table.write_table(telling, &mut writer)?;
        Ok(writer.flush()?)
    }

    /// Reads a [snapshot](crate::snapshot), as [`Snapshot::read_from`] does. Without a `secret`,
    /// it must contain its own.
    ///
    /// # Errors
    /// As there, or [`SnapshotError::NoSecret`], or [`SnapshotError::OtherSecret`]. A snapshot of
    /// hashes has no mark of a secret: any is accepted, and with a wrong one members are missing.
    fn read_from(reader: impl Read, secret: Option<Secret>) -> Result<Self, SnapshotError> {
        read(&mut Input::new(reader), secret)
    }

    /// Writes a [snapshot](crate::snapshot) to a file, as [`Snapshot::save`] does.
    ///
    /// # Errors
    /// As there.
    fn save(&self, path: impl AsRef<Path>, mode: SecretMode) -> Result<(), SnapshotError> {
        let is_private = mode == SecretMode::Include && !Self::Table::IS_PUBLISHED;
        let readers = if is_private { Readers::Owner } else { Readers::AsBefore };
        save(path.as_ref(), readers, |file| self.write_to(file, mode))
    }

    /// Reads a [snapshot](crate::snapshot) from a file that holds nothing else, as
    /// [`read_from`](Self::read_from) does.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from), or if the file can't be opened or is too long.
    fn open(path: impl AsRef<Path>, secret: Option<Secret>) -> Result<Self, SnapshotError> {
        open(path.as_ref(), |input| read(input, secret))
    }
}

/// A filter and the secret of its keys.
pub(crate) trait WithSecret: Sized {
    type Table: Table;

    fn parts(&self) -> (&Self::Table, &Secret);

    fn of_parts(table: Self::Table, secret: Secret) -> Self;
}

impl<K: ?Sized, F: Table + Filter> KeyedSnapshot for Keyed<K, F> {}

impl<K: ?Sized, F: Table + Filter> WithSecret for Keyed<K, F> {
    type Table = F;

    fn parts(&self) -> (&F, &Secret) {
        (self.filter(), self.secret())
    }

    fn of_parts(filter: F, secret: Secret) -> Self {
        Self::new(filter, secret)
    }
}

/// A filter that has the secret of its keys inside.
pub(crate) trait CarriesSecret: Table {
    fn carried_secret(&self) -> &Secret;
}

impl<F: CarriesSecret> WithSecret for F {
    type Table = Self;

    fn parts(&self) -> (&Self, &Secret) {
        (self, self.carried_secret())
    }

    fn of_parts(filter: Self, _: Secret) -> Self {
        filter
    }
}

fn read<F: WithSecret>(
    input: &mut Input<impl Read>,
    secret: Option<Secret>,
) -> Result<F, SnapshotError> {
    let (table, secret) = F::Table::read_table(input, Need::from(secret))?;
    Ok(F::of_parts(table, secret.ok_or(SnapshotError::NoSecret)?))
}

/// Replaces a file, at once or not at all.
fn save(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(BufWriter<&mut File>) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    // Small shards are many small pieces.
    at(path, |path| replace(path, readers, |file| write(BufWriter::new(file))))
}

/// Reads a file that holds one thing.
fn open<F>(
    path: &Path,
    read: impl FnOnce(&mut Input<BufReader<File>>) -> Result<F, SnapshotError>,
) -> Result<F, SnapshotError> {
    at(path, |path| Input::read_whole(BufReader::new(File::open(path)?), read))
}
