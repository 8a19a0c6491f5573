//! Reads arbitrary and damaged snapshots.

use crate::quotient::{Form, hashes_of};
use crate::script::any_remainders;
use arbitrary::{Result, Unstructured};
use core::ops::{Range, RangeInclusive};
use twiceshy::{
    Answer, Concurrent, Frozen, Hash, Member, QuotientFilter, Snapshot, concurrent::ShardPlan,
    snapshot::SnapshotError,
};

/// Size of the header in bytes; the table follows.
pub const HEADER: usize = 128;

const REMAINDER_BITS_AT: usize = 24;
const LINES_AT: usize = 72;
const TABLE_CHECKSUM_AT: usize = 116;
const CHECKSUM_AT: usize = 124;
/// Offset of the checksum in the first and last line of a concurrent filter's snapshot.
const LINE_CHECKSUM_AT: usize = 60;
const LINE: usize = 64;

/// Corrects the checksums of header and table.
pub fn seal(bytes: &mut [u8]) {
    let lines = bytes.get(LINES_AT..LINES_AT + 8).and_then(|bytes| bytes.try_into().ok());
    let Some(lines) = lines.map(u64::from_le_bytes) else { return };
    let size = lines.saturating_add(1).saturating_mul(LINE as u64);
    let end = usize::try_from(size).ok().and_then(|size| size.checked_add(HEADER));
    if let Some(table) = end.and_then(|end| bytes.get(HEADER..end)) {
        let checksum = crc32fast::hash(table).to_le_bytes();
        bytes[TABLE_CHECKSUM_AT..TABLE_CHECKSUM_AT + 4].copy_from_slice(&checksum);
    }
    if bytes.len() >= HEADER {
        let checksum = crc32fast::hash(&bytes[..CHECKSUM_AT]).to_le_bytes();
        bytes[CHECKSUM_AT..HEADER].copy_from_slice(&checksum);
    }
}

/// Returns a copy with correct checksums.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    sealed
}

/// Reads bytes as a snapshot of one of two kinds: as they are, with corrected checksums, or as
/// changes to a saved snapshot. `changed` gets whether to save and change the first kind.
pub(crate) fn drive_kinds(
    bytes: &[u8],
    read: impl Fn(&[u8]),
    changed: impl Fn(bool, &mut Unstructured<'_>) -> Result<Vec<u8>>,
) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    match mode % 4 {
        0 => read(rest),
        1 => read(&sealed(rest)),
        mode => {
            if let Ok(changed) = changed(mode == 2, &mut Unstructured::new(rest)) {
                read(&changed);
            }
        }
    }
}

/// Flips bits in up to `most` bytes.
pub(crate) fn flip_bytes(
    snapshot: &mut [u8],
    most: usize,
    bytes: &mut Unstructured<'_>,
) -> Result<()> {
    for _ in 0..bytes.int_in_range(0..=most)? {
        let at = bytes.int_in_range(0..=snapshot.len() - 1)?;
        snapshot[at] ^= bytes.arbitrary::<u8>()?;
    }
    Ok(())
}

/// Fills a part of the table with one byte, for example to make all slots continuations.
pub(crate) fn overwrite_stretch(snapshot: &mut [u8], bytes: &mut Unstructured<'_>) -> Result<()> {
    let (from, to) = (
        bytes.int_in_range(HEADER..=snapshot.len())?,
        bytes.int_in_range(HEADER..=snapshot.len())?,
    );
    let byte = bytes.arbitrary()?;
    snapshot[from.min(to)..from.max(to)].fill(byte);
    Ok(())
}

/// Returns the complete shards within a concurrent filter's snapshot.
pub fn shards_in(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut shards = Vec::new();
    let mut start = LINE;
    while let Some(shard) = bytes.get(start..).filter(|rest| rest.len() > LINE) {
        let lines = shard.get(LINES_AT..LINES_AT + 8).and_then(|bytes| bytes.try_into().ok());
        let size = lines.and_then(|lines| {
            let lines = usize::try_from(u64::from_le_bytes(lines)).ok()?;
            lines.checked_add(1)?.checked_mul(LINE)?.checked_add(HEADER)
        });
        let Some(size) = size.filter(|&size| size <= shard.len()) else { break };
        shards.push(start..start + size);
        start += size;
    }
    shards
}

/// Corrects all checksums of a concurrent filter's snapshot, and its size.
pub fn seal_shards(bytes: &mut [u8]) {
    let mut checksums = crc32fast::Hasher::new();
    for shard in shards_in(bytes) {
        seal(&mut bytes[shard.clone()]);
        checksums.update(&bytes[shard][CHECKSUM_AT..HEADER]);
    }
    let size = bytes.len() as u64;
    if let Some((_, end)) = bytes.split_last_chunk_mut::<LINE>() {
        end[..8].copy_from_slice(&size.to_le_bytes());
        end[8..12].copy_from_slice(&checksums.finalize().to_le_bytes());
        seal_line(end);
    }
    if let Some((first, _)) = bytes.split_first_chunk_mut::<LINE>() {
        seal_line(first);
    }
}

