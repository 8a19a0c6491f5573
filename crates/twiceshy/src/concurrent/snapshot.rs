//! Concurrent filters as snapshots.

use super::{Concurrent, PlainShard, Sharding};
use crate::Secret;
use crate::snapshot::{self, Input, Kind, SecretRecord, ShardCopy, SnapshotError, Table};
use std::io::{self, Read, Write};

impl<F: PlainShard> Table for Concurrent<F> {
    const KIND: Kind = F::KIND.of_shards();

    /// Writes all shards. Each is locked only while it is copied.
    fn write_table(
        &self,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        if self.shards() < self.sharding.shards() {
            return Err(io::Error::other("a single shard can't be saved; save the filter").into());
        }
        let copies = (0..self.shards()).map(|shard| self.with_shard(shard, ShardCopy::of));
        snapshot::write_shards::<F>(copies, secret, writer)
    }

    fn read_table(
        input: &mut Input<impl Read>,
        secret: Option<Secret>,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let (shards, secret) = snapshot::read_shards(input, secret, Sharding::is_possible)?;
        let filter = Self::of(shards);
        filter.check_shards(|_| Ok(()))?;
        Ok((filter, secret))
    }
}

#[cfg(feature = "serde")]
snapshot::serde::serialise!(Concurrent<F>, F: PlainShard);
