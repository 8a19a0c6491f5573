//! Claiming a backend for one store at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{BackendError, Result};

/// Lets one store at a time use a backend. A backend contains a `Claims`, and implements
/// [`Backend::claim`](super::Backend::claim) by calling [`Claims::claim`](Self::claim).
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
    /// Returns a `Claims` that no store has claimed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Claims the backend until the claim is dropped.
    ///
    /// # Errors
    ///
    /// [`Claimed`](BackendError::Claimed) if the backend is claimed already.
    pub fn claim(&self) -> Result<BackendClaim> {
        if self.is_claimed.swap(true, Ordering::AcqRel) {
            return Err(BackendError::Claimed);
        }
        Ok(BackendClaim { is_claimed: Arc::clone(&self.is_claimed) })
    }
}

/// A store's exclusive right to use a backend. Dropping this releases the backend.
#[derive(Debug)]
#[must_use = "dropping the claim releases the backend"]
pub struct BackendClaim {
    is_claimed: Arc<AtomicBool>,
}

impl Drop for BackendClaim {
    fn drop(&mut self) {
        self.is_claimed.store(false, Ordering::Release);
    }
}
