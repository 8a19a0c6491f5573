//! A filter in front of an existing database.

mod error;
mod open;
#[cfg(test)]
mod tests;

pub use error::{GuardError, WriteError};

use crate::doubts::{Doubts, Mark};
use crate::maintained::{Doubt, MaintainedFilter, Source};
use crate::stats::Stats;
use scopeguard::ScopeGuard;
use std::borrow::Borrow;
use std::ops::RangeInclusive;
use twiceshy::{Hash, Key, MemberSource, QuotientFilter, concurrent::Shard, hash::KeyedHasher};

/// A database that a [`Guard`] can protect: it stores keys, and can list them by hash range.
///
/// To list keys, the database stores each key's hash, or the first bytes of the hash, in an index. Examples
/// are a `BTreeMap`, or an indexed column of an SQL table ([`hash_column`]).
///
/// [`members`](MemberSource::members) returns all keys whose hashes lie in an interval, in any
/// order. It must see every write that returned before it was called, and every key that is there from the
/// call to its end, even if the key's value changes meanwhile. It needs no snapshot: it may or may not see
/// writes that happen during the call, and a key may be returned twice. It may compare only the first
/// [`index_bits`](Self::index_bits) bits of the hashes, and so return a few more keys. Any other key outside
/// the interval shows that its hash was made with a different secret, and fails the operation. An incomplete
/// list without an error loses members.
pub trait Guarded: MemberSource {
    /// The type of keys. The database lists them as owned keys.
    type Key: Key + ToOwned<Owned = Self::Member> + ?Sized;
    /// The type of values.
    type Value;

    /// Returns the value that the database has for a key, if any.
    ///
    /// It must see every write that returned before it was called, so don't read from a replica or
    /// in an older snapshot.
    ///
    /// It must also compare keys byte by byte, like the hash. A column whose collation ignores case or
    /// trailing blanks doesn't: it finds `Alice` for `alice`, which has a different hash. Then the filter
    /// answers "absent" for a key that the database would find.
    ///
    /// # Errors
    /// If the lookup fails.
    fn look_up(&self, key: &Self::Key) -> Result<Option<Self::Value>, Self::Error>;

    /// Returns how many leading bits of each hash the index stores: 64 by default, like
    /// [`hash_column`]. An index of all 128 bits may also use the default.
    fn index_bits(&self) -> u32 {
        64
    }
}

/// Returns the first 8 bytes of a hash as a signed integer, for a column of an SQL table. These integers sort
/// like the hashes.
///
/// The keys in an interval of hashes are `BETWEEN hash_column(start) AND hash_column(end)`. That
/// may include a few more keys, which a guard ignores.
pub fn hash_column(hash: Hash) -> i64 {
    ((hash.as_u128() >> 64) as u64 ^ 1 << 63).cast_signed()
}

