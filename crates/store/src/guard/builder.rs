//! Setting a guard up.

use super::{Guard, GuardError, Guarded};
use crate::filter::{Shape, SharedFilter};
use crate::front::{Front, Policy};
use twiceshy::{KeyedHasher, Secret};

/// How a [`Guard`] is set up.
#[derive(Clone, Debug)]
#[must_use]
pub struct GuardBuilder {
    shape: Shape,
    mistakes_kept: usize,
    secret: Option<Secret>,
}

impl Default for GuardBuilder {
    fn default() -> Self {
        Self {
            shape: Shape { capacity: 1 << 20, false_positive_rate: 1.0 / 512.0, shards: 64 },
            mistakes_kept: 1 << 20,
            secret: None,
        }
    }
}

impl GuardBuilder {
    /// A million members at first, 0.2 % false positives, and a million mistakes kept.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many members to plan the filter for; it grows by itself, if there are more.
    pub fn capacity(mut self, members: usize) -> Self {
        self.shape.capacity = members;
        self
    }

    /// How often the database is asked for a key that it doesn't have, the first time.
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.shape.false_positive_rate = rate;
        self
    }

    /// Into how many shards the filter is cut. Each is listed at once when the filter is
    /// built.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shape.shards = shards;
        self
    }

    /// How many mistakes are remembered, about 20 bytes of memory each.
    pub fn mistakes_kept(mut self, mistakes: usize) -> Self {
        self.mistakes_kept = mistakes;
        self
    }

    /// The secret that keys the hashes. A database that keeps hashes needs the same one each
    /// time; keep it as you keep passwords. If none is given, a fresh one is made.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// A guard of what is in the database, all of which is listed, shard by shard.
    ///
    /// # Errors
    /// If there can't be such a filter, or if the database fails.
    pub fn build<D: Guarded>(&self, database: D) -> Result<Guard<D>, GuardError<D::Error>> {
        let guard = self.build_unready(database)?;
        guard.rebuild()?;
        Ok(guard)
    }

    /// As [`build`](Self::build), but lists nothing, and may have another filter. The guard
    /// serves at once, and asks the database each time until [`Guard::rebuild`], by any
    /// thread, has come to the shard.
    ///
    /// # Errors
    /// If there can't be such a filter.
    pub fn build_unready<D: Guarded, F: SharedFilter>(
        &self,
        database: D,
    ) -> Result<Guard<D, F>, GuardError<D::Error>> {
        let secret = match &self.secret {
            Some(secret) => secret.clone(),
            None => Secret::generate()?,
        };
        let policy = Policy::Found { repaired: true, kept: self.mistakes_kept };
        let front = Front::new(F::with_shape(&self.shape)?, false, policy);
        Ok(Guard { database, front, hasher: KeyedHasher::new(&secret) })
    }
}
