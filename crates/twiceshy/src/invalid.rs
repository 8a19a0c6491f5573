//! The error that every check of invariants returns.

/// The error when a structure breaks one of its own invariants, because of a bug or corrupted
/// memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broken invariant: {0}")]
pub struct Invalid(pub(crate) String);

impl Invalid {
    /// Returns an error that names the broken invariant. Filters in other crates use this.
    pub fn new(invariant: impl Into<String>) -> Self {
        Self(invariant.into())
    }
}
