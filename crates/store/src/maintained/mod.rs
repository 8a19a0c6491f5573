//! A filter that is kept in step with a database, with its locks, mistakes and counters.
//!
//! [`Store`](crate::Store), [`ListStore`](crate::ListStore) and [`Guard`](crate::Guard) differ in the
//! database, and in what a mistake is. The protocol between filter and database is the same for all of
//! them. ([`RangeStore`](crate::RangeStore) follows it with a different filter.)
//!
//! # Protocol
//! 1. *Order.* A member is inserted into the filter before it is written to the database, and removed from
//!    the filter after it is removed from the database. So the filter holds every member of the database at
//!    every moment.
//! 2. *Stripes.* A write or a repair holds the [stripes](crate::stripes) of all hashes that the filter could
//!    confuse with its own, from before its first read until filter and database agree again. So while a
//!    stripe is held, a listing of its hashes stays true.
//! 3. *Lookups* take no stripe. "Absent" is final, because of 1. "Maybe" carries a claim, and the database is
//!    asked.
//! 4. *Repairs* use the claim of the lookup, so the filter is asked once. The claim may be older than the
//!    lock. Under the lock, the members in the claim's interval are listed. If the key is one of them, it was
//!    written in the meantime, and there is nothing to repair. Otherwise the filter gets the claim and the
//!    listing. It refuses a claim if a member near it came or went since, or if its shard was rebuilt or has
//!    grown; then it is asked again, under the lock, and the members are listed again. If it accepts the
//!    claim, its fingerprints there are those of the members that the listing names: the listing is complete,
//!    because the interval of every claim is within the stripes that are held (`reach` never decreases).
//! 5. *Kept mistakes.* If the mistake is already kept, another thread has repaired it since, or it has come
//!    back. Only the filter can tell which, so it is asked again, under the lock.
//! 6. *Risky writes.* A new member may collide with a kept mistake. It is repaired before the stripes are
//!    released. A lookup in between could read "maybe"; [`RiskyWrites`] lets it notice, and wait.

mod edit;
mod insert;
mod listed_mistakes;
mod lookup;
mod rebuild;
mod repair;
mod risky_writes;

pub(crate) use insert::distinct;
pub(crate) use lookup::Asked;
pub(crate) use rebuild::THREAD as REBUILD_THREAD;

use crate::stats::{Count, Counters, Stats};
use crate::stripes::{Locked, Stripes};
use risky_writes::RiskyWrites;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use twiceshy::{
    Concurrent, Hash, MemberSource,
    concurrent::Shard,
    error::{AdaptError, BuildError, InsertError},
};

/// The database that a filter is kept in step with. It lists each member once.
pub(crate) trait Source:
    MemberSource<Member = Hash, Error: From<InsertError> + From<AdaptError> + From<BuildError>>
{
    /// Keeps a mistake durably, and drops the one that was forgotten for it. The mistake may be kept
    /// already.
    fn keep_mistake(&self, mistake: Hash, forgotten: Option<Hash>) -> Result<(), Self::Error>;

    /// Returns whether an earlier write of this key may take effect although it can't be seen now. The
    /// caller holds the key's stripe.
    fn doubt(&self, hash: Hash) -> Doubt;

    /// Whether a failed write can leave a fingerprint (a *ghost*) in any shard. Repairs drop ghosts. If this
    /// is `false`, only shards that are marked can have ghosts. In other shards, a fingerprint that no listed
    /// member explains shows that the listing isn't true.
    const LEAVES_GHOSTS: bool = true;

    /// Returns whether a write that failed with this error certainly did not happen, and won't.
    fn is_refusal(_: &Self::Error) -> bool {
        false
    }

    /// Returns whether a shard may be trusted if it is rebuilt from a listing that begins now. The
    /// caller holds all stripes of the shard.
    fn may_trust(&self, _shard: usize) -> bool {
        true
    }

    /// Notes that a shard that may be trusted was rebuilt. The caller holds all stripes of the shard.
    fn trust(&self, _shard: usize) {}
}

/// Whether a failed write may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No write of the key is in doubt.
    None,
    /// The write may show when the store is reopened, which rebuilds the filter.
    UntilReopened,
    /// The write may take effect at any moment until it is settled. The filter must keep the key.
    Unsettled,
}

