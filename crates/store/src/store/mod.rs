//! The key-value store.

mod open;
mod read;
mod reconcile;
mod recover;
mod scan;
mod write;

use crate::backend::{Backend, Batch, Keyspace};
use crate::chunk::Chunk;
use crate::error::{Result, StoreError};
use crate::kind::Layout;
use crate::layout;
use crate::maintained::{Doubt, MaintainedFilter, Source};
use crate::stats::Stats;
use crate::storage::{Storage, impl_upkeep};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::sync::thread::JoinHandle;
use std::ops::RangeInclusive;
use std::sync::Arc;
use twiceshy::{Hash, MemberSource, QuotientFilter, concurrent::Shard, hash::KeyedHasher};

pub use scan::Pairs;

/// An embedded key-value store with an adaptive filter in front. A lookup of an absent key reads the disk
/// only if the filter takes the key for a member by mistake. The mistake is then repaired.
///
/// # Guarantees
/// - Acknowledged puts and deletes survive the failures that the [durability](crate::OpenOptions::durability)
///   covers. The filter never misses a member.
/// - A repaired mistake stays repaired across puts and deletes of other keys, and across closing, until
///   its shard of the filter is rebuilt. A rebuilt shard starts with the repairs of all mistakes that are
///   [kept](crate::OpenOptions::mistakes_kept); each may come back once if a new member collides with it.
///   There are four exceptions. When more mistakes are made than can be kept, some are forgotten. A kill
///   may lose the repairs of the last mistakes, and records that a rebuild has deleted since the filter
///   was saved. A key that was put and deleted again may be a mistake once
///   more. If the backend fails to list members or mistakes during a put, mistakes near the new key may
///   come back; they are counted as [failed repairs](Stats::repairs_failed).
/// - A lookup writes nothing to the backend. It waits for no rebuild, and for no other operation's call of the
///   backend, but briefly for a change of the same shard of the filter. If a repair can't be made immediately, the background thread or a later write makes it. If too many are waiting, or if
///   the filter has no room, the repair is [skipped](Stats::repairs_skipped), until the mistake
///   recurs.
/// - While the filter is being rebuilt, and is not [ready](Self::wait_until_ready), the backend answers
///   the lookups that the filter can't.
/// - A backend has one store at a time. Opening a second one fails.
/// - All operations take `&self`. Operations on one key happen one after the other.
///
/// # How it works
/// A put changes the filter first and then the backend, and a delete changes the backend first. So the filter
/// always holds every key of the backend. If a put fails in between, the filter has a *ghost*: a fingerprint
/// without a key, which the next repair near it clears.
///
/// The filter lives in memory. It is saved when the store is closed, and loaded when the store is opened,
/// if no key was written since. Otherwise it is rebuilt from the members and the mistakes in the
/// backend, shard by shard, while the store is already in use.
///
/// A repaired mistake is recorded in the backend. The records wait in memory until the background thread, a
/// later write, [`sync`](Self::sync) or [`close`](Self::close) writes them.
///
/// When a shard of the filter has become too full or too empty, it is rebuilt from its members, in the
/// [background](crate::OpenOptions::background_share), with room for a fifth more members and with fresh
/// remainders. So the false-positive rate stays the same however much the store grows, unless
/// [memory](crate::OpenOptions::memory) is limited; memory is proportional to the number of members; and a
/// shard whose room is used up by repairs gets new room.
///
/// # Other filters
/// The filter can be any [`Shard`]. A [`TelescopingFilter`](twiceshy::TelescopingFilter) keeps its repairs in
/// fixed space. It misses no member either. But where it has no room for a repair, it forgets other repairs.
/// Each forgotten repair may cost another disk read, which is [counted](Stats::repeated_false_positives).
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
    /// The background thread.
    tending: Option<JoinHandle<()>>,
}

/// The state that the threads of a store share.
struct Inner<B, F> {
    storage: Storage<B>,
    maintained: MaintainedFilter<F>,
    hasher: KeyedHasher,
    layout: Layout,
    /// The maximum amount of data that an import sorts together.
    sorted_at_once: Chunk,
    is_closing: AtomicBool,
    /// The reason why the filter couldn't be rebuilt.
    rebuild_error: Mutex<Option<StoreError>>,
}

impl_upkeep!([B: Backend, F: Shard] Store<B, F>, inner.storage, |store| store.inner.flush_records());

impl<B: Backend, F: Shard> Store<B, F> {
    /// Returns counters of the store's operations since it was opened, and the state of its filter.
    pub fn stats(&self) -> Stats {
        self.inner.maintained.stats()
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    fn hash(&self, key: &[u8]) -> Hash {
        self.hasher.hash_bytes(key)
    }

    /// Writes the queued records of mistakes. If that fails, they stay queued, and nothing else is lost.
    fn flush_records(&self) {
        let _ = self.maintained.flush_records(self);
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
    const KEEPS_RECORDS: bool = true;

    fn recorded(&self, hashes: &RangeInclusive<Hash>) -> impl Iterator<Item = Result<Hash>> {
        layout::mistakes(&self.storage.backend, hashes)
    }

    fn is_recorded(&self, mistake: Hash) -> Result<bool> {
        let record = self.storage.backend.get(Keyspace::Mistakes, &layout::mistake_key(mistake))?;
        Ok(record.is_some())
    }

    fn write_records(&self, new: &[Hash], forgotten: &[Hash]) -> Result<()> {
        let mut batch = Batch::new();
        for &mistake in new {
            batch.insert(Keyspace::Mistakes, layout::mistake_key(mistake), b"");
        }
        for &mistake in forgotten {
            batch.remove(Keyspace::Mistakes, layout::mistake_key(mistake));
        }
        self.storage.write_hints(&batch)
    }

    fn doubt(&self, _: Hash) -> Doubt {
        self.storage.doubt()
    }

    fn complete(&self) -> Result<bool> {
        if self.layout == Layout::Split {
            self.reconcile()?;
        }
        Ok(!self.is_closing())
    }
}
