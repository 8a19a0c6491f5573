//! Options of all stores.

use crate::backend::{Backend, Durability};
use crate::chunk::{BATCH, Chunk};
use crate::kind::Layout;
use crate::maintained::{Policy, fixed_bytes};
use crate::sizing::Sizing;
use std::path::Path;
use std::sync::Arc;
use twiceshy::Secret;

/// Options for opening a [`Store`](crate::Store), a [`RangeStore`](crate::RangeStore), a
/// [`ListStore`](crate::ListStore) or a [`Guard`](crate::Guard).
///
/// A store keeps the secret, the layout and the longest range that it was created with. It also remembers the
/// capacity, the rate and the number of shards of its filter, until they are set again. All other options
/// apply only until the store is closed.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("users");
/// use twiceshy_store::{Durability, OpenOptions};
/// let store = OpenOptions::new().capacity(100_000).durability(Durability::Synced).open(&path)?;
/// store.put(b"alice", b"1")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OpenOptions {
    pub(crate) capacity: Option<usize>,
    false_positive_rate: Option<f64>,
    shards: Option<usize>,
    memory: Option<u64>,
    pub(crate) create: bool,
    pub(crate) layout: Option<Layout>,
    pub(crate) longest_range: Option<u64>,
    pub(crate) secret: Option<Secret>,
    pub(crate) generates_secret: bool,
    pub(crate) max_doubts: usize,
    pub(crate) durability: Durability,
    pub(crate) mistakes_kept: Option<usize>,
    pub(crate) repairs: bool,
    pub(crate) background_share: f64,
    pub(crate) progress: Option<OnProgress>,
}

/// Number of mistakes that are kept in memory by default.
pub(crate) const IN_MEMORY: usize = 1 << 16;

/// The maximum memory, in bytes, of a kept mistake of a guard, and of a stripe that has any
/// mistakes.
const MISTAKE_BYTES: u64 = 20;
const STRIPE_BYTES: u64 = 200;

/// A function that is called after each shard is rebuilt.
pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The progress of rebuilding a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of shards that are ready to answer.
    pub ready: usize,
    /// Total number of shards.
    pub shards: usize,
    /// Number of members read so far.
    pub members: u64,
}

impl Progress {
    pub(crate) const fn new(ready: usize, shards: usize, members: u64) -> Self {
        Self { ready, shards, members }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            capacity: None,
            false_positive_rate: None,
            shards: None,
            memory: None,
            create: true,
            layout: None,
            longest_range: None,
            secret: None,
            generates_secret: false,
            max_doubts: 1 << 16,
            durability: Durability::default(),
            mistakes_kept: None,
            repairs: true,
            background_share: 0.5,
            progress: None,
        }
    }
}

