//! Statistics, and the counters that they are read from.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts of a store's or guard's operations since it was opened, and the state of its filter.
///
/// Every store has all fields. A field that a store has no use for is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Lookups and removals of keys, and range queries.
    pub lookups: u64,
    /// Lookups that the filter answered alone, without a disk read.
    pub answered_from_memory: u64,
    /// Lookups that found something.
    pub true_positives: u64,
    /// Lookups that found nothing although the filter had said "maybe".
    pub false_positives: u64,
    /// False positives that had been repaired before.
    pub repeated_false_positives: u64,
    /// Lookups that found nothing and that the filter could not answer: it was being rebuilt, or the
    /// range was too long for it.
    pub unfiltered: u64,
    /// Mistakes repaired, including those that collided with a new member.
    pub repairs: u64,
    /// Repairs that failed. The same mistake may be made again.
    pub repairs_failed: u64,
    /// Ghosts that failed writes may have left in the filter.
    pub ghosts_left: u64,
    /// Ghosts that repairs have cleared.
    pub ghosts_cleared: u64,
    /// Keys in doubt; see [`Guard::doubts`](crate::Guard::doubts).
    pub doubts: u64,
    /// Mistakes that are kept. In a [`ListStore`](crate::ListStore), the keys of the no list.
    pub mistakes: u64,
    /// Bytes of memory that the no list of a [`ListStore`](crate::ListStore) takes. The yes list is only
    /// on the disk.
    pub list_bytes: u64,
    /// Mistakes that were forgotten to make room for others.
    pub mistakes_forgotten: u64,
    /// Point reads of the backend.
    pub backend_gets: u64,
    /// Range scans of the backend.
    pub backend_scans: u64,
    /// Members of the filter. In a [`ListStore`](crate::ListStore), the keys of the yes list.
    pub members: u64,
    /// Bytes of memory that the filter takes.
    pub filter_bytes: u64,
    /// Share of the filter's slots that are in use.
    pub load: f64,
    /// Shards that are ready to answer.
    pub shards_ready: usize,
    /// Shards of the filter.
    pub shards: usize,
}

impl Stats {
    /// Returns the share of absent keys that were looked up on the disk.
    pub fn false_positive_rate(&self) -> f64 {
        let absent = self.false_positives + self.answered_from_memory;
        if absent == 0 { 0.0 } else { self.false_positives as f64 / absent as f64 }
    }

    /// Returns the filter's bits per member.
    pub fn bits_per_key(&self) -> f64 {
        if self.members == 0 { 0.0 } else { self.filter_bytes as f64 * 8.0 / self.members as f64 }
    }
}

/// An event that is counted.
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

/// Number of copies of all counters. Threads use different copies, so that they rarely write to the
/// same cache line.
const COPIES: usize = 16;

/// One copy of all counters, aligned to two cache lines, because processors prefetch pairs of them.
#[repr(align(128))]
#[derive(Default)]
struct Copy([AtomicU64; COUNTS]);

/// Counters of a store's events.
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

    /// Returns the counters. The fields that describe the filter are those of an empty filter with
    /// one shard.
    pub(crate) fn stats(&self) -> Stats {
        let get = |count| self.get(count);
        Stats {
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
            list_bytes: 0,
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

/// Returns the number of the current thread's copy.
#[inline]
fn copy() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static COPY: usize = THREADS.fetch_add(1, Ordering::Relaxed) % COPIES;
    }
    COPY.with(|copy| *copy)
}
