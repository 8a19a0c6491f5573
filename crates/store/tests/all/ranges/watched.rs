//! A store that counts its disk reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::Secret;
use twiceshy_store::backend::Observed;
use twiceshy_store::{Backend, Keyspace, OpenOptions, RangeStore, StoredKey};

/// Returns options of a filter so poor that most empty ranges are mistakes at first.
pub(crate) fn options() -> OpenOptions {
    OpenOptions::new().capacity(8).false_positive_rate(0.99).longest_range(4)
}

/// Asks for a range without keys. If the filter has no room to repair a mistake, makes room by
/// removing an absent key, and asks again. Returns whether a mistake was repaired: a filter with
/// more room may not make it.
pub(crate) fn is_repaired<B: Backend>(store: &RangeStore<u64, B>, range: Range<u64>) -> bool {
    loop {
        let before = store.stats();
        assert!(store.range_is_empty(range.clone()).unwrap());
        let after = store.stats();
        if after.repairs_skipped == before.repairs_skipped {
            return after.false_positives > before.false_positives;
        }
        assert!(!store.delete(u64::MAX).unwrap());
    }
}

/// Returns options with a fixed secret, so that hashes are the same in each run.
pub(crate) fn always() -> OpenOptions {
    options().secret(Secret::from_bytes([7; 16]))
}

pub(crate) struct Watched<K: StoredKey, B: Backend> {
    options: OpenOptions,
    backend: Arc<Observed<B>>,
    visits: Arc<AtomicU64>,
    store: Option<RangeStore<K, Arc<Observed<B>>>>,
}

impl<K: StoredKey, B: Backend> Watched<K, B> {
    pub(crate) fn open(options: OpenOptions, backend: B) -> Self {
        let visits = Arc::new(AtomicU64::new(0));
        let count = |visits: &Arc<AtomicU64>, space| {
            if space == Keyspace::Keys {
                visits.fetch_add(1, Ordering::Relaxed);
            }
        };
        let (of_gets, of_ranges) = (Arc::clone(&visits), Arc::clone(&visits));
        let backend = Observed::new(backend, move |space, _| count(&of_gets, space))
            .on_range(move |space, _| count(&of_ranges, space));
        let backend = Arc::new(backend);
        let store = Some(options.open_ranges_with(Arc::clone(&backend), None).unwrap());
        Self { options, backend, visits, store }
    }

    pub(crate) fn store(&self) -> &RangeStore<K, Arc<Observed<B>>> {
        self.store.as_ref().unwrap()
    }

    pub(crate) fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(self.options.open_ranges_with(Arc::clone(&self.backend), None).unwrap());
    }

    /// Calls `ask`. Returns how often it read keys from the backend, and its answer.
    pub(crate) fn visits<T>(
        &self,
        ask: impl FnOnce(&RangeStore<K, Arc<Observed<B>>>) -> T,
    ) -> (u64, T) {
        let before = self.visits.load(Ordering::Relaxed);
        let answer = ask(self.store());
        (self.visits.load(Ordering::Relaxed) - before, answer)
    }
}
