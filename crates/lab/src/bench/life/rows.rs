//! The rows of the result.

use crate::bench::target::Target;
use serde::Serialize;

/// One row of the result.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(crate) enum Row {
    Grow(Grow),
    GrowSize(Size),
    GrowTotal(GrowTotal),
    Outrun(Outrun),
    Shrink(Shrink),
    ShrinkSize(Size),
    Planned(Planned),
    Flood(Flood),
    Restart(Recovery),
    Crash(Recovery),
    Target(Target),
}

/// The members of a store, and its memory at rest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) backend: &'static str,
    pub(crate) members: u64,
    /// The false-positive rate that the store's statistics report.
    pub(crate) expected_rate: f64,
    pub(crate) filter_bits_per_member: f64,
    /// All memory except the backend's, at rest.
    pub(crate) memory_bits_per_member: f64,
    pub(crate) memory_bytes: u64,
}

/// The number of bits of a store's remainders.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Remainders {
    /// The number of bits of the store's widest remainders.
    pub(crate) remainder_bits: u32,
    /// The number of remainder bits that `plan` computes for the requested rate.
    pub(crate) remainder_bits_of_plan: u32,
}

/// The latencies of puts, or of calls that put several members, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PutLatencies {
    #[serde(rename = "put_p9999_us")]
    pub(crate) p9999: f64,
    #[serde(rename = "put_p99999_us")]
    pub(crate) p99999: f64,
    #[serde(rename = "put_max_us")]
    pub(crate) max: f64,
}

/// The latencies of a writer and of a reader that run at the same time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latencies {
    #[serde(flatten)]
    pub(crate) puts: PutLatencies,
    pub(crate) get_p9999_us: f64,
    pub(crate) get_p99999_us: f64,
    pub(crate) get_max_us: f64,
    /// Latencies of a short computation by the reader, which show what the machine alone causes.
    pub(crate) control_p9999_us: f64,
    pub(crate) control_p99999_us: f64,
    pub(crate) control_max_us: f64,
}

/// A growing store at one size. Speeds, latencies and counts are those since the previous size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Grow {
    #[serde(flatten)]
    pub(crate) size: Size,
    #[serde(flatten)]
    pub(crate) remainders: Remainders,
    /// Measured false-positive rate of absent keys that were not queried before.
    pub(crate) rate: f64,
    /// The highest memory use of rebuilds that was seen.
    pub(crate) rebuild_bytes: u64,
    pub(crate) puts_per_second: f64,
    /// The number of gets per second by another thread at the same time.
    pub(crate) gets_per_second: f64,
    /// The number of members read to rebuild shards, per put.
    pub(crate) members_listed_per_put: f64,
    #[serde(flatten)]
    pub(crate) latencies: Latencies,
    /// The number of puts that were delayed, because their shard was nearly full.
    pub(crate) delayed_writes: u64,
    /// The number of shards that were rebuilt.
    pub(crate) rebuilds: u64,
    /// The time after the last put until no shard was due or being rebuilt.
    pub(crate) catch_up_ms: f64,
}

/// A store whose writers are faster than its background work.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outrun {
    /// The members and the memory after all due shards were rebuilt.
    #[serde(flatten)]
    pub(crate) size: Size,
    /// The share of one core for background work.
    pub(crate) background_share: f64,
    /// The number of threads that write.
    pub(crate) writers: u64,
    /// The number of members that were put.
    pub(crate) puts: u64,
    /// The number of members that each call of `put_many` puts.
    pub(crate) puts_per_call: u64,
    pub(crate) puts_per_second: f64,
    /// The latencies of calls of `put_many`.
    #[serde(flatten)]
    pub(crate) latencies: PutLatencies,
    /// The number of calls that returned an error.
    pub(crate) failed_puts: u64,
    /// The number of calls that were delayed, because their shard was nearly full.
    pub(crate) delayed_writes: u64,
    /// The number of calls that waited for a rebuild, because their shard was full.
    pub(crate) stalled_writes: u64,
    pub(crate) rebuilds: u64,
    pub(crate) failed_rebuilds: u64,
    /// The number of shards that were due after the last put.
    pub(crate) shards_due: u64,
    /// Measured false-positive rate after all due shards were rebuilt.
    pub(crate) rate: f64,
}

/// The whole growth of a store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GrowTotal {
    pub(crate) backend: &'static str,
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    pub(crate) puts_per_second: f64,
    pub(crate) members_listed_per_put: f64,
    #[serde(flatten)]
    pub(crate) latencies: Latencies,
    pub(crate) delayed_writes: u64,
    /// The number of puts that waited for a rebuild, because their shard was full.
    pub(crate) stalled_writes: u64,
    pub(crate) rebuilds: u64,
}

/// A shrinking store at one size. Speeds and counts are those since the previous size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shrink {
    #[serde(flatten)]
    pub(crate) size: Size,
    #[serde(flatten)]
    pub(crate) remainders: Remainders,
    pub(crate) rate: f64,
    pub(crate) deletes_per_second: f64,
    /// The number of members read to rebuild shards, per delete.
    pub(crate) members_listed_per_delete: f64,
    pub(crate) rebuilds: u64,
    pub(crate) catch_up_ms: f64,
}

/// A store that has as many members as it was planned for.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Planned {
    #[serde(flatten)]
    pub(crate) size: Size,
    #[serde(flatten)]
    pub(crate) remainders: Remainders,
    pub(crate) rate: f64,
    pub(crate) rebuilds: u64,
}

/// A store that was flooded with absent keys. Counts are totals since the beginning of the flood.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Flood {
    pub(crate) backend: &'static str,
    pub(crate) members: u64,
    /// The number of queries so far, per member.
    pub(crate) queries_per_member: u64,
    pub(crate) queries: u64,
    pub(crate) queries_per_second: f64,
    /// The number of queries that read the backend, per million queries since the previous row.
    pub(crate) mistakes_per_million: f64,
    /// The number of queries that read the backend.
    pub(crate) mistakes: u64,
    /// The number of mistakes that are allowed: 1.05·ε·queries + 4·√(ε·queries).
    pub(crate) allowed_mistakes: f64,
    /// All memory except the backend's, at rest.
    pub(crate) memory_bytes: u64,
    /// The highest memory use that was seen, including rebuilds.
    pub(crate) peak_memory_bytes: u64,
    /// The size of the files. If there are none, the size of all keys and values.
    pub(crate) disk_bytes: u64,
    /// The number of mistakes that the backend keeps.
    pub(crate) kept_mistakes: u64,
    pub(crate) rotations: u64,
    pub(crate) repairs: u64,
    pub(crate) failed_repairs: u64,
    pub(crate) skipped_repairs: u64,
    /// The number of members read, including those for rotations, per repair.
    pub(crate) members_read_per_repair: f64,
    /// The number of members read by the repairs themselves, per repair.
    pub(crate) suspects_read_per_repair: f64,
}

/// A store that was opened after it was closed, or after a crash.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Recovery {
    pub(crate) backend: &'static str,
    pub(crate) members: u64,
    /// The number of mistakes that the backend kept when the store was closed or crashed.
    pub(crate) kept_mistakes: u64,
    /// The time to open the backend. The other times begin afterwards.
    pub(crate) backend_ms: f64,
    /// The time until the answer to the first query: an absent key.
    pub(crate) first_answer_ms: f64,
    /// The time until all shards of the filter are ready.
    pub(crate) full_speed_ms: f64,
    /// The number of members per second until all shards are ready.
    pub(crate) members_per_second: f64,
    /// The number of members that were read to build the filter.
    pub(crate) members_listed: u64,
}
