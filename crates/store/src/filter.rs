//! What the store asks of a filter.

use std::ops::RangeInclusive;
use std::path::Path;
use twiceshy::{
    AdaptError, Adaptation, AdaptiveQuotientFilter, Answer, BuildError, Claim, CodedFilter,
    CodedScheme, ConcurrentAdaptiveQuotientFilter, ConcurrentCodedFilter, Hash, InsertError,
    Member, RemoveError, Snapshot, SnapshotError,
};

/// An adaptive filter that many threads share, cut into shards by hash interval that can be
/// built one by one.
pub trait SharedFilter: Sized + Send + Sync + 'static {
    /// An empty filter.
    ///
    /// # Errors
    /// If there can't be such a filter.
    fn with_shape(shape: &Shape) -> Result<Self, BuildError>;

    /// Inserts a member, or asks for those near it, and then has changed nothing.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then.
    fn insert(&self, hash: Hash) -> Result<Insertion, InsertError>;

    /// Inserts the query of a claim with which an insert has asked for `members`: all that are in
    /// its interval.
    ///
    /// # Errors
    /// If there is no room for it, or [`InsertError::Mismatch`] if these aren't the members there,
    /// or not any more; nothing has changed then.
    fn insert_listed(&self, claim: &Claim, members: &[Member]) -> Result<(), InsertError>;

    /// Removes a key that is known to be a member.
    ///
    /// # Errors
    /// If it is certainly no member, or [`RemoveError::Ambiguous`] if it must be removed with a
    /// list; nothing has changed then.
    fn remove(&self, hash: Hash) -> Result<(), RemoveError>;

    /// Removes the query of a claim, which is one of `members`: all that are in its interval.
    ///
    /// # Errors
    /// If these aren't the members there, or not any more; nothing has changed then.
    fn remove_listed(&self, claim: &Claim, members: &[Member]) -> Result<(), RemoveError>;

    /// Whether a key of this hash may be a member. "No" is certain.
    fn contains(&self, hash: Hash) -> bool;

    /// As [`contains`](Self::contains), but "maybe" carries a claim.
    fn check(&self, hash: Hash) -> Answer;

    /// As [`contains`](Self::contains), of many.
    fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>);

    /// The hashes of all members that a claim of this query may name, and of all queries that an
    /// insert of it may turn into mistakes.
    fn suspects(&self, query: Hash) -> RangeInclusive<Hash>;

    /// How far from a query of a shard, as large as it is now, its suspects may be: not less, and
    /// not much more. Growing doesn't make it more.
    fn reach(&self, shard: usize) -> u128;

    /// Repairs a mistake: the claim's query isn't a member, and `members` are all members in its
    /// interval.
    ///
    /// # Errors
    /// If there is no room, or if the filter holds fingerprints that no listed member explains;
    /// nothing has changed then.
    fn adapt(&self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError>;

    /// Repairs a mistake as [`adapt`](Self::adapt) does, and drops fingerprints that no listed member
    /// explains.
    ///
    /// # Errors
    /// If the listing names members that the filter doesn't hold, or if there is no room; nothing has
    /// changed then.
    fn adapt_dropping_ghosts(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError>;

    /// How many members there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    fn memory_usage(&self) -> u64;

    /// Slots in use, as a share of all.
    fn load(&self) -> f64;

    /// How many shards there are.
    fn shards(&self) -> usize;

    /// The shard of a hash.
    fn shard_of(&self, hash: Hash) -> usize;

    /// The hashes of a shard.
    fn shard_hashes(&self, shard: usize) -> RangeInclusive<Hash>;

    /// Replaces a shard by one of these members, in which none of these mistakes is "maybe", as far
    /// as it can remember; both in order. It has room for `capacity` members, or for as many as it was built for,
    /// if that is more.
    ///
    /// # Errors
    /// If it can't be built; nothing has changed then.
    fn rebuild_shard(
        &self,
        shard: usize,
        capacity: usize,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> Result<(), BuildError>;

    /// Saves the filter to a file, whole or not at all. A store knows the file by its length and
    /// its last 64 bytes, so these should tell it from an older one, as a checksum does.
    ///
    /// # Errors
    /// If it can't be written.
    fn save(&self, path: &Path) -> Result<(), SnapshotError>;

    /// Opens a filter that was saved.
    ///
    /// # Errors
    /// If there is none, or if anything about it is wrong.
    fn open(path: &Path) -> Result<Self, SnapshotError>;
}

/// What has become of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It is done.
    Done,
    /// It needs the members that this claim names; see [`SharedFilter::insert_listed`].
    Asks(Claim),
}

/// How good and how large a filter should be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shape {
    /// Members, for a start.
    pub capacity: usize,
    /// How often a key that is no member is taken for one.
    pub false_positive_rate: f64,
    /// In how many shards.
    pub shards: usize,
}

impl Shape {
    /// Builds a filter of this shape. If that fails, and the capacity isn't what was `asked` for,
    /// but what a store remembers, the filter starts with `fallback`, and grows: a store that was
    /// opened on a larger machine can be opened on this one.
    pub(crate) fn build<F>(
        mut self,
        asked: Option<usize>,
        fallback: usize,
        build: impl Fn(&Self) -> Result<F, BuildError>,
    ) -> Result<(F, Self), BuildError> {
        let built = match build(&self) {
            Err(_) if asked.is_none() && self.capacity > fallback => {
                self.capacity = fallback;
                build(&self)
            }
            built => built,
        };
        built.map(|filter| (filter, self))
    }
}

/// How full a shard is planned to be.
const PLANNED_LOAD: f64 = 0.9;

