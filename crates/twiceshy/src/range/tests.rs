use super::*;
use crate::table::Budget;
use crate::{
    Answer, Secret,
    error::{AdaptError, GrowError, InsertError, RemoveError},
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The number of inserts of each member.
type Model = BTreeMap<u16, usize>;

fn filter(slots: u64, remainder_bits: u32, longest_range: u64) -> AdaptiveRangeFilter<u16> {
    builder(slots, remainder_bits, longest_range).build().unwrap()
}

fn builder<const ADAPTIVE: bool>(
    slots: u64,
    remainder_bits: u32,
    longest_range: u64,
) -> Builder<MementoFilter<u16, ADAPTIVE>> {
    Builder::default()
        .slots(slots)
        .remainder_bits(remainder_bits)
        .longest_range(longest_range)
        .secret(Secret::from_bytes([9; 16]))
}

fn suspects(filter: &AdaptiveRangeFilter<u16>, claim: &Claim, model: &Model) -> Vec<u16> {
    let listed = model.iter().filter(|&(&key, _)| claim.is_suspect(filter.hash_of(key)));
    listed.flat_map(|(&key, &count)| std::iter::repeat_n(key, count)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn batches_agree_with_single_operations(
        keys in prop::collection::vec(0u16..3000, 0..200), remainder_bits in 1u32..20,
        range_bits in 0u32..8, expandable in any::<bool>(),
        starts in prop::collection::vec((0u16..3000, 0u16..300), 0..70),
    ) {
        let builder = builder::<false>(256, remainder_bits, 1 << range_bits);
        let builder = if expandable { builder.expandable() } else { builder };
        let mut one_by_one = builder.build().unwrap();
        for &key in &keys {
            one_by_one.insert(key).unwrap();
        }
        let filter = builder.build_from(&keys).unwrap();
        filter.validate().unwrap();
        prop_assert!(filter.iter().eq(one_by_one.iter()));
        let members: usize = filter.iter().map(|entry| entry.mementos.len()).sum();
        prop_assert_eq!((members, filter.len()), (keys.len(), keys.len()));
        let ranges: Vec<_> =
            starts.iter().map(|&(start, length)| start..start.saturating_add(length)).collect();
        let mut maybe = vec![true; 3];
        filter.contains_ranges(&ranges, &mut maybe);
        let expected: Vec<bool> =
            ranges.iter().map(|range| filter.contains_range(range.clone())).collect();
        prop_assert_eq!(maybe, expected);
    }

    #[test]
    fn wrong_lists_are_refused_without_changes(keys in prop::collection::btree_set(0u16..2000, 2..60), at in any::<prop::sample::Index>()) {
        let mut filter = filter(64, 2, 8);
        let mut model = Model::new();
        for &key in &keys {
            if filter.insert(key).is_ok() {
                model.insert(key, 1);
            }
        }
        // Each range is one partition.
        let ranges = (0u16..250).map(|number| 8 * number..=8 * number + 7);
        let empty = ranges.filter(|range| model.range(range.clone()).next().is_none());
        let claims: Vec<_> = empty
            .filter_map(|range| match filter.check_range(range.clone()) {
                Answer::Maybe(claim) => Some((range, claim)),
                Answer::Absent => None,
            })
            .collect();
        prop_assume!(!claims.is_empty());
        let (range, claim) = at.get(&claims);
        let right = suspects(&filter, claim, &model);
        let near = right.iter().position(|&key| filter.may_confuse(*range.start(), key)).unwrap();
        let mut missing = right.clone();
        missing.remove(near);
        let is_unlisted = matches!(filter.adapt(claim, &missing), Err(AdaptError::Unlisted { members: 1 }));
        prop_assert!(is_unlisted);
        let twice = [&right[..], &right[near..=near]].concat();
        let is_surplus = matches!(filter.adapt(claim, &twice), Err(AdaptError::Surplus { members: 1 }));
        prop_assert!(is_surplus);
        let stranger = (0u16..2000).find(|&key| !claim.is_suspect(filter.hash_of(key))).unwrap();
        let outside = [&right[..], &[stranger]].concat();
        let is_outside = matches!(filter.adapt(claim, &outside), Err(AdaptError::Outside { .. }));
        prop_assert!(is_outside);
        prop_assert!(filter.contains_range(range.clone()) && filter.stats().repairs == 0);
        filter.validate().unwrap();
        let ghost = filter.adapt(claim, Listing::new(&missing).dropping_ghosts()).map(|adaptation| adaptation.ghosts);
        if ghost == Ok(1) {
            prop_assert!(!filter.contains_range(range.clone()));
            prop_assert_eq!(filter.len() + 1, model.len());
            prop_assert_eq!(filter.adapt(claim, &missing), Err(AdaptError::Stale));
        }
        filter.validate().unwrap();
    }
}

#[test]
fn boxes_can_have_thousands_of_keys() {
    for longest_range in [1, 1 << 10, 1 << 20] {
        let mut filter = AdaptiveRangeFilter::<u64>::builder()
            .slots(8000)
            .remainder_bits(8)
            .longest_range(longest_range)
            .build()
            .unwrap();
        for key in 0..3000 {
            filter.insert(u64::MAX - 2 * key).unwrap();
        }
        filter.validate().unwrap();
        assert_eq!(filter.len(), 3000);
        let all = |filter: &AdaptiveRangeFilter<u64>| {
            (0..3000).all(|key| filter.contains(u64::MAX - 2 * key))
        };
        assert!(all(&filter));
        if longest_range > 1 {
            assert!((0..3000).all(|key| !filter.contains(u64::MAX - 2 * key - 1)));
        }
        for key in 0..2000 {
            filter.remove_trusting(u64::MAX - 2 * key).unwrap();
        }
        filter.validate().unwrap();
        assert!((2000..3000).all(|key| filter.contains(u64::MAX - 2 * key)));
    }
}

#[test]
fn repaired_long_range_stays_repaired_as_the_filter_fills() {
    let builder = AdaptiveRangeFilter::<u64>::builder().slots(100).remainder_bits(4);
    let builder = builder.longest_range(1).secret(Secret::from_bytes([7; 16]));
    let mut filter = builder.build().unwrap();
    let members: Vec<u64> = (0..20).map(|n| 1_000_000_000 + n * 1000).collect();
    for &member in &members {
        filter.insert(member).unwrap();
    }
    let suspects = |filter: &AdaptiveRangeFilter<u64>, claim: &Claim| -> Vec<u64> {
        members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key))).collect()
    };
    let range = 0..1000;
    let Answer::Maybe(claim) = filter.check_range(range.clone()) else { panic!("no mistake") };
    let listed = suspects(&filter, &claim);
    filter.adapt(&claim, &listed).unwrap();
    for _ in 0..40 {
        filter.insert(members[0]).unwrap();
        assert!(
            !filter.contains_range(range.clone()) && !filter.check_range(range.clone()).is_maybe()
        );
    }
    (0..40).for_each(|_| filter.remove_trusting(members[0]).unwrap());
    let Answer::Maybe(claim) = filter.check(members[0]) else { panic!() };
    let listed = suspects(&filter, &claim);
    let listing = Listing::new(&listed).with_mistakes(std::slice::from_ref(&range));
    filter.remove(&claim, listing).unwrap();
    assert!(!filter.contains_range(range));
    let too_long = filter.check_range(0..5000);
    let Answer::Maybe(claim) = too_long else { panic!("no mistake") };
    assert_eq!(filter.adapt(&claim, &[]), Err(AdaptError::TooLong));
}

