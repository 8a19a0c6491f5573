//! A filter in front of an existing database.

mod builder;
mod error;
#[cfg(test)]
mod tests;

pub use builder::GuardBuilder;
pub use error::{GuardError, WriteError};

use crate::doubts::{Doubts, Mark};
use crate::front::{Behind, Doubt, Front};
use crate::store::Statistics;
use scopeguard::ScopeGuard;
use std::borrow::Borrow;
use std::ops::RangeInclusive;
use twiceshy::{AdaptiveQuotientFilter, Hash, Key, KeyedHasher, Shard};

/// A database that a [`Guard`] protects: anything that has keys, and lists them in the order of their
/// hashes.
///
/// For the latter it keeps each key's hash beside the key, or the first bytes of it, and an index of
/// that: a `BTreeMap`, or a column of an SQL table ([`hash_column`]).
pub trait Guarded {
    /// The type of keys.
    type Key: Key + ToOwned + ?Sized;
    /// The type of values.
    type Value;
    /// The database's own error.
    type Error;

    /// Returns what the database has for a key.
    ///
    /// It must see every write that returned before it was called: don't read from a replica, or within
    /// an older snapshot. And it must compare keys exactly as the hash does, byte by byte. A column whose collation ignores
    /// case or trailing blanks doesn't: it finds `Alice` for `alice`, which has a different hash, so
    /// the filter answers "absent" where the database would not.
    ///
    /// # Errors
    /// If the database can't tell.
    fn look_up(&self, key: &Self::Key) -> Result<Option<Self::Value>, Self::Error>;

    /// Returns all keys whose hashes are in an interval, each once, in any order. Like
    /// [`look_up`](Self::look_up), it must see every write that returned before it was called.
    ///
    /// It may return more, as an index of the first bytes of the hash does: keys whose hashes agree
    /// with one in the interval in the first [`index_bits`](Self::index_bits). Any other key proves
    /// that its hash was made with a different secret, and fails the operation.
    ///
    /// # Errors
    /// If not all can be listed. A list that is silently too short loses members.
    fn list(
        &self,
        hashes: RangeInclusive<Hash>,
    ) -> Result<Vec<<Self::Key as ToOwned>::Owned>, Self::Error>;

    /// Returns how many of the first bits of each hash the index has: 64 by default, as
    /// [`hash_column`] does. If it has all 128, this needn't say so.
    fn index_bits(&self) -> u32 {
        64
    }
}

/// Returns the first 8 bytes of a hash as a signed integer, in the same order: for a column of an SQL
/// table. The keys in an interval of hashes are `BETWEEN hash_column(start) AND hash_column(end)`, and
/// perhaps a few more, which a guard ignores.
pub fn hash_column(hash: Hash) -> i64 {
    ((hash.as_u128() >> 64) as u64 ^ 1 << 63).cast_signed()
}

/// An adaptive filter in front of your own database. A key that the database doesn't have costs no
/// query, unless the filter takes it for a member by mistake. A mistake costs two queries: one looks the
/// key up, one lists the members that the filter confused with it. Then it is repaired.
///
/// # The contract
/// - All writes that add or remove keys go through the guard, which calls you to do them; changing
///   the value of a key that is there needn't. If somebody else wrote to the database, call
///   [`rebuild`](Self::rebuild) before you use the guard again: until then it may answer "absent" for
///   keys that were added, and removing one of them may take another member out of the filter.
/// - While you are called, the guard holds a lock of the keys' *stripe*, a 4096th or so of all
///   hashes. Writes and repairs there wait, and a read that the filter answers "maybe" may wait.
///   Other reads never do. Don't use the guard from within, or while you hold a connection that
///   the calls need: it would wait for itself.
/// - When you return `Ok` from an insert, the keys are there for [`Guarded::look_up`] and
///   [`Guarded::list`], and from a removal, the key is gone: commit, if there is a transaction. If a
///   statement changed no row, return an error instead.
/// - When you return an error, it says whether the write may still happen: [`WriteError`].
/// - [`hash`](Self::hash) must be the hash that is kept with the keys. So the guard needs the
///   [secret](GuardBuilder::secret) that these hashes were made with.
///
/// # What holds
/// - The guard never answers "absent" for a member. A member is in the filter before it is in the
///   database, and until it is gone there.
/// - A write whose outcome is unknown puts its keys *in doubt*: the filter keeps them, whatever the
///   database shows, until you [`settle`](Self::settle) them. A retry doesn't settle anything: the
///   first try may still arrive, after the retry and even after a removal. The same holds for keys
///   whose write panicked.
/// - A mistake that was repaired stays repaired as long as it is one of those that are
///   [kept](GuardBuilder::mistakes_kept), in memory: across inserts, removals and growth, not
///   across restarts.
/// - A repair that fails doesn't fail a read; it is [counted](Self::stats). A repair is refused if the
///   filter holds more than the database lists: the listing may not be current. If somebody else has
///   removed keys, [`rebuild`](Self::rebuild) clears what they left.
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
/// let guard = GuardBuilder::new().capacity(1000).new_database().build(Ages::default())?;
/// let hash = guard.hash("alice");
/// guard.insert("alice", |database| {
///     let mut tables = database.0.write().unwrap();
///     tables.ages.insert("alice".into(), 30);
///     tables.names.insert(hash, "alice".into());
///     Ok(())
/// })?;
/// assert_eq!(guard.get("alice")?, Some(30));
/// assert_eq!(guard.get("mallory")?, None); // almost always without asking the database
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Guard<D: Guarded, F = AdaptiveQuotientFilter> {
    database: D,
    front: Front<F>,
    hasher: KeyedHasher,
    doubts: Doubts<OwnedKey<D>>,
}