impl SharedFilter for ConcurrentAdaptiveQuotientFilter {
    fn with_shape(shape: &Shape) -> Result<Self, BuildError> {
        AdaptiveQuotientFilter::builder()
            .capacity(shape.capacity)
            .false_positive_rate(shape.false_positive_rate)
            .shards(shape.shards)
            .build_concurrent()
    }

    fn insert(&self, hash: Hash) -> Result<Insertion, InsertError> {
        self.insert(hash).map(|()| Insertion::Done)
    }

    /// It never asks.
    fn insert_listed(&self, claim: &Claim, _: &[Member]) -> Result<(), InsertError> {
        self.insert(claim.query())
    }

    fn remove(&self, hash: Hash) -> Result<(), RemoveError> {
        self.remove(hash)
    }

    fn remove_listed(&self, claim: &Claim, members: &[Member]) -> Result<(), RemoveError> {
        self.remove_listed(claim, members, None)
    }

    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn check(&self, hash: Hash) -> Answer {
        self.check(hash)
    }

    fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.contains_many(hashes, maybe);
    }

    fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.suspects(query)
    }

    fn reach(&self, shard: usize) -> u128 {
        let suspects = self.suspects(*self.shard_hashes(shard).start());
        // They are equally many everywhere, but for one that rounding may add.
        suspects.end().as_u128() - suspects.start().as_u128() + 1
    }

    fn adapt(&self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        self.adapt(claim, members)
    }

    fn adapt_dropping_ghosts(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_dropping_ghosts(claim, members)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn load(&self) -> f64 {
        self.statistics().load
    }

    fn shards(&self) -> usize {
        self.shards()
    }

    fn shard_of(&self, hash: Hash) -> usize {
        self.shard_of(hash)
    }

    fn shard_hashes(&self, shard: usize) -> RangeInclusive<Hash> {
        self.shard_hashes(shard)
    }

    fn rebuild_shard(
        &self,
        shard: usize,
        capacity: usize,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> Result<(), BuildError> {
        let (members, mistakes) = (|| members.iter().copied(), || mistakes.iter().copied());
        let planned = (self.parameters()[shard].slots as f64 * PLANNED_LOAD) as usize;
        let capacity = (capacity > planned).then_some(capacity);
        self.rebuild_shard(shard, capacity, members, mistakes)
    }

    fn save(&self, path: &Path) -> Result<(), SnapshotError> {
        Snapshot::save(self, path)
    }

    fn open(path: &Path) -> Result<Self, SnapshotError> {
        Snapshot::open(path)
    }
}

/// Repairs are forgotten where there is no room for more: a mistake may be made again then.
impl<S: CodedScheme> SharedFilter for ConcurrentCodedFilter<S> {
    fn with_shape(shape: &Shape) -> Result<Self, BuildError> {
        CodedFilter::builder()
            .capacity(shape.capacity)
            .false_positive_rate(shape.false_positive_rate)
            .build_concurrent(shape.shards)
    }

    fn insert(&self, hash: Hash) -> Result<Insertion, InsertError> {
        match self.insert(hash) {
            Err(InsertError::Crowded) => Ok(Insertion::Asks(self.claim_to_insert(hash))),
            inserted => inserted.map(|()| Insertion::Done),
        }
    }

    fn insert_listed(&self, claim: &Claim, members: &[Member]) -> Result<(), InsertError> {
        self.insert_listed(claim, members)
    }

    fn remove(&self, hash: Hash) -> Result<(), RemoveError> {
        self.remove(hash)
    }

    fn remove_listed(&self, claim: &Claim, members: &[Member]) -> Result<(), RemoveError> {
        self.remove_listed(claim, members)
    }

    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn check(&self, hash: Hash) -> Answer {
        self.check(hash)
    }

    fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.contains_many(hashes, maybe);
    }

    /// Those of the whole block: its code may be full, and whatever was repaired there forgotten.
    fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim_to_insert(query).suspects()
    }

    fn reach(&self, shard: usize) -> u128 {
        let block = SharedFilter::suspects(self, *self.shard_hashes(shard).start());
        // No block has more quotients than the first; rounding may add a hash to one. A block may
        // be all hashes.
        (block.end().as_u128() - block.start().as_u128()).saturating_add(1)
    }

    fn adapt(&self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        self.adapt(claim, members)
    }

    fn adapt_dropping_ghosts(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_dropping_ghosts(claim, members)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn load(&self) -> f64 {
        self.load()
    }

    fn shards(&self) -> usize {
        self.shards()
    }

    fn shard_of(&self, hash: Hash) -> usize {
        self.shard_of(hash)
    }

    fn shard_hashes(&self, shard: usize) -> RangeInclusive<Hash> {
        self.shard_hashes(shard)
    }

    fn rebuild_shard(
        &self,
        shard: usize,
        capacity: usize,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> Result<(), BuildError> {
        let needed = (capacity as f64 / PLANNED_LOAD).ceil() as u64;
        let mut slots = needed.max(self.parameters(shard).slots);
        // Where hashes lie unevenly, there may be no room at the end of a table that isn't full.
        let most = slots.saturating_mul(4);
        loop {
            let mistakes = mistakes.iter().copied();
            match self.rebuild_shard(shard, slots, members.iter().copied(), mistakes) {
                Err(BuildError::Full { .. }) if slots < most => slots += slots / 4 + 64,
                rebuilt => return rebuilt,
            }
        }
    }

    fn save(&self, path: &Path) -> Result<(), SnapshotError> {
        Snapshot::save(self, path)
    }

    fn open(path: &Path) -> Result<Self, SnapshotError> {
        Snapshot::open(path)
    }
}