#[test]
fn build_from_chooses_a_sufficient_size() {
    // First all keys are in one box, then each key is in its own box.
    for keys in [(0..5000u64).collect::<Vec<_>>(), (0..5000).map(|key| key << 40).collect()] {
        let builder = RangeFilter::<u64>::builder().longest_range(1 << 16);
        let filter = builder.build_from(&keys).unwrap();
        assert!(keys.iter().all(|&key| filter.contains(key)));
        filter.validate().unwrap();
        let grown = builder.clone().slots(100).expandable().build_from(&keys).unwrap();
        assert!(keys.iter().all(|&key| grown.contains(key)));
        let refused = builder.slots(100).build_from(&keys);
        assert!(matches!(refused, Err(crate::error::BuildError::Full { slots: 100 })));
    }
}

#[test]
fn rate_holds_after_any_number_of_doublings() {
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rate = 1.0 / 32.0;
    let builder = RangeFilter::<u64>::builder().slots(256).expandable();
    let builder = builder.secret(Secret::from_bytes([5; 16])).false_positive_rate(rate);
    let mut filter = builder.build().unwrap();
    let mut by_hash: BTreeMap<Hash, u64> = BTreeMap::new();
    for n in 0..1 << 17 {
        if filter.stats().load >= 0.94 {
            let maybe = (0..20_000).filter(|&n| {
                let start = number(n + (1 << 40));
                filter.contains_range(start..start.saturating_add(32))
            });
            let seen = maybe.count() as f64 / 20_000.0;
            assert!(seen <= rate, "{seen} of {} members", filter.len());
            let list = |hashes| Ok::<_, ()>(by_hash.range(hashes).map(|(_, &key)| key).collect());
            filter = filter.doubled_listing(list).unwrap();
        }
        filter.insert(number(n)).unwrap();
        by_hash.insert(filter.hash_of(number(n)), number(n));
    }
    assert!(filter.doubled().is_err());
    filter.validate().unwrap();
    assert!((0..1 << 17).all(|n| filter.contains(number(n))));
}

