//! Tests yes/no lists that change: answers for listed keys are exact, and the rate holds for
//! unlisted keys.

use proptest::prelude::*;
use twiceshy::{
    Hash, Keyed, QuotientFilter, Secret, YesNoList,
    builder::Builder,
    error::{BuildError, PlanError},
    hash::KeyedHasher,
    list::ListError,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn answers_for_listed_keys_are_exact(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        twiceshy_model::list::drive(&bytes);
    }
}

fn numbered(builder: &Builder<YesNoList>) -> Keyed<u64, YesNoList> {
    builder.clone().secret(Secret::from_bytes([9; 16])).build_keyed().unwrap()
}

/// Asserts that the number of wrong answers exceeds its mean by at most five standard deviations.
fn assert_rate(list: &Keyed<u64, YesNoList>, rate: f64, what: &str) {
    const ASKED: u64 = 200_000;
    let keys: Vec<u64> = (1 << 40..(1 << 40) + ASKED).collect();
    let mut answers = Vec::new();
    list.contains_many(&keys, &mut answers);
    let wrong = answers.iter().filter(|&&answer| answer).count() as f64;
    let mean = rate * ASKED as f64;
    assert!(wrong <= mean + 5.0 * mean.sqrt() + 1.0, "{wrong} of {ASKED} at {rate}, {what}");
    assert!(list.filter().stats().expected_rate <= rate);
}

