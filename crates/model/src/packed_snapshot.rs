//! Reads arbitrary and damaged snapshots of adaptive Bloom filters and of lists that can change.

use crate::snapshot::{drive_kinds, flip_bytes, overwrite_stretch, seal};
use arbitrary::{Result, Unstructured};
use std::collections::BTreeSet;
use twiceshy::{AdaptiveBloomFilter, Answer, Hash, Snapshot, YesNoList, list::ListError};

const FLAGS_AT: usize = 12;
const MARK_AT: usize = 80;

/// Reads bytes as a snapshot: as they are, with corrected checksums, or as changes to a saved
/// snapshot.
///
/// # Panics
/// If an invalid filter or list is read.
pub fn drive(bytes: &[u8]) {
    drive_kinds(bytes, read, changed);
}

fn random(number: u16) -> Hash {
    Hash::from_u128(
        (u128::from(number) + 1).wrapping_mul(0x2d99_787e_fda9_9e3c_2ad8_6f12_9e3b_c255),
    )
}

/// Builds a Bloom filter with some members, repairs and removed members.
///
/// # Errors
/// If there are not enough bytes.
///
/// # Panics
/// If a small filter can't be built.
pub fn worn_bloom(bytes: &mut Unstructured<'_>) -> Result<AdaptiveBloomFilter> {
    let mut filter = AdaptiveBloomFilter::builder()
        .capacity(bytes.int_in_range(1..=100)?)
        .false_positive_rate(*bytes.choose(&[0.6, 0.3, 0.05])?)
        .adaptations(bytes.int_in_range(0..=300)?)
        .build()
        .expect("a small filter");
    let mut members = BTreeSet::new();
    for _ in 0..bytes.int_in_range(0..=300)? {
        let hash = random(bytes.arbitrary()?);
        match filter.check(hash) {
            _ if members.contains(&hash) => {
                filter.remove_trusting(hash).expect("a member");
                members.remove(&hash);
            }
            Answer::Maybe(claim) if bytes.ratio(2, 3)? => {
                let near: Vec<Hash> = members.range(claim.suspects()).copied().collect();
                let _ = filter.adapt(&claim, &near);
            }
            _ if filter.insert(hash).is_ok() => {
                members.insert(hash);
            }
            _ => {}
        }
    }
    Ok(filter)
}

/// Builds two lists.
///
/// # Errors
/// If there are not enough bytes.
///
/// # Panics
/// If small lists can't be built.
pub fn some_lists(bytes: &mut Unstructured<'_>) -> Result<YesNoList> {
    let rate = *bytes.choose(&[0.5, 0.1, 1e-4])?;
    let mut lists = YesNoList::builder().false_positive_rate(rate).build().expect("empty lists");
    for _ in 0..bytes.int_in_range(0..=200)? {
        let hash = random(bytes.arbitrary()?);
        let added = if bytes.arbitrary()? { lists.add_yes(hash) } else { lists.add_no(hash) };
        match added {
            Ok(_) | Err(ListError::OnYesList { .. } | ListError::OnNoList { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    Ok(lists)
}

fn saved(filter: &impl Snapshot) -> Vec<u8> {
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).expect("writing to memory");
    snapshot
}

/// Saves a filter, changes some bytes of its header or table, and corrects the checksums.
fn changed(is_bloom: bool, bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut snapshot =
        if is_bloom { saved(&worn_bloom(bytes)?) } else { saved(&some_lists(bytes)?) };
    flip_bytes(&mut snapshot, 6, bytes)?;
    if bytes.ratio(1, 6)? {
        overwrite_stretch(&mut snapshot, bytes)?;
    }
    seal(&mut snapshot);
    Ok(snapshot)
}

/// Reads a snapshot as each kind, and uses the result.
///
/// # Panics
/// Panics for the same reasons as [`drive`].
pub fn read(bytes: &[u8]) {
    if let Ok(filter) = AdaptiveBloomFilter::read_from(bytes) {
        check_saved(&filter, bytes);
        check_bloom(filter);
    }
    if let Ok(lists) = YesNoList::read_from(bytes) {
        lists.validate().expect("reading validates");
        check_saved(&lists, bytes);
        check_lists(lists);
    }
}

/// A restored filter is saved without the mark of a secret, so this compares the bytes only if the
/// snapshot had neither a mark nor a secret.
fn check_saved(filter: &impl Snapshot, bytes: &[u8]) {
    if bytes[FLAGS_AT] & 1 == 0 && bytes[MARK_AT..MARK_AT + 8] == [0; 8] {
        assert_eq!(saved(filter), bytes, "saved differently than restored");
    }
}

fn check_bloom(mut filter: AdaptiveBloomFilter) {
    filter.validate().expect("reading validates");
    let hashes: Vec<Hash> = (0..200).map(random).chain([Hash::MIN, Hash::MAX]).collect();
    let mut maybe = Vec::new();
    filter.contains_many(&hashes, &mut maybe);
    for (&hash, &maybe) in hashes.iter().zip(&maybe) {
        assert_eq!(filter.contains(hash), maybe);
        assert_eq!(filter.check(hash).is_maybe(), maybe);
    }
    for &hash in &hashes[..40] {
        if filter.insert(hash).is_ok() {
            assert!(filter.contains(hash));
            filter.remove_trusting(hash).expect("a member");
        }
        if let Answer::Maybe(claim) = filter.check(hash) {
            let nobody: [Hash; 0] = [];
            let _ = filter.adapt(&claim, &nobody);
        }
    }
    filter.validate().expect("valid after changes");
}

fn check_lists(mut lists: YesNoList) {
    for number in 0..40 {
        let hash = random(number);
        if lists.add_yes(hash).is_ok() {
            assert!(lists.contains(hash) && lists.remove_yes(hash));
        }
        if lists.add_no(hash).is_ok() {
            assert!(!lists.contains(hash) && lists.remove_no(hash));
        }
    }
    lists.validate().expect("valid after changes");
}
