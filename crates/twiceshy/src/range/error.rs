//! Errors that only range filters have.

use crate::error::{AdaptError, GrowError};

/// A filter did not grow with the members that were listed. Nothing has changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RejuvenateError<E> {
    /// Members could not be listed.
    #[error("the members of a fingerprint could not be listed")]
    List(#[source] E),
    /// The listed members are not those of the filter.
    #[error("the listed members are not those of the filter; list exactly its members")]
    Members(#[source] AdaptError),
    /// The larger filter was not built.
    #[error(transparent)]
    Grow(#[from] GrowError),
}
