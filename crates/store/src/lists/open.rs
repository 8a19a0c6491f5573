//! Opening lists.

use super::{Entries, List, ListStore};
use crate::backend::{Backend, Durability};
use crate::error::{Result, StoreError};
use crate::filter::Shape;
use crate::front::{Front, Policy};
use crate::home;
use crate::layout::{self, Identity, Kind};
use crate::saved::Saved;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::{AdaptiveQuotientFilter, BuildError, Concurrent, KeyedHasher, Secret, Snapshot};

/// What the filter of new lists is like.
const DEFAULT: Shape = Shape { capacity: 1 << 16, false_positive_rate: 0.001, shards: 64 };

/// The share of its slots that a shard uses at most.
const MOST_LOAD: f64 = 0.95;

/// How a [`ListStore`] is opened.
///
/// The secret that lists were created with they keep. They also remember what their filter is to be
/// like, unless that is said anew; the rest may be another each time.
#[derive(Clone)]
pub struct ListOptions {
    capacity: Option<usize>,
    false_positive_rate: Option<f64>,
    shards: Option<usize>,
    create: bool,
    secret: Option<Secret>,
    durability: Durability,
}

impl Default for ListOptions {
    fn default() -> Self {
        Self {
            capacity: None,
            false_positive_rate: None,
            shards: None,
            create: true,
            secret: None,
            durability: Durability::default(),
        }
    }
}

impl ListOptions {
    /// For new lists, 65,536 yes keys at first, and 0.1 % of unlisted keys answered "yes"; for any,
    /// writes that survive a kill.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many yes keys to plan the filter for; it grows by itself, if there are more.
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// How often an unlisted key may be answered "yes". If lists that are there have another rate,
    /// opening builds their filter again.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = Some(rate);
        self
    }

    /// Into how many shards the filter is cut; see [`Options::shards`](crate::Options::shards).
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Whether lists are created where there are none, as they are unless this says no; see
    /// [`Options::create`](crate::Options::create).
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// What keys are hashed with; see [`Options::secret`](crate::Options::secret).
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// What an acknowledged change survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Opens the lists in a directory, or creates them, with the default backend. New lists need a
    /// directory that is new or empty.
    ///
    /// # Errors
    /// If the lists are open already, if the directory holds a store of another kind, or if it can't
    /// be read or written; or [`StoreError::Foreign`], if it holds something else.
    #[cfg(feature = "fjall")]
    pub fn open(
        &self,
        directory: impl AsRef<Path>,
    ) -> Result<ListStore<crate::backend::FjallBackend>> {
        // Before there is anything on the disk.
        empty(&self.shape(&DEFAULT))?;
        let directory = directory.as_ref();
        let backend = home::open_backend(directory, self.create)?;
        self.open_within(backend, Some(directory), home::DATA)
    }

    /// Opens the lists in a backend, or creates them. The filter is saved in `directory`, which
    /// these lists alone must use; without a directory, each open builds the filter again.
    ///
    /// # Errors
    /// If another store is open over the backend, if the backend holds a store of another kind, or
    /// if the backend fails.
    pub fn open_with<B: Backend>(
        &self,
        backend: B,
        directory: Option<&Path>,
    ) -> Result<ListStore<B>> {
        self.open_within(backend, directory, "")
    }

    fn open_within<B: Backend>(
        &self,
        backend: B,
        directory: Option<&Path>,
        data: &'static str,
    ) -> Result<ListStore<B>> {
        let claim = backend.claim()?;
        if !self.create && !layout::is_store(&backend)? {
            return Err(StoreError::Missing);
        }
        let kept = layout::shape(&backend)?;
        let shape = self.shape(kept.as_ref().unwrap_or(&DEFAULT));
        // Before anything is kept: what can't be built is refused.
        let (filter, _) = shape.build(self.capacity, DEFAULT.capacity, empty)?;
        let identity = Identity::of(&backend, Kind::Lists, self.secret.as_ref())?;
        if identity.kind != Kind::Lists {
            return Err(StoreError::Kind(identity.kind.to_string()));
        }
        if kept != Some(shape) {
            layout::keep_shape(&backend, &shape)?;
        }
        if let Some(directory) = directory {
            home::create_directory(directory)?;
        }
        let (saved, restored) = Saved::open(&backend, directory, |file| {
            Concurrent::<AdaptiveQuotientFilter>::open(file)
        })?;
        let slot_bits = filter.shard_parameters(0).slot_bits;
        let is_as_asked = |restored: &Concurrent<AdaptiveQuotientFilter>| {
            restored.parameters().iter().all(|shard| shard.slot_bits == slot_bits)
        };
        if restored.as_ref().is_some_and(|restored| !is_as_asked(restored)) {
            saved.dirty(&backend)?;
        }
        let restored = restored.filter(is_as_asked);
        // New lists have no keys that the filter could miss.
        let is_ready = restored.is_some() || identity.is_new;
        let policy = Policy::Listed { rate: shape.false_positive_rate };
        let store = ListStore {
            front: Front::new(restored.unwrap_or(filter), is_ready, policy),
            backend,
            _claim: claim,
            hasher: KeyedHasher::new(&identity.secret),
            secret: identity.secret,
            durability: self.durability,
            saved,
            yes: AtomicU64::new(0),
            data,
        };
        let no = Entries::of(&store.backend, &store.hasher, List::No);
        store.front.load_mistakes(no.map(|entry| entry.map(|(hash, _)| hash)))?;
        if !is_ready {
            store.build()?;
        }
        // What isn't listed any more is in no filter that was saved, or built just now.
        store.yes.store(store.front.filter.len() as u64, Ordering::Relaxed);
        Ok(store)
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

/// A filter without members, whose remainders are so long that it has no more false positives than
/// it may, as full as it ever gets.
fn empty(shape: &Shape) -> Result<Concurrent<AdaptiveQuotientFilter>, BuildError> {
    let rate = shape.false_positive_rate;
    if !(rate > 0.0 && rate < 1.0) {
        return Err(BuildError::Rate(rate));
    }
    let bits = (MOST_LOAD / -(-rate).ln_1p()).log2().ceil().max(1.0);
    AdaptiveQuotientFilter::builder()
        .remainder_bits(bits as u32)
        .capacity(shape.capacity)
        .shards(shape.shards)
        .grow_at(MOST_LOAD)
        .build_concurrent()
        .map_err(|error| match error {
            BuildError::RemainderBits(_) => BuildError::Rate(rate),
            other => other,
        })
}
