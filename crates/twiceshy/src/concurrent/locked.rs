//! A shard's filter and its lock.

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::PoisonError;

/// A filter and its lock. It is aligned to the pair of cache lines that processors fetch together,
/// so that locking one shard doesn't evict the lock of the next.
#[repr(align(128))]
pub(super) struct Locked<F> {
    filter: RwLock<F>,
}

impl<F> Locked<F> {
    /// Bytes per shard, not counting the filter itself.
    pub(super) const OVERHEAD: u64 = (size_of::<Self>() - size_of::<F>()) as u64;

    pub(super) fn new(filter: F) -> Self {
        Self { filter: RwLock::new(filter) }
    }

    pub(super) fn into_inner(self) -> F {
        self.filter.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the filter for reading.
    ///
    /// This ignores poisoning. No filter operation panics halfway, and no caller's code runs while
    /// an operation changes the filter. If a bug makes one thread panic anyway, the other threads
    /// must still be able to look up keys.
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
    use crate::{Hash, QuotientFilter};
    use twiceshy_deadline::Deadline;

    #[test]
    fn panic_of_one_thread_leaves_the_shard_usable() {
        let _deadline = Deadline::new();
        let filter = QuotientFilter::builder().slots(10).build().unwrap();
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
