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

/// Implements methods of [`Backend`] by calling those of a field, for backends that wrap another one.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_backend {
    (@claim $field:ident) => {
        fn claim(&self) -> $crate::backend::Result<$crate::backend::BackendClaim> {
            $crate::Backend::claim(&self.$field)
        }
    };
    (@get $field:ident) => {
        fn get(
            &self,
            space: $crate::Keyspace,
            key: &[u8],
        ) -> $crate::backend::Result<Option<$crate::Bytes>> {
            $crate::Backend::get(&self.$field, space, key)
        }
    };
    (@write $field:ident) => {
        fn write(
            &self,
            batch: &$crate::Batch,
            durability: $crate::Durability,
        ) -> $crate::backend::Result<()> {
            $crate::Backend::write(&self.$field, batch, durability)
        }
    };
    (@bytes_on_disk $field:ident) => {
        fn bytes_on_disk(&self) -> $crate::backend::Result<u64> {
            $crate::Backend::bytes_on_disk(&self.$field)
        }
    };
    (@backup $field:ident) => {
        fn backup(&self, to: &std::path::Path) -> $crate::backend::Result<()> {
            $crate::Backend::backup(&self.$field, to)
        }
    };
    (@$method:ident $field:ident) => {
        fn $method(&self) -> $crate::backend::Result<()> {
            $crate::Backend::$method(&self.$field)
        }
    };
    ($field:ident: $($method:ident)+) => {
        $($crate::forward_backend!(@$method $field);)+
    };
}

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

/// Ordered maps from bytes to bytes, one per [`Keyspace`], with atomic writes across all of them.
///
/// Keys are in lexicographic order. All operations may be called from many threads at the same time.
///
/// # Guarantees
///
/// - A batch is written completely or not at all, even if there is a crash. Within a batch, the last change
///   of a key wins.
/// - When [`write`](Self::write) has returned `Ok`, every later read sees the batch. The batch and all
///   earlier ones are as durable as the caller asked.
/// - Batches become durable in the order in which they were written, so if
///   [eventual](Durability::Eventual) batches are lost, they are the last ones.
/// - A batch with a key or a value that is too long is refused and changes nothing.
/// - When a write has failed for another reason, the backend holds the whole batch or none of it, and only
///   reopening shows which. For example, the batch may already be in fjall's journal, which is read only when
///   the backend is opened.
/// - Two gets are independent: another thread's batch may come between them, or may be half visible while
///   it is written.
/// - A [`range`](Self::range) returns each pair that exists during the whole scan exactly once, in
///   order. A pair that is added, changed or removed during the scan is returned in its old or its
///   new state, or not at all. A redb scan reads a snapshot taken between two batches. A fjall scan
///   reads a snapshot that may hold a part of a batch.
///
/// # Errors
///
/// All operations return a [`BackendError`] that names the operation and the path. After an error that
/// [needs a reopen](BackendError::needs_reopen), writes fail until the backend is opened again.
pub trait Backend: Send + Sync + 'static {
    /// Claims the backend for one store. Two stores on one backend would not notice each other's writes. So a
    /// store claims its backend when it is opened, and releases it when it is closed or dropped.
    ///
    /// Implement this with [`Claims`]. A backend that wraps another backend calls `claim` of that backend.
    ///
    /// # Errors
    ///
    /// [`Claimed`](BackendError::Claimed) if another store has claimed the backend.
    fn claim(&self) -> Result<BackendClaim>;

    /// Returns the value of a key.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>>;

    /// Returns the pairs whose keys are within bounds. If the bounds are in the wrong order, returns none.
    ///
    /// The engine keeps memory for the scan until it is dropped, so don't keep a scan for long.
    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_>;

    /// Returns the pairs whose keys begin with these bytes.
    fn prefix(&self, space: Keyspace, prefix: &[u8]) -> Scan<'_> {
        let end = bounds::after_prefix(prefix);
        self.range(space, (Included(prefix), end.as_ref().map(Vec::as_slice)))
    }

    /// Writes all changes of a batch, or none of them.
    ///
    /// An empty batch changes nothing, but makes all earlier writes as durable as the caller asks.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn write(&self, batch: &Batch, durability: Durability) -> Result<()>;

    /// Makes all earlier writes survive a power cut, also [eventual](Durability::Eventual) ones.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn sync(&self) -> Result<()>;

    /// Moves data from memory and journals to tables, and syncs it. Afterwards the next open is fast, and
    /// reads come from tables, as in a larger store.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn flush(&self) -> Result<()>;

    /// Rewrites the files to make them smaller and reads faster. This may take as long as copying them.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn compact(&self) -> Result<()>;

    /// Returns the number of bytes that the files take on disk.
    #[expect(clippy::missing_errors_doc, reason = "the trait documents them for all operations")]
    fn bytes_on_disk(&self) -> Result<u64>;

    /// Copies all keyspaces into a new or empty directory, which can then be opened like this one. The copy
    /// shows one moment between batches. Reads and writes go on in the meantime.
    ///
    /// The copy is made under a temporary name, opened, and compared pair by pair. Then it appears complete
    /// and synced, or not at all.
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
    /// The reverse map, which lists the members in hash order. In the merged layout, it also holds the
    /// values. In a list store, it is the yes list.
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

    /// Returns the keyspace's name on disk, which must never change.
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

/// The failures that an acknowledged write survives.
///
/// All levels keep batches whole and in order, and later reads see the write immediately. A write with a higher
/// level raises all earlier writes to that level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The write survives a clean close. If the process is killed, or a later write fails so that the backend
    /// [needs a reopen](BackendError::needs_reopen), the last eventual writes may be lost: those since the
    /// last write with a higher level or the last [sync](Backend::sync).
    ///
    /// Use this for data that can be computed again. No timer makes these writes durable. To limit
    /// how long they can be lost, sync now and then.
    ///
    /// On redb, this saves a disk sync per write, and at most the last 255 writes can be lost. On fjall,
    /// this is the same as [`Buffered`](Self::Buffered).
    Eventual,
    /// The write survives if the process is killed: the operating system has the data.
    #[default]
    Buffered,
    /// The write survives a power cut, because the disk has the data.
    Synced,
}