#[test]
fn expandable_filter_doubles_until_remainders_are_empty() {
    let builder = RangeFilter::<u64>::builder().slots(64).remainder_bits(3).expandable();
    let mut filter = builder.secret(Secret::from_bytes([6; 16])).build().unwrap();
    let inserted = (0..10_000u64).take_while(|key| filter.insert(key << 20).is_ok()).count() as u64;
    // Three doublings, to 512 slots, use up the three remainder bits. Few keys share a slot, so
    // about 512 keys fit.
    assert!((505..=520).contains(&inserted), "{inserted}");
    assert!((0..inserted).all(|key| filter.contains(key << 20)));
    assert!(matches!(filter.doubled(), Err(GrowError::NoRemainder)));
    filter.validate().unwrap();
}

/// The papers' filters take 18.0 bits per key for a rate of 2^-9 without repairs, and 19.1 bits
/// with repairs.
#[test]
fn planned_bits_per_key_match_the_papers() {
    let builder = || RangeFilter::<u64>::builder().remainder_bits(9).capacity(1 << 22);
    assert!(builder().plan().unwrap().bits_per_member < 18.7);
    let full = builder().planned_load(0.985).plan().unwrap();
    assert!(full.bits_per_member < 18.0 && full.expected_rate < 0.004, "{full:?}");
    for load in [0.4, 1.0, f64::NAN] {
        assert!(matches!(
            builder().planned_load(load).plan(),
            Err(crate::error::PlanError::Load(_))
        ));
    }
    let growing = builder().planned_load(0.9).expandable().plan();
    assert!(matches!(growing, Err(crate::error::PlanError::Load(_))));
}

/// In a table that was not validated, a lookup stops reading a long box and answers "maybe".
#[test]
fn lookup_over_budget_answers_maybe() {
    let mut filter =
        RangeFilter::<u64>::builder().slots(4000).longest_range(1 << 12).build().unwrap();
    (0..3000).for_each(|key| filter.insert(key).unwrap());
    assert!(!filter.contains(3500) && !filter.contains_range(3000..5000));
    filter.boxes.shared.budget = Budget::of(3);
    assert!(filter.contains(3500) && filter.contains_range(3000..5000));
    // The limit is larger for a range with many partitions.
    assert!(!filter.contains_range(3000..3000 + (100 << 12)));
}

#[test]
fn extreme_keys_and_unbounded_ranges_are_answered_correctly() {
    let mut filter = RangeFilter::<u64>::builder().slots(100).build().unwrap();
    assert!(!filter.contains_range(..) && !filter.contains(0));
    for key in [0, u64::MAX] {
        filter.insert(key).unwrap();
        assert!(filter.contains(key) && filter.contains_range(..));
    }
    assert!(filter.contains_range(..=0) && filter.contains_range(u64::MAX..));
    // The range is too long for a lookup.
    assert!(filter.contains_range(1..1 << 40));
    assert!(!filter.contains_range(1..30) && !filter.contains_range(..0));
    filter.remove_trusting(0).unwrap();
    assert_eq!(filter.remove_trusting(0), Err(RemoveError::Absent));
    assert!(!filter.contains(0) && filter.contains(u64::MAX));
}

