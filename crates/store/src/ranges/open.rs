//! Opening a range store.

use super::{Current, Filter, Number, RangeStore, StoredKey};
use crate::backend::Backend;
use crate::error::{Result, StoreError};
use crate::kind::{Kind, Numbers};
use crate::options::{IN_MEMORY, OpenOptions, Place};
use crate::sizing::Sizing;
use crate::stats::Counters;
use crate::storage::{Opened, Opening};
use crate::stripes::Stripes;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::sync::{Mutex, RwLock};
use std::path::Path;
use twiceshy::KeyedSnapshot;
use twiceshy::{
    AdaptiveRangeFilter, Secret,
    builder::{Builder, Plan},
    error::BuildError,
    range::PlanDetails,
};

/// The longest range of a new store, unless the options say otherwise.
const DEFAULT_RANGE: u64 = 32;

/// The capacity of a new filter, unless the options say otherwise.
const DEFAULT_CAPACITY: usize = 1 << 20;

impl OpenOptions {
    /// Opens the [`RangeStore`] in a directory, or creates it, with the default backend. A new store needs
    /// a new or empty directory.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    #[cfg(feature = "fjall")]
    pub fn open_ranges<K: StoredKey>(
        &self,
        directory: impl AsRef<Path>,
    ) -> Result<RangeStore<K, crate::FjallBackend>> {
        let check = |sizing: &Sizing| Ok(self.unkeyed::<K>(sizing).build().map(drop)?);
        self.open_ranges_at(self.default_place(directory.as_ref(), check)?)
    }

    /// Opens the [`RangeStore`] in a backend, or creates it. See [`open_with`](Self::open_with).
    ///
    /// # Errors
    /// Returns the same errors as [`open_with`](Self::open_with).
    pub fn open_ranges_with<K: StoredKey, B: Backend>(
        &self,
        backend: B,
        directory: Option<&Path>,
    ) -> Result<RangeStore<K, B>> {
        self.open_ranges_at(Place::new(backend, directory))
    }

    fn open_ranges_at<K: StoredKey, B: Backend>(
        &self,
        place: Place<'_, B>,
    ) -> Result<RangeStore<K, B>> {
        const { assert!(K::BITS > 0 && K::BITS <= 128, "keys have 1 to 128 bits") }
        let mut opening = Opening::begin(self, place)?;
        opening.sizing.shards = 1;
        if self.capacity.is_none() && !opening.is_remembered() {
            // A range filter grows by doubling, and is best planned for many members.
            opening.sizing.capacity = DEFAULT_CAPACITY;
        }
        opening.check(|sizing| self.unkeyed::<K>(sizing).build())?;
        let wanted = numbers::<K>(
            &opening.build(|sizing| self.unkeyed::<K>(sizing).plan()).map_err(BuildError::from)?.0,
        );
        let identity = opening.identify(Kind::Ranges(wanted))?;
        let found = match identity.kind {
            Kind::Ranges(found) if found.key_bits == wanted.key_bits => found,
            other => return Err(StoreError::Kind(other.to_string())),
        };
        if self.longest_range.is_some() && found != wanted {
            return Err(StoreError::Kind(identity.kind.to_string()));
        }
        let secret = &identity.secret;
        let builder = |sizing: &Sizing| builder::<K>(sizing, found.longest_range, secret);
        let (plan, _) = opening.build(|sizing| builder(sizing).plan()).map_err(BuildError::from)?;
        if numbers::<K>(&plan) != found {
            return Err(StoreError::Format("its longest range is invalid".into()));
        }
        let Opened { storage, filter, is_restored, sizing } = opening.finish(
            None,
            |sizing| builder(sizing).build(),
            |file| Filter::<K>::open(file, Some(secret.clone())),
            // Use the saved filter only if it has the properties that the options ask for.
            |restored: &Filter<K>| {
                let details = restored.details();
                details.longest_range == found.longest_range
                    && details.remainder_bits == plan.remainder_bits
            },
        )?;
        let is_ready = is_restored || identity.is_new;
        let partitions = filter.partitions().clone();
        let capacity = filter.details().capacity;
        let mut store = RangeStore {
            storage,
            is_ready: false,
            filter: RwLock::new(Current { filter, capacity, generation: 0 }),
            stripes: Stripes::new(),
            mistakes: AtomicUsize::new(0),
            marked: AtomicUsize::new(0),
            mistakes_kept: self.mistakes_kept.unwrap_or(IN_MEMORY).max(1),
            partitions,
            sizing,
            secret: identity.secret,
            repairs: self.repairs,
            is_outdated: AtomicBool::new(false),
            due: AtomicU64::new(0),
            failure: Mutex::default(),
            rebuild_bytes: AtomicU64::new(0),
            counters: Counters::new(),
        };
        store.load_mistakes()?;
        // A new store has no members, so its empty filter is ready.
        if !is_ready {
            store.recover()?;
        }
        store.is_ready = true;
        Ok(store)
    }

    /// Returns a builder for a filter with these options and a placeholder secret.
    fn unkeyed<K: StoredKey>(&self, sizing: &Sizing) -> Builder<Filter<K>> {
        let longest_range = self.longest_range.unwrap_or(DEFAULT_RANGE);
        builder(sizing, longest_range, &Secret::from_bytes([0; 16]))
    }
}

/// Returns a builder for a filter.
pub(super) fn builder<K: StoredKey>(
    sizing: &Sizing,
    longest_range: u64,
    secret: &Secret,
) -> Builder<Filter<K>> {
    AdaptiveRangeFilter::<Number<K>>::builder()
        .capacity(sizing.capacity)
        .false_positive_rate(sizing.false_positive_rate)
        .longest_range(longest_range)
        .secret(secret.clone())
}

/// Returns the key size and the longest range of a planned filter.
fn numbers<K: StoredKey>(plan: &Plan<PlanDetails>) -> Numbers {
    Numbers { key_bits: K::BITS, longest_range: 1 << plan.details.memento_bits }
}
