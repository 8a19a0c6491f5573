//! What can go wrong with a backend.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// An operation of a backend failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Another process, or this one, has the directory open.
    #[error("{} is open already, in this process or another; close it there first", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A store has claimed the backend.
    #[error("a store is open over this backend already; close that store first")]
    Claimed,
    /// The directory holds the data of another engine, or something else.
    #[error(
        "{} is there already; choose a directory that is new or empty, or open it with the engine \
         that it was made by", path.display()
    )]
    Occupied {
        /// What was found.
        path: PathBuf,
    },
    /// There is nothing to open, and nothing was to be made.
    #[error("{} has no data of an engine in it", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// An earlier failure, perhaps of a thread in the background, left the engine unsure of its
    /// files, so it takes no writes any more.
    #[error(
        "the engine takes no writes since an earlier failure; close {} and open it again",
        path.display()
    )]
    Halted {
        /// The directory.
        path: PathBuf,
        /// What failed, if it is known: the first write that failed, or a write that was tried to
        /// find out.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// A backup was made, but reads otherwise than what was written to it. It was left where it
    /// can't be taken for one.
    #[error("the copy in {} isn't what was copied; is the disk failing?", path.display())]
    BadCopy {
        /// The copy.
        path: PathBuf,
    },
    /// The key can't be stored.
    #[error("a key of {bytes} bytes is too long, the limit is {MAX_KEY_BYTES}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The value can't be stored.
    #[error("a value of {bytes} bytes is too long, the limit is {MAX_VALUE_BYTES}")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
    },
    /// This backend can't do it at all.
    #[error("this backend can't {operation}")]
    Unsupported {
        /// What it can't.
        operation: &'static str,
    },
    /// The operating system refused.
    #[error("could not {operation} {}", path.display())]
    Io {
        /// What was to be done.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it wasn't.
        source: io::Error,
    },
    /// The engine failed.
    #[error("the engine could not {operation} {}", path.display())]
    Engine {
        /// What was to be done.
        operation: &'static str,
        /// In which directory.
        path: PathBuf,
        /// Why it wasn't.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl BackendError {
    /// Whether the backend has to be opened again before it takes writes. The first failure may
    /// not say so yet; if the engine can't go on, each write after it does.
    pub fn needs_reopen(&self) -> bool {
        matches!(self, Self::Halted { .. })
    }
}
