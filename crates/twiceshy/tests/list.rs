//! Yes/no lists that change: no listed key is ever answered wrongly, and unlisted ones are "yes" no
//! more often than was asked for.

use proptest::prelude::*;
use twiceshy::{
    AdaptiveQuotientFilter, BuildError, Hash, Keyed, KeyedHasher, ListError, Secret, YesNoList,
    YesNoListBuilder, YesNoPlan,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn no_listed_key_is_ever_wrong(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        twiceshy_model::list::drive(&bytes);
    }
}

fn numbered(builder: &YesNoListBuilder) -> Keyed<u64, YesNoList> {
    builder.clone().secret(Secret::from_bytes([9; 16])).build_keyed().unwrap()
}

/// With as many unlisted keys as are asked for, chance gives no more than five standard deviations.
fn assert_rate(list: &Keyed<u64, YesNoList>, rate: f64, what: &str) {
    const ASKED: u64 = 200_000;
    let keys: Vec<u64> = (1 << 40..(1 << 40) + ASKED).collect();
    let mut answers = Vec::new();
    list.contains_many(&keys, &mut answers);
    let wrong = answers.iter().filter(|&&answer| answer).count() as f64;
    let mean = rate * ASKED as f64;
    assert!(wrong <= mean + 5.0 * mean.sqrt() + 1.0, "{wrong} of {ASKED} at {rate}, {what}");
    assert!(list.filter().statistics().expected_rate <= rate);
}

#[test]
fn unlisted_keys_are_seldom_yes_however_many_are_listed() {
    // Rates between powers of two, too.
    for rate in [0.3, 0.02, 1.0 / 256.0, 0.0015] {
        let mut list = numbered(&YesNoList::builder().false_positive_rate(rate));
        for step in [300, 3_000, 12_000] {
            let (yes, no) = (list.filter().yes_len() as u64, list.filter().no_len() as u64);
            (yes..step).for_each(|key| assert!(list.add_yes(&key).unwrap()));
            (no..2 * step).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
            assert_rate(&list, rate, "grown");
            list.filter().validate().unwrap();
        }
        (200..12_000).for_each(|key| assert!(list.remove_yes(&key)));
        assert_rate(&list, rate, "shrunk");
        (0..200).for_each(|key| assert!(list.contains(&key)));
        (0..24_000).for_each(|key| assert!(!list.contains(&(1 << 30 | key))));
    }
}

#[test]
fn what_is_removed_gives_its_room_back() {
    let mut list = numbered(&YesNoList::builder().false_positive_rate(0.1));
    let empty = list.filter().statistics();
    (0..20_000).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..20_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    let full = list.filter().statistics();
    assert!(full.repairs > 100 && full.extension_slots > 100, "{full:?}");
    // A no key that goes gives the extensions back that it needed.
    (0..20_000).for_each(|key| assert!(list.remove_no(&(1 << 30 | key))));
    let yes_only = list.filter().statistics();
    list.filter().validate().unwrap();
    assert!(yes_only.extension_slots < full.extension_slots, "{yes_only:?} of {full:?}");
    assert!(yes_only.list_bytes < full.list_bytes * 6 / 10);
    (0..20_000).for_each(|key| assert!(list.remove_yes(&key)));
    let emptied = list.filter().statistics();
    assert!(emptied.filter_bytes < 2 * empty.filter_bytes, "{emptied:?} from {empty:?}");
    assert_eq!(emptied.list_bytes, empty.list_bytes);
}

#[test]
fn a_key_is_on_one_list_at_most_and_errors_say_so() {
    let mut list = numbered(&YesNoList::builder());
    assert!(list.add_yes(&1).unwrap() && list.add_no(&2).unwrap());
    assert!(!list.add_yes(&1).unwrap() && !list.add_no(&2).unwrap());
    let hashes = [1, 2].map(|key| list.hash(&key));
    let error = list.add_no(&1).unwrap_err();
    assert!(matches!(error, ListError::OnYesList { hash } if hash == hashes[0]));
    assert!(error.to_string().ends_with("is on the yes list; remove it there first"));
    let error = list.add_yes(&2).unwrap_err();
    assert!(matches!(error, ListError::OnNoList { hash } if hash == hashes[1]));
    assert!(!list.remove_yes(&2) && !list.remove_no(&1) && !list.remove_yes(&3));
    assert!(list.contains(&1) && !list.contains(&2));
    let twice = YesNoList::builder().build_keyed_from::<u64>([1, 2, 3], [4, 3]);
    assert!(matches!(twice, Err(ListError::OnYesList { .. })));
    list.filter().validate().unwrap();
}

