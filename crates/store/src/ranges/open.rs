//! Opening a store of ranges.

use super::{Current, Filter, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Durability};
use crate::counters::Counters;
use crate::error::{Result, StoreError};
use crate::filter::Shape;
use crate::home;
use crate::layout::{self, Identity, Kind, Numbers};
use crate::saved::Saved;
use crate::stripes::Stripes;
use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::AtomicUsize;
use twiceshy::{AdaptiveRangeFilter, BuildError, KeyedSnapshot, Secret};

/// What the filter of a new store is like.
const DEFAULT: Shape = Shape { capacity: 1 << 20, false_positive_rate: 0.001, shards: 1 };
const DEFAULT_RANGE: u64 = 32;

/// How a [`RangeStore`] is opened.
///
/// What a store was created with, its longest range and its secret, it keeps. It also remembers
/// what its filter is to be like, unless that is said anew; the rest may be another each time.
#[derive(Clone)]
pub struct RangeOptions {
    capacity: Option<usize>,
    false_positive_rate: Option<f64>,
    longest_range: Option<u64>,
    create: bool,
    secret: Option<Secret>,
    durability: Durability,
    mistakes_kept: usize,
    repairs: bool,
}

impl Default for RangeOptions {
    fn default() -> Self {
        Self {
            capacity: None,
            false_positive_rate: None,
            longest_range: None,
            create: true,
            secret: None,
            durability: Durability::default(),
            mistakes_kept: 1 << 20,
            repairs: true,
        }
    }
}

