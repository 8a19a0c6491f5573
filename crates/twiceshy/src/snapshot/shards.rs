//! Snapshots of concurrent filters: a header, the snapshots of all shards, and a footer.

use super::SnapshotError;
use super::describe::{Describe, Fields, Header, bad_header};
use super::sections::{
    Bytes, HASH_SCHEME, Mark, SECRET, SecretRecord, VERSION, check_seal, check_zeros, sealed,
    secret_section,
};
use super::stream::Input;
use crate::Secret;
use crate::bits::memory::{LINE, Lines};
use std::io::{Read, Write};

/// A copy of the data that a shard's snapshot stores.
pub(crate) struct ShardCopy {
    fields: Fields,
    lines: Lines,
}

impl ShardCopy {
    pub(crate) fn of(shard: &impl Describe) -> Result<Self, SnapshotError> {
        let lines = shard.lines()?;
        let bytes = (lines.len() * LINE) as u64;
        let lines = lines.copied().ok_or(SnapshotError::Memory { bytes })?;
        Ok(Self { fields: shard.fields(), lines })
    }
}

/// Writes a concurrent filter. The iterator copies one shard after another.
pub(crate) fn write_shards<F: Describe>(
    shards: impl ExactSizeIterator<Item = Result<ShardCopy, SnapshotError>>,
    secret: SecretRecord<'_>,
    writer: &mut impl Write,
) -> Result<(), SnapshotError> {
    let mark = Mark::of(secret);
    let header: [u8; LINE] = sealed(&[
        &F::KIND.of_shards().magic(),
        &VERSION.to_le_bytes(),
        &mark.flags().to_le_bytes(),
        &(shards.len() as u32).to_le_bytes(),
        &HASH_SCHEME.to_le_bytes(),
        &mark.number.to_le_bytes(),
        &mark.secret_checksum.unwrap_or(0).to_le_bytes(),
    ]);
    writer.write_all(&header)?;
    if let Some(section) = secret_section(secret) {
        writer.write_all(&*section)?;
    }
    let mut size = 2 * LINE as u64 + mark.section_size();
    let mut list = crc32fast::Hasher::new();
    for copy in shards {
        let ShardCopy { fields, lines } = copy?;
        let header = Header::new::<F>(fields, &lines, None);
        header.write(&lines, None, writer)?;
        list.update(&header.checksum());
        size += header.total_size();
    }
    Ok(writer.write_all(&footer(size, list.finalize()))?)
}

/// Reads the shards of a concurrent filter, and validates each. Also returns the given secret or,
/// if there is none, the one in the snapshot. Fails if `is_possible` returns false for the number
/// of shards.
pub(crate) fn read_shards<F: Describe>(
    input: &mut Input<impl Read>,
    secret: Option<Secret>,
    is_possible: impl FnOnce(usize) -> bool,
) -> Result<(Vec<F>, Option<Secret>), SnapshotError> {
    let mut header = [0; LINE];
    let found = input.read_some(&mut header)?;
    let (count, mark) = decode(Bytes::header::<LINE>(F::KIND.of_shards(), &header[..found])?)?;
    if !is_possible(count) {
        return Err(SnapshotError::Header(format!("a filter can't have {count} shards")));
    }
    let secret = input.read_secret(mark, secret, 2 * LINE as u64)?;
    let mut list = crc32fast::Hasher::new();
    let mut shards: Vec<F> = Vec::new();
    for shard in 0..count {
        let read = read_shard(input, shards.first(), &mut list);
        shards.push(read.map_err(|error| SnapshotError::Shard { shard, error: error.into() })?);
    }
    check_footer(input, list.finalize())?;
    Ok((shards, secret))
}

/// Reads a shard, and checks that it is compatible with the first one.
fn read_shard<F: Describe>(
    input: &mut Input<impl Read>,
    first: Option<&F>,
    list: &mut crc32fast::Hasher,
) -> Result<F, SnapshotError> {
    let header = input.read_header::<F>()?.1;
    list.update(&header.checksum());
    if header.mark.number != 0 {
        return Err(bad_header("a shard must not record a secret"));
    }
    if let Some(first) = first {
        F::check_compatible(&first.fields(), &header.fields)?;
    }
    let (lines, _) = input.read_sections(&header, None)?;
    Ok(header.assemble::<F>(lines, None)?.checked()?)
}

/// Returns the number of shards and the mark that a header records.
fn decode(mut header: Bytes<'_>) -> Result<(usize, Mark), SnapshotError> {
    let (flags, shards) = (header.short(), header.short() as usize);
    header.check_hash_scheme()?;
    let mark = Mark::read(flags, header.long(), header.short())?;
    if flags & !SECRET != 0 || header.take() != [0; 24] {
        return Err(bad_header("reserved bits are not 0"));
    }
    Ok((shards, mark))
}

fn footer(size: u64, list_checksum: u32) -> [u8; LINE] {
    sealed(&[&size.to_le_bytes(), &list_checksum.to_le_bytes()])
}

/// Reads the footer, and checks that all shards were saved together.
fn check_footer(input: &mut Input<impl Read>, list_checksum: u32) -> Result<(), SnapshotError> {
    let mut line = [0; LINE];
    let size = input.found + LINE as u64;
    input.fill(&mut line, size)?;
    check_seal(&line, "footer")?;
    check_zeros(&line[12..60], "reserved bytes of the footer are not 0")?;
    if line != footer(size, list_checksum) {
        return Err(SnapshotError::Checksum { section: "list of shards" });
    }
    Ok(())
}
