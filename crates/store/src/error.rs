//! What can go wrong.

use crate::backend::{BackendError, MAX_KEY_BYTES};
use crate::layout::{self, Layout};
use crate::lists::List;
use std::path::PathBuf;
use twiceshy::{AdaptError, BuildError, EntropyError, InsertError, SnapshotError};

/// Why an operation of a store failed.
///
/// No error loses what was acknowledged before. After a [`Backend`](Self::Backend) error, the batch
/// of a failed write is there as a whole or not at all, and only reopening the store tells (see
/// [`Backend`](crate::Backend)). After any other error, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The backend failed.
    #[error(transparent)]
    Backend(BackendError),
    /// There is no store, and none was to be [created](crate::Options::create).
    #[error("there is no store")]
    Missing,
    /// A new store was to be created in a directory that holds something else.
    #[error("{} is not empty and holds no store; choose a new or an empty directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Not all shards of the filter are built.
    #[error(
        "the filter is incomplete; wait until the store is ready, and if that fails, scrub the \
         store or open it again"
    )]
    Unready,
    /// The store was closed and all its data is safe, but the filter could not be saved. The next
    /// open builds it again.
    #[error("all data is safe, but the filter can't be saved; the next open builds it again")]
    FilterNotSaved {
        /// Why it could not be saved.
        source: Box<StoreError>,
    },
    /// The key can't be stored.
    #[error("a key of {bytes} bytes is too long, the limit is {}", longest_key())]
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A key of a store of ranges isn't as short as its type says.
    #[error("a key's number has more than {bits} bits, which is what its type says")]
    Number {
        /// What it says.
        bits: u32,
    },
    /// There is no room in the filter, and it can't grow.
    #[error("the filter takes no more members")]
    Filter(#[from] InsertError),
    /// The filter can't be made as it was asked for, or not from these members.
    #[error("the filter can't be built")]
    Build(#[from] BuildError),
    /// A snapshot of the filter can't be written.
    #[error("the filter can't be saved")]
    Snapshot(#[from] SnapshotError),
    /// The operating system has no entropy for a secret.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// What is there is no store that this version understands.
    #[error("this is no store: {0}")]
    Format(String),
    /// The store has another layout than was asked for.
    #[error("the store's layout is {found:?}, not {wanted:?}")]
    Layout {
        /// The store's.
        found: Layout,
        /// What was asked for.
        wanted: Layout,
    },
    /// The store is of another kind than was asked for.
    #[error("the store is of another kind: it {0}")]
    Kind(String),
    /// The store has another secret than was asked for.
    #[error("the store's secret is another one")]
    Secret,
    /// A key is on the other list.
    #[error("{} is on the {list} list; remove it there first", key.escape_ascii())]
    OnOtherList {
        /// Which it is on.
        list: List,
        /// The key.
        key: Vec<u8>,
    },
    /// A list isn't as it should be.
    #[error("the lists are damaged: {0}")]
    Wrong(String),
    /// A repair was refused.
    #[error("a mistake can't be repaired")]
    Repair(#[from] AdaptError),
    /// There is no thread to build the filter again.
    #[error("no thread can be started")]
    Thread(#[source] std::io::Error),
    /// The operation needs the layout that keeps the order of the keys.
    #[error("only a store of the split layout keeps its keys in order")]
    Unordered,
}

impl From<BackendError> for StoreError {
    /// Where an engine has nothing, there is no store.
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Missing { .. } => Self::Missing,
            error => Self::Backend(error),
        }
    }
}

fn longest_key() -> usize {
    MAX_KEY_BYTES - layout::member_key_len(&[])
}

/// The result of an operation of a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