#[test]
fn room_is_planned_for_what_is_announced() {
    let builder = YesNoList::builder().false_positive_rate(0.01);
    let planned = builder.clone().yes_capacity(5_000).no_capacity(50_000);
    let mut list = numbered(&planned);
    (0..4_900).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..49_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    assert_eq!(list.filter().statistics().rebuilds, 0);
    assert!(builder.clone().false_positive_rate(0.0).build().is_err());
    assert!(builder.yes_capacity(usize::MAX).build().is_err());
}

#[test]
fn memory_is_told_apart() {
    let mut list = numbered(&YesNoList::builder());
    (0..10_000).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..30_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    let statistics = list.filter().statistics();
    assert_eq!((statistics.yes, statistics.no), (10_000, 30_000));
    assert_eq!(statistics.filter_bytes, list.filter().filter().memory_usage());
    assert!(statistics.list_bytes < 19 * 40_000, "{statistics:?}");
    assert!(list.filter().memory_usage() >= statistics.filter_bytes + statistics.list_bytes);
}

/// What is planned is what it takes, within the chance of hashes that are spread at random.
#[test]
fn plans_are_kept() {
    let hasher = KeyedHasher::new(&Secret::from_bytes([9; 16]));
    for (yes, no, rate) in [
        (20_000, 100, 0.01),
        (20_000, 20_000, 0.004),
        (2_000, 60_000, 0.0041),
        (500, 60_000, 0.3),
        (20_000, 0, 0.5),
    ] {
        let hashes = |keys: std::ops::Range<usize>| -> Vec<Hash> {
            let mut hashes: Vec<Hash> = keys.map(|key| hasher.hash(&(key as u64))).collect();
            hashes.sort_unstable();
            hashes
        };
        let (members, mistakes) = (hashes(0..yes), hashes(yes..yes + no));
        let plan = YesNoPlan::new(yes, no, rate).unwrap();
        let filter = AdaptiveQuotientFilter::builder()
            .slots(plan.slots)
            .remainder_bits(plan.remainder_bits)
            .build_sorted(|| members.iter().copied(), || mistakes.iter().copied())
            .unwrap();
        let counted = filter.iter().filter(|entry| entry.count > 1).count();
        let used = (filter.statistics().extension_slots as usize - counted) as f64;
        let planned = plan.extension_slots as f64;
        assert!((used - planned).abs() < 5.0 + 5.0 * planned.sqrt(), "{used} for {plan:?}");
        assert!(plan.rate <= rate && filter.statistics().expected_rate <= 1.01 * rate, "{plan:?}");
        assert_eq!(filter.memory_usage(), plan.bytes);
        // Narrow slots take no less.
        assert!(plan.bytes < plan.tagged_bytes + u64::from(no == 0));
        // And the lists, which keep some slots free, take no more than a few more.
        let builder = YesNoList::builder().false_positive_rate(rate);
        let list = builder.build_from(members, mistakes).unwrap();
        assert!(list.statistics().filter_bytes <= plan.bytes + plan.bytes / 16 + 256, "{plan:?}");
    }
}

/// Each pair needs all bits of its hashes, and all of them share a run.
#[test]
fn adjacent_pairs_are_refused_with_a_clear_error() {
    let mut list = YesNoList::builder().build().unwrap();
    let mut pairs =
        (0..200).map(|pair| [0, 1].map(|one| Hash::from_u128(u128::MAX - 2 * pair - one)));
    let refused = pairs.find_map(|[yes, no]| {
        let before = (list.yes_len(), list.no_len());
        let added = list.add_yes(yes).and_then(|_| list.add_no(no));
        let is_whole = (list.yes_len(), list.no_len()) == (before.0 + 1, before.1 + 1);
        assert_eq!(added.is_ok(), is_whole);
        list.validate().unwrap();
        added.err()
    });
    assert!(matches!(refused, Some(ListError::Build(BuildError::Uneven))), "{refused:?}");
    assert!(list.yes_len() > 20, "{}", list.yes_len());
}

#[test]
fn impossible_rates_are_refused() {
    for rate in [0.0, 1.0, -0.5, 1e-30, f64::NAN] {
        assert!(matches!(YesNoPlan::new(10, 10, rate), Err(BuildError::Rate(_))));
    }
    assert!(YesNoPlan::new(0, 0, 0.5).is_ok() && YesNoPlan::new(0, 1000, 0.5).is_ok());
}
