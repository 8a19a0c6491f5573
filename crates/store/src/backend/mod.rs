//! Ordered maps with atomic writes over a few keyspaces, durable to the level asked for.
//!
//! | backend | is | suits |
//! | --- | --- | --- |
//! | [`MemoryBackend`] | a `BTreeMap` | tests; data that may be lost |
//! | `FjallBackend`, feature `fjall`, the default | an LSM tree | many inserts |
//! | `RedbBackend`, feature `redb` | a B-tree | many scans, few large writes |
//!
//! ```
//! use twiceshy_store::{Backend, Batch, Durability, Keyspace, MemoryBackend};
//! use twiceshy_store::backend::Unbounded;
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
pub use std::ops::Bound::{self, Excluded, Included, Unbounded};

#[cfg(feature = "fjall")]
pub(crate) use self::directory::{has_data, is_unfinished};
#[cfg(feature = "fjall")]
pub use self::fjall::{FjallBackend, FjallOptions};
#[cfg(feature = "redb")]
pub use self::redb::{RedbBackend, RedbOptions};

/// The longest key that every backend takes, in bytes. The shortest is empty.
pub const MAX_KEY_BYTES: usize = (1 << 16) - 2;

/// The longest value that every backend takes, in bytes. The shortest is empty.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// The result of an operation on a backend.
pub type Result<T, E = BackendError> = std::result::Result<T, E>;

/// The pairs of a range, in order from either end.
pub type Scan<'a> = Box<dyn DoubleEndedIterator<Item = Result<(Bytes, Bytes)>> + Send + 'a>;

/// An ordered map of bytes to bytes per [`Keyspace`], with atomic writes over all of them.
///
/// Keys are in lexicographic order. All operations may be called from many threads at once.
///
/// # What holds
///
/// - A batch is written whole or not at all, whatever the moment of a crash; within a batch
///   the last change of a key wins.
/// - When [`write`](Self::write) has returned `Ok`, every later read sees the batch, and it is
///   as durable as was asked for; so are all batches before it.
/// - A batch that is refused, because a key or a value is too long, changes nothing.
/// - When a write has failed otherwise, the batch is there or it isn't, but never a part of it,
///   and only reopening tells: an engine may have it on the disk already, fjall in its journal,
///   and not show it before that is read again.
/// - Two gets are two looks: another thread's batch may come between them, or be half visible
///   to them while it is written.
/// - A [`range`](Self::range) gives each pair that is there from its first to its last step
///   exactly once, in order. Pairs that come, change or go meanwhile are given as they were or
///   as they are, or missed if they weren't there all the time. redb does better: its scan is
///   the view of one moment between batches; and fjall's is that of one moment, in which a
///   batch may be half written.
///
/// # Errors
///
/// All operations return a [`BackendError`] that names the operation and the path; after one
/// for which [`needs_reopen`](BackendError::needs_reopen), writes will fail until the backend
/// is opened again.
pub trait Backend: Send + Sync + 'static {
    /// Claims the backend for one store. Stores over the same backend would not know of each
    /// other's writes, so a store claims its backend when it is opened, and gives it up when it is
    /// closed or dropped.
    ///
    /// A backend has a [`Claims`] for this; a backend that wraps another passes the call on.
    ///
    /// # Errors
    ///
    /// [`Claimed`](BackendError::Claimed) if a store has claimed it.
    fn claim(&self) -> Result<BackendClaim>;

    /// The value of a key.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>>;

    /// The pairs whose keys are within the bounds; none if the bounds are the wrong way round.
    ///
    /// Memory that the engine needs for the view is kept until the scan is dropped, so don't
    /// keep one for long.
    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_>;

    /// The pairs whose keys begin with these bytes.
    fn prefix(&self, space: Keyspace, prefix: &[u8]) -> Scan<'_> {
        let end = bounds::after_prefix(prefix);
        self.range(space, (Included(prefix), end.as_ref().map(Vec::as_slice)))
    }

    /// Makes all the changes of a batch at once.
    ///
    /// An empty batch changes nothing, but if it is to be [`Synced`](Durability::Synced), all
    /// that was written before is.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
    fn write(&self, batch: &Batch, durability: Durability) -> Result<()>;

    /// Makes all that was written survive a power cut.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
    fn sync(&self) -> Result<()>;

    /// Puts what is still in memory and in journals where it belongs, so that the next opening
    /// is quick, and reads go where they would go in a larger store. It is also synced.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
    fn flush(&self) -> Result<()>;

    /// Rewrites the files so that they are as small, and reads as fast, as may be. May take as
    /// long as copying them.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
    fn compact(&self) -> Result<()>;

    /// How much of the disk its files take.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
    fn bytes_on_disk(&self) -> Result<u64>;

    /// Copies the pairs of all keyspaces, as they are at one moment between batches, into a
    /// new directory, or an empty one, which can then be opened like this one. Reads and
    /// writes go on meanwhile.
    ///
    /// The copy is opened, and compared pair by pair, before it appears: whole and synced, or
    /// not at all.
    #[expect(clippy::missing_errors_doc, reason = "said above, for all")]
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
    /// The members in hash order: the reverse map, and in the merged layout the values, too. Of
    /// lists, the yes list.
    Members,
    /// In the split layout, the members in key order, with their values.
    Keys,
    /// The mistakes in hash order. Of lists, the no list.
    Mistakes,
    /// What the store knows of itself.
    Meta,
}

impl Keyspace {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Members, Self::Keys, Self::Mistakes, Self::Meta];

    /// Its name on the disk, which therefore never changes.
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
    /// That the process is killed: the operating system has it.
    #[default]
    Buffered,
    /// That the power is cut: the disk has it.
    Synced,
}
