//! A filter in front of a database that is there already.

mod builder;
mod error;
#[cfg(test)]
mod tests;

pub use builder::GuardBuilder;
pub use error::GuardError;

use crate::filter::SharedFilter;
use crate::front::{Behind, Front};
use crate::store::Statistics;
use std::borrow::Borrow;
use std::ops::RangeInclusive;
use twiceshy::{ConcurrentAdaptiveQuotientFilter, Hash, Key, KeyedHasher};

/// A database that a [`Guard`] stands before: anything that has keys, and lists them in the
/// order of their hashes.
///
/// For the latter it keeps the hash beside the key, or its first bytes, and an index of it: a
/// `BTreeMap`, or a column of an SQL table ([`hash_column`]).
pub trait Guarded {
    /// What is looked up.
    type Key: Key + ToOwned + ?Sized;
    /// What is found.
    type Value;
    /// What goes wrong.
    type Error;

    /// What the database has for a key.
    ///
    /// # Errors
    /// If it can't tell.
    fn look_up(&self, key: &Self::Key) -> Result<Option<Self::Value>, Self::Error>;

    /// The keys whose hashes are in an interval, all of them, each once, in any order. Others
    /// may be among them, and are left out: an index of the first bytes of the hash will do.
    ///
    /// # Errors
    /// If not all can be listed. A list that is silently too short loses members.
    fn list(
        &self,
        hashes: RangeInclusive<Hash>,
    ) -> Result<Vec<<Self::Key as ToOwned>::Owned>, Self::Error>;
}

/// The first 8 bytes of a hash as a signed integer, in the same order: for a column of an SQL
/// table. The keys in an interval of hashes are `BETWEEN hash_column(start) AND
/// hash_column(end)`, and perhaps a few more, which a guard leaves out.
pub fn hash_column(hash: Hash) -> i64 {
    ((hash.as_u128() >> 64) as u64 ^ 1 << 63).cast_signed()
}

/// An adaptive filter in front of your own database: what isn't there costs no query, and what
/// the filter takes for a member by mistake costs two, once: one that looks it up, one that
/// lists the members behind the mistake.
///
/// # The contract
/// - All writes that bring or take keys go through the guard, which calls you to do them;
///   changing the value of a key that is there needn't. Nobody else writes to the database;
///   if somebody did, [`rebuild`](Self::rebuild) finds what he brought.
/// - While you are called, the guard holds a lock of the keys' *stripe*, a 4096th or so of all
///   hashes: writes and repairs there wait, and with them a read that the filter answers
///   "maybe", if it finds nothing; other reads never do. So writes of one key happen one
///   after the other, in filter and database alike, and no repair takes a member that is on
///   its way for a ghost. Don't use the guard from within: it would wait for itself.
/// - When you return, what you wrote is there for [`Guarded::look_up`] and
///   [`Guarded::list`]: commit, if there is a transaction.
/// - [`hash`](Self::hash) must be the hash that was kept with the keys: give the
///   [secret](GuardBuilder::secret) back, if the database outlives the guard.
///
/// # What holds
/// - No member is ever taken for absent, whatever fails: a member is in the filter before it
///   is in the database, and until after. A write that failed may leave a *ghost*, an extra
///   "maybe" that the next repair there clears.
/// - A mistake that was repaired stays so as long as it is one of those that are
///   [kept](GuardBuilder::mistakes_kept), in memory: across inserts, removals and growth, not
///   across restarts.
/// - A repair that fails doesn't fail a read; it is [counted](Self::stats).
///
/// ```
/// use std::collections::BTreeMap;
/// use std::convert::Infallible;
/// use std::ops::RangeInclusive;
/// use std::sync::RwLock;
/// use twiceshy::Hash;
/// use twiceshy_store::{GuardBuilder, Guarded};
///
/// #[derive(Default)]
/// struct Ages(RwLock<Tables>);
///
/// #[derive(Default)]
/// struct Tables {
///     ages: BTreeMap<String, u32>,
///     names: BTreeMap<Hash, String>, // the index
/// }
///
/// impl Guarded for Ages {
///     type Key = str;
///     type Value = u32;
///     type Error = Infallible;
///
///     fn look_up(&self, name: &str) -> Result<Option<u32>, Infallible> {
///         Ok(self.0.read().unwrap().ages.get(name).copied())
///     }
///
///     fn list(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<String>, Infallible> {
///         Ok(self.0.read().unwrap().names.range(hashes).map(|(_, name)| name.clone()).collect())
///     }
/// }
///
/// let guard = GuardBuilder::new().capacity(1000).build(Ages::default())?;
/// let hash = guard.hash("alice");
/// guard.insert("alice", |database| {
///     let mut tables = database.0.write().unwrap();
///     tables.ages.insert("alice".into(), 30);
///     tables.names.insert(hash, "alice".into());
///     Ok(())
/// })?;
/// assert_eq!(guard.get("alice")?, Some(30));
/// assert_eq!(guard.get("mallory")?, None); // asks the database once at most, from now on
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Guard<D, F = ConcurrentAdaptiveQuotientFilter> {
    database: D,
    front: Front<F>,
    hasher: KeyedHasher,
}