/// Whether mistakes are found by lookups or listed by the user, and how many are kept.
#[derive(Clone, Copy)]
pub(crate) enum Policy {
    /// Mistakes are found by lookups. If `repaired`, they are repaired, and up to `kept` are kept.
    Found { repaired: bool, kept: usize },
    /// Mistakes are listed by the user. All are kept, and none may ever be made. Without repairs, the
    /// filter would be wrong about this share of random keys.
    Listed { rate: f64 },
}

impl Policy {
    /// Returns whether a mistake that a lookup finds is repaired.
    fn repairs(self) -> bool {
        matches!(self, Self::Found { repaired: true, .. })
    }

    /// Returns whether mistakes are listed and must never be made.
    fn is_listed(self) -> bool {
        matches!(self, Self::Listed { .. })
    }

    /// Returns how many mistakes are kept, at least 1.
    fn kept(self) -> usize {
        match self {
            Self::Found { kept, .. } => kept.max(1),
            Self::Listed { .. } => usize::MAX,
        }
    }

    /// Estimates how many slots the repairs of this many kept mistakes take.
    fn slots(self, mistakes: usize) -> usize {
        match self {
            Self::Found { .. } => mistakes,
            Self::Listed { rate } => (mistakes as f64 * rate).ceil() as usize,
        }
    }
}

/// A filter that is kept in step with a database.
pub(crate) struct MaintainedFilter<F> {
    pub(crate) filter: Concurrent<F>,
    /// Which shards hold all of their members. Other shards answer "maybe".
    ready: Box<[AtomicBool]>,
    /// Whether the listing of members is known to be complete. Until then, no shard is trusted.
    is_complete: AtomicBool,
    /// Which shards may have ghosts; see [`Source::LEAVES_GHOSTS`].
    has_ghosts: Box<[AtomicBool]>,
    stripes: Stripes,
    /// The longest distance between a query and a member that the filter could confuse with it, in any
    /// shard, in units of 2^64.
    reach: AtomicU64,
    /// The number of shards that were rebuilt, perhaps in a different size.
    rebuilt: AtomicU64,
    mistakes: AtomicUsize,
    policy: Policy,
    risky_writes: RiskyWrites,
    counters: Counters,
}

impl<F: Shard> MaintainedFilter<F> {
    /// Wraps a filter. Either all of its shards are ready, or none.
    pub(crate) fn new(filter: Concurrent<F>, is_ready: bool, policy: Policy) -> Self {
        Self {
            ready: (0..filter.shards()).map(|_| AtomicBool::new(is_ready)).collect(),
            reach: AtomicU64::new(
                (0..filter.shards()).map(|shard| reach(&filter, shard)).max().unwrap_or(0),
            ),
            has_ghosts: (0..filter.shards()).map(|_| AtomicBool::new(false)).collect(),
            filter,
            is_complete: AtomicBool::new(true),
            stripes: Stripes::new(),
            rebuilt: AtomicU64::new(0),
            mistakes: AtomicUsize::new(0),
            policy,
            risky_writes: RiskyWrites::new(),
            counters: Counters::new(),
        }
    }

    /// Returns whether the shard of a hash is ready. Call this before asking the filter: a shard that
    /// becomes ready after it was asked may have lacked members. (A shard that is distrusted after this call
    /// may answer as before.)
    fn is_ready(&self, hash: Hash) -> bool {
        self.ready[self.filter.shard_of(hash)].load(Ordering::Acquire)
    }

    /// Makes the shard of a hash answer "maybe" until it is rebuilt.
    pub(crate) fn distrust(&self, hash: Hash) {
        self.ready[self.filter.shard_of(hash)].store(false, Ordering::Release);
    }

    /// Notes that the filter may hold a hash that the database doesn't have.
    fn leave_ghost(&self, hash: Hash) {
        self.counters.add(Count::GhostsLeft, 1);
        self.has_ghosts[self.filter.shard_of(hash)].store(true, Ordering::Release);
    }

