//! Backends: ordered maps with atomic, durable writes.
//!
//! | backend | structure | good for |
//! | --- | --- | --- |
//! | [`MemoryBackend`] | `BTreeMap` | tests, and data that may be lost |
//! | `FjallBackend` (default feature `fjall`) | LSM tree | many inserts |
//! | `RedbBackend` (feature `redb`) | B-tree | many scans, few large writes |
//!
//! ```
//! use twiceshy_store::{Backend, Batch, Durability, Keyspace, MemoryBackend};
//! use std::ops::Bound::Unbounded;
//!
//! let backend = MemoryBackend::new();
//! let mut batch = Batch::new();
//! batch.insert(Keyspace::Members, b"bee", b"1");
//! batch.insert(Keyspace::Members, b"beetle", b"2");
//! batch.remove(Keyspace::Mistakes, b"bee");
//! backend.write(&batch, Durability::Synced)?;
//!
//! assert_eq!(backend.get(Keyspace::Members, b"bee")?.as_deref(), Some(&b"1"[..]));
//! let last = backend.range(Keyspace::Members, (Unbounded, Unbounded)).next_back();
//! assert_eq!(&*last.unwrap()?.0, b"beetle");
//! assert_eq!(backend.prefix(Keyspace::Members, b"beet").count(), 1);
//! # Ok::<(), twiceshy_store::BackendError>(())
//! ```

mod batch;
mod bounds;
mod bytes;
mod claim;
#[cfg(any(feature = "fjall", feature = "redb"))]
mod copy;
#[cfg(any(feature = "fjall", feature = "redb"))]
mod directory;
mod error;
mod files;
#[cfg(feature = "fjall")]
mod fjall;
mod memory;
mod observed;
#[cfg(feature = "redb")]
mod redb;

use std::path::Path;
use std::sync::Arc;

pub use batch::{Batch, Change};
pub use bounds::Bounds;
pub use bytes::Bytes;
pub use claim::{BackendClaim, Claims};
pub use error::BackendError;
pub use memory::MemoryBackend;
pub use observed::Observed;
pub(crate) use std::ops::Bound::{Excluded, Included, Unbounded};

#[cfg(feature = "fjall")]
pub(crate) use self::directory::{has_data, is_unfinished};
pub(crate) use self::files::create_directory;
#[cfg(feature = "fjall")]
pub(crate) use self::files::io_error;
#[cfg(feature = "fjall")]
pub use self::fjall::{FjallBackend, FjallOptions};
#[cfg(feature = "redb")]
pub use self::redb::{RedbBackend, RedbOptions};

/// The longest key that every backend takes, in bytes. A key may be empty.
pub const MAX_KEY_BYTES: usize = (1 << 16) - 2;

/// The longest value that every backend takes, in bytes. A value may be empty.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// The result of an operation on a backend.
pub type Result<T, E = BackendError> = std::result::Result<T, E>;

/// An iterator over the pairs of a range, in order, from either end.
pub type Scan<'a> = Box<dyn DoubleEndedIterator<Item = Result<(Bytes, Bytes)>> + Send + 'a>;

