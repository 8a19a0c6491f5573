//! A backend that reports reads.

use std::fmt;

use super::{Backend, Bounds, Bytes, Keyspace, Result, Scan};

/// A backend that calls a function for each read, for example to count the reads that a filter didn't
/// prevent.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use twiceshy_store::backend::Observed;
/// use twiceshy_store::{MemoryBackend, OpenOptions, Store};
///
/// let gets = Arc::new(AtomicU64::new(0));
/// let counter = Arc::clone(&gets);
/// let backend = Observed::new(MemoryBackend::new(), move |_, _| {
///     counter.fetch_add(1, Ordering::Relaxed);
/// });
/// let store: Store<_> = OpenOptions::new().open_with(backend, None)?;
/// let before = gets.load(Ordering::Relaxed);
/// assert_eq!(store.get(b"mallory")?, None);
/// assert_eq!(gets.load(Ordering::Relaxed), before, "the filter is empty");
/// # Ok::<(), twiceshy_store::StoreError>(())
/// ```
pub struct Observed<B> {
    inner: B,
    on_get: OnGet,
    on_range: OnRange,
}

type OnGet = Box<dyn Fn(Keyspace, &[u8]) + Send + Sync>;
type OnRange = Box<dyn Fn(Keyspace, Bounds<'_>) + Send + Sync>;

impl<B> Observed<B> {
    /// Wraps a backend. Before each get, calls `on_get` in the same thread.
    pub fn new(inner: B, on_get: impl Fn(Keyspace, &[u8]) + Send + Sync + 'static) -> Self {
        Self { inner, on_get: Box::new(on_get), on_range: Box::new(|_, _| {}) }
    }

    /// Sets a function to call before each range scan, in the same thread.
    #[must_use]
    pub fn on_range(
        mut self,
        on_range: impl Fn(Keyspace, Bounds<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_range = Box::new(on_range);
        self
    }
}

impl<B: Backend> Backend for Observed<B> {
    forward_backend!(inner: claim write sync flush compact bytes_on_disk backup);

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        (self.on_get)(space, key);
        self.inner.get(space, key)
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        (self.on_range)(space, bounds);
        self.inner.range(space, bounds)
    }
}

impl<B: fmt::Debug> fmt::Debug for Observed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("inner", &self.inner).finish_non_exhaustive()
    }
}
