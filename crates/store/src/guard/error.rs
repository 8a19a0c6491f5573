//! Errors of guards.

use twiceshy::concurrent::RebuildError;
use twiceshy::error::{AdaptError, BuildError, EntropyError, InsertError};

/// The error of a failed write, which your closure returns to a [`Guard`](super::Guard). It says whether the
/// write may still happen.
///
/// `?` turns a database's error into [`Unknown`](Self::Unknown), which is always safe. Return
/// [`NotWritten`](Self::NotWritten) where you can: every unknown outcome takes memory until you
/// [settle](super::Guard::settle) it.
///
/// | what the database said | variant |
/// | --- | --- |
/// | a violated constraint, a syntax error, a refused connection | `NotWritten` |
/// | an error of a transaction that you then rolled back successfully | `NotWritten` |
/// | a time-out, a lost connection, an error of `COMMIT` | `Unknown` |
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError<E> {
    /// The write did not happen, and never will.
    #[error("the database refused the write")]
    NotWritten(#[source] E),
    /// The write may have happened, or may still happen.
    #[error("the database failed, and the write may or may not have happened")]
    Unknown(#[source] E),
}

impl<E> From<E> for WriteError<E> {
    fn from(error: E) -> Self {
        Self::Unknown(error)
    }
}

/// The reason why an operation of a [`Guard`](super::Guard) failed; `E` is the database's own error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError<E> {
    /// The database failed to look up or to list keys. It was not asked to write.
    #[error("the database failed")]
    Database(#[source] E),
    /// The database refused the write. Nothing has changed.
    #[error("the database refused the write")]
    NotWritten(#[source] E),
    /// The database failed, and the write may have happened, or may still happen. The keys are in doubt until
    /// you [settle](super::Guard::settle) them. Until then, every answer is right whether or not the write
    /// happened.
    #[error("the database failed; the write may have happened, or may still happen")]
    InDoubt(#[source] E),
    /// The guard has no secret. The database was not asked.
    #[error(
        "a guard needs the secret that the database's hashes were made with; if the database has \
         no hashes yet, OpenOptions::generate_secret lets the guard generate a secret"
    )]
    NoSecret,
    /// The database stores a different hash for a key than the guard computes, so its listings can't be
    /// trusted.
    #[error(
        "the database lists a key under a hash that the guard did not compute: give the guard the \
         secret that the hashes were made with, or compute them again with Guard::hash"
    )]
    ForeignHash,
    /// The filter can't take the key. The database was not asked to write.
    #[error("the filter takes no more members")]
    Filter(#[from] InsertError),
    /// The new member would bring back a mistake that can't be repaired. The database was not asked to write.
    #[error("a mistake can't be repaired")]
    Repair(#[from] AdaptError),
    /// A filter can't be built with these options, or from these members.
    #[error("the filter can't be built")]
    Build(#[from] BuildError),
    /// A shard of the filter can't be rebuilt from these members.
    #[error("a shard of the filter can't be rebuilt")]
    Rebuild(#[source] RebuildError),
    /// The filter is damaged, or lacks a key of the database.
    #[error("the filter is damaged: {0}")]
    Invalid(String),
    /// The operating system has no entropy for a secret.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

impl<E> From<RebuildError> for GuardError<E> {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::Build(error) => Self::Build(error),
            error => Self::Rebuild(error),
        }
    }
}

impl<E> From<WriteError<E>> for GuardError<E> {
    fn from(error: WriteError<E>) -> Self {
        match error {
            WriteError::NotWritten(error) => Self::NotWritten(error),
            WriteError::Unknown(error) => Self::InDoubt(error),
        }
    }
}