impl OpenOptions {
    /// Returns the default options: a filter with 0.1 % false positives that grows with its
    /// members. Acknowledged writes survive a kill.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sizes the filter for `members` members \[default: 1024; 2^20 in a range store\]. The filter grows if
    /// there are more, and shrinks to this size if there are fewer again. At a false-positive rate of 0.2 %,
    /// for example, it takes about 14 bits per member if it is sized for its members, and up to 16 if it has
    /// grown.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// Sets the filter's false-positive rate before repairs: the share of absent keys that it takes for
    /// members \[default: 0.001\]. For a range store, this is the share of empty ranges, at the
    /// [longest](Self::longest_range) length. For lists, it is the share of unlisted keys that are answered
    /// "yes".
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = Some(rate);
        self
    }

    /// Sets the number of shards of the filter, from 1 to 4096, rounded up to a power of two
    /// \[default: 64, or one per 65,536 members of the [capacity](Self::capacity)\]. A shard is rebuilt as a
    /// whole, so more shards take less memory for a rebuild. The filter of a range store always has one
    /// shard. A guard lists one shard at a time when it builds its filter.
    ///
    /// An existing store keeps its shards until the whole filter is built again from nothing: after a crash,
    /// or by `twiceshy store rebuild`.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Limits the memory that a [`Store`](crate::Store) or a [`Guard`](crate::Guard) takes, in bytes, including
    /// a rebuild in the background \[default: no limit\]. The backend's own memory doesn't count. Lists and
    /// range stores ignore this.
    ///
    /// If the members need more, their remainders get shorter, and the false-positive rate rises:
    /// [`Stats::expected_rate`](crate::Stats::expected_rate) shows it. If not even the shortest remainders fit,
    /// shards answer "maybe" to every query. Writes don't fail, and nothing is lost. The limit should be at
    /// least 256 KiB. A guard uses up to an eighth of it for the mistakes that it
    /// [keeps](Self::mistakes_kept). Its keys [in doubt](Self::max_doubts) come on top, and so do the keys that
    /// its database lists at once, which are about 4,096 at most. In a store, the pairs that an
    /// [import](crate::Store::import) sorts at once come on top: up to 64 MiB, or a quarter of the limit if that
    /// is less.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets whether a missing store is created \[default: yes\]. If not, opening a missing store fails with
    /// [`Missing`](crate::StoreError::Missing), and creates nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data");
    /// use twiceshy_store::{OpenOptions, Store, StoreError};
    /// let existing = OpenOptions::new().create(false);
    /// assert!(matches!(existing.open(&path), Err(StoreError::Missing)));
    /// assert!(!path.exists());
    ///
    /// Store::open(&path)?.close()?;
    /// existing.open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets the layout of a [`Store`](crate::Store) \[default: merged\]. An existing store must have
    /// this layout. Other stores ignore it.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Sets the length of the longest range that the false-positive rate holds for, from 1 to 2^20,
    /// rounded up to a power of two \[default: 32\]. An existing range store must have this length.
    /// Other stores ignore it. Each doubling takes one more bit of memory per member.
    ///
    /// A put takes time in proportion to the number of keys in its partition, which spans as many consecutive
    /// numbers as the longest range. If keys are dense, such as timestamps of frequent events, choose ranges
    /// of at most a few thousand keys.
    #[must_use]
    pub fn longest_range(mut self, keys: u64) -> Self {
        self.longest_range = Some(keys);
        self
    }

    /// Sets the secret that keys are hashed with. An existing store must have this secret. By default, a new
    /// store generates one from the operating system's entropy and keeps it to itself. A guard needs the
    /// secret that the hashes in its database were made with.
    ///
    /// An attacker who knows the secret can force a disk read on every request. Set one for a store only
    /// to get the same hashes in another program or in a test.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Lets a [`Guard`](crate::Guard) without a [`secret`](Self::secret) generate one, which can't be read
    /// from the guard. Use this only if the database has no hashes yet and will not outlive the guard, for
    /// example in a cache or a test. Stores ignore this.
    #[must_use]
    pub fn generate_secret(mut self) -> Self {
        self.generates_secret = true;
        self
    }

    /// Sets how many keys of a guard may be [in doubt](crate::Guard::doubts) \[default: 65,536\]. If there
    /// are more, shards answer "maybe" to every query until
    /// [`Guard::settle_all`](crate::Guard::settle_all). Stores ignore this.
    #[must_use]
    pub fn max_doubts(mut self, keys: usize) -> Self {
        self.max_doubts = keys;
        self
    }

    /// Sets what an acknowledged write survives \[default: a kill of the process\].
    ///
    /// With [`Durability::Eventual`], a kill may lose the last acknowledged writes, whole and from the end.
    /// The filter is rebuilt from the remaining ones, so it still misses no key. [`sync`](crate::Store::sync)
    /// and [`close`](crate::Store::close) make all writes durable.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how many mistakes are kept, at least 1. Lists ignore this: they keep the whole no list.
    ///
    /// - A [`Store`](crate::Store) keeps a record of each on disk. Up to 1,024 records wait in
    ///   memory to be written. \[default: no limit; rebuilds thin the records out\]
    /// - A guard takes about 20 bytes of memory for each, and a range store about 70 \[default: 65,536\].
    ///
    /// When more mistakes are made, others are forgotten. When a store rebuilds a shard of its filter, it
    /// thins out the records of earlier builds, to one per 4 members. A forgotten mistake may cost
    /// another disk read after the filter is rebuilt, or after a new member collides with it.
    ///
    /// In a range store, a query of up to the [longest](Self::longest_range) length counts as one or two
    /// mistakes, and a longer query as at most four.
    #[must_use]
    pub fn mistakes_kept(mut self, mistakes: usize) -> Self {
        self.mistakes_kept = Some(mistakes);
        self
    }

    /// Sets whether mistakes are repaired \[default: yes\]. Turn repairs off only to measure their benefit.
    /// Lists ignore this.
    #[must_use]
    pub fn repairs(mut self, repairs: bool) -> Self {
        self.repairs = repairs;
        self
    }

    /// Sets the share of one core that a [`Store`](crate::Store) may use in the background, from 0 to 1
    /// \[default: 0.5\]. The background thread rebuilds shards of the filter that have become too full or too
    /// empty, one at a time. If writers are faster, they are slowed down.
    ///
    /// After each rebuild, the thread rests according to its share, unless a writer waits. So with a very
    /// small share, repairs that wait for the thread may be skipped.
    ///
    /// With 0, the store starts no thread. Then writes rebuild shards that are full, and
    /// [`Store::tend`](crate::Store::tend) rebuilds all shards that are due. Guards and lists have no
    /// background thread, and ignore this.
    #[must_use]
    pub fn background_share(mut self, share: f64) -> Self {
        self.background_share = if share.is_nan() { 0.0 } else { share };
        self
    }

    /// Calls `progress` after each shard that is rebuilt while a [`Store`](crate::Store) is opened. The calls
    /// come from worker threads, one call at a time. Other stores ignore this.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Returns the policy for mistakes that lookups find. `kept` limits how many are kept.
    pub(crate) fn found_mistakes(&self, kept: Option<usize>) -> Policy {
        Policy::Found { repaired: self.repairs, kept }
    }

    /// Returns how many mistakes a guard keeps, and their maximum memory in bytes. If memory is
    /// limited, they take at most an eighth of the limit.
    pub(crate) fn mistakes_in_memory(&self) -> (usize, u64) {
        let bytes = |kept: u64| {
            kept.saturating_mul(MISTAKE_BYTES).saturating_add(kept.min(1 << 9) * STRIPE_BYTES)
        };
        let mut kept = self.mistakes_kept.unwrap_or(IN_MEMORY).max(1) as u64;
        if let Some(memory) = self.memory {
            let spread = memory / 8 / (MISTAKE_BYTES + STRIPE_BYTES);
            let dense = (memory / 8).saturating_sub((1 << 9) * STRIPE_BYTES) / MISTAKE_BYTES;
            kept = kept.min(spread.min(1 << 9).max(dense)).max(1);
        }
        (kept as usize, bytes(kept))
    }

    /// Returns how much data an import sorts together. If memory is limited, the pairs take an eighth of the
    /// limit, and their bytes another one. Vectors that grow and sorting take up to as much again.
    pub(crate) fn sorted_at_once(&self) -> Chunk {
        /// A hash, and a key and a value that are vectors.
        const PAIR_BYTES: u64 = 64;
        let memory = self.memory.unwrap_or(u64::MAX);
        Chunk {
            items: (memory / 8 / PAIR_BYTES).clamp(BATCH.items as u64, 1 << 18) as usize,
            bytes: (memory / 8).clamp(1, 64 << 20) as usize,
        }
    }

    /// Returns the sizing in these options. Values that aren't set are those that the store remembers, or
    /// the default ones.
    pub(crate) fn sizing(&self, remembered: Option<Sizing>) -> Sizing {
        let otherwise = remembered.unwrap_or_default();
        let capacity = self.capacity.unwrap_or(otherwise.capacity);
        let shards =
            remembered.map_or_else(|| Sizing::shards_for(capacity), |sizing| sizing.shards);
        let shards = self.shards.unwrap_or(shards);
        Sizing {
            capacity,
            false_positive_rate: self.false_positive_rate.unwrap_or(otherwise.false_positive_rate),
            shards,
            memory: self.memory.map(|bytes| bytes.saturating_sub(fixed_bytes(shards))),
        }
    }

    /// Opens the default backend in a directory. If there is no backend yet, calls `check` first,
    /// so that invalid options leave nothing on disk.
    #[cfg(feature = "fjall")]
    pub(crate) fn default_place<'a>(
        &self,
        directory: &'a Path,
        check: impl FnOnce(&Sizing) -> crate::Result<()>,
    ) -> crate::Result<Place<'a, crate::FjallBackend>> {
        if !crate::backend::has_data(&directory.join(crate::directory::DATA))? {
            check(&self.sizing(None))?;
        }
        let backend = crate::directory::open_backend(directory, self.create)?;
        Ok(Place { backend, directory: Some(directory), data: crate::directory::DATA })
    }
}

/// The backend and the directories of a store.
pub(crate) struct Place<'a, B> {
    pub(crate) backend: B,
    /// The directory for the saved filter, or `None` if the filter isn't saved.
    pub(crate) directory: Option<&'a Path>,
    /// The path of the backend within the directory of a backup.
    pub(crate) data: &'static str,
}

impl<'a, B: Backend> Place<'a, B> {
    pub(crate) fn new(backend: B, directory: Option<&'a Path>) -> Self {
        Self { backend, directory, data: "" }
    }
}
