//! Snapshots of filters whose parts are packed into one table: adaptive Bloom filters, and lists that
//! can change.

use super::fixture_path;
use arbitrary::Unstructured;
use proptest::prelude::*;
use std::collections::BTreeSet;
use twiceshy::{
    AdaptiveBloomFilter, Answer, Filter, Hash, Keyed, KeyedSnapshot, Secret, SecretMode, Snapshot,
    YesNoFilter, YesNoList,
    hash::KeyedHasher,
    list::{Delta, DeltaError},
    snapshot::SnapshotError,
};
use twiceshy_model::packed_snapshot::{drive, read, some_lists, worn_bloom};
use twiceshy_model::snapshot::{HEADER, seal};

/// Offset of the number of lines in the header.
const LINES_AT: usize = 72;

fn saved(filter: &impl Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    bytes
}

/// Saves a filter, restores it, and compares all answers and the statistics.
fn round_trip<F: Snapshot + Filter>(filter: &F) -> F {
    let bytes = saved(filter);
    read(&bytes);
    let restored = F::read_from(&bytes[..]).unwrap();
    assert_eq!(restored.stats().members, filter.stats().members);
    assert_eq!(restored.stats().repairs, filter.stats().repairs);
    restored
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn restored_bloom_filter_gives_the_same_answers(
        bytes in prop::collection::vec(any::<u8>(), 0..1000), queries: [u128; 32],
    ) {
        let Ok(filter) = worn_bloom(&mut Unstructured::new(&bytes)) else { return Ok(()) };
        let restored = round_trip(&filter);
        prop_assert_eq!(restored.details(), filter.details());
        for query in queries.map(Hash::from_u128) {
            prop_assert_eq!(restored.contains(query), filter.contains(query));
        }
        prop_assert!(restored.dead_cells().eq(filter.dead_cells()));
    }

    #[test]
    fn restored_lists_have_the_same_keys(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let Ok(lists) = some_lists(&mut Unstructured::new(&bytes)) else { return Ok(()) };
        let restored = round_trip(&lists);
        prop_assert!(restored.yes().iter().eq(lists.yes().iter()));
        prop_assert!(restored.no().iter().eq(lists.no().iter()));
    }

    #[test]
    fn damaged_packed_snapshots_are_refused_or_valid(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        drive(&bytes);
    }
}

/// Flips each bit of a small snapshot.
#[test]
fn packed_snapshots_with_a_flipped_bit_are_refused_or_valid() {
    let numbers: Vec<u8> =
        (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let bloom = saved(&worn_bloom(&mut Unstructured::new(&numbers[..400])).unwrap());
    let lists = saved(&some_lists(&mut Unstructured::new(&numbers[..60])).unwrap());
    for bytes in [bloom, lists] {
        read(&bytes);
        for bit in 0..bytes.len().min(HEADER + 2000) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            seal(&mut flipped);
            read(&flipped);
        }
        for cut in 0..bytes.len() {
            assert!(AdaptiveBloomFilter::read_from(&bytes[..cut]).is_err());
            assert!(YesNoList::read_from(&bytes[..cut]).is_err());
        }
    }
}