impl<D: Guarded, F: SharedFilter> Guard<D, F> {
    /// What the database has for a key. If the filter knows that it has nothing, it isn't
    /// asked.
    ///
    /// # Errors
    /// If the database fails to look the key up.
    pub fn get(&self, key: &D::Key) -> Result<Option<D::Value>, D::Error> {
        self.front.get(self, self.hash(key), || self.database.look_up(key))
    }

    /// Calls you to write a key, new or not, to the database, after the filter has it.
    ///
    /// # Errors
    /// Your error; or if the database fails to tell whether the key is there, or if the filter
    /// is full and can't grow: then you weren't called.
    pub fn insert<T>(
        &self,
        key: &D::Key,
        write: impl FnOnce(&D) -> Result<T, D::Error>,
    ) -> Result<T, GuardError<D::Error>> {
        self.insert_many(&[key], write)
    }

    /// As [`insert`](Self::insert), of many keys that you write together, as in a transaction.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_many<T, K: Borrow<D::Key>>(
        &self,
        keys: &[K],
        write: impl FnOnce(&D) -> Result<T, D::Error>,
    ) -> Result<T, GuardError<D::Error>> {
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key.borrow())).collect();
        let is_there = |at: usize| self.is_there(keys[at].borrow()).map_err(GuardError::Database);
        self.front.write(
            self,
            &hashes,
            is_there,
            |_| Ok(()),
            |_| write(&self.database).map_err(GuardError::Database),
        )
    }

    /// Calls you to remove a key from the database, if it is there, before the filter forgets
    /// it; whether it was there.
    ///
    /// # Errors
    /// Your error, or if the database fails to tell whether the key is there.
    pub fn remove(
        &self,
        key: &D::Key,
        write: impl FnOnce(&D) -> Result<(), D::Error>,
    ) -> Result<bool, D::Error> {
        let is_there = || self.is_there(key);
        self.front.remove(self, self.hash(key), is_there, || Ok(true), || write(&self.database))
    }

    /// Builds the filter again from what is in the database, shard by shard, each listed at
    /// once, while the guard is used: gets it ready, clears ghosts, and gives remainders the
    /// bits back that growing took. Repaired mistakes stay so.
    ///
    /// # Errors
    /// If the database can't list, or if there is no memory; nothing is lost then.
    pub fn rebuild(&self) -> Result<(), GuardError<D::Error>> {
        (0..self.front.filter.shards())
            .try_for_each(|shard| self.front.rebuild(self, shard, 0).map(|_| ()))
    }

    /// The hash of a key, which is to be kept with it in the database.
    pub fn hash(&self, key: &D::Key) -> Hash {
        self.hasher.hash(key)
    }

    /// What the guard has done, and what its filter is like. The backend is the database.
    pub fn stats(&self) -> Statistics {
        self.front.statistics()
    }

    /// What it guards, for reads, and for writes that bring and take no keys.
    pub fn database(&self) -> &D {
        &self.database
    }

    /// What it guards, unguarded.
    pub fn into_database(self) -> D {
        self.database
    }

    fn is_there(&self, key: &D::Key) -> Result<bool, D::Error> {
        Ok(self.database.look_up(key)?.is_some())
    }
}

impl<D: Guarded, F: SharedFilter> Behind for Guard<D, F> {
    type Error = GuardError<D::Error>;

    fn members(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<Hash>, Self::Error> {
        let keys = self.database.list(hashes.clone()).map_err(GuardError::Database)?;
        let members = keys.iter().map(|key| self.hash(key.borrow()));
        let mut members: Vec<Hash> = members.filter(|hash| hashes.contains(hash)).collect();
        members.sort_unstable();
        Ok(members)
    }

    /// They are in memory only.
    fn keep_mistake(&self, _: Hash, _: Option<Hash>) -> Result<(), Self::Error> {
        Ok(())
    }
}
