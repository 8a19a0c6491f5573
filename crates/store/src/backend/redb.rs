//! A backend on redb, a B-tree.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

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

/// Number of consecutive eventual writes per sync.
///
/// redb reuses the pages of unsynced commits, but keeps about 40 bytes of memory per commit until
/// it syncs. This was measured once on a busy machine, with three of 100,000 pairs replaced per
/// commit. Syncing every 256th commit was about 75 times as fast as syncing each commit, and
/// doubled the file. Syncing every 64th was half as fast as that. Syncing every 1024th was not
/// clearly faster, and made the file 4 times as large.
const SYNC_EVERY: u32 = 256;

/// Options of a [`RedbBackend`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedbOptions {
    /// Whether a missing directory is created \[default: yes\].
    pub create: bool,
    /// Size of the page cache in memory, in bytes \[default: 32 MiB\].
    pub cache_bytes: usize,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self { create: true, cache_bytes: 32 << 20 }
    }
}

/// A backend on redb, a B-tree on disk. A get reads one path from the root to a leaf, and an insert
/// rewrites one.
///
/// [Buffered](Durability::Buffered) writes are synced like [synced](Durability::Synced) ones, because redb's
/// unsynced writes don't survive a kill, so make batches large. Opening after a crash reads the whole file.
///
/// [Eventual](Durability::Eventual) writes are not synced, except for every 256th in a row, so a
/// kill loses at most the last 255 of them. Any other write, [`sync`](Backend::sync),
/// [`flush`](Backend::flush) and [`compact`](Backend::compact) sync all earlier writes. Dropping
/// the backend syncs them, too, but ignores errors, and does nothing during a panic.
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
    /// The database. Only `compact` locks this for writing.
    database: RwLock<Database>,
    /// The number of eventual writes since the last sync. A commit locks this before the database,
    /// and holds it until it is done. Otherwise a sync could miss a write that has just returned.
    unsynced: Mutex<u32>,
    options: RedbOptions,
    claims: Claims,
    /// The locked directory. This is the last field, so that the directory is unlocked last.
    directory: Directory,
}

impl RedbBackend {
    /// Opens the backend in a directory. Creates a missing directory, unless [`create`](RedbOptions::create)
    /// is false.
    ///
    /// # Errors
    ///
    /// [`Locked`](BackendError::Locked) if the directory is already open,
    /// [`Occupied`](BackendError::Occupied) if it holds another engine's data,
    /// [`Missing`](BackendError::Missing) if it is missing and [`create`](RedbOptions::create) is false, or
    /// an error of the engine or the file system.
    pub fn open(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self> {
        let directory = Directory::open(path.as_ref(), options.create)?;
        let data = directory.data(ENGINE, |path| {
            make(path, &options, |_, _| Ok(())).map_err(failed("create", directory.path()))
        })?;
        let database = Builder::new()
            .set_cache_size(options.cache_bytes)
            .open(data)
            .map_err(|error| failed("open", directory.path())(error.into()))?;
        Ok(Self {
            database: RwLock::new(database),
            unsynced: Mutex::new(0),
            options,
            claims: Claims::new(),
            directory,
        })
    }

    fn failed(&self, operation: &'static str) -> impl Fn(Error) -> BackendError + '_ {
        failed(operation, self.directory.path())
    }

    fn failed_write(&self, operation: &'static str) -> impl Fn(Error) -> BackendError + '_ {
        move |error| match error {
            // The file was valid when it was opened, so it has been damaged since.
            Error::Corrupted(_) => {
                let path = self.directory.path().to_owned();
                BackendError::Halted { path, source: Some(error.into()) }
            }
            error => self.failed(operation)(error),
        }
    }

    fn database(&self) -> RwLockReadGuard<'_, Database> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsynced(&self) -> MutexGuard<'_, u32> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a batch. A synced commit also syncs all commits before it, so an empty batch syncs them.
    fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Error> {
        let mut unsynced = self.unsynced();
        let is_eventual = durability == Durability::Eventual;
        if batch.is_empty() && (is_eventual || *unsynced == 0) {
            return Ok(());
        }
        let now_unsynced = if is_eventual { (*unsynced + 1) % SYNC_EVERY } else { 0 };
        let database = self.database();
        let mut transaction = database.begin_write()?;
        if now_unsynced > 0 {
            transaction.set_durability(::redb::Durability::None)?;
        }
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
        transaction.commit()?;
        *unsynced = now_unsynced;
        Ok(())
    }
}

impl Backend for RedbBackend {
    fn claim(&self) -> Result<BackendClaim> {
        self.claims.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        // Lock only once, because a thread that locks twice could deadlock with a compaction. Hold the lock
        // until the value is copied, because redb must not drop the page earlier.
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

    /// Writes a batch. The write is synced, unless it is [eventual](Durability::Eventual).
    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        batch.check()?;
        self.commit(batch, durability).map_err(self.failed_write("write to"))
    }

    /// Syncs the eventual writes, if there are any. All other writes are synced already.
    fn sync(&self) -> Result<()> {
        self.commit(&Batch::new(), Durability::Synced).map_err(self.failed_write("sync"))
    }

    /// Syncs the eventual writes, like [`sync`](Self::sync).
    fn flush(&self) -> Result<()> {
        self.commit(&Batch::new(), Durability::Synced).map_err(self.failed_write("flush"))
    }

    /// Syncs all writes, and compacts the file. Other operations wait in the meantime. Fails while
    /// a scan is in use.
    fn compact(&self) -> Result<()> {
        let mut unsynced = self.unsynced();
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        while database.compact().map_err(|error| self.failed("compact")(error.into()))? {}
        // Compacting begins with a synced commit, even if there is nothing to compact, so nothing
        // is unsynced now.
        *unsynced = 0;
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

/// Creates a database with empty tables at `path`, calls `fill` for each table, and closes the database.
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

/// Returns whether the database at a path holds the same pairs as a read transaction.
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