/// An adaptive filter in front of your own database.
///
/// A key that the database doesn't have costs no query, unless the filter takes it for a member by
/// mistake. A mistake costs two queries: one looks up the key, and one lists the members that the
/// filter confused with it. The filter then repairs the mistake.
///
/// # The contract
/// - All writes that add or remove keys must go through the guard, which calls your closure to do
///   them. Writes that only change the value of an existing key need not. If anything else has
///   added or removed keys in the database, call [`rebuild`](Self::rebuild) before you use the
///   guard again. Until then the guard may answer "absent" for keys that were added, and removing
///   one of them may remove another member from the filter.
/// - While your closure runs, the guard holds a lock on the keys' *stripe*, about 1/512 of all
///   hashes. Writes in the stripe wait. Reads don't: if a read finds a mistake in the stripe, a later
///   write repairs it. (A read waits only briefly, for a change of the same shard of the filter.) A
///   write to a full shard rebuilds it, and waits for each of the shard's stripes, so also for closures
///   that run there. To avoid deadlocks, call nothing but lookups and statistics of the guard
///   from within the closure, or while you hold a connection that the closure or the guard's queries need.
/// - When your closure returns `Ok` from an insert, [`Guarded::look_up`] and [`MemberSource::members`] must
///   find the keys. When it returns `Ok` from a removal, the key must be gone. If there is a
///   transaction, commit it first. If a statement changed no row, return an error instead.
/// - When your closure returns an error, the error says whether the write may still happen; see
///   [`WriteError`].
/// - The hash that the database stores with each key must be [`hash`](Self::hash), so the guard
///   needs the [secret](crate::OpenOptions::secret) that these hashes were made with.
///
/// # Guarantees
/// - The guard never answers "absent" for a member. A member is inserted into the filter before the
///   database, and leaves the filter only after it is gone from the database.
/// - A write whose outcome is unknown puts its keys *in doubt*: the filter keeps them, whatever the
///   database shows, until you [`settle`](Self::settle) them. A retry doesn't settle anything,
///   because the first try may still take effect after the retry, or even after a removal. The same
///   holds for keys whose write panicked.
/// - A repaired mistake stays repaired across inserts, removals and growth, as long as it is one of
///   the mistakes that are [kept](crate::OpenOptions::mistakes_kept). They are kept in memory only, so
///   they don't survive a restart. A mistake that is repaired while its shard is rebuilt
///   may recur once.
/// - A failed repair doesn't fail a read, but is [counted](Self::stats). So is a repair that is
///   [skipped](Stats::repairs_skipped) because the filter has no room; [`rebuild`](Self::rebuild)
///   makes room. The guard refuses a repair
///   if the filter holds more members than the database lists, because the listing may not be
///   current. If keys were removed without the guard, [`rebuild`](Self::rebuild) clears their
///   fingerprints.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::convert::Infallible;
/// use std::ops::RangeInclusive;
/// use std::sync::RwLock;
/// use twiceshy::{Hash, MemberSource};
/// use twiceshy_store::{Guarded, OpenOptions};
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
/// impl MemberSource for Ages {
///     type Member = String;
///     type Error = Infallible;
///
///     fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<String>, Infallible> {
///         Ok(self.0.read().unwrap().names.range(hashes).map(|(_, name)| name.clone()).collect())
///     }
/// }
///
/// impl Guarded for Ages {
///     type Key = str;
///     type Value = u32;
///
///     fn look_up(&self, name: &str) -> Result<Option<u32>, Infallible> {
///         Ok(self.0.read().unwrap().ages.get(name).copied())
///     }
/// }
///
/// let guard = OpenOptions::new().capacity(1000).generate_secret().open_guard(Ages::default())?;
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
pub struct Guard<D: Guarded, F = QuotientFilter> {
    database: D,
    maintained: MaintainedFilter<F>,
    hasher: KeyedHasher,
    doubts: Doubts<D::Member>,
}

impl<D: Guarded, F: Shard> Guard<D, F> {
    /// Returns the value that the database has for a key, if any. If the filter answers "absent",
    /// the database is not queried.
    ///
    /// # Errors
    /// If the database fails to look up the key.
    pub fn get(&self, key: &D::Key) -> Result<Option<D::Value>, D::Error> {
        self.maintained.get(self, self.hash(key), || self.database.look_up(key))
    }

    /// Inserts a key into the filter, and then calls `write` to write it to the database. The
    /// database may have the key already.
    ///
    /// # Errors
    /// Returns the error of `write` as [`GuardError::NotWritten`] or [`GuardError::InDoubt`]. After
    /// the latter, [`settle`](Self::settle) the key once you know that no write of it is in flight
    /// any more. Any other error means that `write` was not called, because the database failed to
    /// look up or list keys. A full shard isn't a reason: if it can't be rebuilt, it answers "maybe",
    /// and takes all writes.
    pub fn insert<T>(
        &self,
        key: &D::Key,
        write: impl FnOnce(&D) -> Result<T, WriteError<D::Error>>,
    ) -> Result<T, GuardError<D::Error>> {
        self.insert_many(&[key], write)
    }