/// Looks up uniform ranges, and ranges that begin right after a member.
#[test]
fn rate_holds_for_uniform_and_adjacent_ranges() {
    let members = 20_000u64;
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for longest_range in [1u64, 32, 1024] {
        let rate = 0.01;
        let builder = RangeFilter::<u64>::builder().capacity(members as usize);
        let builder = builder.secret(Secret::from_bytes([4; 16]));
        let mut filter =
            builder.longest_range(longest_range).false_positive_rate(rate).build().unwrap();
        (0..members).for_each(|n| filter.insert(number(n)).unwrap());
        let keys: BTreeSet<u64> = (0..members).map(number).collect();
        let uniform = (0..40_000u64).map(|n| number(n + (1 << 40)));
        let near = (0..members).map(|n| number(n).wrapping_add(1));
        for starts in [uniform.collect::<Vec<_>>(), near.collect()] {
            let ranges =
                starts.iter().map(|&start| start..=start.saturating_add(longest_range - 1));
            let empty: Vec<_> =
                ranges.filter(|range| keys.range(range.clone()).next().is_none()).collect();
            let maybe =
                empty.iter().filter(|range| filter.contains_range((*range).clone())).count();
            assert!(empty.len() > 15_000);
            let seen = maybe as f64 / empty.len() as f64;
            assert!(seen < rate, "{seen} at {longest_range}");
        }
    }
}

/// Returns a filter that can't grow any more, with repaired mistakes in its oldest boxes. Also
/// returns its members and the mistakes.
fn exhausted_filter() -> (AdaptiveRangeFilter<u64>, Vec<u64>, Vec<u64>) {
    let builder = AdaptiveRangeFilter::<u64>::builder().slots(64).remainder_bits(2).expandable();
    let builder = builder.longest_range(1).secret(Secret::from_bytes([8; 16]));
    let mut filter = builder.build().unwrap();
    let members: Vec<u64> = (0..20).collect();
    filter.insert_many(&members).unwrap();
    let mut mistakes = Vec::new();
    for query in 1000..1100 {
        if let Answer::Maybe(claim) = filter.check_range(query..=query) {
            let suspects = members.iter().filter(|&&key| claim.is_suspect(filter.hash_of(key)));
            if filter.adapt(&claim, suspects.copied().collect::<Vec<_>>()).is_ok() {
                mistakes.push(query);
            }
        }
    }
    assert!(mistakes.len() > 5);
    (filter.doubled().unwrap().doubled().unwrap(), members, mistakes)
}

#[test]
fn refused_batch_changes_nothing_in_a_filter_that_cannot_grow() {
    let (mut filter, members, mistakes) = exhausted_filter();
    let before: Vec<_> = filter.iter().collect();
    // Insert the members again. Their new boxes have shorter fingerprints than the repaired ones,
    // so repairs could be lost if the batch weren't undone.
    let keys: Vec<u64> = members.iter().copied().chain(2000..3000).collect();
    assert!(matches!(filter.insert_many(&keys), Err(InsertError::Full { .. })));
    filter.validate().unwrap();
    assert!(mistakes.iter().all(|&query| !filter.contains(query)));
    assert!(filter.iter().eq(before));
}

#[test]
fn refused_batch_changes_nothing_in_a_filter_that_grows() {
    let builder = AdaptiveRangeFilter::<u64>::builder().slots(64).remainder_bits(3).expandable();
    let mut filter = builder.longest_range(1).build().unwrap();
    filter.insert_many(&(0..50).collect::<Vec<_>>()).unwrap();
    let (before, stats) = (filter.iter().collect::<Vec<_>>(), filter.stats());
    let Answer::Maybe(claim) = filter.check_range(7..=7) else { panic!("it is a member") };
    let batch: Vec<u64> = (1000..3000).collect();
    assert!(matches!(filter.insert_many(&batch), Err(InsertError::Full { .. })));
    filter.validate().unwrap();
    assert!(filter.iter().eq(before));
    assert_eq!((filter.stats(), filter.check_range(7..=7)), (stats, Answer::Maybe(claim)));
    // Three doublings make room for a smaller batch.
    filter.insert_many(&batch[..400]).unwrap();
    assert!(batch[..400].iter().all(|&key| filter.contains(key)) && filter.contains(7));
}
