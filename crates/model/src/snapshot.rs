//! Snapshots that nobody saved: any bytes are one, or become one.

use arbitrary::{Result, Unstructured};
use twiceshy::{AdaptiveQuotientFilter, Answer, FrozenFilter, Hash, SnapshotError};

/// Bytes of a header; the table follows.
pub const HEADER: usize = 128;

const REMAINDER_BITS_AT: usize = 24;
const LINES_AT: usize = 72;
const TABLE_CHECKSUM_AT: usize = 116;
const CHECKSUM_AT: usize = 124;
const LINE: usize = 64;

/// Makes the checksums of header and table right.
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

/// Takes bytes for a snapshot: as they are, sealed, or changes of one that was saved.
///
/// # Panics
/// If what is read from it is no valid filter, or if two ways of reading it disagree.
pub fn drive(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    match mode % 3 {
        0 => read(rest),
        1 => {
            let mut sealed = rest.to_vec();
            seal(&mut sealed);
            read(&sealed);
        }
        _ => {
            if let Ok(changed) = changed(&mut Unstructured::new(rest)) {
                read(&changed);
            }
        }
    }
}

/// A snapshot of a filter, with some bytes of its table or header changed, sealed.
fn changed(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let builder = AdaptiveQuotientFilter::builder()
        .slots(bytes.int_in_range(1..=500)?)
        .remainder_bits(bytes.int_in_range(1..=56)?)
        .value_bits(bytes.int_in_range(0..=16)?);
    let mut filter = builder.build().expect("a small filter");
    // Near each other, so that runs are long; and repaired.
    let spread = bytes.int_in_range(0..=127)?;
    for _ in 0..bytes.int_in_range(0..=600)? {
        let hash = Hash::from_u128(bytes.arbitrary::<u128>()? >> spread);
        let _ = filter.insert_times(hash, bytes.int_in_range(1..=3)?);
        if let Answer::Maybe(claim) = filter.check(Hash::from_u128(hash.as_u128() ^ 1)) {
            let _ = filter.adapt(&claim, &[hash]);
        }
    }
    let mut snapshot = Vec::new();
    filter.save(&mut snapshot).expect("memory takes all");
    for _ in 0..bytes.int_in_range(0..=20)? {
        let at = bytes.int_in_range(0..=snapshot.len() - 1)?;
        snapshot[at] ^= bytes.arbitrary::<u8>()?;
    }
    // Slots that are wider than remainders, as of a doubled filter.
    if bytes.ratio(1, 4)? {
        snapshot[REMAINDER_BITS_AT] = bytes.int_in_range(1..=snapshot[REMAINDER_BITS_AT].max(1))?;
    }
    seal(&mut snapshot);
    Ok(snapshot)
}

/// Reads a snapshot in every way, asks it, and compares.
///
/// # Panics
/// As [`drive`].
pub fn read(bytes: &[u8]) {
    let restored = AdaptiveQuotientFilter::restore(bytes);
    let frozen = match FrozenFilter::open(bytes.to_vec()) {
        Ok(frozen) => frozen,
        Err(error) => {
            let too_long = matches!(error, SnapshotError::TooLong { .. });
            assert!(restored.is_err() || too_long, "refused, but restored: {error}");
            return;
        }
    };
    assert!(format!("{frozen:?}").contains("load"), "its statistics can be shown");
    let queries = queries(frozen.parameters().slots);
    let mut maybe = Vec::new();
    frozen.contains_many(&queries, &mut maybe);
    for (&query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(frozen.contains(query), maybe);
    }
    let verified = frozen.verify();
    assert_eq!(verified.is_ok(), restored.is_ok(), "{verified:?}, but {restored:?}");
    assert_eq!(verified.is_ok(), frozen.to_filter().is_ok());
    let Ok(filter) = restored else { return };
    filter.validate().expect("it was validated");
    assert_eq!((filter.len(), filter.iter().count() as u64), {
        let statistics = frozen.statistics();
        (statistics.members, statistics.fingerprints)
    });
    for (&query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(filter.contains(query), maybe);
    }
}

/// Some hashes for each of some quotients; for all of them, if there are few.
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
