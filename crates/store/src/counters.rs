//! What a store counts, without its threads waiting for each other.

use crate::store::Statistics;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    AnsweredFromMemory,
    LookedUp,
    TruePositives,
    FalsePositives,
    RepeatedFalsePositives,
    Repairs,
    RepairsFailed,
    GhostsLeft,
    GhostsCleared,
    MistakesForgotten,
    Unfiltered,
    BackendGets,
    BackendScans,
}

const COUNTS: usize = Count::BackendScans as usize + 1;

/// Copies of all counters: threads use different ones.
const COPIES: usize = 16;

/// Apart from each other by more than what a cache fetches at once.
#[repr(align(128))]
#[derive(Default)]
struct Copy([AtomicU64; COUNTS]);

pub(crate) struct Counters {
    copies: [Copy; COPIES],
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self { copies: std::array::from_fn(|_| Copy::default()) }
    }

    #[inline]
    pub(crate) fn add(&self, count: Count, by: u64) {
        self.copies[copy()].0[count as usize].fetch_add(by, Ordering::Relaxed);
    }

    fn get(&self, count: Count) -> u64 {
        self.copies.iter().map(|copy| copy.0[count as usize].load(Ordering::Relaxed)).sum()
    }

    /// What was counted; of the filter it says that it is empty, in one shard.
    pub(crate) fn statistics(&self) -> Statistics {
        let get = |count| self.get(count);
        Statistics {
            lookups: get(Count::AnsweredFromMemory) + get(Count::LookedUp),
            answered_from_memory: get(Count::AnsweredFromMemory),
            true_positives: get(Count::TruePositives),
            false_positives: get(Count::FalsePositives),
            repeated_false_positives: get(Count::RepeatedFalsePositives),
            unfiltered: get(Count::Unfiltered),
            repairs: get(Count::Repairs),
            repairs_failed: get(Count::RepairsFailed),
            ghosts_left: get(Count::GhostsLeft),
            ghosts_cleared: get(Count::GhostsCleared),
            doubts: 0,
            mistakes: 0,
            mistakes_forgotten: get(Count::MistakesForgotten),
            backend_gets: get(Count::BackendGets),
            backend_scans: get(Count::BackendScans),
            members: 0,
            filter_bytes: 0,
            load: 0.0,
            shards_ready: 1,
            shards: 1,
        }
    }
}

/// The copy of this thread.
#[inline]
fn copy() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static COPY: usize = THREADS.fetch_add(1, Ordering::Relaxed) % COPIES;
    }
    COPY.with(|copy| *copy)
}
