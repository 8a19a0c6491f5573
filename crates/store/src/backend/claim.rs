//! One store at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{BackendError, Result};

/// Lets one store at a time use a backend: a backend has one of these, and its
/// [`claim`](super::Backend::claim) calls [`claim`](Self::claim).
///
/// ```
/// use twiceshy_store::backend::Claims;
///
/// let claims = Claims::new();
/// let claim = claims.claim()?;
/// assert!(claims.claim().is_err());
/// drop(claim);
/// assert!(claims.claim().is_ok());
/// # Ok::<(), twiceshy_store::BackendError>(())
/// ```
#[derive(Debug, Default)]
pub struct Claims {
    is_claimed: Arc<AtomicBool>,
}

impl Claims {
    /// Returns claims of which none is taken.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the claim, until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Claimed`](BackendError::Claimed) if it is taken.
    pub fn claim(&self) -> Result<BackendClaim> {
        if self.is_claimed.swap(true, Ordering::AcqRel) {
            return Err(BackendError::Claimed);
        }
        Ok(BackendClaim { is_claimed: Arc::clone(&self.is_claimed) })
    }
}

/// The right of a store to use a backend, which it gives up when this is dropped.
#[derive(Debug)]
#[must_use = "the claim is given up when this is dropped"]
pub struct BackendClaim {
    is_claimed: Arc<AtomicBool>,
}

impl Drop for BackendClaim {
    fn drop(&mut self) {
        self.is_claimed.store(false, Ordering::Release);
    }
}
