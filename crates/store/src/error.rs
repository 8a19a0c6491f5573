//! Errors of stores.

use crate::backend::BackendError;
use crate::kind::{Layout, List, MAX_USER_KEY_BYTES};
use std::path::PathBuf;
use twiceshy::{
    concurrent::RebuildError,
    error::{AdaptError, BuildError, EntropyError, InsertError},
    snapshot::SnapshotError,
};

/// The reason why an operation of a store failed.
///
/// No error loses a write that was acknowledged before. After a [`Backend`](Self::Backend) error of a write,
/// the store holds the whole batch or none of it, and only reopening the store shows which (see
/// [`Backend`](crate::Backend)). After any other error, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The backend failed.
    #[error(transparent)]
    Backend(BackendError),
    /// There is no store, and the options say not to [create](crate::OpenOptions::create) one.
    #[error("there is no store")]
    Missing,
    /// A new store can't be created in a directory that holds other files.
    #[error("{} is not empty and holds no store; choose a new or an empty directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Some shards of the filter are not built yet.
    #[error(
        "the filter is incomplete; wait until the store is ready, and if that fails, rebuild the \
         filter or open the store again"
    )]
    Unready,
    /// The store was closed and all data is safe, but the filter could not be saved. The next open
    /// rebuilds it.
    #[error("all data is safe, but the filter can't be saved; the next open rebuilds it")]
    FilterNotSaved {
        /// Why the filter could not be saved.
        source: Box<StoreError>,
    },
    /// The key is too long.
    #[error("a key of {bytes} bytes is too long, the limit is {MAX_USER_KEY_BYTES}")]
    KeyTooLong {
        /// The key's length.
        bytes: usize,
    },
    /// The number of a range store's key has more bits than the key's type allows.
    #[error("a key's number has more than the {bits} bits that its type allows")]
    Number {
        /// The number of bits that the type allows.
        bits: u32,
    },
    /// The filter is full and can't grow.
    #[error("the filter takes no more members")]
    Filter(#[from] InsertError),
    /// A filter can't be built with these options, or from these members.
    #[error("the filter can't be built")]
    Build(#[from] BuildError),
    /// A shard of the filter can't be rebuilt from these members.
    #[error("a shard of the filter can't be rebuilt")]
    Rebuild(#[source] RebuildError),
    /// The filter of a range store has no room, and its last rebuild has failed. A later write tries again:
    /// after 100 ms, and after more failures up to a minute.
    #[error("the filter has no room, and its rebuild has failed a short while ago: {reason}")]
    RebuildFailed {
        /// Why the rebuild has failed.
        reason: String,
    },
    /// A snapshot of the filter can't be written.
    #[error("the filter can't be saved")]
    Snapshot(#[from] SnapshotError),
    /// The operating system has no entropy for a secret.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The backend holds something that this version can't read as a store.
    #[error("this is not a store: {0}")]
    Format(String),
    /// The store was created with a different layout.
    #[error("the store's layout is {found:?}, not {wanted:?}")]
    Layout {
        /// The store's layout.
        found: Layout,
        /// The layout in the options.
        wanted: Layout,
    },
    /// This is a store of a different kind.
    #[error("this is {0}")]
    Kind(String),
    /// The store was created with a different secret.
    #[error("this store was created with a different secret")]
    Secret,
    /// The key is on the other list.
    #[error("{} is on the {list} list; remove it there first", key.escape_ascii())]
    OnOtherList {
        /// The list that the key is on.
        list: List,
        /// The key.
        key: Vec<u8>,
    },
    /// The filter and the data don't agree, or one of them is damaged.
    #[error("the store is damaged: {0}")]
    Invalid(String),
    /// A repair was refused.
    #[error("a mistake can't be repaired")]
    Repair(#[from] AdaptError),
    /// No thread can be started to rebuild the filter.
    #[error("no thread can be started")]
    Thread(#[source] std::io::Error),
    /// The operation needs the split layout, which keeps keys in order.
    #[error("only a store with the split layout keeps its keys in order")]
    Unordered,
}

impl From<RebuildError> for StoreError {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::Build(error) => Self::Build(error),
            error => Self::Rebuild(error),
        }
    }
}

impl From<BackendError> for StoreError {
    /// Turns [`BackendError::Missing`] into [`StoreError::Missing`], and wraps any other error.
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Missing { .. } => Self::Missing,
            error => Self::Backend(error),
        }
    }
}

/// The result of an operation of a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
