//! Opening a guard.

use super::{Guard, GuardError, Guarded};
use crate::doubts::Doubts;
use crate::maintained::MaintainedFilter;
use crate::options::OpenOptions;
use twiceshy::{Secret, concurrent::Shard, hash::KeyedHasher};

impl OpenOptions {
    /// Puts a [`Guard`] in front of a database, and builds its filter from a listing of all keys of the
    /// database, shard by shard.
    ///
    /// A guard needs the [`secret`](Self::secret) that makes the hashes in the database. Generate one with
    /// [`Secret::generate`] when you create the database, and store it like a password.
    ///
    /// # Errors
    /// Returns an error
    /// - if there is no [`secret`](Self::secret), and the guard may not
    ///   [generate](Self::generate_secret) one;
    /// - if the hashes in the database were made with a different secret;
    /// - if the filter can't be built, or if the database fails.
    pub fn open_guard<D: Guarded>(&self, database: D) -> Result<Guard<D>, GuardError<D::Error>> {
        let guard = self.open_guard_unready(database)?;
        guard.rebuild()?;
        Ok(guard)
    }

    /// Puts a [`Guard`] with a filter of any type in front of a database, without listing anything. The guard
    /// serves immediately. Until [`Guard::rebuild`], called by any thread, has built a shard, the guard asks the
    /// database about every key of that shard.
    ///
    /// # Errors
    /// Returns an error if there is no secret and none may be generated, or if the filter can't be built.
    pub fn open_guard_unready<D: Guarded, F: Shard>(
        &self,
        database: D,
    ) -> Result<Guard<D, F>, GuardError<D::Error>> {
        let secret = match &self.secret {
            Some(secret) => secret.clone(),
            None if self.generates_secret => Secret::generate()?,
            None => return Err(GuardError::NoSecret),
        };
        let mut sizing = self.sizing(None);
        let (kept, bytes) = self.mistakes_in_memory();
        sizing.memory = sizing.memory.map(|memory| memory.saturating_sub(bytes));
        let empty = sizing.build_empty::<F>()?;
        let sizes = sizing.shard_sizes::<F>(empty.shards(), sizing.remainder_bits::<F>()?);
        let maintained =
            MaintainedFilter::new(empty, false, sizes, self.found_mistakes(Some(kept)));
        let doubts = Doubts::new(self.max_doubts);
        Ok(Guard { database, maintained, hasher: KeyedHasher::new(&secret), doubts })
    }
}
