//! Opening a list store.

use super::{Entries, ListStore};
use crate::backend::Backend;
use crate::error::{Result, StoreError};
use crate::kind::{Kind, List};
use crate::maintained::{MaintainedFilter, Policy};
use crate::options::{OpenOptions, Place};
use crate::sizing::Sizing;
use crate::storage::{Opened, Opening};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;
use twiceshy::{
    Concurrent, QuotientFilter, Snapshot,
    error::{BuildError, PlanError},
    hash::KeyedHasher,
};

impl OpenOptions {
    /// Opens the [`ListStore`] in a directory, or creates it, with the default backend. A new store needs
    /// a new or empty directory.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    #[cfg(feature = "fjall")]
    pub fn open_lists(
        &self,
        directory: impl AsRef<Path>,
    ) -> Result<ListStore<crate::FjallBackend>> {
        let check = |sizing: &Sizing| Ok(empty(sizing).map(drop)?);
        self.open_lists_at(self.default_place(directory.as_ref(), check)?)
    }

    /// Opens the [`ListStore`] in a backend, or creates it. See [`open_with`](Self::open_with).
    ///
    /// # Errors
    /// Returns the same errors as [`open_with`](Self::open_with).
    pub fn open_lists_with<B: Backend>(
        &self,
        backend: B,
        directory: Option<&Path>,
    ) -> Result<ListStore<B>> {
        self.open_lists_at(Place::new(backend, directory))
    }

    fn open_lists_at<B: Backend>(&self, place: Place<'_, B>) -> Result<ListStore<B>> {
        let opening = Opening::begin(self, place)?;
        let sizing = opening.sizing;
        let checked = opening.check(empty)?;
        let identity = opening.identify(Kind::Lists)?;
        if identity.kind != Kind::Lists {
            return Err(StoreError::Kind(identity.kind.to_string()));
        }
        let slot_bits = remainder_bits(&sizing)?;
        let Opened { storage, filter, is_restored, sizing } = opening.finish(
            checked,
            empty,
            |file| Concurrent::<QuotientFilter>::open(file),
            // Use the saved filter only if it has the rate that the options ask for.
            |restored: &Concurrent<QuotientFilter>| {
                restored.parameters().iter().all(|shard| shard.slot_bits == slot_bits)
            },
        )?;
        // New lists have no keys, so their empty filter is ready.
        let is_ready = is_restored || identity.is_new;
        let policy = Policy::Listed { rate: sizing.false_positive_rate };
        let sizes = without_limit(sizing).shard_sizes::<QuotientFilter>(filter.shards(), slot_bits);
        let store = ListStore {
            storage,
            maintained: MaintainedFilter::new(filter, is_ready, sizes, policy),
            hasher: KeyedHasher::new(&identity.secret),
            secret: identity.secret,
            yes: AtomicU64::new(0),
        };
        let no = Entries::of(&store.storage.backend, &store.hasher, List::No);
        store.maintained.load_mistakes(no.map(|entry| entry.map(|(hash, _)| hash)))?;
        if !is_ready {
            store.maintained.rebuild_all(&store, || Ok(()), || true, |_| ())?;
        }
        store.maintained.review_all();
        // A filter that was saved, or built just now, has no ghosts, so its length is that of the yes list.
        store.yes.store(store.maintained.filter.len() as u64, Ordering::Relaxed);
        Ok(store)
    }
}

/// Builds an empty filter.
fn empty(sizing: &Sizing) -> Result<Concurrent<QuotientFilter>, BuildError> {
    without_limit(*sizing).build_with(remainder_bits(sizing)?)
}

/// Returns a sizing without a memory limit, because lists must keep to their false-positive rate.
fn without_limit(sizing: Sizing) -> Sizing {
    Sizing { memory: None, ..sizing }
}

/// Returns the number of bits per remainder with which even a full filter keeps to its
/// false-positive rate.
fn remainder_bits(sizing: &Sizing) -> Result<u32, BuildError> {
    let rate = sizing.false_positive_rate;
    let least = f64::exp2(-56.0);
    if !(rate >= least && rate < 1.0) {
        return Err(PlanError::Rate { rate, least }.into());
    }
    Ok((-(-rate).ln_1p()).recip().log2().ceil().max(1.0) as u32)
}
