//! A filter in front of something that has the members: its locks, its mistakes, its counts.
//!
//! [`GuardedStore`](crate::GuardedStore), [`ListStore`](crate::ListStore) and
//! [`Guard`](crate::Guard) differ in what is behind, and in what a mistake is; what must hold between
//! that and the filter is kept here, for all of them.

mod access;
mod admit;
mod listed;
mod repair;

use crate::counters::{Count, Counters};
use crate::store::Statistics;
use crate::stripes::{Locked, Stripes};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use twiceshy::{AdaptError, BuildError, Concurrent, Hash, InsertError, Shard};

/// What has the members.
pub(crate) trait Behind {
    type Error: From<InsertError> + From<AdaptError> + From<BuildError>;

    /// The hashes of all members in an interval, in order.
    fn members(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<Hash>, Self::Error>;

    /// Keeps a mistake for good, and drops the one that was forgotten for it. It may be kept
    /// already.
    fn keep_mistake(&self, mistake: Hash, forgotten: Option<Hash>) -> Result<(), Self::Error>;

    /// Returns whether an earlier write of this key may take effect although it can't be seen now.
    /// The caller holds the key's stripe.
    fn doubt(&self, hash: Hash) -> Doubt;

    /// Whether any shard may have *ghosts*: fingerprints that failed writes have left, and that repairs
    /// drop. If not, only shards have some in which the front has left one itself; elsewhere a
    /// fingerprint that no listed member explains shows that the listing isn't true.
    const LEAVES_GHOSTS: bool = true;

    /// Returns whether a write that failed with this error certainly did not happen, and won't.
    fn is_refusal(_: &Self::Error) -> bool {
        false
    }

    /// Is told that a shard that may be trusted was rebuilt, and is. The caller holds all stripes of the
    /// shard.
    fn trust(&self, _shard: usize) {}

    /// Returns whether a shard may be trusted if it is rebuilt from a listing that begins now. The
    /// caller holds all stripes of the shard.
    fn may_trust(&self, _shard: usize) -> bool {
        true
    }
}

/// Whether a write that failed may take effect after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No write of the key is in doubt.
    None,
    /// Only reopening shows it, and builds the filter again.
    UntilReopened,
    /// At any moment, until it is settled. The filter must keep the key.
    Unsettled,
}

/// What mistakes are, and what is done about them.
#[derive(Clone, Copy)]
pub(crate) enum Policy {
    /// Found out by asking what is behind; repaired, if they are to be, and so many remembered.
    Found { repaired: bool, kept: usize },
    /// Named by somebody, all kept, and never made. Of random ones, the filter would make this
    /// share.
    Listed { rate: f64 },
}

impl Policy {
    /// Whether what turns out to be a mistake is repaired.
    fn repairs(self) -> bool {
        matches!(self, Self::Found { repaired: true, .. })
    }

    /// Whether it must never be made, rather than seldom.
    fn is_listed(self) -> bool {
        matches!(self, Self::Listed { .. })
    }

    /// How many are kept, at least 1.
    fn kept(self) -> usize {
        match self {
            Self::Found { kept, .. } => kept.max(1),
            Self::Listed { .. } => usize::MAX,
        }
    }

    /// About so many slots it takes to repair so many of those that are kept.
    fn slots(self, mistakes: usize) -> usize {
        match self {
            Self::Found { .. } => mistakes,
            Self::Listed { rate } => (mistakes as f64 * rate).ceil() as usize,
        }
    }
}

pub(crate) struct Front<F> {
    pub(crate) filter: Concurrent<F>,
    /// Which shards of the filter hold all of their members; of the others, anything may be
    /// a member.
    ready: Box<[AtomicBool]>,
    /// Whether what lists the members is known to list all that are behind: only then a shard
    /// that is ready is believed.
    is_complete: AtomicBool,
    /// Which shards may have ghosts; see [`Behind::LEAVES_GHOSTS`].
    has_ghosts: Box<[AtomicBool]>,
    stripes: Stripes,
    /// How far from a query its suspects may be, in any shard; of 2^64.
    reach: AtomicU64,
    /// How many shards were built again, perhaps in another size.
    rebuilt: AtomicU64,
    mistakes: AtomicUsize,
    policy: Policy,
    /// Writes that may have brought repaired mistakes back for a moment: how many are under
    /// way, in the lower half, and how many are over.
    defences: AtomicU64,
    pub(crate) counters: Counters,
}

