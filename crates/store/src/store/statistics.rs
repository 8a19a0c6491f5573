//! What a store tells of itself.

use super::GuardedStore;
use crate::backend::Backend;
use twiceshy::Shard;

/// What a store has done since it was opened, and what its filter is like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Keys asked for, to get or to remove them, and ranges of keys.
    pub lookups: u64,
    /// Of them, those that the filter knew to be absent, or empty: visits to the disk saved.
    pub answered_from_memory: u64,
    /// Those that were there.
    pub true_positives: u64,
    /// Those that weren't, though the filter had said "maybe".
    pub false_positives: u64,
    /// Of these, those that had been repaired before.
    pub repeated_false_positives: u64,
    /// Those that weren't there, asked while the filter was being built, and ranges that are too
    /// long for it.
    pub unfiltered: u64,
    /// Mistakes repaired, those that a new member brought back among them.
    pub repairs: u64,
    /// Repairs that failed: the mistake may be made again.
    pub repairs_failed: u64,
    /// Ghosts that failed writes may have left in the filter.
    pub ghosts_left: u64,
    /// Ghosts that repairs have cleared.
    pub ghosts_cleared: u64,
    /// Keys in doubt; see [`Guard::doubts`](crate::Guard::doubts).
    pub doubts: u64,
    /// Mistakes that are remembered.
    pub mistakes: u64,
    /// Mistakes that were forgotten for others.
    pub mistakes_forgotten: u64,
    /// Point reads of the backend.
    pub backend_gets: u64,
    /// Range scans of the backend.
    pub backend_scans: u64,
    /// Members of the filter.
    pub members: u64,
    /// Its bytes of memory.
    pub filter_bytes: u64,
    /// Its slots in use, as a share of all.
    pub load: f64,
    /// Shards of it that answer.
    pub shards_ready: usize,
    /// All its shards.
    pub shards: usize,
}

impl Statistics {
    /// The share of keys that weren't there, but looked for on the disk.
    pub fn false_positive_rate(&self) -> f64 {
        let absent = self.false_positives + self.answered_from_memory;
        if absent == 0 { 0.0 } else { self.false_positives as f64 / absent as f64 }
    }

    /// Bits of the filter for each member.
    pub fn bits_per_key(&self) -> f64 {
        if self.members == 0 { 0.0 } else { self.filter_bytes as f64 * 8.0 / self.members as f64 }
    }
}

impl<B: Backend, F: Shard> GuardedStore<B, F> {
    /// What the store has done since it was opened, and what its filter is like.
    pub fn stats(&self) -> Statistics {
        self.inner.front.statistics()
    }
}