type OwnedKey<D> = <<D as Guarded>::Key as ToOwned>::Owned;

impl<D: Guarded, F: Shard> Guard<D, F> {
    /// Returns what the database has for a key. If the filter knows that it has nothing, the database
    /// isn't asked.
    ///
    /// # Errors
    /// If the database fails to look the key up.
    pub fn get(&self, key: &D::Key) -> Result<Option<D::Value>, D::Error> {
        self.front.get(self, self.hash(key), || self.database.look_up(key))
    }

    /// Inserts a key into the filter, and then calls you to write it to the database. The key may be
    /// there already.
    ///
    /// # Errors
    /// Returns your error as [`GuardError::NotWritten`], or as [`GuardError::InDoubt`]: then
    /// [`settle`](Self::settle) the key when you know that nothing is in flight any more. Any other
    /// error means that you weren't called: the database failed to look up or list keys, or the filter
    /// is full and can't grow.
    pub fn insert<T>(
        &self,
        key: &D::Key,
        write: impl FnOnce(&D) -> Result<T, WriteError<D::Error>>,
    ) -> Result<T, GuardError<D::Error>> {
        self.insert_many(&[key], write)
    }

    /// Inserts many keys into the filter, and then calls you to write them together, as in one
    /// transaction.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). If the outcome is unknown, all keys are in doubt.
    pub fn insert_many<T, K: Borrow<D::Key>>(
        &self,
        keys: &[K],
        write: impl FnOnce(&D) -> Result<T, WriteError<D::Error>>,
    ) -> Result<T, GuardError<D::Error>> {
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key.borrow())).collect();
        // What is in doubt is in the filter: it must not get there a second time.
        let is_there =
            |at: usize| Ok(self.doubts.contains(hashes[at]) || self.is_there(keys[at].borrow())?);
        self.front.write(
            self,
            &hashes,
            is_there,
            |_| Ok(()),
            |_| self.attempt(keys, &hashes, write),
        )
    }

    /// Calls you to remove a key from the database, if it is there, before the filter forgets it.
    /// Returns whether it was there. While the key is [in doubt](Self::doubts), you are called even if
    /// it isn't there.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(
        &self,
        key: &D::Key,
        write: impl FnOnce(&D) -> Result<(), WriteError<D::Error>>,
    ) -> Result<bool, GuardError<D::Error>> {
        let hash = self.hash(key);
        self.front.remove(
            self,
            hash,
            || self.is_there(key),
            || Ok(true),
            || self.attempt(&[key], &[hash], write),
        )
    }

    /// Returns the keys in doubt: a write of each may have happened, or may still happen.
    ///
    /// If there are more than [may be](GuardBuilder::max_doubts), the others are not among them, and
    /// their shards answer "maybe" to every query: [`Statistics::shards_ready`] shows it.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use std::ops::RangeInclusive;
    /// # use std::sync::RwLock;
    /// # use twiceshy::Hash;
    /// # use twiceshy_store::{GuardBuilder, GuardError, Guarded, WriteError};
    /// # #[derive(Debug)]
    /// # struct TimeOut;
    /// # #[derive(Default)]
    /// # struct Names(RwLock<BTreeMap<Hash, String>>);
    /// # impl Guarded for Names {
    /// #     type Key = str;
    /// #     type Value = ();
    /// #     type Error = TimeOut;
    /// #     fn look_up(&self, name: &str) -> Result<Option<()>, TimeOut> {
    /// #         Ok(self.0.read().unwrap().values().any(|other| other == name).then_some(()))
    /// #     }
    /// #     fn list(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<String>, TimeOut> {
    /// #         let names = self.0.read().unwrap();
    /// #         Ok(names.range(hashes).map(|(_, name)| name.clone()).collect())
    /// #     }
    /// # }
    /// # let guard = GuardBuilder::new().capacity(1000).new_database().build(Names::default()).unwrap();
    /// let hash = guard.hash("alice");
    /// let failed = guard.insert("alice", |_| Err::<(), _>(WriteError::Unknown(TimeOut)));
    /// assert!(matches!(failed, Err(GuardError::InDoubt(TimeOut))));
    /// assert_eq!(guard.get("alice").unwrap(), None);
    /// // The commit arrives after all.
    /// guard.database().0.write().unwrap().insert(hash, "alice".into());
    /// assert_eq!(guard.get("alice").unwrap(), Some(()));
    ///
    /// assert_eq!(guard.doubts(), ["alice"]);
    /// assert!(guard.settle("alice").unwrap());
    /// assert!(guard.doubts().is_empty());
    /// ```
    pub fn doubts(&self) -> Vec<OwnedKey<D>> {
        self.doubts.keys(|key| key.borrow().to_owned())
    }

    /// Ends the doubt about a key. Call this when no earlier write of the key can take effect any more:
    /// because its connection is closed at the server, its statement was cancelled, or the
    /// database's time-out for transactions has passed. The guard lists the key's hash, and the filter
    /// forgets the key if it isn't there. Returns whether it is.
    ///
    /// A write whose outcome becomes unknown after this was called stays in doubt. So does a key that
    /// isn't among the [`doubts`](Self::doubts) because there are too many: only
    /// [`settle_all`](Self::settle_all) ends that.
    ///
    /// # Errors
    /// If the database fails to list; the key stays in doubt.
    pub fn settle(&self, key: &D::Key) -> Result<bool, GuardError<D::Error>> {
        self.settle_before(self.doubts.mark(), self.hash(key))
    }

    /// Ends all doubts, as [`settle`](Self::settle) does, and rebuilds the shards that had too many of
    /// them. Call this when no earlier write of any key can take effect any more.
    ///
    /// # Errors
    /// Returns the first error of the database. The guard settles all that it can; call this again for
    /// the rest.
    pub fn settle_all(&self) -> Result<(), GuardError<D::Error>> {
        let mark = self.doubts.mark();
        let hashes = self.doubts.within(&(Hash::MIN..=Hash::MAX));
        let settled = in_turn(hashes, |hash| self.settle_before(mark, hash).map(|_| ()));
        settled.and(self.rebuild_shards(self.doubts.settle_overflows(mark)))
    }

    /// Listing has the last word: it sees every write that returned before, and it works for keys that
    /// the database refuses to look up.
    fn settle_before(&self, mark: Mark, hash: Hash) -> Result<bool, GuardError<D::Error>> {
        let is_there = || {
            let listed = self.database.list(hash..=hash).map_err(GuardError::Database)?;
            Ok(listed.iter().any(|key| self.hash(key.borrow()) == hash))
        };
        self.front.settle(self, hash, is_there, || self.doubts.settle(hash, mark))
    }

    /// Builds the filter again from the keys in the database, shard by shard, while the guard is used.
    /// This makes an unready guard ready, clears ghosts, and gives remainders the bits back that growing
    /// took. Repaired mistakes stay repaired, and doubts stay doubts: a shard that has too many of them
    /// doesn't become ready.
    ///
    /// # Errors
    /// Returns the first error: if the database can't list, or if there is no memory. Shards that can't
    /// be rebuilt stay as they are, and nothing is lost.
    pub fn rebuild(&self) -> Result<(), GuardError<D::Error>> {
        self.rebuild_shards(0..self.front.filter.shards())
    }

    fn rebuild_shards(
        &self,
        shards: impl IntoIterator<Item = usize>,
    ) -> Result<(), GuardError<D::Error>> {
        in_turn(shards, |shard| self.front.rebuild(self, shard, 0).map(|_| ()))
    }

    /// Returns the hash of a key, which is to be kept with it in the database.
    pub fn hash(&self, key: &D::Key) -> Hash {
        self.hasher.hash(key)
    }

    /// Returns what the guard has done, and the state of its filter. The backend is the database.
    pub fn stats(&self) -> Statistics {
        Statistics { doubts: self.doubts.len() as u64, ..self.front.statistics() }
    }

    /// Returns the database, for reads, and for writes that add and remove no keys.
    pub fn database(&self) -> &D {
        &self.database
    }

    /// Drops the guard and returns the database.
    pub fn into_database(self) -> D {
        self.database
    }

    fn is_there(&self, key: &D::Key) -> Result<bool, GuardError<D::Error>> {
        Ok(self.database.look_up(key).map_err(GuardError::Database)?.is_some())
    }

    /// Calls `write`. The keys are in doubt unless it says what became of them. Their stripes are held.
    fn attempt<T, K: Borrow<D::Key>>(
        &self,
        keys: &[K],
        hashes: &[Hash],
        write: impl FnOnce(&D) -> Result<T, WriteError<D::Error>>,
    ) -> Result<T, GuardError<D::Error>> {
        let doubt_all = || {
            for (key, &hash) in keys.iter().zip(hashes) {
                let shard = self.front.filter.shard_of(hash);
                if !self.doubts.record(hash, shard, key.borrow().to_owned()) {
                    self.front.distrust(hash);
                }
            }
        };
        let in_flight = scopeguard::guard((), |()| doubt_all());
        let written = write(&self.database);
        if !matches!(written, Err(WriteError::Unknown(_))) {
            ScopeGuard::into_inner(in_flight);
        }
        Ok(written?)
    }

    /// Returns an error if a listed key's hash isn't in the interval, up to the index's precision.
    fn check_listed(
        &self,
        hashes: &RangeInclusive<Hash>,
        listed: Hash,
    ) -> Result<(), GuardError<D::Error>> {
        let ignored = 128u32.saturating_sub(self.database.index_bits());
        let prefix = |hash: Hash| hash.as_u128().checked_shr(ignored).unwrap_or(0);
        let prefixes = prefix(*hashes.start())..=prefix(*hashes.end());
        if prefixes.contains(&prefix(listed)) { Ok(()) } else { Err(GuardError::ForeignHash) }
    }

    /// Returns an error if a key that was listed isn't found under its own hash. An interval may be so
    /// long that any hash is in it.
    fn check_index(&self, key: &D::Key) -> Result<(), GuardError<D::Error>> {
        let hash = self.hash(key);
        let listed = self.database.list(hash..=hash).map_err(GuardError::Database)?;
        let is_found = listed.iter().any(|other| self.hash(other.borrow()) == hash);
        // Somebody may have removed it meanwhile.
        if is_found || !self.is_there(key)? { Ok(()) } else { Err(GuardError::ForeignHash) }
    }
}

