//! Options of all stores.

use crate::backend::{Backend, Durability};
use crate::kind::Layout;
use crate::maintained::Policy;
use crate::sizing::Sizing;
use std::path::Path;
use std::sync::Arc;
use twiceshy::Secret;

/// Options for opening a [`Store`](crate::Store), a [`RangeStore`](crate::RangeStore), a
/// [`ListStore`](crate::ListStore) or a [`Guard`](crate::Guard).
///
/// A store keeps what it was created with: its secret, its layout and its longest range. It also
/// remembers the capacity, the rate and the number of shards of its filter, until they are set again.
/// All other options apply to one opening.
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
    pub(crate) create: bool,
    pub(crate) layout: Option<Layout>,
    pub(crate) longest_range: Option<u64>,
    pub(crate) secret: Option<Secret>,
    pub(crate) generates_secret: bool,
    pub(crate) max_doubts: usize,
    pub(crate) durability: Durability,
    pub(crate) mistakes_kept: usize,
    pub(crate) repairs: bool,
    pub(crate) progress: Option<OnProgress>,
}

/// A function that is called after each shard of a filter that is rebuilt.
pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The progress of rebuilding a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Shards that are ready to answer.
    pub ready: usize,
    /// Shards of the filter.
    pub shards: usize,
    /// Members read so far.
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
            create: true,
            layout: None,
            longest_range: None,
            secret: None,
            generates_secret: false,
            max_doubts: 1 << 16,
            durability: Durability::default(),
            mistakes_kept: 1 << 20,
            repairs: true,
            progress: None,
        }
    }
}

impl OpenOptions {
    /// Returns the default options: a new filter is planned for 2^20 members with 0.1 % false
    /// positives, acknowledged writes survive a kill, and 2^20 mistakes are kept.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sizes the filter for this many members \[default: 2^20\]. It grows by itself if there are more.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// Sets the share of absent keys that the filter takes for members before it is repaired
    /// \[default: 0.001\]. For a range store, this is the share of empty ranges, at the
    /// [longest](Self::longest_range) length. For lists, it is the share of unlisted keys that are
    /// answered "yes".
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = Some(rate);
        self
    }

    /// Sets the number of shards of the filter, from 1 to 4096, rounded up to a power of two
    /// \[default: 64\]. More shards make the pauses of a rebuild shorter. The filter of a range store
    /// always has one shard. A guard lists one shard at a time when it builds its filter.
    ///
    /// An existing store keeps the shards, the size and the remainders of its filter until the whole
    /// filter is built again from nothing: after a crash, or by `twiceshy store rebuild`.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets whether a missing store is created \[default: yes\]. If not, opening a missing store makes
    /// nothing and fails with [`Missing`](crate::StoreError::Missing).
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
    /// A put takes time in proportion to the number of keys in its partition: up to as many
    /// consecutive keys as the longest range has. If keys are dense, such as timestamps of frequent
    /// events, choose ranges of at most a few thousand keys.
    #[must_use]
    pub fn longest_range(mut self, keys: u64) -> Self {
        self.longest_range = Some(keys);
        self
    }

    /// Sets the secret that keys are hashed with. An existing store must have this secret. By default,
    /// a new store generates one from the operating system's entropy, and nobody needs to know it. A
    /// guard needs the secret that the hashes in its database were made with.
    ///
    /// An attacker who knows the secret can force a disk read on every request. Set one for a store only
    /// to get the same hashes in another program or in a test.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Lets a [`Guard`](crate::Guard) without a [`secret`](Self::secret) generate one, which nobody can
    /// ask it for. Say this only if the database has no hashes yet, and will not outlive the guard: a
    /// cache, or a test. Stores ignore this.
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
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how many mistakes are kept, at least 1 \[default: 2^20\]. Each takes about 20 bytes of
    /// memory, and about 70 in a range store. Lists ignore this: they keep the whole no list.
    ///
    /// When more mistakes are made, others are forgotten. A forgotten mistake may cost another disk
    /// read after the filter is rebuilt, or after a new member collides with it.
    ///
    /// In a range store, a query of up to the [longest](Self::longest_range) length takes one or two
    /// of these places, and a longer one at most four.
    #[must_use]
    pub fn mistakes_kept(mut self, mistakes: usize) -> Self {
        self.mistakes_kept = mistakes;
        self
    }

    /// Sets whether mistakes are repaired \[default: yes\]. Turn repairs off only to measure what they
    /// are worth. Lists ignore this.
    #[must_use]
    pub fn repairs(mut self, repairs: bool) -> Self {
        self.repairs = repairs;
        self
    }

    /// Calls `progress` whenever a shard was rebuilt while a [`Store`](crate::Store) is opened. The
    /// calls come from worker threads, one call at a time. Other stores ignore this.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Returns the policy for mistakes that lookups find.
    pub(crate) fn found_mistakes(&self) -> Policy {
        Policy::Found { repaired: self.repairs, kept: self.mistakes_kept }
    }

    /// Returns the sizing in these options. What they don't say comes from `otherwise`.
    pub(crate) fn sizing(&self, otherwise: Sizing) -> Sizing {
        Sizing {
            capacity: self.capacity.unwrap_or(otherwise.capacity),
            false_positive_rate: self.false_positive_rate.unwrap_or(otherwise.false_positive_rate),
            shards: self.shards.unwrap_or(otherwise.shards),
        }
    }

    /// Opens the default backend in a directory. If it is new, `check` is called first, so that options
    /// that can't work leave nothing on the disk.
    #[cfg(feature = "fjall")]
    pub(crate) fn default_place<'a>(
        &self,
        directory: &'a Path,
        check: impl FnOnce(&Sizing) -> crate::Result<()>,
    ) -> crate::Result<Place<'a, crate::FjallBackend>> {
        if !crate::backend::has_data(&directory.join(crate::directory::DATA))? {
            check(&self.sizing(Sizing::default()))?;
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
