//! What can go wrong with a guard.

use twiceshy::{AdaptError, BuildError, EntropyError, InsertError};

/// Why an operation of a [`Guard`](super::Guard) failed; `E` is the database's own error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError<E> {
    /// The database can't. If it was asked to write, whether it did is for it to say: the
    /// guard is right in either case.
    #[error("the database failed")]
    Database(#[source] E),
    /// There is no room in the filter, and it can't grow. The database wasn't asked.
    #[error("the filter takes no more members")]
    Filter(#[from] InsertError),
    /// A mistake that the new member would bring back can't be repaired. The database wasn't
    /// asked.
    #[error("a mistake can't be repaired")]
    Repair(#[from] AdaptError),
    /// The filter can't be made as it was asked for, or not from these members.
    #[error("the filter can't be built")]
    Build(#[from] BuildError),
    /// The operating system has no entropy for a secret.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}
