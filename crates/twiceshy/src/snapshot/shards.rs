//! Snapshots of concurrent filters: those of the shards, one behind the other.

use super::error::{SnapshotError, at};
use super::header::{Kind, code_of, impossible, number, scheme_of};
use super::replace::{Readers, replace};
use super::restore::Input;
use super::save::Image;
use super::sections::Telling;
use crate::bits::memory::LINE;
use crate::concurrent::Sharding;
use crate::error::Invalid;
use crate::{AdaptiveQuotientFilter, Concurrent, Filter, HashScheme, Parameters};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const SHARDS: usize = 16;
    pub(super) const HASH: usize = 20;
    pub(super) const RESERVED: usize = 24;
    /// Of the line at the beginning, and of that at the end.
    pub(super) const CHECKSUM: usize = 60;

    pub(super) const LIST_CHECKSUM: usize = 8;
    pub(super) const RESERVED_AT_END: usize = 12;
}

impl Concurrent<AdaptiveQuotientFilter> {
    /// Writes a [snapshot](crate::snapshot), without the secret: keep that apart.
    ///
    /// Other threads may use the filter meanwhile. Each shard is saved as it is at an instant of
    /// its own: a member that was inserted before this is called is in the snapshot, and one that
    /// comes or goes meanwhile may be or not. Writers of a shard wait for it to be copied in
    /// memory, and nobody waits for `writer`.
    ///
    /// ```
    /// use twiceshy::{AdaptiveQuotientFilter, Concurrent, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().capacity(1000).build_concurrent()?;
    /// filter.insert(Hash::from_u128(7 << 100))?;
    /// let mut snapshot = Vec::new();
    /// filter.save(&mut snapshot)?;
    ///
    /// let restored = Concurrent::<AdaptiveQuotientFilter>::restore(&snapshot[..])?;
    /// assert!(restored.contains(Hash::from_u128(7 << 100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails, or if there is no memory for a copy of a shard.
    pub fn save(&self, mut writer: impl Write) -> Result<(), SnapshotError> {
        let header = Header { shards: self.shards(), hash: self.hash_scheme() };
        writer.write_all(&header.to_bytes(Kind::Shards))?;
        let (mut size, mut list) = (2 * LINE as u64, crc32fast::Hasher::new());
        for shard in 0..self.shards() {
            let image = self.with_shard(shard, Image::copied)?;
            let header = image.write(Telling::Nothing, &mut writer)?;
            list.update(&header.checksum().to_le_bytes());
            size += header.sections.total_size();
        }
        writer.write_all(&end_line(size, list.finalize()))?;
        writer.flush()?;
        Ok(())
    }

    /// As [`save`](Self::save), to a file: after a crash at any moment there is the old one or
    /// the new one, complete; see [`AdaptiveQuotientFilter::save_to`].
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Concurrent};
    /// # let path = std::env::temp_dir().join(format!("twiceshy-shards-{}", std::process::id()));
    /// let filter = AdaptiveQuotientFilter::builder().capacity(1000).build_concurrent()?;
    /// filter.save_to(&path)?;
    /// let restored = Concurrent::<AdaptiveQuotientFilter>::restore_from(&path)?;
    /// assert_eq!(restored.parameters(), filter.parameters());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`save`](Self::save), or if the file can't be replaced; the old one is still there
    /// then, unless only the folder couldn't be told to keep the new one.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        at(path.as_ref(), |path| {
            replace(path, Readers::AsBefore, |file| {
                // Small shards are many small pieces.
                self.save(BufWriter::new(file))
            })
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
        read(&mut Input::new(reader))
    }

    /// As [`restore`](Self::restore), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or if the file can't be opened or is too long.
    pub fn restore_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| {
            let mut input = Input::new(BufReader::new(File::open(path)?));
            let filter = read(&mut input)?;
            input.end()?;
            Ok(filter)
        })
    }
}

/// What the first line says.
pub(super) struct Header {
    pub(super) shards: usize,
    pub(super) hash: HashScheme,
}

