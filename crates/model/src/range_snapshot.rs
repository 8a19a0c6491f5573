//! Reads arbitrary and damaged snapshots of range filters.

use crate::range::Number;
use crate::snapshot::{flip_bytes, overwrite_stretch, seal, sealed};
use arbitrary::{Result, Unstructured};
use core::ops::RangeInclusive;
use twiceshy::KeyedSnapshot;
use twiceshy::{
    AdaptiveRangeFilter, Answer, Frozen, RangeFilter, Secret, SecretMode, snapshot::SnapshotError,
};

const FLAGS_AT: usize = 12;
const MARK_AT: usize = 80;

/// Returns the secret of all filters here.
pub fn secret() -> Secret {
    Secret::from_bytes([9; 16])
}

/// Reads bytes as a snapshot: as they are, with corrected checksums, or as changes to a saved
/// snapshot.
///
/// # Panics
/// If an invalid filter is read, or if two ways of reading disagree.
pub fn drive(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    match mode % 4 {
        0 => read_any(rest),
        1 => read_any(&sealed(rest)),
        _ => {
            if let Ok(changed) = changed(&mut Unstructured::new(rest)) {
                read_any(&changed);
            }
        }
    }
}

/// Reads bytes as a snapshot three times: of a filter with keys of 16, 64 and 128 bits.
fn read_any(bytes: &[u8]) {
    read::<u16>(bytes);
    read::<u64>(bytes);
    read::<u128>(bytes);
}

/// Saves a filter, changes some bytes of its header or table, and corrects the checksums.
fn changed(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if bytes.ratio(1, 3)? { changed_of::<u16>(bytes) } else { changed_of::<u64>(bytes) }
}

fn changed_of<K: Number>(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let most_remainder_bits = if bytes.ratio(1, 4)? { 35 } else { 6 };
    let builder = AdaptiveRangeFilter::<K>::builder()
        .slots(bytes.int_in_range(1..=300)?)
        .remainder_bits(bytes.int_in_range(1..=most_remainder_bits)?)
        .longest_range(1 << bytes.int_in_range(0..=20)?)
        .secret(secret());
    let builder = if bytes.arbitrary()? { builder.expandable() } else { builder };
    let mut filter = builder.build().expect("a small filter");
    // Keys are near to each other, so that boxes are long.
    let spread = bytes.int_in_range(0..=60)?;
    let mut inserted = Vec::new();
    for _ in 0..bytes.int_in_range(0..=400)? {
        let key = K::of((bytes.arbitrary::<u64>()? >> spread).into());
        if filter.insert(key).is_ok() {
            inserted.push(key);
        }
        if let Answer::Maybe(claim) = filter.check_range(K::of(key.number() ^ 1)..=key) {
            let suspects = inserted.iter().filter(|&&key| claim.is_suspect(filter.hash_of(key)));
            let suspects: Vec<K> = suspects.copied().collect();
            let _ = filter.adapt(&claim, &suspects);
        }
    }
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot, SecretMode::Omit).expect("writing to memory");
    flip_bytes(&mut snapshot, 20, bytes)?;
    if bytes.ratio(1, 6)? {
        overwrite_stretch(&mut snapshot, bytes)?;
    }
    seal(&mut snapshot);
    Ok(snapshot)
}

/// Reads a snapshot in every way, queries it, and compares.
///
/// # Panics
/// Panics for the same reasons as [`drive`].
pub fn read<K: Number>(bytes: &[u8]) {
    let restored = AdaptiveRangeFilter::<K>::read_from(bytes, Some(secret()));
    assert_eq!(restored.is_ok(), RangeFilter::<K>::read_from(bytes, Some(secret())).is_ok());
    let frozen = match Frozen::<RangeFilter<K>>::from_bytes(bytes.to_vec(), Some(secret())) {
        Ok(frozen) => frozen,
        Err(error) => {
            let too_long = matches!(error, SnapshotError::TooLong { .. });
            assert!(restored.is_err() || too_long, "refused, but restored: {error}");
            return;
        }
    };
    assert!(format!("{frozen:?}").contains("load"), "Debug shows the statistics");
    let queries = queries::<K>(frozen.details().longest_range);
    let mut maybe = Vec::new();
    frozen.contains_ranges(&queries, &mut maybe);
    for (query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(frozen.contains_range(query.clone()), maybe);
    }
    let verified = frozen.validate();
    assert_eq!(verified.is_ok(), restored.is_ok(), "{verified:?}, but {restored:?}");
    assert_eq!(verified.is_ok(), frozen.to_filter().is_ok());
    let Ok(mut filter) = restored else { return };
    filter.validate().expect("reading validates");
    let members: usize = filter.iter().map(|entry| entry.mementos.len()).sum();
    assert_eq!((filter.len(), members), (frozen.len(), members));
    for (query, &maybe) in queries.iter().zip(&maybe) {
        assert_eq!(filter.contains_range(query.clone()), maybe);
    }
    // The filter is saved with the mark of the secret, but without the secret, so compare the bytes
    // only if the snapshot also has a mark and no secret.
    if bytes[FLAGS_AT] & 1 == 0 && bytes[MARK_AT..MARK_AT + 8] != [0; 8] {
        let mut saved = Vec::new();
        filter.write_to(&mut saved, SecretMode::Omit).expect("writing to memory");
        assert_eq!(saved, bytes, "saved differently than restored");
    }
    for query in queries.iter().take(40) {
        let (key, before) = (*query.start(), filter.len());
        if filter.insert(key).is_ok() {
            assert!(filter.contains(key) && filter.len() == before + 1);
            filter.remove_trusting(key).expect("a member");
        }
    }
    filter.validate().expect("valid after changes");
    assert_eq!(filter.len(), frozen.len());
}

/// Returns ranges of many lengths, spread over all keys.
fn queries<K: Number>(longest: u64) -> Vec<RangeInclusive<K>> {
    let last_of_all = u128::MAX >> (u128::BITS - K::BITS);
    let longest = u128::from(longest);
    let starts = (0..32u64).flat_map(|number| {
        let scattered = u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let number = u128::from(number);
        [number, number * longest, last_of_all - number * longest % last_of_all, scattered]
    });
    let lengths = [1, longest, 2 * longest + 1, 90 * longest];
    let range = |start: u128, length: u128| {
        let first = start & last_of_all;
        K::of(first)..=K::of(first.saturating_add(length - 1).min(last_of_all))
    };
    let short = starts.flat_map(|start| lengths.map(|length| range(start, length)));
    // Ask for all keys only if that range is too long to be searched partition by partition.
    let all = (K::BITS > 32).then(|| range(0, u128::MAX));
    short.chain([range(0, 2000 * longest)]).chain(all).collect()
}
