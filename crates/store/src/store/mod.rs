//! The guarded store.

mod open;
mod read;
mod reconcile;
mod recover;
mod scan;
mod statistics;
mod write;

use crate::backend::{Backend, BackendClaim, Batch, Durability, Keyspace};
use crate::error::{Result, StoreError};
use crate::front::{Behind, Doubt, Front};
use crate::layout::{self, Layout};
use crate::saved::Saved;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use twiceshy::{AdaptiveQuotientFilter, Hash, KeyedHasher, Shard};

pub use open::{Options, Progress};
pub use scan::Pairs;
pub use statistics::Statistics;

/// An embedded key-value store with an adaptive filter in front: a lookup of an absent key reads no
/// disk, unless the filter takes the key for a member; after such a mistake, the filter knows better.
///
/// # What holds
/// - A put that was acknowledged is there, a delete is done, whatever happens, as far as the
///   durability that was asked for reaches; and the filter never misses a member.
/// - A mistake that was repaired stays repaired: across deletes and puts of other keys, growth,
///   closing and crashes, as long as it is one of those that are [kept](Options::mistakes_kept).
///   When more mistakes are made than can be kept, some are forgotten, and each of those may cost
///   another disk read. A key that was put and deleted again may be a mistake again, once. If the
///   backend fails to list members during a put, mistakes near the new key may come back, too; they
///   are counted as [failed repairs](Statistics::repairs_failed).
/// - While the filter is being built, and not [ready](Self::wait_until_ready), the backend answers
///   whatever the filter can't.
/// - A backend has one store at a time: opening a second one fails.
/// - All operations take `&self`. Those on one key happen one after the other.
///
/// # How it works
/// A put goes to the filter first, then to the backend, and a delete the other way round, so
/// that the filter always has what the backend has. If a put fails in between, the filter has
/// a *ghost*: an extra "maybe", which the next repair there clears.
///
/// The filter lives in memory. It is saved when the store is closed, and loaded when it is
/// opened, if nothing was written since; otherwise it is built again from the members and the
/// mistakes in the backend, shard by shard, while the store is used already.
///
/// # Other filters
/// Any filter that can be a [`Shard`] will do. One that keeps its repairs in fixed space, a
/// [`TelescopingFilter`](twiceshy::TelescopingFilter), misses no member either, but where
/// it has no room for a repair it forgets others: these mistakes cost another visit each. What was
/// repaired, and is asked again, is
/// [counted](Statistics::repeated_false_positives).
///
/// ```
/// use twiceshy::TelescopingFilter;
/// use twiceshy_store::{GuardedStore, MemoryBackend, Options};
///
/// let store: GuardedStore<_, TelescopingFilter> =
///     Options::new().capacity(1000).open_with(MemoryBackend::new(), None)?;
/// store.put(b"alice", b"1")?;
/// assert_eq!(store.get(b"alice")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(store.get(b"mallory")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GuardedStore<B: Backend, F: Shard = AdaptiveQuotientFilter> {
    inner: Arc<Inner<B, F>>,
    rebuilding: Option<JoinHandle<()>>,
}

/// What the threads share.
struct Inner<B, F> {
    backend: B,
    _claim: BackendClaim,
    front: Front<F>,
    hasher: KeyedHasher,
    layout: Layout,
    durability: Durability,
    saved: Saved,
    /// Where a backup has the backend, in its directory.
    data: &'static str,
    is_closing: AtomicBool,
    /// Why the filter couldn't be built again.
    rebuild_error: Mutex<Option<StoreError>>,
}

impl<B: Backend, F: Shard> Inner<B, F> {
    fn hash(&self, key: &[u8]) -> Hash {
        self.hasher.hash_bytes(key)
    }
}

impl<B: Backend, F: Shard> Behind for Inner<B, F> {
    type Error = StoreError;

    fn members(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<Hash>> {
        layout::members(&self.backend, &self.hasher, hashes)
    }

    fn keep_mistake(&self, mistake: Hash, forgotten: Option<Hash>) -> Result<()> {
        let mut batch = Batch::new();
        batch.insert(Keyspace::Mistakes, layout::mistake_key(mistake), b"");
        if let Some(forgotten) = forgotten {
            batch.remove(Keyspace::Mistakes, layout::mistake_key(forgotten));
        }
        self.saved.write_mistakes(&self.backend, &batch, self.durability)
    }

    fn doubt(&self, _: Hash) -> Doubt {
        self.saved.doubt()
    }
}