#[test]
fn rate_holds_for_any_number_of_listed_keys() {
    // Includes rates between powers of two.
    for rate in [0.3, 0.02, 1.0 / 256.0, 0.0015] {
        let mut list = numbered(&YesNoList::builder().false_positive_rate(rate));
        for step in [300, 3_000, 12_000] {
            let (yes, no) = (list.len() as u64, list.filter().no().len() as u64);
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
fn removing_keys_frees_space() {
    let mut list = numbered(&YesNoList::builder().false_positive_rate(0.1));
    let sizes = |list: &YesNoList| {
        let lists = list.yes().memory_usage() + list.no().memory_usage();
        (list.filter().stats().memory, lists, list.filter().details().extension_slots)
    };
    let empty = sizes(list.filter());
    (0..20_000).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..20_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    let full = sizes(list.filter());
    assert!(list.stats().repairs > 100 && full.2 > 100, "{full:?}");
    // Removing a no-list key frees the extensions that it needed.
    (0..20_000).for_each(|key| assert!(list.remove_no(&(1 << 30 | key))));
    let yes_only = sizes(list.filter());
    list.filter().validate().unwrap();
    assert!(yes_only.2 < full.2, "{yes_only:?} of {full:?}");
    assert!(yes_only.1 < full.1 * 6 / 10);
    (0..20_000).for_each(|key| assert!(list.remove_yes(&key)));
    let emptied = sizes(list.filter());
    assert!(emptied.0 < 2 * empty.0, "{emptied:?} from {empty:?}");
    assert_eq!(emptied.1, empty.1);
}

#[test]
fn adding_a_key_to_both_lists_is_refused() {
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
    assert!(matches!(twice, Err(ListError::OnBothLists { yes: 2, no: 1, .. })), "{twice:?}");
    list.filter().validate().unwrap();
}

#[test]
fn lists_that_need_more_memory_than_allowed_are_refused() {
    let builder = YesNoList::builder().false_positive_rate(0.01).memory(1 << 14);
    let built =
        |yes: u64, no: u64| builder.build_keyed_from::<u64>(0..yes, 1 << 40..(1 << 40) + no);
    let capacity = builder.plan().unwrap().capacity as u64;
    let list = built(capacity * 9 / 10, 10).unwrap();
    assert!(list.filter().filter().stats().memory <= 1 << 14);
    for (yes, no) in [(2 * capacity, 0), (capacity * 9 / 10, 1_000_000)] {
        let refused = built(yes, no).map(drop).unwrap_err();
        let ListError::Build(BuildError::Plan(error)) = refused else { panic!("{refused}") };
        assert_eq!(error, PlanError::Budget(1 << 14));
    }
}

#[test]
fn list_within_planned_capacity_is_not_rebuilt() {
    let builder = YesNoList::builder().false_positive_rate(0.01);
    let planned = builder.clone().capacity(5_000).no_capacity(50_000);
    let mut list = numbered(&planned);
    let slots = |list: &YesNoList| list.filter().parameters().slots;
    let before = slots(list.filter());
    (0..4_900).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..49_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    assert_eq!(slots(list.filter()), before);
    assert!(builder.clone().false_positive_rate(0.0).build().is_err());
    assert!(builder.capacity(usize::MAX).build().is_err());
}

#[test]
fn stats_include_the_memory_of_the_lists() {
    let mut list = numbered(&YesNoList::builder());
    (0..10_000).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..30_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    let (filter, stats) = (list.filter(), list.stats());
    assert_eq!((stats.members, filter.no().len()), (10_000, 30_000));
    let lists = filter.yes().memory_usage() + filter.no().memory_usage();
    assert!(lists < 19 * 40_000, "{lists}");
    assert!(stats.memory >= filter.filter().stats().memory + lists);
}

/// Actual sizes match the plan, within the random variation of hashes.
#[test]
fn sizes_match_the_plan() {
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
        let builder = YesNoList::builder().false_positive_rate(rate);
        let plan = builder.clone().capacity(yes).no_capacity(no).plan().unwrap();
        let filter = QuotientFilter::builder()
            .slots(plan.slots)
            .remainder_bits(plan.remainder_bits)
            .build_sorted(|| members.iter().copied(), || mistakes.iter().copied())
            .unwrap();
        let counted = filter.iter().filter(|entry| entry.count > 1).count();
        let used = (filter.details().extension_slots as usize - counted) as f64;
        let planned = plan.details.extension_slots as f64;
        assert!((used - planned).abs() < 5.0 + 5.0 * planned.sqrt(), "{used} for {plan:?}");
        let is_kept = filter.stats().expected_rate <= 1.01 * rate;
        assert!(plan.expected_rate <= rate && is_kept, "{plan:?}");
        assert_eq!(filter.stats().memory, plan.bytes);
        // The lists keep some slots free, so they take slightly more space than planned.
        let list = builder.build_from(members, mistakes).unwrap();
        assert!(list.filter().stats().memory <= plan.bytes + plan.bytes / 16 + 256, "{plan:?}");
    }
}

/// Each pair needs all bits of its hashes, and all pairs are in one run.
#[test]
fn too_many_adjacent_yes_and_no_hashes_are_refused() {
    let mut list = YesNoList::builder().build().unwrap();
    let mut pairs =
        (0..200).map(|pair| [0, 1].map(|one| Hash::from_u128(u128::MAX - 2 * pair - one)));
    let refused = pairs.find_map(|[yes, no]| {
        let before = (list.len(), list.no().len());
        let mut repairs = list.stats().repairs;
        let added = list.add_yes(yes).and_then(|_| {
            repairs = list.stats().repairs;
            list.add_no(no)
        });
        let is_whole = (list.len(), list.no().len()) == (before.0 + 1, before.1 + 1);
        assert_eq!(added.is_ok(), is_whole);
        assert!(added.is_ok() || list.stats().repairs == repairs, "a failed add counts no repair");
        list.validate().unwrap();
        added.err()
    });
    assert!(matches!(refused, Some(ListError::Uneven)), "{refused:?}");
    assert!(list.len() > 20, "{}", list.len());
}

#[test]
fn impossible_rates_are_refused() {
    for rate in [0.0, 1.0, -0.5, 1e-30, f64::NAN] {
        let plan = YesNoList::builder().false_positive_rate(rate).plan();
        assert!(matches!(plan, Err(PlanError::Rate { .. })));
    }
    let poor = YesNoList::builder().false_positive_rate(0.5).capacity(0);
    assert!(poor.clone().no_capacity(0).plan().is_ok());
    assert!(poor.no_capacity(1000).plan().is_ok());
}
