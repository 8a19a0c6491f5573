//! What can go wrong, one type per operation.

/// The operating system gave no entropy for a [`Secret`](crate::Secret).
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no entropy for a secret; try again later")]
pub struct EntropyError(#[from] getrandom::Error);
