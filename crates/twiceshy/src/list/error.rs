//! Errors of yes/no lists.

use crate::Hash;
use crate::error::{BuildError, PlanError};

/// The error when a yes/no list or filter can't be built or changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A key can't be added to the no list, because it is on the yes list.
    #[error("{hash:?} is on the yes list; remove it there first")]
    OnYesList {
        /// The hash of the key.
        hash: Hash,
    },
    /// A key can't be added to the yes list, because it is on the no list.
    #[error("{hash:?} is on the no list; remove it there first")]
    OnNoList {
        /// The hash of the key.
        hash: Hash,
    },
    /// A filter can't be built from two lists that share a key.
    #[error(
        "key {} of the yes list is also key {} of the no list; remove it from one of them",
        yes + 1, no + 1
    )]
    OnBothLists {
        /// The hash of the key.
        hash: Hash,
        /// The position in the yes list, counted from 0.
        yes: usize,
        /// The position in the no list, counted from 0.
        no: usize,
    },
    /// The hashes are not random.
    #[error("the hashes are so uneven that they can't be random; hash the keys")]
    Uneven,
    /// The filter was not built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl From<PlanError> for ListError {
    fn from(error: PlanError) -> Self {
        Self::Build(error.into())
    }
}