fn seal_line(line: &mut [u8; LINE]) {
    let checksum = crc32fast::hash(&line[..LINE_CHECKSUM_AT]);
    line[LINE_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads bytes as a snapshot of a plain or concurrent filter: as they are, with corrected
/// checksums, or as changes to a saved snapshot.
///
/// # Panics
/// If an invalid filter is read, or if two ways of reading disagree.
pub fn drive(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    match mode % 6 {
        0 => read(rest),
        3 => read_shards(rest),
        4 => {
            let mut sealed = rest.to_vec();
            seal_shards(&mut sealed);
            read_shards(&sealed);
        }
        5 => {
            if let Ok(changed) = changed_shards(&mut Unstructured::new(rest)) {
                read_shards(&changed);
            }
        }
        1 => read(&sealed(rest)),
        _ => {
            if let Ok(changed) = changed(&mut Unstructured::new(rest)) {
                read(&changed);
            }
        }
    }
}

/// Saves a filter, changes some bytes of its header or table, and corrects the checksums.
fn changed(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let builder = QuotientFilter::builder()
        .slots(bytes.int_in_range(1..=500)?)
        .remainder_bits(bytes.int_in_range(1..=56)?)
        .value_bits(bytes.int_in_range(0..=16)?);
    let mut parameters = builder.build().expect("a small filter").parameters();
    parameters.remainders = any_remainders(bytes)?;
    let no_members: [Hash; 0] = [];
    let mut filter = QuotientFilter::from_sorted(parameters, no_members, []).expect("a small one");
    // Hashes are near to each other, so that runs are long; some are repaired.
    let spread = bytes.int_in_range(0..=127)?;
    for _ in 0..bytes.int_in_range(0..=600)? {
        let hash = Hash::from_u128(bytes.arbitrary::<u128>()? >> spread);
        let _ = filter.insert_times(hash, bytes.int_in_range(1..=3)?);
        if let Answer::Maybe(claim) = filter.check(Hash::from_u128(hash.as_u128() ^ 1)) {
            let _ = filter.adapt(&claim, &[hash]);
        }
    }
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).expect("writing to memory");
    flip_bytes(&mut snapshot, 20, bytes)?;
    // Make slots wider than remainders, as in a doubled filter.
    if bytes.ratio(1, 4)? {
        snapshot[REMAINDER_BITS_AT] = bytes.int_in_range(1..=snapshot[REMAINDER_BITS_AT].max(1))?;
    }
    seal(&mut snapshot);
    Ok(snapshot)
}

/// Saves a concurrent filter, changes some bytes, moves or drops parts, and usually corrects the
/// checksums.
fn changed_shards(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let shards = *bytes.choose(&[1, 2, 4])?;
    let builder = QuotientFilter::builder()
        .slots(bytes.int_in_range(1..=200)?)
        .remainder_bits(bytes.int_in_range(1..=56)?)
        .value_bits(bytes.int_in_range(0..=16)?)
        .shards(shards);
    let builder = if bytes.arbitrary()? { builder.grow_at(0.9) } else { builder };
    let filter = builder.build_concurrent().expect("a small filter");
    if bytes.ratio(1, 3)? {
        let shard = bytes.int_in_range(0..=shards - 1)?;
        let no_members: [Hash; 0] = [];
        let plan = ShardPlan::default().remainders(any_remainders(bytes)?);
        filter.rebuild_shard(shard, plan, &no_members, &[]).expect("room");
    }
    for _ in 0..bytes.int_in_range(0..=200)? {
        let hash = Hash::from_u128(bytes.arbitrary::<u128>()?);
        let _ = filter.insert_times(hash, bytes.int_in_range(1..=3)?);
        if let Answer::Maybe(claim) = filter.check(Hash::from_u128(hash.as_u128() ^ 1)) {
            let _ = filter.adapt(&claim, &[hash]);
        }
    }
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).expect("writing to memory");
    flip_bytes(&mut snapshot, 10, bytes)?;
    let lines = snapshot.len() / LINE;
    match bytes.int_in_range(0..=5)? {
        0 => snapshot.truncate(bytes.int_in_range(0..=snapshot.len())?),
        1 => {
            let (from, to) = (bytes.int_in_range(0..=lines)?, bytes.int_in_range(0..=lines)?);
            snapshot.drain(from.min(to) * LINE..from.max(to) * LINE);
        }
        2 => snapshot[LINE..].rotate_left(bytes.int_in_range(0..=lines - 1)? * LINE),
        _ => {}
    }
    if bytes.ratio(3, 4)? {
        seal_shards(&mut snapshot);
    }
    Ok(snapshot)
}

