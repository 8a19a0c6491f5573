//! A shard's filter and its lock.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A filter behind its lock, aligned to the pair of lines that processors fetch together, so that
/// locking one shard doesn't evict the lock of the next.
#[repr(align(128))]
pub(super) struct Locked<F> {
    filter: RwLock<F>,
}

impl<F> Locked<F> {
    /// Bytes per shard besides the filter itself.
    pub(super) const OVERHEAD: u64 = (size_of::<Self>() - size_of::<F>()) as u64;

    pub(super) fn new(filter: F) -> Self {
        Self { filter: RwLock::new(filter) }
    }

    /// Locks the filter for reading.
    ///
    /// No operation of a filter panics halfway, and no code of the caller runs while one changes
    /// it. If there is a bug all the same, the panic of one thread must not deny the others their
    /// lookups, so a poisoned lock is used like any other.
    #[inline]
    pub(super) fn read(&self) -> RwLockReadGuard<'_, F> {
        self.filter.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the filter for writing.
    #[inline]
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, F> {
        self.filter.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdaptiveQuotientFilter, Hash};
    use twiceshy_deadline::Deadline;

    #[test]
    fn a_panic_of_one_thread_leaves_the_shard_usable() {
        let _deadline = Deadline::new();
        let filter = AdaptiveQuotientFilter::builder().slots(10).build().unwrap();
        let shard = Locked::new(filter);
        shard.write().insert(Hash::MAX).unwrap();
        let panicking = std::thread::scope(|scope| {
            let holding = scope.spawn(|| {
                let _guard = shard.write();
                std::panic::resume_unwind(Box::new("a bug"));
            });
            holding.join()
        });
        assert!(panicking.is_err() && shard.filter.is_poisoned());
        assert!(shard.read().contains(Hash::MAX));
        shard.write().insert(Hash::MIN).unwrap();
        assert_eq!(shard.read().len(), 2);
    }
}
