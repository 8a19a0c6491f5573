//! Statistics, and the counters that they are read from.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Counts of a store's or guard's operations since it was opened, and the state of its filter.
///
/// Every store has all fields. A field that a store has no use for is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of lookups and removals of keys, and of range queries.
    pub lookups: u64,
    /// Number of lookups that the filter answered alone, without a disk read.
    pub answered_from_memory: u64,
    /// Number of lookups that found something.
    pub true_positives: u64,
    /// Number of lookups that found nothing although the filter had said "maybe".
    pub false_positives: u64,
    /// Number of false positives that had been repaired before. A [`Store`](crate::Store) counts one when
    /// it writes the mistake's record, and finds that there is one already. An old mistake may come back after
    /// its shard is rebuilt, or if its key was put and deleted in the meantime. A filter that forgets repairs,
    /// such as a [`TelescopingFilter`](twiceshy::TelescopingFilter), may make it again at any time. After a
    /// failed write of records, new mistakes may be counted here, too, and so may mistakes whose repair was
    /// skipped while their shard was being rebuilt.
    pub repeated_false_positives: u64,
    /// Number of lookups that found nothing and that the filter could not answer, because the
    /// filter was being rebuilt, or because the range was too long for the filter.
    pub unfiltered: u64,
    /// Number of repairs, including repairs of earlier mistakes that a new member would have
    /// brought back.
    pub repairs: u64,
    /// Number of repairs that failed. Such a mistake may recur.
    pub repairs_failed: u64,
    /// Number of repairs that were not made, because too many others were waiting, or because the filter
    /// had no room. Such a mistake may recur, and is then repaired.
    pub repairs_skipped: u64,
    /// Number of ghosts that failed writes may have left in the filter. A ghost is a fingerprint without a
    /// key.
    pub ghosts_left: u64,
    /// Number of ghosts that repairs have cleared.
    pub ghosts_cleared: u64,
    /// Number of keys in doubt; see [`Guard::doubts`](crate::Guard::doubts).
    pub doubts: u64,
    /// Memory that keys in doubt take, in bytes. Memory that the keys' own types allocate doesn't
    /// count.
    pub doubt_bytes: u64,
    /// Number of records of mistakes that wait in memory to be written.
    pub records_waiting: usize,
    /// Number of repairs that wait because another thread held the locks that they need.
    pub repairs_waiting: usize,
    /// Number of mistakes that are kept. In a [`Store`](crate::Store), this counts the records in
    /// the backend and those that wait in memory. Some of their keys may have been put since. In a
    /// [`ListStore`](crate::ListStore), this is the number of keys on the no list. The background
    /// thread of a store counts the records after the store is opened.
    pub mistakes: u64,
    /// Memory of the kept mistakes of a [`Guard`](crate::Guard) or a
    /// [`RangeStore`](crate::RangeStore), or of the no list of a [`ListStore`](crate::ListStore),
    /// in bytes. The yes list is only on disk.
    pub list_bytes: u64,
    /// Number of mistakes that were forgotten to make room for others.
    pub mistakes_forgotten: u64,
    /// Number of point reads of the backend.
    pub backend_gets: u64,
    /// Number of range scans of the backend.
    pub backend_scans: u64,
    /// Number of shards that were rebuilt.
    pub rebuilds: u64,
    /// Number of shards that were rebuilt because repairs had used up their room, or because they had
    /// too many records of repairs.
    pub rotations: u64,
    /// Number of rebuilds that failed. They are tried again.
    pub rebuilds_failed: u64,
    /// Time that all rebuilds took together.
    pub rebuild_time: Duration,
    /// Time that the longest rebuild took.
    pub longest_rebuild: Duration,
    /// Number of shards that are to be rebuilt, or are being rebuilt.
    pub shards_due: usize,
    /// Number of writes that were delayed because their shard was nearly full.
    pub delayed_writes: u64,
    /// Number of times that a write waited for a rebuild, because its shard was full.
    pub stalled_writes: u64,
    /// Whether a background thread tends the filter.
    pub has_background_thread: bool,
    /// Number of members of the filter. In a [`ListStore`](crate::ListStore), the number of keys on
    /// the yes list.
    pub members: u64,
    /// Memory that the filter takes, in bytes.
    pub filter_bytes: u64,
    /// Memory that locks, counters and the state of shards take, in bytes.
    pub upkeep_bytes: u64,
    /// Memory that running rebuilds take, in bytes.
    pub rebuild_bytes: u64,
    /// Probability that the filter takes an absent key for a member now, if the key was not queried before.
    pub expected_rate: f64,
    /// Share of the filter's slots that are in use.
    pub load: f64,
    /// Number of shards that are ready to answer.
    pub shards_ready: usize,
    /// Total number of shards.
    pub shards: usize,
}

impl Stats {
    /// Returns the share of absent keys that were looked up on disk, because the filter made a mistake or
    /// couldn't answer.
    pub fn false_positive_rate(&self) -> f64 {
        let looked_up = self.false_positives + self.unfiltered;
        let absent = looked_up + self.answered_from_memory;
        if absent == 0 { 0.0 } else { looked_up as f64 / absent as f64 }
    }

    /// Returns all memory that the store takes, excluding its backend, in bytes.
    pub fn memory(&self) -> u64 {
        self.filter_bytes
            + self.upkeep_bytes
            + self.rebuild_bytes
            + self.list_bytes
            + self.doubt_bytes
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
    RepairsSkipped,
    GhostsLeft,
    GhostsCleared,
    MistakesForgotten,
    Unfiltered,
    BackendGets,
    BackendScans,
    Rebuilds,
    Rotations,
    RebuildsFailed,
    DelayedWrites,
    StalledWrites,
}

const COUNTS: usize = Count::StalledWrites as usize + 1;

/// Number of copies of all counters. Threads use different copies, so that they rarely write to the
/// same cache line.
const COPIES: usize = 16;

/// One copy of all counters. It is aligned to two cache lines, because processors prefetch them in pairs.
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
            repairs_skipped: get(Count::RepairsSkipped),
            ghosts_left: get(Count::GhostsLeft),
            ghosts_cleared: get(Count::GhostsCleared),
            doubts: 0,
            doubt_bytes: 0,
            records_waiting: 0,
            repairs_waiting: 0,
            mistakes: 0,
            list_bytes: 0,
            mistakes_forgotten: get(Count::MistakesForgotten),
            backend_gets: get(Count::BackendGets),
            backend_scans: get(Count::BackendScans),
            rebuilds: get(Count::Rebuilds),
            rotations: get(Count::Rotations),
            rebuilds_failed: get(Count::RebuildsFailed),
            rebuild_time: Duration::ZERO,
            longest_rebuild: Duration::ZERO,
            shards_due: 0,
            delayed_writes: get(Count::DelayedWrites),
            stalled_writes: get(Count::StalledWrites),
            has_background_thread: false,
            members: 0,
            filter_bytes: 0,
            upkeep_bytes: size_of::<Self>() as u64,
            rebuild_bytes: 0,
            expected_rate: 0.0,
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
