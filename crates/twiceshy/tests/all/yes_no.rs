//! Tests yes/no filters with random lists, and with lists of realistic size.

use proptest::prelude::*;
use std::borrow::Borrow;
use std::path::Path;
use twiceshy::KeyedSnapshot;
use twiceshy::list::Delta;
use twiceshy::{
    Frozen, Key, Keyed, Secret, SecretMode, Snapshot, YesNoFilter, snapshot::SnapshotError,
};
use twiceshy_model::yes_no::drive;

/// Builds a filter of keys.
fn built<K: Key + ?Sized, Q: Borrow<K>>(yes: &[Q], no: &[Q], rate: f64) -> Keyed<K, YesNoFilter> {
    YesNoFilter::builder().false_positive_rate(rate).build_keyed(yes, no).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn random_lists_are_answered_exactly(mut bytes in prop::collection::vec(any::<u8>(), 1..6000)) {
        bytes[0] |= 2;
        drive(&bytes);
    }

    #[test]
    fn random_files_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        drive(&bytes);
    }
}

#[test]
fn lists_of_real_size_are_exact_and_small() {
    let (yes, no): (Vec<u64>, Vec<u64>) = ((0..200_000).collect(), (200_000..800_000).collect());
    let builder = YesNoFilter::builder().false_positive_rate(1.0 / 256.0);
    let builder = builder.secret(Secret::from_bytes([8; 16]));
    let filter = builder.build_keyed::<u64, u64>(&yes, &no).unwrap();
    filter.filter().validate().unwrap();
    let mut answers = Vec::new();
    for (list, answer) in [(&yes, true), (&no, false)] {
        filter.contains_many(list, &mut answers);
        assert!(answers.iter().all(|&other| other == answer));
    }
    let mut file = Vec::new();
    filter.write_to(&mut file, SecretMode::Include).unwrap();
    // The lower bound is 8.02 bits per key.
    assert!((file.len() * 8) as f64 / 200_000.0 < 10.3, "{} bytes", file.len());
    let strangers: Vec<u64> = (1 << 40..(1 << 40) + 1_000_000).collect();
    filter.contains_many(&strangers, &mut answers);
    let wrong = answers.iter().filter(|&&yes| yes).count();
    assert!((3000..3906 + 350).contains(&wrong), "{wrong} of a million at a rate of 1/256");
}

/// Compares with a file of format version 1. If the file is missing, writes it for review.
#[test]
fn version_1_is_read_and_written_unchanged() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-list.twiceshy");
    let (yes, no): (Vec<u64>, Vec<u64>) = ((0..60).collect(), (60..400).collect());
    let builder = YesNoFilter::builder().false_positive_rate(1.0 / 64.0).label(7);
    let builder = builder.secret(Secret::from_bytes(*b"not very secret."));
    let mut bytes = Vec::new();
    let filter = builder.build_keyed::<u64, u64>(&yes, &no).unwrap();
    filter.write_to(&mut bytes, SecretMode::Include).unwrap();
    let Ok(kept) = std::fs::read(path) else {
        std::fs::write(path, &bytes).unwrap();
        panic!("the file was missing, and is written now");
    };
    let read = Keyed::<u64, YesNoFilter>::open(path, None).unwrap();
    assert!(yes.iter().all(|key| read.contains(key)) && !no.iter().any(|key| read.contains(key)));
    assert_eq!(read.filter().label(), 7);
    assert!(kept == bytes, "it would be written differently today");
}

/// Applies a delta of format version 1 to a filter of version 1. If the file is missing, writes it
/// for review.
#[test]
fn version_1_of_a_delta_is_read_and_written_unchanged() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let old = Keyed::<u64, YesNoFilter>::open(fixtures.join("v1-list.twiceshy"), None).unwrap();
    let (yes, no): (Vec<u64>, Vec<u64>) = ((2..62).collect(), (62..400).collect());
    let builder = YesNoFilter::builder().label(8).secret(old.secret().clone());
    let new = builder.like(old.filter()).build_keyed::<u64, u64>(&yes, &no).unwrap();
    let delta = old.delta_to(&new).unwrap();
    assert!(!delta.is_whole());
    let path = fixtures.join("v1.delta");
    let Ok(kept) = std::fs::read(&path) else {
        std::fs::write(path, delta.to_bytes()).unwrap();
        panic!("the file was missing, and is written now");
    };
    let applied = old.apply(&Delta::from_bytes(&kept).unwrap()).unwrap();
    assert!(yes.iter().all(|key| applied.contains(key)));
    assert!(!no.iter().any(|key| applied.contains(key)));
    assert_eq!(applied.filter().label(), 8);
    assert!(kept == delta.to_bytes(), "it would be written differently today");
}