impl Header {
    pub(super) fn to_bytes(&self, kind: Kind) -> [u8; LINE] {
        let mut line = [0; LINE];
        line[..offset::VERSION].copy_from_slice(&kind.magic());
        for (at, number) in [
            (offset::VERSION, VERSION),
            (offset::SHARDS, self.shards as u32),
            (offset::HASH, code_of(self.hash)),
        ] {
            line[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        sealed(line)
    }

    /// Reads the line that a snapshot of this kind begins with.
    pub(super) fn read(kind: Kind, input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        let mut line = [0; LINE];
        let found = input.read_some(&mut line)?;
        Self::of_line(kind, &line[..found])
    }

    /// Reads as many bytes of the line as there are.
    fn of_line(kind: Kind, bytes: &[u8]) -> Result<Self, SnapshotError> {
        kind.check(bytes)?;
        // Before anything else, because another version may have another header.
        if let Some(version) = bytes.get(offset::VERSION..offset::FLAGS) {
            match number(version) as u32 {
                VERSION => {}
                found => return Err(SnapshotError::Version { found }),
            }
        }
        let (found, expected) = (bytes.len() as u64, LINE as u64);
        let line: &[u8; LINE] =
            bytes.first_chunk().ok_or(SnapshotError::Truncated { found, expected })?;
        check(line, "header")?;
        let short = |at| number(&line[at..at + 4]) as u32;
        let reserved = &line[offset::RESERVED..offset::CHECKSUM];
        if short(offset::FLAGS) != 0 || reserved.iter().any(|&byte| byte != 0) {
            return Err(impossible("it says what version 1 knows nothing of"));
        }
        let shards = short(offset::SHARDS) as usize;
        if !Sharding::is_possible(shards) {
            return Err(SnapshotError::Header(format!("no filter has {shards} shards")));
        }
        Ok(Self { shards, hash: scheme_of(short(offset::HASH))? })
    }
}

/// A line, with its checksum.
fn sealed(mut line: [u8; LINE]) -> [u8; LINE] {
    let checksum = crc32fast::hash(&line[..offset::CHECKSUM]);
    line[offset::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    line
}

/// Checks the checksum of a line.
fn check(line: &[u8; LINE], section: &'static str) -> Result<(), SnapshotError> {
    let (bytes, checksum) = line.split_at(offset::CHECKSUM);
    if crc32fast::hash(bytes) == number(checksum) as u32 {
        Ok(())
    } else {
        Err(SnapshotError::Checksum { section })
    }
}

/// The line at the end.
pub(super) fn end_line(size: u64, list_checksum: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    line[..offset::LIST_CHECKSUM].copy_from_slice(&size.to_le_bytes());
    line[offset::LIST_CHECKSUM..offset::RESERVED_AT_END]
        .copy_from_slice(&list_checksum.to_le_bytes());
    sealed(line)
}

fn read(input: &mut Input<impl Read>) -> Result<Concurrent<AdaptiveQuotientFilter>, SnapshotError> {
    let Header { shards, hash } = Header::read(Kind::Shards, input)?;
    let mut list = crc32fast::Hasher::new();
    let mut filters: Vec<AdaptiveQuotientFilter> = Vec::new();
    for shard in 0..shards {
        let filter = read_shard(input, filters.first(), hash, &mut list);
        filters.push(filter.map_err(|error| SnapshotError::Shard { shard, error: error.into() })?);
    }
    read_end(input, list.finalize())?;
    Ok(Concurrent::of_valid(filters)?)
}

/// Reads a shard, and checks it, beside the first one.
fn read_shard(
    input: &mut Input<impl Read>,
    first: Option<&AdaptiveQuotientFilter>,
    hash: HashScheme,
    list: &mut crc32fast::Hasher,
) -> Result<AdaptiveQuotientFilter, SnapshotError> {
    let header = input.read_header()?;
    list.update(&header.checksum().to_le_bytes());
    if header.sections.mark != 0 || header.sections.secret_checksum.is_some() {
        return Err(impossible("it tells of a secret, which no shard does"));
    }
    let Parameters { value_bits, hash: of_shard, .. } = header.parameters;
    if of_shard != hash {
        return Err(impossible("its hashes are of another function than the filter's"));
    }
    if first.is_some_and(|first| first.parameters().value_bits != value_bits) {
        return Err(impossible("its values are not as wide as those of the first shard"));
    }
    if first.is_some_and(|first| first.tally().growth != header.tally.growth) {
        return Err(impossible("it grows at another load than the first shard"));
    }
    Ok(input.read_behind(&header)?.filter)
}

/// Reads the line at the end, and checks that the shards are those that were saved together.
pub(super) fn read_end(
    input: &mut Input<impl Read>,
    list_checksum: u32,
) -> Result<(), SnapshotError> {
    let mut line = [0; LINE];
    let size = input.found + LINE as u64;
    input.fill(&mut line, size)?;
    check(&line, "end")?;
    if line[offset::RESERVED_AT_END..offset::CHECKSUM].iter().any(|&byte| byte != 0) {
        return Err(Invalid("the end says what version 1 knows nothing of".into()).into());
    }
    if line != end_line(size, list_checksum) {
        return Err(SnapshotError::Checksum { section: "list of shards" });
    }
    Ok(())
}
