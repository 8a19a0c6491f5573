//! Snapshots of concurrent filters: those of the shards, one after the other.

use super::SnapshotError;
use super::describe::{Contents, Describe, code_of, impossible, scheme_of};
use super::kind::Kind;
use super::sections::{Telling, VERSION, first_bytes, number};
use super::stream::{Input, Stream};
use super::verbs::Snapshot;
use crate::bits::memory::LINE;
use crate::concurrent::Sharding;
use crate::error::Invalid;
use crate::{Concurrent, HashScheme, Shard};
use std::io::{Read, Write};

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const SHARDS: usize = 16;
    pub(super) const HASH: usize = 20;
    pub(super) const RESERVED: usize = 24;
    /// In the first line, and in the last.
    pub(super) const CHECKSUM: usize = 60;

    pub(super) const LIST_CHECKSUM: usize = 8;
    pub(super) const RESERVED_AT_END: usize = 12;
}

/// A filter that can be a shard.
pub(crate) trait ShardFormat: Describe {
    /// The kind of a filter of such shards.
    const SHARDS: Kind;

    /// Checks that a shard belongs to the same filter as the first one.
    fn check_beside(_first: &Self::Header, _header: &Self::Header) -> Result<(), SnapshotError> {
        Ok(())
    }
}

impl<F: Shard> Snapshot for Concurrent<F> {}

impl<F: Shard> Stream for Concurrent<F> {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError> {
        write(self, writer)
    }

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        read(input)
    }
}

fn write<F: Shard>(filter: &Concurrent<F>, writer: &mut impl Write) -> Result<(), SnapshotError> {
    let hash = filter.with_shard(0, |shard| F::encode(&shard.header()).hash);
    let header = Header { shards: filter.shards(), hash };
    writer.write_all(&header.to_bytes(F::SHARDS))?;
    let (mut size, mut list) = (2 * LINE as u64, crc32fast::Hasher::new());
    for shard in 0..filter.shards() {
        let (header, lines) = filter.with_shard(shard, |shard| {
            let bytes = (shard.lines().len() * LINE) as u64;
            let lines = shard.lines().copied().ok_or(SnapshotError::Memory { bytes })?;
            Ok::<_, SnapshotError>((shard.header(), lines))
        })?;
        let contents = Contents::<F>::of(header, &lines, Telling::Nothing);
        let checksum = contents.write(&lines, Telling::Nothing, writer)?;
        list.update(&checksum.to_le_bytes());
        size += contents.sections.total_size();
    }
    Ok(writer.write_all(&end_line(size, list.finalize()))?)
}

fn read<F: Shard>(input: &mut Input<impl Read>) -> Result<Concurrent<F>, SnapshotError> {
    let header = Header::read(F::SHARDS, input)?;
    let mut list = crc32fast::Hasher::new();
    let mut shards: Vec<F> = Vec::new();
    for shard in 0..header.shards {
        let read = read_shard(input, shards.first(), header.hash, &mut list);
        shards.push(read.map_err(|error| SnapshotError::Shard { shard, error: error.into() })?);
    }
    read_end(input, list.finalize())?;
    Ok(Concurrent::of_valid(shards)?)
}

/// Reads a shard, and checks that it belongs to the same filter as the first one.
fn read_shard<F: ShardFormat>(
    input: &mut Input<impl Read>,
    first: Option<&F>,
    hash: HashScheme,
    list: &mut crc32fast::Hasher,
) -> Result<F, SnapshotError> {
    let contents = input.read_header::<F>()?.1;
    list.update(&contents.checksum().to_le_bytes());
    if contents.sections.mark != 0 || contents.sections.secret_checksum.is_some() {
        return Err(impossible("it tells of a secret, which no shard does"));
    }
    if contents.hash() != hash {
        return Err(impossible("its hashes are of another function than the filter's"));
    }
    if let Some(first) = first {
        F::check_beside(&first.header(), &contents.header)?;
    }
    let (lines, _) = input.read_sections(&contents.sections)?;
    contents.checked(lines, None)
}

/// What the first line says.
struct Header {
    shards: usize,
    hash: HashScheme,
}

impl Header {
    fn to_bytes(&self, kind: Kind) -> [u8; LINE] {
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
    fn read(kind: Kind, input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        let mut line = [0; LINE];
        let found = input.read_some(&mut line)?;
        let line: &[u8; LINE] = first_bytes(kind, &line[..found])?;
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
fn end_line(size: u64, list_checksum: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    line[..offset::LIST_CHECKSUM].copy_from_slice(&size.to_le_bytes());
    line[offset::LIST_CHECKSUM..offset::RESERVED_AT_END]
        .copy_from_slice(&list_checksum.to_le_bytes());
    sealed(line)
}

/// Reads the line at the end, and checks that the shards are those that were saved together.
fn read_end(input: &mut Input<impl Read>, list_checksum: u32) -> Result<(), SnapshotError> {
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
