//! Options of a guard.

use super::{Guard, GuardError, Guarded};
use crate::doubts::Doubts;
use crate::maintained::{MaintainedFilter, Policy};
use crate::options::MISTAKES_KEPT;
use crate::sizing::Sizing;
use twiceshy::{Secret, concurrent::Shard, hash::KeyedHasher};

/// Options of a [`Guard`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GuardBuilder {
    sizing: Sizing,
    mistakes_kept: usize,
    max_doubts: usize,
    secret: Option<Secret>,
    is_new_database: bool,
}

impl Default for GuardBuilder {
    fn default() -> Self {
        Self {
            sizing: Sizing::default(),
            mistakes_kept: MISTAKES_KEPT,
            max_doubts: 1 << 16,
            secret: None,
            is_new_database: false,
        }
    }
}

impl GuardBuilder {
    /// Returns the default options, which are those of [`OpenOptions`](crate::OpenOptions): a capacity of
    /// 2^20 members, 0.1 % false positives, and 2^20 mistakes kept. A [`secret`](Self::secret) is missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sizes the filter for this many members \[default: 2^20\]. It grows by itself if there are more.
    pub fn capacity(mut self, members: usize) -> Self {
        self.sizing.capacity = members;
        self
    }

    /// Sets the share of absent keys that the filter takes for members before it is repaired \[default:
    /// 0.001\].
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.sizing.false_positive_rate = rate;
        self
    }

    /// Sets the number of shards of the filter, from 1 to 4096, rounded up to a power of two \[default:
    /// 64\]. The guard lists one shard at a time when it builds the filter.
    pub fn shards(mut self, shards: usize) -> Self {
        self.sizing.shards = shards;
        self
    }

    /// Sets how many mistakes are kept, at least 1, at about 20 bytes of memory each \[default: 2^20\].
    pub fn mistakes_kept(mut self, mistakes: usize) -> Self {
        self.mistakes_kept = mistakes;
        self
    }

    /// Sets how many keys may be [in doubt](Guard::doubts) \[default: 65,536\]. If there are more,
    /// shards answer "maybe" to every query until [`Guard::settle_all`].
    pub fn max_doubts(mut self, keys: usize) -> Self {
        self.max_doubts = keys;
        self
    }

    /// Sets the secret that the hashes in the database were made with, or will be. Generate one with
    /// [`Secret::generate`] when you create the database, and keep it as you keep passwords.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// States that the database has no hashes yet, and will not outlive the guard: a cache, or a test.
    /// The guard then generates a secret of its own, which nobody can ask it for. Has no effect if a
    /// [`secret`](Self::secret) is given.
    pub fn new_database(mut self) -> Self {
        self.is_new_database = true;
        self
    }

    /// Builds a guard and its filter. It lists all keys of the database, shard by shard.
    ///
    /// # Errors
    /// Returns an error
    /// - if there is no [`secret`](Self::secret) and the database isn't
    ///   [new](Self::new_database);
    /// - if the hashes in the database were made with a different secret;
    /// - if the filter can't be built, or if the database fails.
    pub fn build<D: Guarded>(&self, database: D) -> Result<Guard<D>, GuardError<D::Error>> {
        let guard = self.build_unready(database)?;
        guard.rebuild()?;
        Ok(guard)
    }

    /// Builds a guard with a filter of any type, without listing anything. The guard serves at once. It
    /// asks the database about every key of a shard until [`Guard::rebuild`], called by any thread, has
    /// built that shard.
    ///
    /// # Errors
    /// Returns an error if there is no secret, as [`build`](Self::build) does, or if the filter can't be
    /// built.
    pub fn build_unready<D: Guarded, F: Shard>(
        &self,
        database: D,
    ) -> Result<Guard<D, F>, GuardError<D::Error>> {
        let secret = match &self.secret {
            Some(secret) => secret.clone(),
            None if self.is_new_database => Secret::generate()?,
            None => return Err(GuardError::NoSecret),
        };
        let policy = Policy::Found { repaired: true, kept: self.mistakes_kept };
        let maintained = MaintainedFilter::new(self.sizing.build_empty()?, false, policy);
        let doubts = Doubts::new(self.max_doubts);
        Ok(Guard { database, maintained, hasher: KeyedHasher::new(&secret), doubts })
    }
}
