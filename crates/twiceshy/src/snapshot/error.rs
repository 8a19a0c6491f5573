//! Errors of snapshots.

use super::sections::VERSION;
use crate::error::Invalid;
use std::io;
use std::path::{Path, PathBuf};

/// An error when writing or reading a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file doesn't begin like a snapshot.
    #[error("this is not a snapshot of a filter; check the file name")]
    NotASnapshot,
    /// The snapshot is of a different kind of filter.
    #[error("this is a snapshot of {found}; open it as that type")]
    OtherKind {
        /// The kind that was found.
        found: &'static str,
    },
    /// The snapshot has an unknown format version.
    #[error("the snapshot has format version {found}, not {VERSION}; read it with a newer program")]
    Version {
        /// The version of the snapshot.
        found: u32,
    },
    /// The snapshot ends too early.
    #[error("the snapshot ends after {found} of {expected} bytes; copy it again, or rebuild it")]
    Truncated {
        /// Number of bytes found.
        found: u64,
        /// Number of bytes needed, at least.
        expected: u64,
    },
    /// Bytes follow the end of the snapshot.
    #[error("more bytes follow the snapshot's {expected} bytes; copy it again, or truncate it")]
    TooLong {
        /// Size of the snapshot in bytes.
        expected: u64,
    },
    /// A section has changed since it was written.
    #[error("the {section} of the snapshot has changed; copy it again, or rebuild the filter")]
    Checksum {
        /// Name of the section.
        section: &'static str,
    },
    /// The header is invalid, although its checksum is correct.
    #[error("the snapshot's header is invalid: {0}; copy it again, or rebuild the filter")]
    Header(String),
    /// The filter breaks an invariant, although the checksums are correct.
    #[error("the filter in the snapshot is invalid: {0}; rebuild it from its members")]
    Invalid(Invalid),
    /// There is not enough memory for the filter.
    #[error(
        "not enough memory for {bytes} bytes; free some, or use a frozen filter if there is one"
    )]
    Memory {
        /// Size of the filter's table in bytes.
        bytes: u64,
    },
    /// The list records an unknown way to match its lines.
    #[cfg(feature = "matching")]
    #[error("the list matches its lines in an unknown way ({label}); read it with a newer version")]
    UnknownMatching {
        /// The list's label, which records how its lines are matched.
        label: u32,
    },
    /// The keys of a range filter have a different width.
    #[error("the filter's keys have {found} bits, not {expected}; open it with its own key type")]
    KeyBits {
        /// Width of the filter's keys in bits.
        found: u32,
        /// Width of the requested key type in bits.
        expected: u32,
    },
    /// The snapshot was saved without the secret, and none was given.
    #[error("the snapshot does not contain the secret; pass the secret when you open it")]
    NoSecret,
    /// The members were hashed with a different secret than the given one.
    #[error("the keys were hashed with a different secret; pass the one that it was saved with")]
    OtherSecret,
    /// An error in a shard of a concurrent filter.
    #[error("shard {shard}: {error}")]
    Shard {
        /// The shard, counted from 0.
        shard: usize,
        /// The error in the shard.
        error: Box<SnapshotError>,
    },
    /// An error in the file at `path`.
    #[error("{}: {error}", path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        error: Box<SnapshotError>,
    },
}

impl SnapshotError {
    /// Returns the error without the path and the shard.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::At { error, .. } | Self::Shard { error, .. } => error.cause(),
            other => other,
        }
    }
}

impl From<Invalid> for SnapshotError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<SnapshotError> for Invalid {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Invalid(invalid) => invalid,
            other => Self(other.to_string()),
        }
    }
}

/// Runs `action` and adds the path to its error.
pub(super) fn with_path<T>(
    path: &Path,
    action: impl FnOnce(&Path) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    action(path).map_err(|error| SnapshotError::At { path: path.into(), error: Box::new(error) })
}