#[test]
fn frozen_list_answers_like_the_filter() {
    type List = Keyed<u64, YesNoFilter>;
    type FrozenList = Keyed<u64, Frozen<YesNoFilter>>;
    let path = std::env::temp_dir().join(format!("twiceshy-list-{}", std::process::id()));
    let (yes, no): (Vec<u64>, Vec<u64>) = ((0..5000).collect(), (5000..9000).collect());
    let filter: List = built(&yes, &no, 0.01);
    filter.save(&path, SecretMode::Include).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let keys: Vec<u64> = (0..20_000).collect();
    let (mut expected, mut answers) = (Vec::new(), Vec::new());
    filter.contains_many(&keys, &mut expected);
    for frozen in [
        FrozenList::open(&path, None).unwrap(),
        FrozenList::from_bytes(bytes.clone(), Some(filter.secret().clone())).unwrap(),
    ] {
        frozen.contains_many(&keys, &mut answers);
        assert_eq!(answers, expected);
        assert!(keys.iter().zip(&expected).all(|(key, &yes)| frozen.contains(key) == yes));
        frozen.filter().validate().unwrap();
        assert!(*frozen.to_filter().unwrap().filter() == *filter.filter());
        // Writing a frozen filter copies the file.
        let mut again = Vec::new();
        frozen.write_to(&mut again, SecretMode::Include).unwrap();
        assert!(again == bytes);
    }
    let error = FrozenList::open(&path, Some(Secret::from_bytes([1; 16]))).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::OtherSecret), "{error}");
    filter.save(&path, SecretMode::Omit).unwrap();
    let error = FrozenList::open(&path, None).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::NoSecret), "{error}");
    FrozenList::open(&path, Some(filter.secret().clone())).unwrap();
    std::fs::remove_file(path).unwrap();
}

/// Every lookup ends, even if only the header of the list is valid.
#[test]
fn lookups_in_invalid_frozen_lists_terminate() {
    let yes: Vec<u64> = (0..20_000).collect();
    let filter = built::<u64, _>(&yes, &[], 0.01);
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes, SecretMode::Include).unwrap();
    for byte in [0, 0x55, 0xaa, 0x0f, 0x80, 0xff] {
        let mut nonsense = bytes.clone();
        let end = nonsense.len() - 128;
        nonsense[128..end].fill(byte);
        let frozen = Keyed::<u64, Frozen<YesNoFilter>>::from_bytes(nonsense, None).unwrap();
        let mut answers = Vec::new();
        frozen.contains_many(&yes, &mut answers);
        assert!(yes.iter().zip(answers).all(|(key, answer)| frozen.contains(key) == answer));
        assert!(frozen.filter().validate().is_err());
    }
}

/// Copying a damaged list must not give it a valid checksum.
#[test]
fn copy_of_damaged_frozen_list_is_damaged() {
    let filter = built::<u64, _>(&[1, 2, 3], &[], 0.01);
    let (mut bytes, mut copy) = (Vec::new(), Vec::new());
    filter.write_to(&mut bytes, SecretMode::Include).unwrap();
    bytes[130] ^= 1;
    let frozen = Keyed::<u64, Frozen<YesNoFilter>>::from_bytes(bytes, None).unwrap();
    frozen.write_to(&mut copy, SecretMode::Omit).unwrap();
    let error = YesNoFilter::read_from(&copy[..]).unwrap_err();
    assert!(matches!(error, SnapshotError::Checksum { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn file_of_a_list_with_its_secret_is_readable_by_all_users() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("twiceshy-public-{}", std::process::id()));
    std::fs::write(&path, b"old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let filter = built::<u64, _>(&[1], &[2], 0.01);
    filter.save(&path, SecretMode::Include).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn list_saved_with_its_secret_is_restored_exactly() {
    let filter = built::<str, _>(&["evil"], &["good"], 0.001);
    let (mut shipped, mut bare) = (Vec::new(), Vec::new());
    filter.write_to(&mut shipped, SecretMode::Include).unwrap();
    filter.filter().write_to(&mut bare).unwrap();
    let restored = Keyed::<str, YesNoFilter>::read_from(&shipped[..], None).unwrap();
    assert!(restored.contains("evil") && !restored.contains("good"));
    assert_eq!(restored.filter(), filter.filter());
    let error = Keyed::<str, YesNoFilter>::read_from(&bare[..], None).map(drop).unwrap_err();
    assert!(matches!(error, SnapshotError::NoSecret), "{error}");
    assert!(YesNoFilter::read_from(&shipped[..]).is_ok_and(|other| other == *filter.filter()));
    for at in 0..shipped.len() {
        let mut changed = shipped.clone();
        changed[at] ^= 0x10;
        assert!(Keyed::<str, YesNoFilter>::read_from(&changed[..], None).is_err(), "byte {at}");
    }
    for length in 0..shipped.len() {
        assert!(Keyed::<str, YesNoFilter>::read_from(&shipped[..length], None).is_err());
    }
}