    /// Inserts many keys into the filter, and then calls `write` to write them together, for
    /// example in one transaction.
    ///
    /// # Errors
    /// Returns the same errors as [`insert`](Self::insert). If the outcome is unknown, all keys are
    /// in doubt.
    pub fn insert_many<T, K: Borrow<D::Key>>(
        &self,
        keys: &[K],
        write: impl FnOnce(&D) -> Result<T, WriteError<D::Error>>,
    ) -> Result<T, GuardError<D::Error>> {
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key.borrow())).collect();
        // Keys in doubt are already in the filter, and must not be inserted twice.
        let is_there =
            |at: usize| Ok(self.doubts.contains(hashes[at]) || self.is_there(keys[at].borrow())?);
        self.maintained.write(
            self,
            &hashes,
            is_there,
            |_| Ok(()),
            |_| self.attempt(keys, &hashes, write),
        )
    }

    /// Removes a key: calls `write` to remove it from the database, and then removes it from the filter. If
    /// the database doesn't have the key, `write` is called only if the key may be [in doubt](Self::doubts).
    /// Returns whether the database had the key.
    ///
    /// # Errors
    /// Returns the same errors as [`insert`](Self::insert).
    pub fn remove(
        &self,
        key: &D::Key,
        write: impl FnOnce(&D) -> Result<(), WriteError<D::Error>>,
    ) -> Result<bool, GuardError<D::Error>> {
        let hash = self.hash(key);
        self.maintained.remove(
            self,
            hash,
            || self.is_there(key),
            || Ok(true),
            || self.attempt(&[key], &[hash], write),
        )
    }

    /// Returns the keys in doubt. A write of each of them may have happened, or may still happen.
    ///
    /// If there are more than [the maximum](crate::OpenOptions::max_doubts), the surplus keys are not
    /// returned, and their shards answer "maybe" to every query, which [`Stats::shards_ready`]
    /// shows.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use std::ops::RangeInclusive;
    /// # use std::sync::RwLock;
    /// # use twiceshy::{Hash, MemberSource};
    /// # use twiceshy_store::{GuardError, Guarded, OpenOptions, WriteError};
    /// # #[derive(Debug)]
    /// # struct TimeOut;
    /// # #[derive(Default)]
    /// # struct Names(RwLock<BTreeMap<Hash, String>>);
    /// # impl MemberSource for Names {
    /// #     type Member = String;
    /// #     type Error = TimeOut;
    /// #     fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<String>, TimeOut> {
    /// #         let names = self.0.read().unwrap();
    /// #         Ok(names.range(hashes).map(|(_, name)| name.clone()).collect())
    /// #     }
    /// # }
    /// # impl Guarded for Names {
    /// #     type Key = str;
    /// #     type Value = ();
    /// #     fn look_up(&self, name: &str) -> Result<Option<()>, TimeOut> {
    /// #         Ok(self.0.read().unwrap().values().any(|other| other == name).then_some(()))
    /// #     }
    /// # }
    /// # let options = OpenOptions::new().capacity(1000).generate_secret();
    /// # let guard = options.open_guard(Names::default()).unwrap();
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
    pub fn doubts(&self) -> Vec<D::Member> {
        self.doubts.keys(|key| borrowed::<D::Key>(key).to_owned())
    }

    /// Ends the doubt about a key.
    ///
    /// Call this when no earlier write of the key can take effect any more, because its connection
    /// is closed at the server, its statement was cancelled, or the database's time-out for
    /// transactions has passed. The guard lists the keys with this hash, and removes the key from
    /// the filter if the database doesn't have it. Returns whether the database has it.
    ///
    /// A write whose outcome becomes unknown after this was called stays in doubt. So does a key
    /// that isn't among the [`doubts`](Self::doubts) because there are too many: only
    /// [`settle_all`](Self::settle_all) ends that doubt.
    ///
    /// # Errors
    /// If the database fails to list keys; the key stays in doubt.
    pub fn settle(&self, key: &D::Key) -> Result<bool, GuardError<D::Error>> {
        self.settle_before(self.doubts.mark(), self.hash(key))
    }

    /// Ends all doubts like [`settle`](Self::settle), and rebuilds the shards that had too many of
    /// them. Call this when no earlier write of any key can take effect any more.
    ///
    /// # Errors
    /// Returns the first error of the database. The guard settles as many keys as it can; call this
    /// again for the rest.
    pub fn settle_all(&self) -> Result<(), GuardError<D::Error>> {
        let mark = self.doubts.mark();
        let hashes = self.doubts.within(&(Hash::MIN..=Hash::MAX));
        let settled = in_turn(hashes, |hash| self.settle_before(mark, hash).map(|_| ()));
        settled.and(self.rebuild_shards(self.doubts.settle_overflows(mark)))
    }

    /// Settles a key that was in doubt before `mark`. A listing decides whether the database has the key,
    /// because a listing sees every write that has returned, and works even for keys that the database
    /// refuses to look up.
    fn settle_before(&self, mark: Mark, hash: Hash) -> Result<bool, GuardError<D::Error>> {
        let is_there = || {
            let listed = self.database.members(hash..=hash).map_err(GuardError::Database)?;
            Ok(listed.iter().any(|key| self.hash(borrowed(key)) == hash))
        };
        self.maintained.settle(self, hash, is_there, || self.doubts.settle(hash, mark))
    }

    /// Rebuilds the filter from the keys in the database, shard by shard, while the guard is in
    /// use.
    ///
    /// This makes an unready guard ready, clears *ghosts* (fingerprints of keys that the database doesn't
    /// have), and gives each shard the size that its keys need and fresh remainders. Mistakes that the guard
    /// keeps stay repaired. Keys in doubt stay in doubt, and a shard that has too many of them doesn't become
    /// ready.
    ///
    /// # Errors
    /// Returns the first error: the database can't list keys, or there is not enough memory. Shards
    /// that can't be rebuilt stay as they are, and nothing is lost.
    pub fn rebuild(&self) -> Result<(), GuardError<D::Error>> {
        self.rebuild_shards(0..self.maintained.filter.shards())
    }

    /// Rebuilds the shards of the filter that have become too full or too empty. Returns their number.
    ///
    /// A guard has no background thread. A write rebuilds a shard that has no room for its key. A
    /// lookup never rebuilds anything: a mistake whose repair finds no room recurs. If many absent
    /// keys are queried, or if many keys were removed, call this now and then, in any thread.
    ///
    /// # Errors
    /// The first error: the database can't list keys, or there is not enough memory. Nothing is lost, and
    /// the shard is tried again after a while.
    pub fn tend(&self) -> Result<usize, GuardError<D::Error>> {
        self.maintained.tend(self)
    }

    /// Checks every invariant of the filter, and that each ready shard holds every key that the
    /// database lists. Writes to a shard wait while it is checked; lookups don't. For tests, and for
    /// diagnosing suspected corruption.
    ///
    /// # Errors
    /// [`GuardError::Invalid`] says what is wrong. If the database can't list keys, returns its
    /// error.
    pub fn validate(&self) -> Result<(), GuardError<D::Error>> {
        let fault = self.maintained.find_fault(self)?;
        fault.map_or(Ok(()), |fault| Err(GuardError::Invalid(fault)))
    }

    fn rebuild_shards(
        &self,
        shards: impl IntoIterator<Item = usize>,
    ) -> Result<(), GuardError<D::Error>> {
        in_turn(shards, |shard| self.maintained.rebuild_shard(self, shard, 0).map(|_| ()))
    }

    /// Returns the hash of a key. The database must store it with the key.
    pub fn hash(&self, key: &D::Key) -> Hash {
        self.hasher.hash(key)
    }

    /// Returns counters of the guard's operations, and the state of its filter. In these
    /// statistics, "backend" means the database.
    pub fn stats(&self) -> Stats {
        Stats {
            doubts: self.doubts.len() as u64,
            doubt_bytes: self.doubts.memory(),
            ..self.maintained.stats()
        }
    }

    /// Returns the database, for reads, and for writes that neither add nor remove keys.
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

    /// Calls `write`. The keys are in doubt afterwards, unless `write` reports whether it wrote
    /// them. The caller must hold the locks of their stripes.
    fn attempt<T, K: Borrow<D::Key>>(
        &self,
        keys: &[K],
        hashes: &[Hash],
        write: impl FnOnce(&D) -> Result<T, WriteError<D::Error>>,
    ) -> Result<T, GuardError<D::Error>> {
        let doubt_all = || {
            for (key, &hash) in keys.iter().zip(hashes) {
                let shard = self.maintained.filter.shard_of(hash);
                if !self.doubts.record(hash, shard, key.borrow().to_owned()) {
                    self.maintained.distrust(hash);
                    // If all doubts were settled in the meantime, nothing else would rebuild the
                    // shard.
                    if self.doubts.may_trust(shard) {
                        self.maintained.wants_rebuild(shard);
                    }
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

    /// Lists the keys of the database in an interval, and the hashes of these keys and of the keys in doubt.
    #[expect(clippy::type_complexity, reason = "there is no better name for a pair of lists")]
    fn list(
        &self,
        hashes: &RangeInclusive<Hash>,
    ) -> Result<(Vec<D::Member>, Vec<Hash>), GuardError<D::Error>> {
        let keys = self.database.members(hashes.clone()).map_err(GuardError::Database)?;
        let mut members = self.doubts.within(hashes);
        for key in &keys {
            let hash = self.hash(borrowed(key));
            self.check_listed(hashes, hash)?;
            if hashes.contains(&hash) {
                members.push(hash);
            }
        }
        members.sort_unstable();
        members.dedup();
        Ok((keys, members))
    }

    /// Returns an error if the hash of a listed key lies outside the interval. Compares only the bits that
    /// the index stores.
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

    /// Returns an error if the database doesn't find a listed key by its hash. The listing of a long interval
    /// may not show that a hash is wrong, because a wrong hash may lie in the interval, too.
    fn check_index(&self, key: &D::Key) -> Result<(), GuardError<D::Error>> {
        let hash = self.hash(key);
        let listed = self.database.members(hash..=hash).map_err(GuardError::Database)?;
        let is_found = listed.iter().any(|other| self.hash(borrowed(other)) == hash);
        // If the key isn't found, another thread may have removed it in the meantime.
        if is_found || !self.is_there(key)? { Ok(()) } else { Err(GuardError::ForeignHash) }
    }
}

/// Lists the members of the filter: the keys of the database, and the keys in doubt.
impl<D: Guarded, F: Shard> MemberSource for Guard<D, F> {
    type Member = Hash;
    type Error = GuardError<D::Error>;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Hash>, Self::Error> {
        self.list(&hashes).map(|(_, members)| members)
    }
}

impl<D: Guarded, F: Shard> Source for Guard<D, F> {
    fn doubt(&self, hash: Hash) -> Doubt {
        let may_be = self.doubts.may_contain(hash, self.maintained.filter.shard_of(hash));
        if may_be { Doubt::Unsettled } else { Doubt::None }
    }

    /// Refused writes are undone in the filter. The keys of other failed writes are in doubt, so they aren't
    /// ghosts.
    const LEAVES_GHOSTS: bool = false;

    fn is_refusal(error: &Self::Error) -> bool {
        matches!(error, GuardError::NotWritten(_))
    }

    /// Checks the first key of each shard, because a rebuild trusts the whole listing.
    fn part(
        &self,
        hashes: &RangeInclusive<Hash>,
        is_checked: &mut bool,
    ) -> Result<Vec<Hash>, Self::Error> {
        let (keys, members) = self.list(hashes)?;
        if let Some(key) = keys.first()
            && !*is_checked
        {
            self.check_index(borrowed(key))?;
            *is_checked = true;
        }
        Ok(members)
    }

    fn may_trust(&self, shard: usize) -> bool {
        self.doubts.may_trust(shard)
    }

    fn trust(&self, shard: usize) -> bool {
        self.doubts.trust(shard)
    }

    fn doubts(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        self.doubts.within(hashes)
    }
}

/// Borrows an owned key.
fn borrowed<K: ToOwned + ?Sized>(key: &K::Owned) -> &K {
    key.borrow()
}

/// Calls `act` for each item, even after an error. Returns the first error.
fn in_turn<T, E>(
    work: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> Result<(), E>,
) -> Result<(), E> {
    work.into_iter().map(act).fold(Ok(()), Result::and)
}