    /// Returns whether a failed or undone write may have left a ghost in a shard.
    pub(crate) fn has_ghosts(&self, shard: usize) -> bool {
        self.has_ghosts[shard].load(Ordering::Acquire)
    }

    fn may_have_ghosts<S: Source>(&self, hash: Hash) -> bool {
        let shard = self.filter.shard_of(hash);
        S::LEAVES_GHOSTS || self.has_ghosts(shard)
    }

    /// Returns whether all shards are ready.
    pub(crate) fn is_all_ready(&self) -> bool {
        self.ready.iter().all(|ready| ready.load(Ordering::Acquire)) && self.is_complete()
    }

    /// Returns whether the filter may be saved: all shards are built, no failed write has left a ghost,
    /// and no thread has panicked while it held a stripe.
    pub(crate) fn is_exact(&self) -> bool {
        let has_ghosts = || self.has_ghosts.iter().any(|ghosts| ghosts.load(Ordering::Acquire));
        self.is_all_ready() && !has_ghosts() && !self.stripes.is_poisoned()
    }

    /// Sets whether the listing of members is known to be complete.
    pub(crate) fn set_complete(&self, is_complete: bool) {
        self.is_complete.store(is_complete, Ordering::Release);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Loads kept mistakes, up to the limit. Returns those beyond the limit.
    pub(crate) fn load_mistakes<E>(
        &self,
        mistakes: impl Iterator<Item = Result<Hash, E>>,
    ) -> Result<Vec<Hash>, E> {
        let mut locked = self.stripes.lock([Hash::MIN..=Hash::MAX]);
        let mut forgotten = Vec::new();
        for mistake in mistakes {
            let mistake = mistake?;
            if self.mistakes.load(Ordering::Relaxed) >= self.policy.kept() {
                forgotten.push(mistake);
            } else if locked.insert_mistake(mistake) {
                self.mistakes.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.counters.add(Count::MistakesForgotten, forgotten.len() as u64);
        Ok(forgotten)
    }

    /// Locks all hashes that the filter could confuse with these. A shard that grows confuses fewer hashes,
    /// but a rebuilt shard may confuse more: then the lock is taken again.
    fn lock(&self, hashes: &[Hash]) -> Locked<'_> {
        loop {
            let before = self.rebuilt.load(Ordering::Acquire);
            let reach = u128::from(self.reach.load(Ordering::Relaxed)) << 64;
            // Finding the exact intervals would take longer.
            let around = |hash: &Hash| {
                let hash = hash.as_u128();
                let (first, last) = (hash.saturating_sub(reach), hash.saturating_add(reach));
                Hash::from_u128(first)..=Hash::from_u128(last)
            };
            let locked = self.stripes.lock(hashes.iter().map(around));
            if self.rebuilt.load(Ordering::Acquire) == before {
                let mut suspects = hashes.iter().map(|&hash| self.filter.suspects(hash));
                debug_assert!(suspects.all(|suspects| locked.covers(&suspects)));
                return locked;
            }
        }
    }

    /// Notes that a shard was rebuilt.
    fn has_rebuilt(&self, shard: usize) {
        self.reach.fetch_max(reach(&self.filter, shard), Ordering::Relaxed);
        self.rebuilt.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of shards that are ready.
    fn shards_ready(&self) -> usize {
        let ready = self.ready.iter().filter(|ready| ready.load(Ordering::Relaxed));
        if self.is_complete() { ready.count() } else { 0 }
    }

    /// Returns the statistics, except for fields that only one kind of store has.
    pub(crate) fn stats(&self) -> Stats {
        let of_filter = self.filter.stats();
        Stats {
            mistakes: self.mistakes.load(Ordering::Relaxed) as u64,
            members: of_filter.members as u64,
            filter_bytes: of_filter.memory,
            load: of_filter.load,
            shards_ready: self.shards_ready(),
            shards: self.ready.len(),
            ..self.counters.stats()
        }
    }
}

/// Returns the longest distance between a query and a member that a shard could confuse with it, in units
/// of 2^64, rounded up.
fn reach<F: Shard>(filter: &Concurrent<F>, shard: usize) -> u64 {
    u64::try_from(filter.reach(shard) >> 64).map_or(u64::MAX, |reach| reach.saturating_add(1))
}
