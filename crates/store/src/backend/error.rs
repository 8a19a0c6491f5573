//! Errors of backends.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// The reason why an operation of a backend failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The directory is open in this process or another.
    #[error("{} is already open, in this process or another; close it there first", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Another store uses the backend.
    #[error("another store uses this backend; close that store first")]
    Claimed,
    /// The directory holds another engine's data, or other files.
    #[error(
        "{} already exists; choose a new or an empty directory, or open it with the engine that \
         created it", path.display()
    )]
    Occupied {
        /// The path of the data or file that was found.
        path: PathBuf,
    },
    /// There is no data to open, and the options say not to create any.
    #[error("{} holds no engine's data", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The engine refuses writes after an earlier failure, perhaps of a background thread.
    #[error(
        "the engine refuses writes after an earlier failure; close {} and open it again",
        path.display()
    )]
    Halted {
        /// The directory.
        path: PathBuf,
        /// The earlier failure, if known. It is the error of the first failed write, or of a test write.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// A backup differs from its original. The bad copy keeps its temporary name, so that it can't be opened.
    #[error("the copy in {} differs from the original; is the disk failing?", path.display())]
    BadCopy {
        /// The copy.
        path: PathBuf,
    },
    /// The key is too long.
    #[error("a key of {bytes} bytes is too long, the limit is {MAX_KEY_BYTES}")]
    KeyTooLong {
        /// The length.
        bytes: usize,
    },
    /// The value is too long.
    #[error("a value of {bytes} bytes is too long, the limit is {MAX_VALUE_BYTES}")]
    ValueTooLong {
        /// The length.
        bytes: usize,
    },
    /// The backend doesn't support the operation.
    #[error("this backend can't {operation}")]
    Unsupported {
        /// The operation.
        operation: &'static str,
    },
    /// The operating system returned an error.
    #[error("could not {operation} {}", path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The engine failed.
    #[error("the engine could not {operation} {}", path.display())]
    Engine {
        /// The operation.
        operation: &'static str,
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl BackendError {
    /// Returns whether the backend must be opened again before it takes writes. The error of the first failed
    /// write may return `false`, but the errors of later writes return `true`.
    pub fn needs_reopen(&self) -> bool {
        matches!(self, Self::Halted { .. })
    }
}
