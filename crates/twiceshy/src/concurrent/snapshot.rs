//! Concurrent filters as snapshots.

use super::{Concurrent, PlainShard, Sharding};
use crate::snapshot::{self, Input, ShardCopy, SnapshotError, Stream};
use std::io::{Read, Write};

impl<F: PlainShard> Stream for Concurrent<F> {
    /// Writes all shards. Each is locked only while it is copied.
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError> {
        let copies = (0..self.shards()).map(|shard| self.with_shard(shard, ShardCopy::of));
        snapshot::write_shards::<F>(copies, writer)
    }

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        let filter = Self::of(snapshot::read_shards(input, Sharding::is_possible)?);
        filter.check_shards(|_| Ok(()))?;
        Ok(filter)
    }
}

#[cfg(feature = "serde")]
snapshot::serde::serialise!(Concurrent<F>, F: PlainShard);
