//! A backend on fjall, an LSM tree.
//!
//! This module works around three behaviours of fjall:
//!
//! - *Sealing memtables.* In fjall, a writer that finds its memtable full asks the engine's workers to seal
//!   it, by a message through a bounded channel. Until a worker does, each further write sends another
//!   message. The worker that seals the memtable then sends "flush" through the same channel. If the channel
//!   is full while all workers are sending, no worker is left to empty it. Then nothing is flushed any more,
//!   and memtables grow, or writes stall forever. With one worker and small memtables that happens immediately,
//!   and with two workers often (fjall 3.1.13; its issues #257 and #323). So this module switches the
//!   engine's own limit off. The writer that crosses our limit seals the memtable: its message comes from
//!   outside the workers, and there is one per memtable.
//! - *Waiting for flushes.* fjall's writers wait forever for workers that have failed. Writers in
//!   this module notice the failure (`make_room`).
//! - *Snapshots within a batch.* When a flush or a compaction ends, fjall makes all sequence
//!   numbers up to its own visible, including that of a batch that is still being written. So a
//!   snapshot may hold a part of a batch. That is good enough for a scan. A backup takes its
//!   snapshot when no writer is active (`commits`).

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use ::fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use ::fjall::{
    AbstractTree, Database, KeyspaceCreateOptions, LsmError, PersistMode, Readable, Slice, Snapshot,
};

use super::bounds::{is_empty, shortened};
use super::copy::same;
use super::directory::Directory;
use super::{
    Backend, BackendClaim, BackendError, Batch, Bounds, Bytes, Change, Claims, Durability,
    Keyspace, MAX_KEY_BYTES, Result, Scan, Unbounded,
};

/// The name of fjall's data in the directory.
const ENGINE: &str = "fjall";

/// Options of a [`FjallBackend`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FjallOptions {
    /// Whether a missing directory is created \[default: yes\].
    pub create: bool,
    /// Size of the block cache in memory, in bytes \[default: 32 MiB\].
    pub cache_bytes: u64,
    /// Size at which a keyspace's memtable is moved from memory to a table on disk, in bytes \[default:
    /// 32 MiB\].
    pub memtable_bytes: u64,
    /// Whether tables have Bloom filters of 10 bits per key \[default: yes\]. With them, a get skips most
    /// tables that don't have the key. This is fixed when the directory is created.
    pub bloom_filters: bool,
    /// Approximate limit for the total size of the journals, in bytes \[default: 128 MiB, at least 64 MiB\].
    /// Opening has to read all journals.
    pub journal_bytes: u64,
    /// Number of threads that flush and compact \[default: the number of cores, at least 2 and at most
    /// 4\].
    pub workers: usize,
}

impl Default for FjallOptions {
    fn default() -> Self {
        Self {
            create: true,
            cache_bytes: 32 << 20,
            memtable_bytes: 32 << 20,
            bloom_filters: true,
            journal_bytes: 128 << 20,
            workers: thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 4)),
        }
    }
}

/// A backend on fjall, an LSM tree on disk. Inserts are appends, and gets read a few tables.
///
/// [Eventual](Durability::Eventual) writes are [buffered](Durability::Buffered), which costs no more.
///
/// ```
/// use twiceshy_store::{Backend, Batch, Durability, FjallBackend, FjallOptions, Keyspace};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path();
/// let mut options = FjallOptions::default();
/// options.cache_bytes = 1 << 20;
/// let backend = FjallBackend::open(path, options.clone())?;
/// let mut batch = Batch::new();
/// batch.insert(Keyspace::Meta, "answer", "42");
/// backend.write(&batch, Durability::Synced)?;
/// assert!(FjallBackend::open(path, options.clone()).is_err(), "one at a time");
///
/// drop(backend);
/// let backend = FjallBackend::open(path, options)?;
/// assert_eq!(backend.get(Keyspace::Meta, b"answer")?.as_deref(), Some(&b"42"[..]));
/// # Ok::<(), twiceshy_store::BackendError>(())
/// ```
pub struct FjallBackend {
    spaces: [Space; Keyspace::ALL.len()],
    database: Database,
    /// Separates backups from writes. Writers lock this for reading. A backup locks it for writing, so that
    /// the backup begins between two batches.
    commits: RwLock<()>,
    options: FjallOptions,
    claims: Claims,
    /// The reason why the engine refuses writes, once it is known.
    failure: OnceLock<String>,
    /// The locked directory. This is the last field, so that the directory is unlocked last.
    directory: Directory,
}

