//! Snapshots of concurrent filters with codes: those of the shards, one behind the other.

use super::header::Header;
use super::read;
use crate::bits::memory::LINE;
use crate::coded::Scheme;
use crate::snapshot::error::{SnapshotError, at};
use crate::snapshot::header::{Kind, impossible};
use crate::snapshot::replace::{Readers, replace};
use crate::snapshot::restore::Input;
use crate::snapshot::sections::Telling;
use crate::snapshot::shards;
use crate::{CodedFilter, CodedScheme, Concurrent, HashScheme};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

impl<S: CodedScheme> Concurrent<CodedFilter<S>> {
    /// Writes a [snapshot](crate::snapshot), without the secret: keep that apart.
    ///
    /// Other threads may use the filter meanwhile. Each shard is saved as it is at an instant of
    /// its own: a member that was inserted before this is called is in the snapshot, and one that
    /// comes or goes meanwhile may be or not. Writers of a shard wait for it to be copied in
    /// memory, and nobody waits for `writer`.
    ///
    /// ```
    /// use twiceshy::{Concurrent, Hash, TelescopingFilter};
    /// let filter = TelescopingFilter::builder().capacity(1000).shards(4).build_concurrent()?;
    /// filter.insert(Hash::from_u128(7 << 100))?;
    /// let mut snapshot = Vec::new();
    /// filter.save(&mut snapshot)?;
    /// let restored = Concurrent::<TelescopingFilter>::restore(&snapshot[..])?;
    /// assert!(restored.contains(Hash::from_u128(7 << 100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails, or if there is no memory for a copy of a shard.
    pub fn save(&self, mut writer: impl Write) -> Result<(), SnapshotError> {
        let hash = HashScheme::Aes128SipHash13;
        let header = shards::Header { shards: self.shards(), hash };
        writer.write_all(&header.to_bytes(kind::<S>()))?;
        let (mut size, mut list) = (2 * LINE as u64, crc32fast::Hasher::new());
        for shard in 0..self.shards() {
            let (header, lines) = self.with_shard(shard, |filter| {
                let bytes = (filter.lines().len() * LINE) as u64;
                let lines = filter.lines().copied().ok_or(SnapshotError::Memory { bytes })?;
                Ok::<_, SnapshotError>((Header::of(filter, Telling::Nothing), lines))
            })?;
            let checksum = header.write::<S>(&lines, Telling::Nothing, &mut writer)?;
            list.update(&checksum.to_le_bytes());
            size += header.sections.total_size();
        }
        writer.write_all(&shards::end_line(size, list.finalize()))?;
        writer.flush()?;
        Ok(())
    }

    /// As [`save`](Self::save), to a file, at once or not at all.
    ///
    /// # Errors
    /// As [`save`](Self::save), or if the file can't be replaced.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        at(path.as_ref(), |path| {
            // Small shards are many small pieces.
            replace(path, Readers::AsBefore, |file| self.save(BufWriter::new(file)))
        })
    }

    /// Reads a [snapshot](crate::snapshot) of a concurrent filter, all of it and not a byte
    /// more. Its checksums, all invariants, and that its shards belong together are checked.
    ///
    /// The filter is another one than the one that was saved: claims of that one are stale.
    ///
    /// # Errors
    /// If reading fails, or if it is no snapshot of a valid filter.
    pub fn restore(reader: impl Read) -> Result<Self, SnapshotError> {
        read_all(&mut Input::new(reader))
    }

    /// As [`restore`](Self::restore), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or if the file can't be opened or is too long.
    pub fn restore_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| {
            let mut input = Input::new(BufReader::new(File::open(path)?));
            let filter = read_all(&mut input)?;
            input.end()?;
            Ok(filter)
        })
    }
}

fn kind<S: Scheme>() -> Kind {
    if S::MEMBERS_TO_FORGET { Kind::TelescopingShards } else { Kind::ExtendingShards }
}

fn read_all<S: CodedScheme>(
    input: &mut Input<impl Read>,
) -> Result<Concurrent<CodedFilter<S>>, SnapshotError> {
    let header = shards::Header::read(kind::<S>(), input)?;
    let mut list = crc32fast::Hasher::new();
    let mut filters: Vec<CodedFilter<S>> = Vec::new();
    for shard in 0..header.shards {
        let filter = read_shard(input, &mut list);
        filters.push(filter.map_err(|error| SnapshotError::Shard { shard, error: error.into() })?);
    }
    shards::read_end(input, list.finalize())?;
    Ok(Concurrent::of_valid(filters)?)
}

fn read_shard<S: CodedScheme>(
    input: &mut Input<impl Read>,
    list: &mut crc32fast::Hasher,
) -> Result<CodedFilter<S>, SnapshotError> {
    let loaded = read::<S>(input)?;
    list.update(&loaded.header.checksum::<S>().to_le_bytes());
    let sections = loaded.header.sections;
    if sections.mark != 0 || sections.secret_checksum.is_some() {
        return Err(impossible("it tells of a secret, which no shard does"));
    }
    loaded.filter()
}