/// Restores a snapshot of a concurrent filter. If that succeeds, the filter must be valid, accept
/// changes, and be saved as the same bytes.
///
/// # Panics
/// If the filter breaks one of these rules.
pub fn read_shards(bytes: &[u8]) {
    let Ok(filter) = Concurrent::<QuotientFilter>::read_from(bytes) else { return };
    filter.validate().expect("reading validates");
    let mut saved = Vec::new();
    filter.write_to(&mut saved).expect("writing to memory");
    assert!(bytes.starts_with(&saved), "saved differently than restored");
    let queries = queries(64);
    let mut maybe = Vec::new();
    filter.contains_many(&queries, &mut maybe);
    for (&query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(filter.contains(query), maybe);
    }
    let members = filter.len();
    let mut inserted = 0;
    for &query in &queries {
        if filter.insert(query).is_ok() {
            inserted += 1;
            assert!(filter.contains(query));
        }
    }
    assert_eq!(filter.len(), members + inserted);
    filter.validate().expect("valid after changes");
}

/// Reads a snapshot in every way, queries it, and compares.
///
/// # Panics
/// Panics for the same reasons as [`drive`].
pub fn read(bytes: &[u8]) {
    let restored = QuotientFilter::read_from(bytes);
    let frozen = match Frozen::<QuotientFilter>::from_bytes(bytes.to_vec()) {
        Ok(frozen) => frozen,
        Err(error) => {
            let too_long = matches!(error, SnapshotError::TooLong { .. });
            assert!(restored.is_err() || too_long, "refused, but restored: {error}");
            return;
        }
    };
    assert!(format!("{frozen:?}").contains("load"), "Debug shows the statistics");
    let queries = queries(frozen.parameters().slots);
    let mut maybe = Vec::new();
    frozen.contains_many(&queries, &mut maybe);
    for (&query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(frozen.contains(query), maybe);
    }
    let verified = frozen.validate();
    assert_eq!(verified.is_ok(), restored.is_ok(), "{verified:?}, but {restored:?}");
    assert_eq!(verified.is_ok(), frozen.to_filter().is_ok());
    let Ok(filter) = restored else { return };
    filter.validate().expect("reading validates");
    assert_eq!(filter.len(), frozen.stats().members);
    assert_eq!(filter.iter().count() as u64, filter.details().fingerprints);
    for (&query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(filter.contains(query), maybe);
    }
    check_restored(filter);
}

/// Checks a restored filter and filters built from it, independently of `validate`.
fn check_restored(mut filter: QuotientFilter) {
    let form = Form::from(filter.parameters());
    let entries: Vec<(RangeInclusive<Hash>, u64)> =
        filter.iter().map(|entry| (hashes_of(&entry.fingerprint, form), entry.count)).collect();
    for pair in entries.windows(2).filter(|_| form.is_plain()) {
        let [before, after] = [&pair[0].0, &pair[1].0];
        assert!(before.end() < after.start(), "{before:?} is before {after:?}");
    }
    for &(ref hashes, count) in &entries {
        assert_eq!(filter.contains(*hashes.start()), count > 0);
        assert_eq!(filter.contains(*hashes.end()), count > 0);
    }
    // Choose a possible member for each entry.
    let members: Vec<Member> = entries
        .iter()
        .map(|&(ref hashes, count)| Member { hash: *hashes.start(), count })
        .collect();
    let count: u64 = members.iter().map(|member| member.count).sum();
    assert_eq!(filter.len() as u64, count);

    for member in members.iter().step_by(members.len() / 16 + 1) {
        let query = Hash::from_u128(member.hash.as_u128() | 1);
        if let Answer::Maybe(claim) = filter.check(query) {
            let suspects = claim.suspects();
            let is_suspect = |member: &Member| suspects.contains(&member.hash);
            let listed: Vec<Member> = members.iter().copied().filter(is_suspect).collect();
            let _ = filter.adapt(&claim, &listed);
        }
    }
    filter.validate().expect("valid after repairs");
    for built in [filter.doubled().ok(), QuotientFilter::merged(&[&filter]).ok()] {
        let Some(built) = built else { continue };
        built.validate().expect("valid, like the original");
        assert_eq!(built.len() as u64, count);
        assert!(members.iter().all(|member| member.count == 0 || built.contains(member.hash)));
    }
}

/// Returns some hashes per quotient, for up to 512 quotients.
fn queries(slots: u64) -> Vec<Hash> {
    let width = u128::MAX / u128::from(slots);
    let within = |quotient: u64| {
        let scrambled = u128::from(quotient.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = u128::from(quotient) * width;
        [0, width / 2, width - 1, (scrambled << 64) % width].map(|more| first + more)
    };
    let step = slots as usize / 512 + 1;
    (0..slots).step_by(step).flat_map(within).map(Hash::from_u128).collect()
}