/// An ordered map of bytes to bytes per [`Keyspace`], with atomic writes over all of them.
///
/// Keys are in lexicographic order. All operations may be called from many threads at once.
///
/// # Guarantees
///
/// - A batch is written whole or not at all, also after a crash. Within a batch, the last change of a key
///   wins.
/// - When [`write`](Self::write) has returned `Ok`, every later read sees the batch, and it is as durable
///   as the caller asked. So are all batches before it.
/// - A batch with a key or a value that is too long is refused and changes nothing.
/// - When a write has failed for another reason, the whole batch is there or none of it, and only
///   reopening shows which. The batch may be on the disk already, for example in fjall's journal, and not
///   show before that is read again.
/// - Two gets are independent: another thread's batch may come between them, or may be half visible while
///   it is written.
/// - A [`range`](Self::range) returns each pair that is there from its first to its last step exactly
///   once, in order. Pairs that are added, changed or removed in the meantime are returned in the old or
///   the new state, or not at all. redb's scans show one moment between batches. fjall's scans show one
///   moment, at which a batch may be half written.
///
/// # Errors
///
/// All operations return a [`BackendError`] that names the operation and the path. After an error that
/// [needs a reopen](BackendError::needs_reopen), writes fail until the backend is opened again.
pub trait Backend: Send + Sync + 'static {
    /// Claims the backend for one store. Two stores on one backend would not know of each other's writes.
    /// So a store claims its backend when it is opened, and releases it when it is closed or dropped.
    ///
    /// A backend has a [`Claims`] for this. A backend that wraps another passes the call on.
    ///
    /// # Errors
    ///
    /// [`Claimed`](BackendError::Claimed) if another store has claimed the backend.
    fn claim(&self) -> Result<BackendClaim>;

    /// Returns the value of a key.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>>;

    /// Returns the pairs whose keys are within bounds, and none if the bounds are in the wrong order.
    ///
    /// The engine keeps memory for the scan until it is dropped, so don't keep a scan for long.
    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_>;

    /// Returns the pairs whose keys begin with these bytes.
    fn prefix(&self, space: Keyspace, prefix: &[u8]) -> Scan<'_> {
        let end = bounds::after_prefix(prefix);
        self.range(space, (Included(prefix), end.as_ref().map(Vec::as_slice)))
    }

    /// Writes all changes of a batch at once.
    ///
    /// An empty batch changes nothing, but with [`Synced`](Durability::Synced) it syncs all earlier
    /// writes.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn write(&self, batch: &Batch, durability: Durability) -> Result<()>;

    /// Makes all earlier writes survive a power cut.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn sync(&self) -> Result<()>;

    /// Moves data from memory and journals to tables, and syncs it, so that the next open is fast, and reads
    /// cost what they cost in a larger store.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn flush(&self) -> Result<()>;

    /// Rewrites the files to make them smaller and reads faster. This may take as long as copying them.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn compact(&self) -> Result<()>;

    /// Returns the bytes that the files take on the disk.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn bytes_on_disk(&self) -> Result<u64>;

    /// Copies the pairs of all keyspaces, as they are at one moment between batches, into a new or empty
    /// directory that can then be opened like this one. Reads and writes go on in the meantime.
    ///
    /// The copy is opened and compared pair by pair before it appears. It appears whole and synced, or not
    /// at all.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn backup(&self, to: &Path) -> Result<()>;
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn claim(&self) -> Result<BackendClaim> {
        (**self).claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        (**self).get(space, key)
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        (**self).range(space, bounds)
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        (**self).write(batch, durability)
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }

    fn flush(&self) -> Result<()> {
        (**self).flush()
    }

    fn compact(&self) -> Result<()> {
        (**self).compact()
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        (**self).bytes_on_disk()
    }

    fn backup(&self, to: &Path) -> Result<()> {
        (**self).backup(to)
    }
}

/// One of the maps of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keyspace {
    /// The members in hash order: the reverse map. In the merged layout, also the values. In a list store,
    /// the yes list.
    Members,
    /// In the split layout, the members in key order, with their values.
    Keys,
    /// The mistakes in hash order. In a list store, the no list.
    Mistakes,
    /// The store's own records.
    Meta,
}

impl Keyspace {
    /// All keyspaces.
    pub const ALL: [Self; 4] = [Self::Members, Self::Keys, Self::Mistakes, Self::Meta];

    /// Returns the name on the disk, which must never change.
    #[cfg_attr(not(any(feature = "fjall", feature = "redb")), expect(dead_code))]
    const fn name(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Keys => "keys",
            Self::Mistakes => "mistakes",
            Self::Meta => "meta",
        }
    }
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// A kill of the process: the operating system has the data.
    #[default]
    Buffered,
    /// A power cut: the disk has the data.
    Synced,
}
