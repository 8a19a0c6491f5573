//! Snapshots of concurrent filters: a header, the snapshots of all shards, and a footer.

use super::SnapshotError;
use super::describe::{Contents, ShardFormat, bad_header, code_of, scheme_of};
use super::kind::Kind;
use super::sections::{
    SecretRecord, Sections, VERSION, check_seal, first_bytes, number, put, seal,
};
use super::stream::{Input, Stream};
use crate::bits::memory::LINE;
use crate::concurrent::Sharding;
use crate::error::Invalid;
use crate::{Concurrent, concurrent::PlainShard, hash::HashScheme};
use std::io::{Read, Write};

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const SHARDS: usize = 16;
    pub(super) const HASH: usize = 20;
    pub(super) const RESERVED: usize = 24;
    /// The offset of the checksum in the header and in the footer.
    pub(super) const CHECKSUM: usize = 60;

    pub(super) const LIST_CHECKSUM: usize = 8;
    pub(super) const FOOTER_RESERVED: usize = 12;
}

impl<F: PlainShard> Stream for Concurrent<F> {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError> {
        writer.write_all(&header(F::SHARDS, self.shards(), self.hash_scheme()))?;
        let (mut size, mut list) = (2 * LINE as u64, crc32fast::Hasher::new());
        for shard in 0..self.shards() {
            let (fields, lines) = self.with_shard(shard, |shard| {
                let bytes = (shard.lines().len() * LINE) as u64;
                let lines = shard.lines().copied().ok_or(SnapshotError::Memory { bytes })?;
                Ok::<_, SnapshotError>((shard.fields(), lines))
            })?;
            let sections = Sections::of(&lines, SecretRecord::Nothing);
            let contents = Contents { kind: F::KIND, fields, sections };
            let checksum = contents.write(&lines, SecretRecord::Nothing, writer)?;
            list.update(&checksum.to_le_bytes());
            size += contents.sections.total_size();
        }
        Ok(writer.write_all(&footer(size, list.finalize()))?)
    }

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        let (count, hash) = read_header(F::SHARDS, input)?;
        let mut list = crc32fast::Hasher::new();
        let mut shards: Vec<F> = Vec::new();
        for shard in 0..count {
            let read = read_shard(input, shards.first(), hash, &mut list);
            shards.push(read.map_err(|error| SnapshotError::Shard { shard, error: error.into() })?);
        }
        check_footer(input, list.finalize())?;
        Ok(Self::of_valid(shards)?)
    }
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
    if contents.fields.hash != hash {
        return Err(bad_header("its hash scheme differs from the filter's"));
    }
    if let Some(first) = first {
        F::check_compatible(&first.fields(), &contents.fields)?;
    }
    let (lines, _) = input.read_sections(&contents.sections)?;
    Ok(contents.assemble::<F>(lines, None)?.checked()?)
}

/// Returns the line that a snapshot of this kind begins with.
fn header(kind: Kind, shards: usize, hash: HashScheme) -> [u8; LINE] {
    let mut line = [0; LINE];
    put(&mut line, 0, kind.magic());
    put(&mut line, offset::VERSION, VERSION.to_le_bytes());
    put(&mut line, offset::SHARDS, (shards as u32).to_le_bytes());
    put(&mut line, offset::HASH, code_of(hash).to_le_bytes());
    seal(&mut line);
    line
}

/// Reads the line that a snapshot of this kind begins with: the number of shards, and their hash
/// scheme.
fn read_header(
    kind: Kind,
    input: &mut Input<impl Read>,
) -> Result<(usize, HashScheme), SnapshotError> {
    let mut line = [0; LINE];
    let found = input.read_some(&mut line)?;
    let line: &[u8; LINE] = first_bytes(kind, &line[..found])?;
    check_seal(line, "header")?;
    let short = |at| number(&line[at..at + 4]) as u32;
    let reserved = &line[offset::RESERVED..offset::CHECKSUM];
    if short(offset::FLAGS) != 0 || reserved.iter().any(|&byte| byte != 0) {
        return Err(bad_header("reserved bits are not 0"));
    }
    let shards = short(offset::SHARDS) as usize;
    if !Sharding::is_possible(shards) {
        return Err(SnapshotError::Header(format!("a filter can't have {shards} shards")));
    }
    Ok((shards, scheme_of(short(offset::HASH))?))
}

fn footer(size: u64, list_checksum: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    put(&mut line, 0, size.to_le_bytes());
    put(&mut line, offset::LIST_CHECKSUM, list_checksum.to_le_bytes());
    seal(&mut line);
    line
}

/// Reads the footer, and checks that all shards were saved together.
fn check_footer(input: &mut Input<impl Read>, list_checksum: u32) -> Result<(), SnapshotError> {
    let mut line = [0; LINE];
    let size = input.found + LINE as u64;
    input.fill(&mut line, size)?;
    check_seal(&line, "footer")?;
    if line[offset::FOOTER_RESERVED..offset::CHECKSUM].iter().any(|&byte| byte != 0) {
        return Err(Invalid("reserved bytes of the footer are not 0".into()).into());
    }
    if line != footer(size, list_checksum) {
        return Err(SnapshotError::Checksum { section: "list of shards" });
    }
    Ok(())
}
