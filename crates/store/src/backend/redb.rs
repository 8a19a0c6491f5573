//! A backend on redb, a B-tree.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use ::redb::{
    AccessGuard, Builder, Database, Error, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    StorageError, Table, TableDefinition,
};

use super::bounds::is_empty;
use super::copy::same;
use super::directory::Directory;
use super::{
    Backend, BackendClaim, BackendError, Batch, Bounds, Bytes, Claims, Durability, Keyspace,
    Result, Scan,
};

/// The name of redb's file in the directory.
const ENGINE: &str = "redb";

/// Options of a [`RedbBackend`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedbOptions {
    /// Whether a missing directory is created \[default: yes\].
    pub create: bool,
    /// Bytes of pages that are cached in memory \[default: 32 MiB\].
    pub cache_bytes: usize,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self { create: true, cache_bytes: 32 << 20 }
    }
}

/// A backend on redb, a B-tree on the disk. A get reads one path of the tree, and an insert rewrites one.
///
/// All writes are synced, whatever [`Durability`] the caller asks for, because redb's unsynced writes don't
/// survive a kill. So make batches large. Opening after a crash reads the whole file.
///
/// ```
/// use twiceshy_store::{Backend, Batch, Durability, Keyspace, RedbBackend, RedbOptions};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path();
/// let backend = RedbBackend::open(path, RedbOptions::default())?;
/// let mut batch = Batch::new();
/// batch.insert(Keyspace::Meta, "answer", "42");
/// backend.write(&batch, Durability::Buffered)?;
///
/// drop(backend);
/// let backend = RedbBackend::open(path, RedbOptions::default())?;
/// assert_eq!(backend.get(Keyspace::Meta, b"answer")?.as_deref(), Some(&b"42"[..]));
/// # Ok::<(), twiceshy_store::BackendError>(())
/// ```
pub struct RedbBackend {
    /// Locked for writing only to compact.
    database: RwLock<Database>,
    options: RedbOptions,
    claims: Claims,
    /// The last field, so that the lock is released last.
    directory: Directory,
}

