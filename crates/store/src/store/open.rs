//! Opening a store.

use super::{GuardedStore, Inner};
use crate::backend::{Backend, Durability};
use crate::error::{Result, StoreError};
use crate::filter::Shape;
use crate::front::{Front, Policy};
use crate::home;
use crate::layout::{self, Identity, Kind, Layout};
use crate::saved::Saved;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use twiceshy::{AdaptiveQuotientFilter, Concurrent, KeyedHasher, Secret, Shard, Snapshot};

/// What the filter of a new store is like.
const DEFAULT: Shape = Shape { capacity: 1 << 20, false_positive_rate: 1.0 / 512.0, shards: 64 };

/// How a store is opened.
///
/// What a store was created with, its layout and its secret, it keeps. It also remembers what its
/// filter is to be like, unless that is said anew; the rest may be another each time.
#[derive(Clone)]
pub struct Options {
    capacity: Option<usize>,
    false_positive_rate: Option<f64>,
    shards: Option<usize>,
    create: bool,
    pub(super) layout: Option<Layout>,
    pub(super) secret: Option<Secret>,
    pub(super) durability: Durability,
    pub(super) mistakes_kept: usize,
    pub(super) repairs: bool,
    pub(super) progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

/// How far the filter has been built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Shards that answer.
    pub ready: usize,
    /// All shards.
    pub shards: usize,
    /// Members read so far.
    pub members: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity: None,
            false_positive_rate: None,
            shards: None,
            create: true,
            layout: None,
            secret: None,
            durability: Durability::default(),
            mistakes_kept: 1 << 20,
            repairs: true,
            progress: None,
        }
    }
}

impl Options {
    /// For a new store, a million members at first, 0.2 % false positives, and merged; for any,
    /// writes that survive a kill, and a million mistakes kept.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many members to plan the filter for; it grows by itself, if there are more.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// How often a key that isn't there is looked for on the disk, the first time.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = Some(rate);
        self
    }

    /// Into how many shards the filter is cut, from 1 to 4096, rounded up to a power of two; more
    /// of them make shorter pauses. As with the capacity and the rate, a filter that is there
    /// changes only when it is built again.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Whether a store is created where there is none, as it is unless this says no. Then
    /// nothing is made, and opening fails with [`Missing`](crate::StoreError::Missing).
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data");
    /// use twiceshy_store::{Options, StoreError};
    /// let existing = Options::new().create(false);
    /// assert!(matches!(existing.open(&path), Err(StoreError::Missing)));
    /// assert!(!path.exists());
    ///
    /// Options::new().open(&path)?.close()?;
    /// existing.open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Merged or split; for a store that is there, it must be its own.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// What keys are hashed with; for a store that is there, it must be its own. By default, a
    /// new store has one from the operating system's entropy, and nobody needs to know it.
    /// Whoever knows it can make the filter slow: give one only to have the same hashes
    /// elsewhere, or again in a test.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// What an acknowledged write survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How many mistakes are remembered, at least 1, about 20 bytes of memory each. When more are
    /// made, others are forgotten. A mistake that was forgotten may cost another disk read when the
    /// filter is built again, or when a member comes that collides with it.
    #[must_use]
    pub fn mistakes_kept(mut self, mistakes: usize) -> Self {
        self.mistakes_kept = mistakes;
        self
    }

    /// Whether mistakes are repaired, as they are unless this says no; to see what that is
    /// worth.
    #[must_use]
    pub fn repairs(mut self, repairs: bool) -> Self {
        self.repairs = repairs;
        self
    }

    /// Has the progress of building the filter again told to somebody, by other threads, one
    /// after the other.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Opens the store in a directory, or creates it, with the default backend. A new store needs a
    /// directory that is new or empty.
    ///
    /// # Errors
    /// If the store is open already, is of another kind, or can't be read or written; or
    /// [`StoreError::Foreign`], if the directory holds something else.
    #[cfg(feature = "fjall")]
    pub fn open(
        &self,
        directory: impl AsRef<Path>,
    ) -> Result<GuardedStore<crate::backend::FjallBackend>> {
        let directory = directory.as_ref();
        // Before there is anything on the disk.
        self.shape(&DEFAULT).empty::<AdaptiveQuotientFilter>()?;
        let backend = home::open_backend(directory, self.create)?;
        self.open_within(backend, Some(directory), home::DATA)
    }

    /// Opens the store in a backend, or creates it. The filter is saved in `directory`, which this
    /// store alone must use; without a directory, each open builds the filter again.
    ///
    /// # Errors
    /// If another store is open over the backend, if the backend holds a store of another kind, or
    /// if the backend fails.
    pub fn open_with<B: Backend, F: Shard>(
        &self,
        backend: B,
        directory: Option<&Path>,
    ) -> Result<GuardedStore<B, F>> {
        self.open_within(backend, directory, "")
    }

    fn open_within<B: Backend, F: Shard>(
        &self,
        backend: B,
        directory: Option<&Path>,
        data: &'static str,
    ) -> Result<GuardedStore<B, F>> {
        let claim = backend.claim()?;
        if !self.create && !layout::is_store(&backend)? {
            return Err(StoreError::Missing);
        }
        let kept = layout::shape(&backend)?;
        let shape = self.shape(kept.as_ref().unwrap_or(&DEFAULT));
        let empty = || shape.build(self.capacity, DEFAULT.capacity, Shape::empty::<F>);
        if kept != Some(shape) {
            // Before it is kept: what can't be built is refused.
            empty()?;
        }
        if let Some(directory) = directory {
            home::create_directory(directory)?;
        }
        let kind = Kind::Points(self.layout.unwrap_or_default());
        let identity = Identity::of(&backend, kind, self.secret.as_ref())?;
        let layout = identity.layout(self.layout)?;
        if kept != Some(shape) {
            layout::keep_shape(&backend, &shape)?;
        }
        let (saved, filter) = Saved::open(&backend, directory, |file| Concurrent::<F>::open(file))?;
        let (filter, is_ready) = match filter {
            Some(filter) => (filter, true),
            // A new store has no members that the filter could miss.
            None => (empty()?.0, identity.is_new),
        };
        let policy = Policy::Found { repaired: self.repairs, kept: self.mistakes_kept };
        let front = Front::new(filter, is_ready, policy);
        // A filter that was saved, or that is new, is complete.
        front.set_complete(is_ready || layout == Layout::Merged);
        let inner = Inner {
            front,
            backend,
            _claim: claim,
            hasher: KeyedHasher::new(&identity.secret),
            layout,
            durability: self.durability,
            saved,
            data,
            is_closing: AtomicBool::new(false),
            rebuild_error: Mutex::new(None),
        };
        inner.load_mistakes()?;
        let inner = Arc::new(inner);
        let rebuilding = (!is_ready).then(|| inner.rebuild_behind(self.progress.clone()));
        Ok(GuardedStore { inner, rebuilding: rebuilding.transpose()? })
    }

    /// What is asked for, and otherwise what was.
    fn shape(&self, otherwise: &Shape) -> Shape {
        Shape {
            capacity: self.capacity.unwrap_or(otherwise.capacity),
            false_positive_rate: self.false_positive_rate.unwrap_or(otherwise.false_positive_rate),
            shards: self.shards.unwrap_or(otherwise.shards),
        }
    }
}
