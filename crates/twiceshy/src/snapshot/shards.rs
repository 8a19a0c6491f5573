//! Snapshots of concurrent filters: a header, the snapshots of all shards, and a footer.

use super::SnapshotError;
use super::describe::{Contents, ShardFormat, bad_header, code_of, scheme_of};
use super::kind::Kind;
use super::sections::{SecretRecord, VERSION, first_bytes, number};
use super::stream::{Input, Stream};
use super::verbs::Snapshot;
use crate::bits::memory::LINE;
use crate::concurrent::Sharding;
use crate::error::Invalid;
use crate::{Concurrent, concurrent::Shard, hash::HashScheme};
use std::io::{Read, Write};

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const SHARDS: usize = 16;
    pub(super) const HASH: usize = 20;
    pub(super) const RESERVED: usize = 24;
    /// In the header and in the footer.
    pub(super) const CHECKSUM: usize = 60;

    pub(super) const LIST_CHECKSUM: usize = 8;
    pub(super) const FOOTER_RESERVED: usize = 12;
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
        let contents = Contents::<F>::of(header, &lines, SecretRecord::Nothing);
        let checksum = contents.write(&lines, SecretRecord::Nothing, writer)?;
        list.update(&checksum.to_le_bytes());
        size += contents.sections.total_size();
    }
    Ok(writer.write_all(&footer(size, list.finalize()))?)
}

fn read<F: Shard>(input: &mut Input<impl Read>) -> Result<Concurrent<F>, SnapshotError> {
    let header = Header::read(F::SHARDS, input)?;
    let mut list = crc32fast::Hasher::new();
    let mut shards: Vec<F> = Vec::new();
    for shard in 0..header.shards {
        let read = read_shard(input, shards.first(), header.hash, &mut list);
        shards.push(read.map_err(|error| SnapshotError::Shard { shard, error: error.into() })?);
    }
    check_footer(input, list.finalize())?;
    Ok(Concurrent::of_valid(shards)?)
}

/// Reads a shard, and checks that it fits the first one.
fn read_shard<F: ShardFormat>(
    input: &mut Input<impl Read>,
    first: Option<&F>,
    hash: HashScheme,
    list: &mut crc32fast::Hasher,
) -> Result<F, SnapshotError> {
    let contents = input.read_header::<F>()?.1;
    list.update(&contents.checksum().to_le_bytes());
    if contents.sections.mark != 0 || contents.sections.secret_checksum.is_some() {
        return Err(bad_header("a shard must not record a secret"));
    }
    if contents.hash() != hash {
        return Err(bad_header("its hash scheme differs from the filter's"));
    }
    if let Some(first) = first {
        F::check_compatible(&first.header(), &contents.header)?;
    }
    let (lines, _) = input.read_sections(&contents.sections)?;
    contents.checked(lines, None)
}

/// The contents of the first line.
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
            return Err(bad_header("reserved bits are not 0"));
        }
        let shards = short(offset::SHARDS) as usize;
        if !Sharding::is_possible(shards) {
            return Err(SnapshotError::Header(format!("a filter can't have {shards} shards")));
        }
        Ok(Self { shards, hash: scheme_of(short(offset::HASH))? })
    }
}

/// Adds the checksum to a line.
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

fn footer(size: u64, list_checksum: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    line[..offset::LIST_CHECKSUM].copy_from_slice(&size.to_le_bytes());
    line[offset::LIST_CHECKSUM..offset::FOOTER_RESERVED]
        .copy_from_slice(&list_checksum.to_le_bytes());
    sealed(line)
}

/// Reads the footer, and checks that all shards were saved together.
fn check_footer(input: &mut Input<impl Read>, list_checksum: u32) -> Result<(), SnapshotError> {
    let mut line = [0; LINE];
    let size = input.found + LINE as u64;
    input.fill(&mut line, size)?;
    check(&line, "footer")?;
    if line[offset::FOOTER_RESERVED..offset::CHECKSUM].iter().any(|&byte| byte != 0) {
        return Err(Invalid("reserved bytes of the footer are not 0".into()).into());
    }
    if line != footer(size, list_checksum) {
        return Err(SnapshotError::Checksum { section: "list of shards" });
    }
    Ok(())
}
