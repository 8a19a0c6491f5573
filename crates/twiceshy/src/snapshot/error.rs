//! What can go wrong with a snapshot.

use crate::error::Invalid;
use std::io;
use std::path::{Path, PathBuf};

/// An error of writing or reading a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file doesn't begin as a snapshot does.
    #[error("this is no snapshot of a filter; look for another file")]
    NotASnapshot,
    /// The snapshot is of a different kind of filter.
    #[error("this is the snapshot of {found}; open it as one")]
    OtherKind {
        /// The kind that was found.
        found: &'static str,
    },
    /// The format has a version that can't be read.
    #[error("the snapshot is of version {found}, and this program reads version {known}; use one that reads it", known = super::sections::VERSION)]
    Version {
        /// The version.
        found: u32,
    },
    /// The snapshot ends too early.
    #[error("the snapshot ends after {found} of {expected} bytes; get it again, or rebuild")]
    Truncated {
        /// Bytes that are there.
        found: u64,
        /// Bytes that there must be, at least.
        expected: u64,
    },
    /// Bytes follow the end of the snapshot.
    #[error(
        "the snapshot is {expected} bytes long, but more follow; get it again, or cut them off"
    )]
    TooLong {
        /// Bytes of the snapshot.
        expected: u64,
    },
    /// A section has changed since it was written.
    #[error(
        "the {section} of the snapshot has changed since it was written; get it again, or rebuild"
    )]
    Checksum {
        /// The section.
        section: &'static str,
    },
    /// The header is impossible, though its checksum is right.
    #[error("the snapshot's header is impossible: {0}; get it again, or rebuild")]
    Header(String),
    /// The filter breaks an invariant, though the checksums are right.
    #[error("the snapshot holds no valid filter: {0}; rebuild it from its members")]
    Invalid(Invalid),
    /// There is no memory for the filter.
    #[error(
        "there is no memory for the filter's {bytes} bytes; read it in place, as a frozen filter"
    )]
    Memory {
        /// Bytes of its table.
        bytes: u64,
    },
    /// The list's lines are matched in an unknown way.
    #[cfg(feature = "matching")]
    #[error(
        "the list matches its lines in a way that this version does not know (number {label}); read it with a newer version"
    )]
    UnknownMatching {
        /// The list's label, which records how its lines are matched.
        label: u32,
    },
    /// The keys of a range filter have a different width.
    #[error(
        "the filter's keys have {found} bits, and these have {expected}; open it with the type of its keys"
    )]
    KeyBits {
        /// Bits of the filter's keys.
        found: u32,
        /// Bits of the keys that were asked for.
        expected: u32,
    },
    /// The snapshot was saved without the secret, and none was given.
    #[error("the snapshot was saved without the secret; open it with the secret given")]
    NoSecret,
    /// The members were hashed with a different secret than the one given.
    #[error(
        "the filter's keys were hashed with another secret; give the one that it was saved with"
    )]
    OtherSecret,
    /// An error in a shard of a concurrent filter.
    #[error("shard {shard}: {error}")]
    Shard {
        /// The shard, counted from 0.
        shard: usize,
        /// What is wrong with it.
        error: Box<SnapshotError>,
    },
    /// An error in the file at `path`.
    #[error("{}: {error}", path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<SnapshotError>,
    },
}

impl SnapshotError {
    /// Returns the error without the file or the shard that it is in.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::At { error, .. } | Self::Shard { error, .. } => error.cause(),
            other => other,
        }
    }
}

impl SnapshotError {
    /// Returns the same error, in a part that begins after this many bytes.
    pub(super) fn behind(self, bytes: u64) -> Self {
        match self {
            Self::Truncated { found, expected } => {
                Self::Truncated { found: bytes + found, expected: bytes + expected }
            }
            other => other,
        }
    }
}

impl From<Invalid> for SnapshotError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

/// Does something with a file, and names the file if that fails.
pub(super) fn at<T>(
    path: &Path,
    action: impl FnOnce(&Path) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    action(path).map_err(|error| SnapshotError::At { path: path.into(), error: Box::new(error) })
}