impl RedbBackend {
    /// Opens the directory. If it is missing, [creates](RedbOptions::create) it.
    ///
    /// # Errors
    ///
    /// [`Locked`](BackendError::Locked) if it is open already,
    /// [`Occupied`](BackendError::Occupied) if it holds another engine's data,
    /// [`Missing`](BackendError::Missing) if it is missing and not to be created, and any error with its
    /// file.
    pub fn open(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self> {
        let directory = Directory::open(path.as_ref(), options.create)?;
        let data = directory.data(ENGINE, |path| {
            make(path, &options, |_, _| Ok(())).map_err(failed("create", directory.path()))
        })?;
        let database = Builder::new()
            .set_cache_size(options.cache_bytes)
            .open(data)
            .map_err(|error| failed("open", directory.path())(error.into()))?;
        Ok(Self { database: RwLock::new(database), options, claims: Claims::new(), directory })
    }

    fn failed(&self, operation: &'static str) -> impl Fn(Error) -> BackendError + '_ {
        failed(operation, self.directory.path())
    }

    fn database(&self) -> RwLockReadGuard<'_, Database> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, batch: &Batch) -> Result<(), Error> {
        let database = self.database();
        let transaction = database.begin_write()?;
        for space in Keyspace::ALL {
            let mut changes = batch.iter().filter(|change| change.space == space).peekable();
            if changes.peek().is_none() {
                continue;
            }
            let mut table = transaction.open_table(definition(space))?;
            for change in changes {
                match change.value {
                    Some(value) => table.insert(change.key, value)?,
                    None => table.remove(change.key)?,
                };
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Backend for RedbBackend {
    fn claim(&self) -> Result<BackendClaim> {
        self.claims.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        // Lock only once: a thread that locks twice could deadlock with one that compacts. Hold the lock
        // until the value is copied, because redb must not drop the page before.
        let database = self.database();
        let value = table(&database, space).and_then(|table| Ok(table.get_owned(key)?));
        Ok(value.map_err(self.failed("read from"))?.map(|value| value.value().into()))
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        if is_empty(bounds) {
            return Box::new(std::iter::empty());
        }
        match table(&self.database(), space).and_then(|table| Ok(table.range::<&[u8]>(bounds)?)) {
            Ok(pairs) => Box::new(pairs.map(|pair| {
                let (key, value) = pair.map_err(|error| self.failed("scan")(error.into()))?;
                Ok((key.value().into(), value.value().into()))
            })),
            Err(error) => Box::new(std::iter::once(Err(self.failed("scan")(error)))),
        }
    }

    /// Writes a batch. The write is always synced.
    fn write(&self, batch: &Batch, _: Durability) -> Result<()> {
        batch.check()?;
        if batch.is_empty() {
            return Ok(());
        }
        self.commit(batch).map_err(|error| match error {
            // The file was valid when it was opened.
            Error::Corrupted(_) => {
                let path = self.directory.path().to_owned();
                BackendError::Halted { path, source: Some(error.into()) }
            }
            error => self.failed("write to")(error),
        })
    }

    /// Does nothing, because every write is synced.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Does nothing, because every write is synced.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Compacts the file. Other operations wait in the meantime. Fails while there are scans.
    fn compact(&self) -> Result<()> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        while database.compact().map_err(|error| self.failed("compact")(error.into()))? {}
        Ok(())
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.directory.bytes()
    }

    fn backup(&self, to: &Path) -> Result<()> {
        let fails = self.failed("back up");
        let view = self.database().begin_read().map_err(|error| fails(error.into()))?;
        Directory::open_new(to)?
            .data(ENGINE, |path| {
                make(path, &self.options, |space, table| copy(&view, space, table))
                    .map_err(&fails)?;
                if is_copy(&view, path).map_err(self.failed("open the backup of"))? {
                    Ok(())
                } else {
                    Err(BackendError::BadCopy { path: path.to_owned() })
                }
            })
            .map(drop)
    }
}

impl fmt::Debug for RedbBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbBackend")
            .field("directory", &self.directory)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn table(
    database: &Database,
    space: Keyspace,
) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>, Error> {
    Ok(database.begin_read()?.open_table(definition(space))?)
}

type Pairs<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// Creates a database of empty tables at `path`, fills each, and closes it.
fn make(
    path: &Path,
    options: &RedbOptions,
    fill: impl Fn(Keyspace, &mut Pairs<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let database = Builder::new().set_cache_size(options.cache_bytes).create(path)?;
    let transaction = database.begin_write()?;
    for space in Keyspace::ALL {
        fill(space, &mut transaction.open_table(definition(space))?)?;
    }
    transaction.commit()?;
    drop(database);
    Ok(File::open(path)?.sync_all()?)
}

fn copy(from: &ReadTransaction, space: Keyspace, into: &mut Pairs<'_>) -> Result<(), Error> {
    for pair in from.open_table(definition(space))?.range::<&[u8]>(..)? {
        let (key, value) = pair?;
        into.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// Returns whether the database at a path holds the same pairs as a view.
fn is_copy(view: &ReadTransaction, path: &Path) -> Result<bool, Error> {
    let copy = Builder::new().open(path)?.begin_read()?;
    for space in Keyspace::ALL {
        let original = view.open_table(definition(space))?;
        let copy = copy.open_table(definition(space))?;
        let pairs = |pair: Result<(Value<'_>, Value<'_>), StorageError>| {
            pair.map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
        };
        if !same(original.range::<&[u8]>(..)?.map(pairs), copy.range::<&[u8]>(..)?.map(pairs))? {
            return Ok(false);
        }
    }
    Ok(true)
}

type Value<'a> = AccessGuard<'a, &'static [u8]>;

fn definition(space: Keyspace) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(space.name())
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(Error) -> BackendError {
    move |error| {
        let path = path.to_owned();
        match error {
            Error::PreviousIo => BackendError::Halted { path, source: None },
            Error::DatabaseAlreadyOpen => BackendError::Locked { path },
            error => BackendError::Engine { operation, path, source: error.into() },
        }
    }
}
