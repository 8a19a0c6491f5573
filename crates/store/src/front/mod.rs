//! A filter in front of something that has the members: its locks, its mistakes, its counts.

mod repair;

pub(crate) use repair::{Behind, Room, Tried};

use crate::counters::{Count, Counters};
use crate::filter::SharedFilter;
use crate::store::Statistics;
use crate::stripes::{Locked, Stripes};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use twiceshy::Hash;

pub(crate) struct Front<F> {
    pub(crate) filter: F,
    /// Which shards of the filter hold all of their members; of the others, anything may be
    /// a member.
    ready: Box<[AtomicBool]>,
    stripes: Stripes,
    mistakes: AtomicUsize,
    mistakes_kept: usize,
    pub(crate) counters: Counters,
}

impl<F: SharedFilter> Front<F> {
    /// No shard of the filter is ready.
    pub(crate) fn new(filter: F, mistakes_kept: usize) -> Self {
        Self {
            ready: (0..filter.shards()).map(|_| AtomicBool::new(false)).collect(),
            filter,
            stripes: Stripes::new(),
            mistakes: AtomicUsize::new(0),
            mistakes_kept: mistakes_kept.max(1),
            counters: Counters::new(),
        }
    }

    pub(crate) fn is_ready(&self, hash: Hash) -> bool {
        self.ready[self.filter.shard_of(hash)].load(Ordering::Acquire)
    }

    /// Holds all hashes that the filter could confuse with these.
    pub(crate) fn lock(&self, hashes: &[Hash]) -> Locked<'_> {
        let suspects = || hashes.iter().map(|&hash| self.filter.suspects(hash));
        loop {
            let locked = self.stripes.lock(suspects());
            // A shard may have been built again, in another size.
            if suspects().all(|suspects| locked.covers(&suspects)) {
                return locked;
            }
        }
    }

    /// Forgets mistakes that are members now.
    pub(crate) fn forget(&self, locked: &mut Locked<'_>, members: &[Hash]) {
        for &member in members {
            if locked.remove_mistake(member) {
                self.mistakes.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let get = |count| self.counters.get(count);
        Statistics {
            lookups: get(Count::Lookups),
            answered_from_memory: get(Count::AnsweredFromMemory),
            true_positives: get(Count::TruePositives),
            false_positives: get(Count::FalsePositives),
            repeated_false_positives: get(Count::RepeatedFalsePositives),
            unfiltered: get(Count::Unfiltered),
            repairs: get(Count::Repairs),
            repairs_failed: get(Count::RepairsFailed),
            ghosts_left: get(Count::GhostsLeft),
            ghosts_cleared: get(Count::GhostsCleared),
            mistakes: self.mistakes.load(Ordering::Relaxed) as u64,
            mistakes_forgotten: get(Count::MistakesForgotten),
            backend_gets: get(Count::BackendGets),
            backend_scans: get(Count::BackendScans),
            members: self.filter.len() as u64,
            filter_bytes: self.filter.memory_usage(),
            load: self.filter.load(),
            shards_ready: self.ready.iter().filter(|ready| ready.load(Ordering::Relaxed)).count(),
            shards: self.ready.len(),
        }
    }
}
