//! Filters of yes and no lists: random lists against the lists, and lists of real size.

use proptest::prelude::*;
use twiceshy::{Keyed, Secret, SnapshotError, YesNoFilter};
use twiceshy_model::yes_no::drive;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_lists(mut bytes in prop::collection::vec(any::<u8>(), 1..6000)) {
        bytes[0] |= 2;
        drive(&bytes);
    }

    #[test]
    fn any_file(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        drive(&bytes);
    }
}

#[test]
fn lists_of_real_size_are_right_and_small() {
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
    filter.ship(&mut file).unwrap();
    // The least that is possible is 8.02.
    assert!((file.len() * 8) as f64 / 200_000.0 < 10.3, "{} bytes", file.len());
    let strangers: Vec<u64> = (1 << 40..(1 << 40) + 1_000_000).collect();
    filter.contains_many(&strangers, &mut answers);
    let wrong = answers.iter().filter(|&&yes| yes).count();
    assert!((3000..3906 + 350).contains(&wrong), "{wrong} of a million at a rate of 1/256");
}

#[test]
fn what_is_shipped_has_its_secret() {
    let filter = Keyed::<str, YesNoFilter>::build(&["evil"], &["good"], 0.001).unwrap();
    let (mut shipped, mut bare) = (Vec::new(), Vec::new());
    filter.ship(&mut shipped).unwrap();
    filter.filter().save(&mut bare).unwrap();
    let restored = Keyed::<str, YesNoFilter>::shipped(&shipped[..]).unwrap();
    assert!(restored.contains("evil") && !restored.contains("good"));
    assert_eq!(restored.filter(), filter.filter());
    let error = Keyed::<str, YesNoFilter>::shipped(&bare[..]).map(drop).unwrap_err();
    assert!(matches!(error, SnapshotError::NoSecret), "{error}");
    assert!(YesNoFilter::restore(&shipped[..]).is_ok_and(|other| other == *filter.filter()));
    for at in 0..shipped.len() {
        let mut changed = shipped.clone();
        changed[at] ^= 0x10;
        assert!(Keyed::<str, YesNoFilter>::shipped(&changed[..]).is_err(), "byte {at}");
    }
    for length in 0..shipped.len() {
        assert!(Keyed::<str, YesNoFilter>::shipped(&shipped[..length]).is_err());
    }
}