struct Space {
    keyspace: ::fjall::Keyspace,
    /// The approximate size of the active memtable.
    unsealed: AtomicU64,
}

impl FjallBackend {
    /// Opens the backend in a directory. Creates a missing directory, unless [`create`](FjallOptions::create)
    /// is false.
    ///
    /// # Errors
    ///
    /// [`Locked`](BackendError::Locked) if the directory is already open,
    /// [`Occupied`](BackendError::Occupied) if it holds another engine's data,
    /// [`Missing`](BackendError::Missing) if it is missing and [`create`](FjallOptions::create) is false, or
    /// an error of the engine or the file system.
    pub fn open(path: impl AsRef<Path>, options: FjallOptions) -> Result<Self> {
        let directory = Directory::open(path.as_ref(), options.create)?;
        let fails = failed("open", directory.path());
        let data = directory.data(ENGINE, |path| {
            make(path, &options, |_, _| Ok(())).map_err(failed("create", directory.path()))
        })?;
        let (database, keyspaces) = catch_unwind(|| open_engine(&data, &options))
            .map_err(|panic| damaged(&directory, &*panic))?
            .map_err(fails)?;
        let spaces = keyspaces.map(|keyspace| Space {
            unsealed: AtomicU64::new(keyspace.tree.active_memtable().size()),
            keyspace,
        });
        Ok(Self {
            spaces,
            database,
            commits: RwLock::default(),
            options,
            claims: Claims::new(),
            failure: OnceLock::new(),
            directory,
        })
    }

    /// Returns the memory that the engine takes besides its block cache, in bytes: memtables, and the Bloom
    /// filters and block indexes of tables that the engine keeps in memory. A memtable that is being flushed
    /// counts as full, because the engine doesn't tell its size.
    pub fn engine_memory_bytes(&self) -> u64 {
        let of_tree = |space: &Space| {
            let tree = &space.keyspace.tree;
            let sealed = tree.sealed_memtable_count() as u64 * self.options.memtable_bytes;
            let pinned = tree.pinned_filter_size() + tree.pinned_block_index_size();
            tree.active_memtable().size() + sealed + pinned as u64
        };
        self.spaces.iter().map(of_tree).sum()
    }

    fn space(&self, space: Keyspace) -> &Space {
        &self.spaces[space as usize]
    }