impl RangeOptions {
    /// For a new store, a million members at first, ranges of up to 32 keys, and 0.1 % false
    /// positives; for any, writes that survive a kill, and a million mistakes kept.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many members to plan the filter for; it grows by itself, if there are more.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// How often an empty range, of the longest that is planned for, is looked for on the disk the
    /// first time.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = Some(rate);
        self
    }

    /// The keys of the longest range that the rate is to hold for, from 1 to 2^20; a power of two,
    /// or the next one is taken. For a store that is there, it must be its own. Each doubling takes
    /// a bit of memory for every member.
    ///
    /// A put takes time in proportion to the keys that share its partition: as many consecutive keys
    /// as the longest range has. If keys are dense, such as timestamps of frequent events, choose
    /// ranges of at most a few thousand keys.
    #[must_use]
    pub fn longest_range(mut self, keys: u64) -> Self {
        self.longest_range = Some(keys);
        self
    }

    /// Whether a store is created where there is none, as it is unless this says no; see
    /// [`Options::create`](crate::Options::create).
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// What partitions are hashed with; see [`Options::secret`](crate::Options::secret).
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

    /// How many mistakes are remembered, at least 1, about 70 bytes of memory each: a range of up
    /// to the longest that is planned for is one or two, and a longer one at most four. When more
    /// are made, others are forgotten. A mistake that was forgotten may cost another disk read when
    /// the filter is built again, or when a member comes that collides with it.
    #[must_use]
    pub fn mistakes_kept(mut self, mistakes: usize) -> Self {
        self.mistakes_kept = mistakes;
        self
    }

    /// Whether mistakes are repaired, as they are unless this says no; to see what that is worth.
    #[must_use]
    pub fn repairs(mut self, repairs: bool) -> Self {
        self.repairs = repairs;
        self
    }

    /// Opens the store in a directory, or creates it, with the default backend. A new store needs a
    /// directory that is new or empty.
    ///
    /// # Errors
    /// If the store is open already, is of another kind, or can't be read or written; or
    /// [`StoreError::Foreign`], if the directory holds something else.
    #[cfg(feature = "fjall")]
    pub fn open<K: StoredKey>(
        &self,
        directory: impl AsRef<Path>,
    ) -> Result<RangeStore<K, crate::backend::FjallBackend>> {
        // Before there is anything on the disk.
        self.filter::<K>(self.shape(&DEFAULT), None)?;
        let directory = directory.as_ref();
        let backend = home::open_backend(directory, self.create)?;
        self.open_within(backend, Some(directory), home::DATA)
    }

    /// Opens the store in a backend, or creates it. The filter is saved in `directory`, which this
    /// store alone must use; without a directory, each open builds the filter again.
    ///
    /// # Errors
    /// If another store is open over the backend, if the backend holds a store of another kind, or
    /// if the backend fails.
    pub fn open_with<K: StoredKey, B: Backend>(
        &self,
        backend: B,
        directory: Option<&Path>,
    ) -> Result<RangeStore<K, B>> {
        self.open_within(backend, directory, "")
    }

    fn open_within<K: StoredKey, B: Backend>(
        &self,
        backend: B,
        directory: Option<&Path>,
        data: &'static str,
    ) -> Result<RangeStore<K, B>> {
        const { assert!(K::BITS > 0 && K::BITS <= 128, "keys have 1 to 128 bits") }
        let claim = backend.claim()?;
        if !self.create && !layout::is_store(&backend)? {
            return Err(StoreError::Missing);
        }
        let kept = layout::shape(&backend)?;
        let shape = self.shape(kept.as_ref().unwrap_or(&DEFAULT));
        // Before anything is kept: what can't be built is refused.
        let wanted = numbers(&self.filter::<K>(shape, None)?.0);
        let identity = Identity::of(&backend, Kind::Ranges(wanted), self.secret.as_ref())?;
        let found = match identity.kind {
            Kind::Ranges(found) if found.key_bits == wanted.key_bits => found,
            other => return Err(StoreError::Kind(other.to_string())),
        };
        if self.longest_range.is_some() && found != wanted {
            return Err(StoreError::Kind(identity.kind.to_string()));
        }
        let (filter, planned) =
            self.filter(shape, Some((found.longest_range, &identity.secret)))?;
        if numbers(&filter) != found {
            return Err(StoreError::Format("its longest range is impossible".into()));
        }
        if kept != Some(shape) {
            layout::keep_shape(&backend, &shape)?;
        }
        if let Some(directory) = directory {
            home::create_directory(directory)?;
        }
        let restore = |file: &Path| Filter::<K>::open(file, Some(identity.secret.clone()));
        let (saved, restored) = Saved::open(&backend, directory, restore)?;
        // What is asked for now may be another than what was.
        let is_as_asked = |restored: &Filter<K>| {
            numbers(restored) == found && restored.remainder_bits() == filter.remainder_bits()
        };
        if restored.as_ref().is_some_and(|restored| !is_as_asked(restored)) {
            saved.dirty(&backend)?;
        }
        let restored = restored.filter(is_as_asked);
        let is_ready = restored.is_some() || identity.is_new;
        let partitions = filter.partitions().clone();
        let filter = restored.unwrap_or(filter);
        let capacity = filter.capacity();
        let mut store = RangeStore {
            backend,
            _claim: claim,
            is_ready: false,
            filter: RwLock::new(Current { filter, capacity, generation: 0 }),
            stripes: Stripes::new(),
            mistakes: AtomicUsize::new(0),
            mistakes_kept: self.mistakes_kept.max(1),
            partitions,
            shape: planned,
            secret: identity.secret,
            durability: self.durability,
            saved,
            repairs: self.repairs,
            counters: Counters::new(),
            data,
        };
        store.load_mistakes()?;
        // A new store has no members that the filter could miss.
        if !is_ready {
            store.recover()?;
        }
        store.is_ready = true;
        Ok(store)
    }

    /// What is asked for, and otherwise what was.
    fn shape(&self, otherwise: &Shape) -> Shape {
        Shape {
            capacity: self.capacity.unwrap_or(otherwise.capacity),
            false_positive_rate: self.false_positive_rate.unwrap_or(otherwise.false_positive_rate),
            shards: otherwise.shards,
        }
    }

    /// Builds an empty filter: as the store's, if there is one, or as is asked for. Also returns
    /// the shape that it has.
    fn filter<K: StoredKey>(
        &self,
        shape: Shape,
        store: Option<(u64, &Secret)>,
    ) -> Result<(Filter<K>, Shape), BuildError> {
        let asked = self.longest_range.unwrap_or(DEFAULT_RANGE);
        let unused = Secret::from_bytes([0; 16]);
        let (longest_range, secret) = store.unwrap_or((asked, &unused));
        shape.build(self.capacity, DEFAULT.capacity, |shape| {
            empty(shape, shape.capacity, longest_range, secret)
        })
    }
}

/// A filter without members.
pub(super) fn empty<K: StoredKey>(
    shape: &Shape,
    capacity: usize,
    longest_range: u64,
    secret: &Secret,
) -> Result<Filter<K>, BuildError> {
    AdaptiveRangeFilter::<Number<K>>::builder()
        .capacity(capacity)
        .false_positive_rate(shape.false_positive_rate)
        .longest_range(longest_range)
        .secret(secret.clone())
        .build_adaptive()
}

fn numbers<K: StoredKey>(filter: &Filter<K>) -> Numbers {
    Numbers { key_bits: K::BITS, longest_range: filter.longest_range() }
}