impl<D: Guarded, F: Shard> Behind for Guard<D, F> {
    type Error = GuardError<D::Error>;

    /// Keys in doubt count as members.
    fn members(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<Hash>, Self::Error> {
        let keys = self.database.list(hashes.clone()).map_err(GuardError::Database)?;
        let mut members = self.doubts.within(hashes);
        for key in &keys {
            let hash = self.hash(key.borrow());
            self.check_listed(hashes, hash)?;
            if hashes.contains(&hash) {
                members.push(hash);
            }
        }
        let shard = self.front.filter.shard_of(*hashes.start());
        if let Some(key) = keys.first()
            && *hashes == self.front.filter.shard_hashes(shard)
        {
            self.check_index(key.borrow())?;
        }
        members.sort_unstable();
        members.dedup();
        Ok(members)
    }

    /// They are in memory only.
    fn keep_mistake(&self, _: Hash, _: Option<Hash>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn doubt(&self, hash: Hash) -> Doubt {
        let may_be = self.doubts.may_contain(hash, self.front.filter.shard_of(hash));
        if may_be { Doubt::Unsettled } else { Doubt::None }
    }

    /// Refused writes are taken back, and other failed writes are in doubt.
    const LEAVES_GHOSTS: bool = false;

    fn is_refusal(error: &Self::Error) -> bool {
        matches!(error, GuardError::NotWritten(_))
    }

    fn may_trust(&self, shard: usize) -> bool {
        self.doubts.may_trust(shard)
    }

    fn trust(&self, shard: usize) {
        self.doubts.trust(shard);
    }
}

/// Does all the work, also after an error. Returns the first one.
fn in_turn<T, E>(
    work: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> Result<(), E>,
) -> Result<(), E> {
    work.into_iter().map(act).fold(Ok(()), Result::and)
}
