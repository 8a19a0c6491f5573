//! A filter behind a lock.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One shard. It is as long as the pairs of lines that processors fetch, so that locking
/// one doesn't take the line of another away.
#[repr(align(128))]
pub(crate) struct Shard<F> {
    filter: RwLock<F>,
}

impl<F> Shard<F> {
    /// Bytes that a shard takes besides its filter.
    pub(crate) const OVERHEAD: u64 = (size_of::<Self>() - size_of::<F>()) as u64;

    pub(crate) fn new(filter: F) -> Self {
        Self { filter: RwLock::new(filter) }
    }

    /// The filter, to be read.
    ///
    /// No operation of a filter panics half-way, and no code of the caller runs while one
    /// changes it. Should there be a bug all the same, one thread's panic is no reason to
    /// deny all others their lookups: a poisoned lock is used like any other.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, F> {
        self.filter.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filter, to be changed.
    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, F> {
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
        let shard = Shard::new(filter);
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