impl<F: Shard> Front<F> {
    /// All shards of the filter are ready, or none.
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
            defences: AtomicU64::new(0),
            counters: Counters::new(),
        }
    }

    /// Returns whether a shard answers. Ask this first, and the filter then: a shard that becomes ready
    /// in between may lack members that were written before. (One that ceases to be ready in between
    /// answers as it did then.)
    pub(crate) fn is_ready(&self, hash: Hash) -> bool {
        self.ready[self.filter.shard_of(hash)].load(Ordering::Acquire)
    }

    /// Lets the shard of a hash answer "maybe" until it is rebuilt.
    pub(crate) fn distrust(&self, hash: Hash) {
        self.ready[self.filter.shard_of(hash)].store(false, Ordering::Release);
    }

    /// Notes that the filter may have kept a hash that is not behind.
    fn leave_ghost(&self, hash: Hash) {
        self.counters.add(Count::GhostsLeft, 1);
        self.has_ghosts[self.filter.shard_of(hash)].store(true, Ordering::Release);
    }

    /// Returns whether a failed or undone write may have left a ghost in a shard.
    pub(crate) fn has_ghosts(&self, shard: usize) -> bool {
        self.has_ghosts[shard].load(Ordering::Acquire)
    }

    fn may_have_ghosts<B: Behind>(&self, hash: Hash) -> bool {
        let shard = self.filter.shard_of(hash);
        B::LEAVES_GHOSTS || self.has_ghosts(shard)
    }

    pub(crate) fn is_all_ready(&self) -> bool {
        self.ready.iter().all(|ready| ready.load(Ordering::Acquire))
    }

    /// Whether the filter may be saved: all of it is built, no failed write has left a ghost in it,
    /// and no thread has panicked while it changed it.
    pub(crate) fn is_exact(&self) -> bool {
        let has_ghosts = || self.has_ghosts.iter().any(|ghosts| ghosts.load(Ordering::Acquire));
        self.is_all_ready() && self.is_complete() && !has_ghosts() && !self.stripes.is_poisoned()
    }

    /// Says whether what lists the members is known to list all.
    pub(crate) fn set_complete(&self, is_complete: bool) {
        self.is_complete.store(is_complete, Ordering::Release);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Remembers mistakes that were kept, as many as may be; returns the others.
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

    /// Holds all hashes that the filter could confuse with these. A shard that grows confuses
    /// fewer, but one that is built again may confuse more.
    fn lock(&self, hashes: &[Hash]) -> Locked<'_> {
        loop {
            let before = self.rebuilt.load(Ordering::Acquire);
            let reach = u128::from(self.reach.load(Ordering::Relaxed)) << 64;
            // The suspects themselves would take longer to find.
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

    /// Says that a shard was built again.
    fn has_rebuilt(&self, shard: usize) {
        self.reach.fetch_max(reach(&self.filter, shard), Ordering::Relaxed);
        self.rebuilt.fetch_add(1, Ordering::AcqRel);
    }

    /// How many shards are believed.
    fn shards_ready(&self) -> usize {
        let ready = self.ready.iter().filter(|ready| ready.load(Ordering::Relaxed));
        if self.is_complete() { ready.count() } else { 0 }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            mistakes: self.mistakes.load(Ordering::Relaxed) as u64,
            members: self.filter.len() as u64,
            filter_bytes: self.filter.memory_usage(),
            load: self.filter.load(),
            shards_ready: self.shards_ready(),
            shards: self.ready.len(),
            ..self.counters.statistics()
        }
    }
}

/// How far from a query of a shard its suspects may be, of 2^64, rounded up.
fn reach<F: Shard>(filter: &Concurrent<F>, shard: usize) -> u64 {
    u64::try_from(filter.reach(shard) >> 64).map_or(u64::MAX, |reach| reach.saturating_add(1))
}
