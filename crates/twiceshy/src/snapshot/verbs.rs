//! The methods that save and open filters: `write_to`, `read_from`, `save`, `open`, `from_bytes`.
#![expect(private_bounds, reason = "only filters of this crate have snapshots")]

use super::error::{SnapshotError, with_path};
use super::kind::Kind;
use super::replace::{Readers, replace};
use super::stream::{Input, Stream, Table};
use crate::bits::memory::Source;
use crate::{Filter, Key, Keyed, Secret};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Saves a filter of hashes to files and streams, and reads it back.
///
/// Filters that know the secret of their keys have a [`KeyedSnapshot`] instead. A filter of hashes
/// has no secret: reading ignores a secret in the snapshot and its mark, and writing omits both.
///
/// The [module](crate::snapshot) has an example.
pub trait Snapshot: Stream {
    /// Writes a [snapshot](crate::snapshot).
    ///
    /// Other threads may use a concurrent filter at the same time. Each shard is saved as it is at
    /// some moment during the call. Threads that change a shard wait while it is copied in memory,
    /// but never for `writer`.
    ///
    /// # Errors
    /// If writing fails, or if there is not enough memory for a copy of a shard.
    fn write_to(&self, mut writer: impl Write) -> Result<(), SnapshotError> {
        self.write(&mut writer)?;
        Ok(writer.flush()?)
    }

    /// Reads a [snapshot](crate::snapshot), and checks its checksums and every invariant. Reads no
    /// bytes after the snapshot.
    ///
    /// The result is a new filter, so claims of the saved filter are stale.
    ///
    /// # Errors
    /// If reading fails, or if this is not a snapshot of a valid filter.
    fn read_from(reader: impl Read) -> Result<Self, SnapshotError> {
        Stream::read(&mut Input::new(reader))
    }

    /// Writes a [snapshot](crate::snapshot) to a file atomically: after a crash at any moment,
    /// either the old or the new file exists and is complete.
    ///
    /// This first writes a temporary file `.NAME.….tmp` in the same folder. A crash may leave that
    /// file behind. Links are followed. If `path` is a device such as `/dev/stdout`, this writes to
    /// the device directly.
    ///
    /// # Errors
    /// Returns the same errors as [`write_to`](Self::write_to), or an error if the file can't be
    /// replaced. The old file then still exists, unless the last step failed, which syncs the
    /// folder.
    fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        save(path.as_ref(), Readers::AsBefore, |file| self.write_to(file))
    }

    /// Reads a [snapshot](crate::snapshot) from a file, as [`read_from`](Self::read_from) does.
    /// The file must contain nothing else.
    ///
    /// # Errors
    /// Returns the same errors as [`read_from`](Self::read_from), or an error if the file can't be
    /// opened or is too long.
    fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        open(path.as_ref(), |input| Stream::read(input))
    }
}

impl<F: Stream> Snapshot for F {}

/// Whether a snapshot contains the secret that keys are hashed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretMode {
    /// The snapshot doesn't contain the secret; the caller stores it in a different place. The
    /// snapshot contains a mark, so that [`open`](KeyedSnapshot::open) can refuse a different
    /// secret.
    Omit,
    /// **The snapshot contains the secret**: readers of the file can test which keys are members,
    /// and search for false positives offline. [`save`](KeyedSnapshot::save) makes the file
    /// readable only by its owner, if the system supports that. It doesn't do so for a
    /// [`YesNoFilter`](crate::YesNoFilter), which is meant for publication.
    Include,
}