/// Writes a huge number over each word of the table, and then over the number of lines.
#[test]
fn snapshot_that_claims_a_huge_size_is_refused() {
    let bytes = saved(&AdaptiveBloomFilter::builder().capacity(10).build().unwrap());
    for at in (HEADER..bytes.len()).step_by(8) {
        let mut changed = bytes.clone();
        changed[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
        seal(&mut changed);
        read(&changed);
    }
    let mut changed = bytes;
    changed[LINES_AT..LINES_AT + 8].copy_from_slice(&(1u64 << 50).to_le_bytes());
    seal(&mut changed);
    let error = AdaptiveBloomFilter::read_from(&changed[..]).unwrap_err();
    let is_expected =
        matches!(error, SnapshotError::Memory { .. } | SnapshotError::Truncated { .. });
    assert!(is_expected, "{error}");
}

#[test]
fn snapshot_of_a_different_kind_is_named() {
    let lists = saved(&YesNoList::builder().build().unwrap());
    let bloom = saved(&AdaptiveBloomFilter::builder().capacity(10).build().unwrap());
    let error = AdaptiveBloomFilter::read_from(&lists[..]).unwrap_err();
    assert!(error.to_string().contains("a pair of lists that can change"), "{error}");
    let error = YesNoList::read_from(&bloom[..]).unwrap_err();
    assert!(error.to_string().contains("an adaptive Bloom filter"), "{error}");
}

#[test]
fn keyed_bloom_filter_and_lists_are_saved_with_and_without_their_secret() {
    let mut lists = YesNoList::builder().build_keyed::<str>().unwrap();
    lists.add_yes("evil").unwrap();
    lists.add_no("good").unwrap();
    let mut bytes = Vec::new();
    lists.write_to(&mut bytes, SecretMode::Include).unwrap();
    let restored = Keyed::<str, YesNoList>::read_from(&bytes[..], None).unwrap();
    assert!(restored.contains("evil") && !restored.contains("good"));

    let mut bloom = AdaptiveBloomFilter::builder().capacity(10).build_keyed::<str>().unwrap();
    bloom.insert("alice").unwrap();
    let mut bytes = Vec::new();
    bloom.write_to(&mut bytes, SecretMode::Omit).unwrap();
    let read = |secret| Keyed::<str, AdaptiveBloomFilter>::read_from(&bytes[..], secret);
    assert!(read(Some(bloom.secret().clone())).unwrap().contains("alice"));
    let other = read(Some(Secret::from_bytes([1; 16]))).unwrap_err();
    assert!(matches!(other, SnapshotError::OtherSecret));
    let none = read(None).unwrap_err();
    assert!(matches!(none, SnapshotError::NoSecret));
}

/// Compares with a file of format version 1. If the file is missing, writes it for review.
fn check_fixture<F: Snapshot + Filter>(name: &str, new: impl FnOnce() -> F) -> F {
    let path = fixture_path(name);
    let Ok(kept) = std::fs::read(&path) else {
        new().save(&path).unwrap();
        panic!("the file was missing, and is written now");
    };
    let filter = F::read_from(&kept[..]).unwrap();
    filter.validate().unwrap();
    assert!(saved(&filter) == kept, "it would be written differently today");
    filter
}

#[test]
fn version_1_of_packed_filters_is_read_and_written_unchanged() {
    let hasher = KeyedHasher::new(&Secret::from_bytes([5; 16]));
    let hash = |number: u64| hasher.hash(&number);
    let bloom = check_fixture("v1-bloom.twiceshy", || {
        let builder = AdaptiveBloomFilter::builder().capacity(60).false_positive_rate(0.3);
        let mut filter = builder.adaptations(20).build().unwrap();
        let members: BTreeSet<Hash> = (0..50).map(hash).collect();
        for &member in &members {
            filter.insert(member).unwrap();
        }
        for query in (50..500).map(hash) {
            let Answer::Maybe(claim) = filter.check(query) else { continue };
            let near: Vec<Hash> = members.range(claim.suspects()).copied().collect();
            filter.adapt(&claim, &near).unwrap();
        }
        filter
    });
    assert!((0..50).all(|number| bloom.contains(hash(number))));
    assert!(bloom.details().dead_cells > 0 && bloom.stats().repairs > 0);
    let lists = check_fixture("v1-lists.twiceshy", || {
        let builder = YesNoList::builder().false_positive_rate(0.1);
        let [yes, no] = [0..50, 50..150].map(|numbers| numbers.map(hash).collect());
        builder.build_from(yes, no).unwrap()
    });
    assert!((0..50).all(|number| lists.contains(hash(number))));
    assert!((50..150).all(|number| !lists.contains(hash(number))));
}

/// A file of one kind must not be taken for a damaged one of the other.
#[test]
fn lists_and_deltas_are_told_apart() {
    let lists = saved(&YesNoList::builder().build().unwrap());
    assert_eq!(Delta::from_bytes(&lists), Err(DeltaError::NotADelta));
    let filter = YesNoFilter::builder().build(&[], &[]).unwrap();
    let delta = filter.delta_to(&filter).unwrap().to_bytes();
    let error = YesNoList::read_from(&delta[..]).unwrap_err();
    assert!(matches!(error, SnapshotError::NotASnapshot), "{error}");
}

/// The last slots of a small filter have no room for these hashes.
#[test]
fn lists_that_only_a_large_filter_can_hold_are_restored() {
    let pair = |n: u128| [0, 1].map(|one| Hash::from_u128(u128::MAX - 2 * n - one));
    let fill = |lists: &mut YesNoList| {
        let fits = |lists: &mut YesNoList, [yes, no]: [Hash; 2]| {
            lists.add_no(no).is_ok() && lists.add_yes(yes).is_ok()
        };
        (0..200).take_while(|&n| fits(lists, pair(n))).count()
    };
    let small = fill(&mut YesNoList::builder().build().unwrap());
    let mut lists = YesNoList::builder().capacity(100_000).no_capacity(50_000).build().unwrap();
    assert!(fill(&mut lists) > small + 20);
    let restored = round_trip(&lists);
    assert!(restored.yes().iter().eq(lists.yes().iter()));
    restored.validate().unwrap();
}
