//! The key-value store.

mod open;
mod read;
mod reconcile;
mod recover;
mod scan;
mod write;

use crate::backend::{Backend, Batch, Keyspace};
use crate::error::{Result, StoreError};
use crate::kind::Layout;
use crate::layout;
use crate::maintained::{Doubt, MaintainedFilter, Source};
use crate::stats::Stats;
use crate::storage::{Storage, impl_upkeep};
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use twiceshy::{Hash, MemberSource, QuotientFilter, concurrent::Shard, hash::KeyedHasher};

pub use scan::Pairs;

/// An embedded key-value store with an adaptive filter in front. A lookup of an absent key reads the disk
/// only if the filter takes the key for a member by mistake. The mistake is then repaired.
///
/// # Guarantees
/// - An acknowledged put is there, and an acknowledged delete is done, as far as the
///   [durability](crate::OpenOptions::durability) reaches. The filter never misses a member.
/// - A repaired mistake stays repaired while it is one of those that are
///   [kept](crate::OpenOptions::mistakes_kept): across puts and deletes of other keys, growth, closing
///   and crashes. There are three exceptions. When more mistakes are made than can be kept, some are
///   forgotten, and each of those may cost another disk read. A key that was put and deleted again may
///   be a mistake once more. If the backend fails to list members during a put, mistakes near the new key
///   may come back; they are counted as [failed repairs](Stats::repairs_failed).
/// - While the filter is being rebuilt, and is not [ready](Self::wait_until_ready), the backend answers
///   the lookups that the filter can't.
/// - A backend has one store at a time. Opening a second one fails.
/// - All operations take `&self`. Operations on one key happen one after the other.
///
/// # How it works
/// A put goes to the filter first and then to the backend, and a delete goes the other way round. So the
/// filter always has what the backend has. If a put fails in between, the filter has a *ghost*: an extra
/// "maybe", which the next repair there clears.
///
/// The filter lives in memory. It is saved when the store is closed, and loaded when the store is opened,
/// if nothing was written since. Otherwise it is rebuilt from the members and the mistakes in the
/// backend, shard by shard, while the store is already in use.
///
/// # Other filters
/// The filter can be any [`Shard`]. A [`TelescopingFilter`](twiceshy::TelescopingFilter) keeps its
/// repairs in fixed space. It misses no member either, but where it has no room for a repair, it forgets
/// others: each of those mistakes costs another disk read, and is
/// [counted](Stats::repeated_false_positives).
///
/// ```
/// use twiceshy::TelescopingFilter;
/// use twiceshy_store::{MemoryBackend, OpenOptions, Store};
///
/// let options = OpenOptions::new().capacity(1000);
/// let store: Store<_, TelescopingFilter> = options.open_with(MemoryBackend::new(), None)?;
/// store.put(b"alice", b"1")?;
/// assert_eq!(store.get(b"alice")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(store.get(b"mallory")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store<B: Backend, F: Shard = QuotientFilter> {
    inner: Arc<Inner<B, F>>,
    rebuilding: Option<JoinHandle<()>>,
}

/// The state that the threads of a store share.
struct Inner<B, F> {
    storage: Storage<B>,
    maintained: MaintainedFilter<F>,
    hasher: KeyedHasher,
    layout: Layout,
    is_closing: AtomicBool,
    /// Why the filter couldn't be rebuilt.
    rebuild_error: Mutex<Option<StoreError>>,
}

impl_upkeep!([B: Backend, F: Shard] Store<B, F>, inner.storage);

impl<B: Backend, F: Shard> Store<B, F> {
    /// Returns what the store has done since it was opened, and the state of its filter.
    pub fn stats(&self) -> Stats {
        self.inner.maintained.stats()
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    fn hash(&self, key: &[u8]) -> Hash {
        self.hasher.hash_bytes(key)
    }
}

impl<B: Backend, F: Shard> MemberSource for Inner<B, F> {
    type Member = Hash;
    type Error = StoreError;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Hash>> {
        layout::members(&self.storage.backend, &self.hasher, &hashes)
    }
}

impl<B: Backend, F: Shard> Source for Inner<B, F> {
    fn keep_mistake(&self, mistake: Hash, forgotten: Option<Hash>) -> Result<()> {
        let mut batch = Batch::new();
        batch.insert(Keyspace::Mistakes, layout::mistake_key(mistake), b"");
        if let Some(forgotten) = forgotten {
            batch.remove(Keyspace::Mistakes, layout::mistake_key(forgotten));
        }
        self.storage.write_mistakes(&batch)
    }

    fn doubt(&self, _: Hash) -> Doubt {
        self.storage.doubt()
    }
}