    fn failed(&self, operation: &'static str) -> impl Fn(::fjall::Error) -> BackendError + '_ {
        failed(operation, self.directory.path())
    }

    /// Returns a function that converts the engine's write errors. A halted engine doesn't say why it halted,
    /// so the function records the first failure.
    fn failed_write(&self, operation: &'static str) -> impl Fn(::fjall::Error) -> BackendError {
        move |error| {
            let mut error = self.failed(operation)(error);
            match &mut error {
                BackendError::Engine { source, .. } => {
                    self.failure.get_or_init(|| source.to_string());
                }
                BackendError::Halted { source, .. } => *source = self.reason().map(Into::into),
                _ => {}
            }
            error
        }
    }

    /// Returns why the engine has halted, if known. The engine's workers don't report their errors. So if no
    /// error was recorded, this writes as much data as a worker does, and returns the error if that fails,
    /// too.
    fn reason(&self) -> Option<&str> {
        if self.failure.get().is_none()
            && let Err(error) = self.try_to_write()
        {
            self.failure.get_or_init(|| error.to_string());
        }
        self.failure.get().map(String::as_str)
    }

    /// Writes zeros to a temporary file, as many bytes as a memtable has.
    fn try_to_write(&self) -> io::Result<()> {
        const CHUNK: usize = 1 << 14;
        let path = self.directory.path().join(".probe");
        let mut file = File::create(&path)?;
        let early = fs::remove_file(&path);
        let chunks = self.options.memtable_bytes / CHUNK as u64 + 1;
        let written = (0..chunks).try_for_each(|_| file.write_all(&[0; CHUNK]));
        let written = written.and_then(|()| file.sync_all());
        drop(file);
        if early.is_err() {
            // Some systems can't remove a file while it is open.
            let _ = fs::remove_file(&path);
        }
        written
    }

    fn commit(&self, batch: &Batch, durability: Durability) -> ::fjall::Result<()> {
        let _shared = self.commits.read().unwrap_or_else(PoisonError::into_inner);
        let mut changes = batch.iter();
        match (changes.next(), changes.len(), durability) {
            (None, ..) => Ok(()),
            // A single change is atomic by itself, and cheaper without a batch.
            (
                Some(Change { space, key, value }),
                0,
                Durability::Eventual | Durability::Buffered,
            ) => {
                let Space { keyspace, .. } = self.space(space);
                match value {
                    Some(value) => keyspace.insert(Slice::from(&*encode(key)), value),
                    None => keyspace.remove(Slice::from(&*encode(key))),
                }
            }
            _ => {
                let mut writes = self.database.batch().durability(Some(match durability {
                    Durability::Eventual | Durability::Buffered => PersistMode::Buffer,
                    Durability::Synced => PersistMode::SyncData,
                }));
                for Change { space, key, value } in batch.iter() {
                    let Space { keyspace, .. } = self.space(space);
                    match value {
                        Some(value) => writes.insert(keyspace, Slice::from(&*encode(key)), value),
                        None => writes.remove(keyspace, Slice::from(&*encode(key))),
                    }
                }
                writes.commit()
            }
        }
    }

    /// Seals the memtables that the batch has filled.
    fn seal_full(&self, batch: &Batch) -> ::fjall::Result<()> {
        let mut sizes = [0; Keyspace::ALL.len()];
        for Change { space, key, value } in batch.iter() {
            sizes[space as usize] += (key.len() + value.map_or(0, <[u8]>::len) + PAIR_BYTES) as u64;
        }
        for (space, size) in self.spaces.iter().zip(sizes).filter(|&(_, size)| size > 0) {
            let limit = self.options.memtable_bytes;
            let unsealed = space.unsealed.fetch_add(size, Ordering::Relaxed) + size;
            // If several threads see the memtable full, only the first one resets the count.
            if unsealed >= limit && space.unsealed.swap(0, Ordering::Relaxed) >= limit {
                self.make_room(space)?;
                space.keyspace.rotate_memtable()?;
            }
        }
        Ok(())
    }

    /// Waits until the workers have caught up, so that the engine never stops a writer.
    fn make_room(&self, space: &Space) -> ::fjall::Result<()> {
        let tree = &space.keyspace.tree;
        // A compaction starts only after a flush, so an unlimited wait for compactions could last forever.
        let patience = Instant::now() + Duration::from_secs(1);
        loop {
            self.check_workers()?;
            let many_runs = tree.l0_run_count() >= MAX_RUNS && Instant::now() < patience;
            if tree.sealed_memtable_count() < MAX_SEALED && !many_runs {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns an error if a worker has failed.
    fn check_workers(&self) -> ::fjall::Result<()> {
        self.database.persist(PersistMode::Buffer)
    }

    fn flush_all(&self) -> ::fjall::Result<()> {
        for space in &self.spaces {
            space.unsealed.store(0, Ordering::Relaxed);
            space.keyspace.rotate_memtable()?;
        }
        for space in &self.spaces {
            while space.keyspace.tree.sealed_memtable_count() > 0 {
                self.check_workers()?;
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.database.persist(PersistMode::SyncAll)
    }
}

/// The approximate memory that the engine needs per pair in addition to key and value, in bytes.
const PAIR_BYTES: usize = 64;

/// Limits for sealed memtables and runs. The engine stops writers at 4 sealed memtables, and slows them down
/// at 20 runs. It may also seal a memtable by itself, to drop a journal.
const MAX_SEALED: usize = 2;
const MAX_RUNS: usize = 18;

impl Backend for FjallBackend {
    fn claim(&self) -> Result<BackendClaim> {
        self.claims.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        if key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        let value =
            self.space(space).keyspace.get(encode(key)).map_err(self.failed("read from"))?;
        Ok(value.map(Bytes::from))
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        let bounds = shortened(bounds);
        if is_empty(bounds) {
            return Box::new(std::iter::empty());
        }
        Box::new(pairs(&self.database.snapshot(), &self.space(space).keyspace, bounds).map(
            |pair| {
                let (key, value) = pair.map_err(self.failed("scan"))?;
                Ok((decode(key).into(), value.into()))
            },
        ))
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        batch.check()?;
        if batch.is_empty() && durability == Durability::Synced {
            return self.sync();
        }
        self.commit(batch, durability)
            .and_then(|()| self.seal_full(batch))
            .map_err(self.failed_write("write to"))
    }

    fn sync(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(self.failed_write("sync"))
    }

    fn flush(&self) -> Result<()> {
        self.flush_all().map_err(self.failed_write("flush"))
    }

    fn compact(&self) -> Result<()> {
        self.flush()?;
        self.spaces
            .iter()
            .try_for_each(|space| space.keyspace.major_compact())
            .map_err(self.failed_write("compact"))
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.directory.bytes()
    }

    fn backup(&self, to: &Path) -> Result<()> {
        let snapshot = {
            let _alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
            self.database.snapshot()
        };
        Directory::open_new(to)?
            .data(ENGINE, |path| {
                make(path, &self.options, |from, into| {
                    let mut ingestion = into.start_ingestion()?;
                    let from = &self.space(from).keyspace;
                    for pair in pairs(&snapshot, from, (Unbounded, Unbounded)) {
                        let (key, value) = pair?;
                        ingestion.write(key, value)?;
                    }
                    ingestion.finish()
                })
                .map_err(self.failed("back up"))?;
                if self.is_copy(&snapshot, path).map_err(self.failed("open the backup of"))? {
                    Ok(())
                } else {
                    Err(BackendError::BadCopy { path: path.to_owned() })
                }
            })
            .map(drop)
    }
}

impl FjallBackend {
    /// Returns whether the database at a path holds the same pairs as a snapshot.
    fn is_copy(&self, snapshot: &Snapshot, path: &Path) -> ::fjall::Result<bool> {
        let (database, keyspaces) = open_engine(path, &self.options)?;
        let copy = database.snapshot();
        for (&space, keyspace) in Keyspace::ALL.iter().zip(&keyspaces) {
            let original = pairs(snapshot, &self.space(space).keyspace, (Unbounded, Unbounded));
            if !same(original, pairs(&copy, keyspace, (Unbounded, Unbounded)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl fmt::Debug for FjallBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallBackend")
            .field("directory", &self.directory)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn pairs(
    snapshot: &Snapshot,
    keyspace: &::fjall::Keyspace,
    (start, end): Bounds<'_>,
) -> impl DoubleEndedIterator<Item = ::fjall::Result<(Slice, Slice)>> + use<> {
    let pairs = snapshot.range(keyspace, (start.map(encode), end.map(encode)));
    pairs.map(::fjall::Guard::into_inner)
}

/// Creates a database with empty keyspaces at `path`, calls `fill` for each keyspace, and closes the
/// database.
fn make(
    path: &Path,
    options: &FjallOptions,
    fill: impl Fn(Keyspace, &::fjall::Keyspace) -> ::fjall::Result<()>,
) -> ::fjall::Result<()> {
    let (database, keyspaces) = open_engine(path, options)?;
    for (space, keyspace) in Keyspace::ALL.iter().zip(&keyspaces) {
        fill(*space, keyspace)?;
    }
    database.persist(PersistMode::SyncAll)
}

type Engine = (Database, [::fjall::Keyspace; Keyspace::ALL.len()]);

fn open_engine(path: &Path, options: &FjallOptions) -> ::fjall::Result<Engine> {
    let database = Database::builder(path)
        .cache_size(options.cache_bytes)
        .max_journaling_size(options.journal_bytes.max(64 << 20))
        .worker_threads(options.workers.max(2))
        .open()?;
    let filters = if options.bloom_filters {
        FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)))
    } else {
        FilterPolicy::disabled()
    };
    let mut keyspaces = Vec::with_capacity(Keyspace::ALL.len());
    for space in Keyspace::ALL {
        keyspaces.push(database.keyspace(space.name(), || {
            KeyspaceCreateOptions::default()
                .filter_policy(filters.clone())
                .max_memtable_size(u64::MAX)
        })?);
    }
    let Ok(keyspaces) = keyspaces.try_into() else { unreachable!("one per keyspace") };
    Ok((database, keyspaces))
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(::fjall::Error) -> BackendError {
    move |error| {
        let path = path.to_owned();
        match error {
            ::fjall::Error::Poisoned => BackendError::Halted { path, source: None },
            ::fjall::Error::Locked => BackendError::Locked { path },
            error => BackendError::Engine { operation, path, source: cause(error) },
        }
    }
}

/// Returns a readable message for an error of the engine. fjall's own messages are meant for debugging.
fn cause(error: ::fjall::Error) -> Box<dyn Error + Send + Sync> {
    match error {
        ::fjall::Error::Io(error) | ::fjall::Error::Storage(LsmError::Io(error)) => error.into(),
        ::fjall::Error::InvalidVersion(_)
        | ::fjall::Error::Storage(LsmError::InvalidVersion(_)) => {
            "its files are from a different version of the engine, or damaged".into()
        }
        error => format!("its files are damaged: {error:?}").into(),
    }
}

/// Turns a panic of the engine into an error, because fjall panics when it reads some damaged files.
fn damaged(directory: &Directory, panic: &(dyn Any + Send)) -> BackendError {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    let source = format!("its files are damaged: {}", message.unwrap_or("the engine panicked"));
    let path = directory.path().to_owned();
    BackendError::Engine { operation: "open", path, source: source.into() }
}

/// Encodes a key for fjall, which refuses empty keys. Each key that consists only of zeros, including the
/// empty key, gets one more zero. This keeps the order, because these keys sort before all others.
fn encode(key: &[u8]) -> Cow<'_, [u8]> {
    if key.iter().all(|&byte| byte == 0) {
        Cow::Owned(vec![0; key.len() + 1])
    } else {
        Cow::Borrowed(key)
    }
}

fn decode(key: Slice) -> Slice {
    if key.iter().all(|&byte| byte == 0) { Slice::from(&key[1..]) } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> FjallOptions {
        FjallOptions { memtable_bytes: 64 << 10, workers: 2, ..FjallOptions::default() }
    }

    fn batch(number: u64) -> Batch {
        let mut batch = Batch::new();
        for space in Keyspace::ALL {
            batch.insert(space, number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [7; 100]);
        }
        batch
    }

    /// If fjall sealed its memtables itself, they would grow far beyond the limit, or the workers would
    /// stall.
    #[test]
    fn memtables_are_flushed_under_load() {
        let directory = tempfile::tempdir().unwrap();
        let backend = FjallBackend::open(directory.path(), small()).unwrap();
        thread::scope(|threads| {
            for thread in 0..2 {
                let backend = &backend;
                threads.spawn(move || {
                    for number in 0..30_000 {
                        let batch = batch(number * 2 + thread);
                        backend.write(&batch, Durability::Buffered).unwrap();
                    }
                });
            }
        });
        for Space { keyspace, .. } in &backend.spaces {
            let size = keyspace.tree.active_memtable().size();
            assert!(size < 2 * backend.options.memtable_bytes, "a memtable has {size} bytes");
            assert!(keyspace.sealed_memtable_count() < 4);
        }
        backend.flush().unwrap();
        let pairs = backend.range(Keyspace::Members, (Unbounded, Unbounded));
        assert_eq!(pairs.count(), 60_000);
    }

    #[test]
    fn writers_do_not_wait_for_failed_workers() {
        let directory = tempfile::tempdir().unwrap();
        let backend = FjallBackend::open(directory.path(), small()).unwrap();
        fs::remove_dir_all(directory.path().join("fjall/keyspaces")).unwrap();
        let error = (0..)
            .find_map(|number| backend.write(&batch(number), Durability::Buffered).err())
            .unwrap();
        assert!(error.needs_reopen(), "{error:?}");
        assert!(backend.flush().unwrap_err().needs_reopen());
    }

    /// A worker that fails doesn't report its error.
    #[test]
    fn halted_engine_reports_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let backend = FjallBackend::open(&path, small()).unwrap();
        fs::remove_dir_all(&path).unwrap();
        let mut errors =
            (0..).filter_map(|number| backend.write(&batch(number), Durability::Buffered).err());
        for error in errors.by_ref().take(2) {
            assert!(error.needs_reopen(), "{error:?}");
            let reason = error.source().expect("a reason").to_string();
            assert!(reason.contains("os error"), "{reason}");
        }
    }

    /// An error says which operation failed and where, and its source says why.
    #[test]
    fn errors_name_operation_path_and_reason() {
        let reason_after = |damage: fn(&Path)| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("data");
            drop(FjallBackend::open(&path, small()).unwrap());
            damage(&path.join(ENGINE));
            let error = FjallBackend::open(&path, small()).unwrap_err();
            assert_eq!(error.to_string(), format!("the engine could not open {}", path.display()));
            let cause = error.source().unwrap();
            assert!(cause.source().is_none(), "the reason is given once");
            cause.to_string()
        };
        let unreadable = reason_after(|data| {
            fs::remove_file(data.join("version")).unwrap();
            fs::create_dir(data.join("version")).unwrap();
        });
        assert!(unreadable.contains("os error"), "{unreadable}");
        let other = reason_after(|data| fs::write(data.join("version"), "FJLx").unwrap());
        assert!(other.starts_with("its files are from a different version"), "{other}");
        let damaged = reason_after(|data| fs::write(data.join("x.jnl"), "").unwrap());
        assert!(damaged.starts_with("its files are damaged: "), "{damaged}");
    }

    #[test]
    fn encoded_keys_keep_their_order_and_are_never_empty() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for _ in 0..4 {
            let longer =
                keys.iter().flat_map(|key| [0, 1, 255].map(|byte| [key, &[byte][..]].concat()));
            keys = keys.iter().cloned().chain(longer).collect();
        }
        keys.sort();
        keys.dedup();
        let encoded: Vec<_> = keys.iter().map(|key| encode(key)).collect();
        assert!(encoded.is_sorted_by(|a, b| a < b) && encoded.iter().all(|key| !key.is_empty()));
        for (key, encoded) in keys.iter().zip(encoded) {
            assert_eq!(*decode(Slice::from(&*encoded)), **key);
        }
    }
}