/// Saves a filter to files and streams, and reads it back. The filter knows the secret of its keys.
///
/// A snapshot doesn't record the type of the keys. The snapshot of a range filter records only
/// their width. Open it with the type that it was saved with. Plain and adaptive range filters can
/// open each other's snapshots. Both keep the repairs, but a plain filter forgets how many there
/// are.
///
/// # Examples
/// ```
/// use twiceshy::{QuotientFilter, Keyed, Secret, SecretMode};
/// use twiceshy::snapshot::{KeyedSnapshot, SnapshotError};
/// # let path = std::env::temp_dir().join(format!("twiceshy-keyed-{}", std::process::id()));
/// type Users = Keyed<str, QuotientFilter>;
/// let mut users: Users = QuotientFilter::builder().capacity(100).build_keyed()?;
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
        table.write_table(Some((secret, mode)), &mut writer)?;
        Ok(writer.flush()?)
    }

    /// Reads a [snapshot](crate::snapshot), as [`Snapshot::read_from`] does. If `secret` is
    /// `None`, the snapshot must contain the secret.
    ///
    /// # Errors
    /// Returns the same errors as [`Snapshot::read_from`], or [`SnapshotError::NoSecret`], or
    /// [`SnapshotError::OtherSecret`]. A snapshot of a bare filter of hashes has no mark, so any
    /// secret is accepted. With a wrong secret, the filter misses members.
    fn read_from(reader: impl Read, secret: Option<Secret>) -> Result<Self, SnapshotError> {
        of_read(Self::Table::read_table(&mut Input::new(reader), secret))
    }

    /// Writes a [snapshot](crate::snapshot) to a file, as [`Snapshot::save`] does.
    ///
    /// # Errors
    /// Returns the same errors as [`Snapshot::save`].
    fn save(&self, path: impl AsRef<Path>, mode: SecretMode) -> Result<(), SnapshotError> {
        // Lists are meant for publication, so their files stay readable by others.
        let is_private = mode == SecretMode::Include && Self::Table::KIND != Kind::Lists;
        let readers = if is_private { Readers::Owner } else { Readers::AsBefore };
        save(path.as_ref(), readers, |file| self.write_to(file, mode))
    }

    /// Reads a [snapshot](crate::snapshot) from a file, as [`read_from`](Self::read_from) does.
    /// The file must contain nothing else.
    ///
    /// # Errors
    /// Returns the same errors as [`read_from`](Self::read_from), or an error if the file can't be
    /// opened or is too long.
    fn open(path: impl AsRef<Path>, secret: Option<Secret>) -> Result<Self, SnapshotError> {
        open(path.as_ref(), |input| of_read(Self::Table::read_table(input, secret)))
    }

    /// Opens a snapshot in memory as a [`Frozen`](crate::Frozen) filter, which reads it in place.
    /// If `secret` is `None`, the snapshot must contain the secret.
    ///
    /// # Errors
    /// Returns the same errors as [`Frozen::from_bytes`](crate::Frozen::from_bytes), or as
    /// [`open`](Self::open) if the secret is missing or wrong, or if the keys of a range filter
    /// have a different width.
    fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError>
    where
        Self::Table: InMemory,
    {
        of_read(Self::Table::of_bytes(Arc::new(bytes), secret))
    }
}

impl<F: WithSecret> KeyedSnapshot for F {}

/// A filter and the secret of its keys.
pub(crate) trait WithSecret: Sized {
    type Table: Table;

    fn parts(&self) -> (&Self::Table, &Secret);

    fn of_parts(table: Self::Table, secret: Secret) -> Self;
}

impl<K: Key + ?Sized, F: Table + Filter> WithSecret for Keyed<K, F> {
    type Table = F;

    fn parts(&self) -> (&F, &Secret) {
        (self.filter(), self.secret())
    }

    fn of_parts(filter: F, secret: Secret) -> Self {
        Self::new(filter, secret)
    }
}

/// A filter that is read in place.
pub(crate) trait InMemory: Table {
    /// Opens a snapshot in memory. Returns a secret as [`read_table`](Table::read_table) does.
    fn of_bytes(
        source: Arc<dyn Source>,
        secret: Option<Secret>,
    ) -> Result<(Self, Option<Secret>), SnapshotError>;
}

/// Makes a filter from its table and its secret, after both were read.
fn of_read<F: WithSecret>(
    read: Result<(F::Table, Option<Secret>), SnapshotError>,
) -> Result<F, SnapshotError> {
    let (table, secret) = read?;
    Ok(F::of_parts(table, secret.ok_or(SnapshotError::NoSecret)?))
}

fn save(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(BufWriter<&mut File>) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    // Use a buffer, because many small shards mean many small writes.
    with_path(path, |path| replace(path, readers, |file| write(BufWriter::new(file))))
}

/// Reads a file that contains one snapshot.
fn open<F>(
    path: &Path,
    read: impl FnOnce(&mut Input<BufReader<File>>) -> Result<F, SnapshotError>,
) -> Result<F, SnapshotError> {
    with_path(path, |path| Input::read_whole(BufReader::new(File::open(path)?), read))
}
