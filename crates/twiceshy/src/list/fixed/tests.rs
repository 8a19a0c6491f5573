//! Compares the static filter with its lists.

use super::*;
use crate::Hash;
use crate::error::{BuildError, PlanError};
use crate::list::ListError;
use crate::{Secret, hash::KeyedHasher};
use proptest::prelude::*;

/// Returns pseudo-random hashes.
fn hashes(range: core::ops::Range<u64>, secret: u8) -> Vec<Hash> {
    let hasher = KeyedHasher::new(&Secret::from_bytes([secret; 16]));
    range.map(|number| hasher.hash(&number)).collect()
}

fn built(yes: &[Hash], no: &[Hash], rate: f64) -> Result<YesNoFilter, ListError> {
    YesNoFilter::builder().false_positive_rate(rate).build(yes, no)
}

fn check(filter: &YesNoFilter, yes: &[Hash], no: &[Hash]) {
    filter.validate().unwrap();
    let mut answers = Vec::new();
    for (list, answer) in [(yes, true), (no, false)] {
        filter.contains_many(list, &mut answers);
        assert_eq!(answers.len(), list.len());
        assert!(answers.iter().all(|&other| other == answer), "{answer}");
        assert!(list.iter().all(|&hash| filter.contains(hash) == answer));
    }
}

#[test]
fn listed_keys_are_answered_exactly_and_other_keys_keep_the_rate() {
    for (yes, no, rate) in [
        (0u64, 0u64, 0.01),
        (0, 1000, 0.01),
        (1, 1, 0.5),
        (1000, 0, 0.01),
        (10_000, 10_000, 1.0 / 256.0),
        (3000, 200_000, 1.0 / 256.0),
        (100, 300_000, 0.1),
        (20_000, 1000, 1e-5),
        (20_000, 20_000, 0.3),
    ] {
        let (y, n) = (hashes(0..yes, 1), hashes(yes..yes + no, 1));
        let filter = built(&y, &n, rate).unwrap();
        check(&filter, &y, &n);
        assert_eq!((filter.len() as u64, filter.details().no_keys), (yes, no));
        let asked = 400_000;
        let others = hashes(1 << 40..(1 << 40) + asked, 1);
        let wrong = others.iter().filter(|&&hash| filter.contains(hash)).count() as f64;
        // Allow five standard deviations.
        let expected = filter.stats().expected_rate * asked as f64;
        assert!(filter.stats().expected_rate <= rate, "{filter:?}");
        assert!((wrong - expected).abs() <= 5.0 * expected.sqrt() + 3.0, "{wrong} {expected}");
    }
}

#[test]
fn plan_describes_the_filter_that_is_built() {
    for (yes, no, rate) in
        [(100_000u64, 0u64, 0.01), (100_000, 100_000, 1.0 / 256.0), (20_000, 400_000, 0.001)]
    {
        let builder = YesNoFilter::builder().false_positive_rate(rate);
        let plan = builder.clone().capacity(yes as usize).no_capacity(no as usize).plan().unwrap();
        let filter = builder.build(&hashes(0..yes, 1), &hashes(yes..yes + no, 1)).unwrap();
        let stats = filter.stats();
        let is_near = |planned: f64, seen: f64, by: f64| (planned / seen - 1.0).abs() < by;
        assert_eq!((plan.capacity, plan.details), (filter.len(), filter.details()));
        assert_eq!(plan.slots, filter.shape.quotients());
        assert!(is_near(plan.bytes as f64, stats.memory as f64, 0.01), "{plan:?} {stats:?}");
        assert!(is_near(plan.expected_rate, stats.expected_rate, 0.01), "{plan:?} {stats:?}");
    }
    let error = YesNoFilter::builder().capacity(usize::MAX).plan().unwrap_err();
    assert_eq!(error, PlanError::Capacity(usize::MAX));
}

#[test]
fn filter_sizes_are_near_the_lower_bound() {
    let bits = |yes: u64, no: u64| {
        let (y, n) = (hashes(0..yes, 2), hashes(yes..yes + no, 2));
        let filter = built(&y, &n, 1.0 / 256.0).unwrap();
        (filter.lines.len() * LINE * 8) as f64 / yes as f64
    };
    // The lower bounds are 8.00, 8.01 and 8.36 bits per key.
    assert!(bits(100_000, 1000) < 10.3);
    assert!(bits(50_000, 50_000) < 10.3);
    assert!(bits(8_000, 512_000) < 10.9);
}

#[test]
fn key_on_both_lists_is_refused_with_its_positions() {
    let (yes, mut no) = (hashes(0..1000, 3), hashes(1000..5000, 3));
    no[1234] = yes[567];
    let error = built(&yes, &no, 0.01).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key 568 of the yes list is also key 1235 of the no list; remove it from one of them"
    );
}

#[test]
fn impossible_filters_are_refused() {
    let some = hashes(0..10, 4);
    for rate in [0.0, 1.0, -1.0, f64::NAN, 1e-30] {
        let refused = built(&some, &[], rate);
        let plan = |error: &ListError| {
            matches!(error, ListError::Build(BuildError::Plan(PlanError::Rate { .. })))
        };
        assert!(refused.as_ref().is_err_and(plan), "{refused:?}");
    }
    let refused = YesNoFilter::builder().capacity(usize::MAX).build(&some, &[]);
    let plan = |error: &ListError| {
        matches!(error, ListError::Build(BuildError::Plan(PlanError::Capacity(_))))
    };
    assert!(refused.as_ref().is_err_and(plan), "{refused:?}");
    // Long remainders distinguish a few yes-list keys from any number of no-list keys.
    let planned = YesNoFilter::builder().capacity(10).no_capacity(usize::MAX).build(&some, &[]);
    check(&planned.unwrap(), &some, &[]);
    // These hashes differ only in their last bits.
    let crowd: Vec<Hash> = (0..70_000).map(Hash::from_u128).collect();
    assert!(matches!(built(&crowd, &[], 1e-9), Err(ListError::Uneven)));
}

#[test]
fn memory_limits_the_number_of_yes_list_keys() {
    let builder = YesNoFilter::builder().false_positive_rate(0.01).memory(1 << 16);
    let plan = builder.plan().unwrap();
    assert!(plan.capacity > 50_000 && plan.bytes <= 1 << 16, "{plan:?}");
    let keys = hashes(0..plan.capacity as u64 + 1, 9);
    let filter = builder.build(&keys[1..], &[]).unwrap();
    check(&filter, &keys[1..], &[]);
    assert!(filter.stats().memory <= 1 << 16);
    let refused = builder.build(&keys, &[]).unwrap_err();
    let ListError::Build(BuildError::Members { capacity }) = refused else { panic!("{refused}") };
    assert_eq!(capacity, plan.capacity as u64);
    // A long no list needs memory, too.
    let no = hashes(100_000..600_000, 9);
    let filter = builder.build(&keys[1..20_000], &no).unwrap();
    check(&filter, &keys[1..20_000], &no[..1000]);
    assert!(filter.stats().memory <= 1 << 16);
    assert!(builder.build(&keys[1..], &no).is_err());
    assert_eq!(builder.capacity(10).plan().unwrap_err(), PlanError::Size);
}

/// Also lists of exactly the planned size.
#[test]
fn memory_limit_holds_for_any_seeds() {
    for (bytes, no) in [(1 << 10, 200), (1 << 12, 3_000), (1 << 13, 20_000), (1 << 14, 10)] {
        let builder = YesNoFilter::builder().false_positive_rate(0.01).memory(bytes);
        let capacity = builder.clone().no_capacity(no).plan().unwrap().capacity as u64;
        for seed in 0..8 {
            let all = hashes(0..capacity + no as u64, 100 + seed);
            let (yes, no) = all.split_at(capacity as usize);
            let filter = builder.build(yes, no).unwrap();
            assert!(filter.stats().memory <= bytes);
        }
    }
}

#[test]
fn duplicates_count_once() {
    let yes = hashes(0..100, 5);
    let twice = [&yes[..], &yes].concat();
    let filter = built(&twice, &[], 0.01).unwrap();
    assert_eq!(filter.len(), 100);
    check(&filter, &yes, &[]);
}

#[test]
fn shape_that_is_too_small_is_not_reused() {
    for (old, rate) in [(hashes(0..100, 8), 1e-6), (hashes(0..10, 8), 0.01)] {
        let old = built(&old, &[], rate).unwrap();
        let yes = hashes(0..60_000, 8);
        let new = YesNoFilter::builder().like(&old).false_positive_rate(0.01).build(&yes, &[]);
        let new = new.unwrap();
        check(&new, &yes, &[]);
        assert!(new.lines.len() * LINE * 8 < 10 * yes.len(), "{new:?}");
    }
}

/// An attacker who knows the secret can choose keys with the same quotient. No seed separates 3000
/// such keys from 3000 others with short remainders; it takes about 20 bits. The builder must not
/// try seeds with fewer bits.
#[test]
fn keys_chosen_to_collide_get_longer_remainders_immediately() {
    let mined = |range| -> Vec<Hash> {
        let low = |hash: Hash| Hash::from_u128(hash.as_u128() >> 40 | 7 << 120);
        hashes(range, 11).into_iter().map(low).collect()
    };
    let yes = [hashes(0..1000, 11), mined(10_000..13_000)].concat();
    let no = [hashes(1000..2000, 11), mined(20_000..23_000)].concat();
    let filter = built(&yes, &no, 0.01).unwrap();
    check(&filter, &yes, &no);
    assert!((19..=23).contains(&filter.details().remainder_bits), "{filter:?}");

    // 3000 copies of a no-list key are as easy to separate as one.
    let copies = [no[..1000].to_vec(), vec![no[1000]; 3000]].concat();
    let filter = built(&yes, &copies, 0.01).unwrap();
    check(&filter, &yes, &copies);
    assert!(filter.details().remainder_bits < 16, "{filter:?}");
}

#[test]
fn deltas_with_too_large_seeds_are_refused() {
    let old = built(&hashes(0..100, 9), &[], 0.01).unwrap();
    for bits in [17, 30, 48] {
        let mut edits = block::BitWriter::default();
        // Skip no group, and give the first group a seed but no fingerprints.
        edits.push(0b11, 2);
        edits.push(0, bits);
        edits.push(1, bits + 1);
        edits.push(1, 1);
        let mut bytes = old.delta_to(&old).unwrap().to_bytes();
        bytes.truncate(120);
        bytes.extend(edits.bytes());
        let length = (bytes.len() - 120) as u64;
        bytes[112..120].copy_from_slice(&length.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let delta = Delta::from_bytes(&bytes).unwrap();
        let error = old.apply(&delta).unwrap_err();
        assert_eq!(error, DeltaError::Impossible("a seed is too large"), "{bits}");
    }
}

/// Returns hashes that differ in few bits, so that many share quotients, remainders and groups.
fn tight() -> impl Strategy<Value = Vec<Hash>> {
    let hash = (0u128..4, 0u128..16, 0u128..4);
    let hash = hash.prop_map(|(a, b, c)| Hash::from_u128(a << 126 | b << 60 | c));
    prop::collection::vec(hash, 0..60)
}

proptest! {
    #[test]
    fn similar_hashes_on_both_lists_are_answered_exactly(yes in tight(), no in tight(), bits in 1u32..30) {
        let rate = f64::from(bits).exp2().recip();
        match built(&yes, &no, rate) {
            Ok(filter) => check(&filter, &yes, &no),
            Err(ListError::OnBothLists { hash, yes: at_yes, no: at_no, .. }) => {
                prop_assert_eq!((yes[at_yes], no[at_no]), (hash, hash));
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn applied_delta_equals_the_new_filter(
        counts in [0u64..3000, 0u64..3000], changes in [0u64..200, 0u64..200], room in 0.0..0.5f64,
    ) {
        let [yes, no] = counts;
        let (y, n) = (hashes(0..yes, 6), hashes(10_000..10_000 + no, 6));
        let old = {
            let [yes, no] = counts.map(|count| (count as f64 * (1.0 + room)) as usize);
            let builder = YesNoFilter::builder().capacity(yes).no_capacity(no);
            builder.false_positive_rate(0.01).build(&y, &n).unwrap()
        };
        let (y, n) = (
            hashes(changes[0].min(yes)..yes + changes[0], 6),
            hashes(10_000 + changes[1].min(no)..10_000 + no + changes[1], 6),
        );
        let new = YesNoFilter::builder().like(&old).build(&y, &n).unwrap();
        check(&new, &y, &n);
        let delta = old.delta_to(&new).unwrap();
        prop_assert!(delta.is_whole() || old.shape == new.shape);
        let bytes = delta.to_bytes();
        let read = Delta::from_bytes(&bytes).unwrap();
        prop_assert!(read == delta);
        prop_assert!(old.apply(&read).unwrap() == new);
        // A different filter refuses the delta.
        if old != new {
            prop_assert_eq!(new.apply(&read).unwrap_err(), DeltaError::OtherBase);
        }
        for at in [0, 9, 20, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            prop_assert!(Delta::from_bytes(&changed).is_err());
        }
        prop_assert!(Delta::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }
}

#[test]
fn small_changes_make_small_deltas() {
    let (yes, no) = (hashes(0..100_000, 7), hashes(200_000..300_000, 7));
    let builder = YesNoFilter::builder().false_positive_rate(0.01);
    let builder = builder.capacity(100_900).no_capacity(100_900);
    let old = builder.build(&yes[..99_900], &no[..99_900]).unwrap();
    let new = YesNoFilter::builder().like(&old).build(&yes[100..], &no[100..]).unwrap();
    let delta = old.delta_to(&new).unwrap();
    // A hundred keys were removed from each list, and a hundred were added.
    assert!(!delta.is_whole());
    let bytes = delta.to_bytes().len();
    assert!(bytes < 1200, "{bytes} bytes");
    assert!(old.apply(&delta).unwrap() == new);
}

/// The builder chooses so many bits that at least one in 64 seeds works. It doesn't try 2^16 seeds
/// for each smaller number of bits first.
#[test]
fn keys_chosen_to_collide_take_few_tries() {
    const MINED: u64 = 3000;
    let mined = |range| -> Vec<Hash> {
        let low = |hash: Hash| Hash::from_u128(hash.as_u128() >> 40 | 7 << 120);
        hashes(range, 11).into_iter().map(low).collect()
    };
    let (yes, no) = (mined(10_000..10_000 + MINED), mined(20_000..20_000 + MINED));
    let filter = built(&yes, &no, 0.01).unwrap();
    check(&filter, &yes, &no);
    // A seed works if none of the pairs have the same remainder.
    let pairs = (MINED * MINED) as f64;
    let tries = (pairs / f64::from(filter.details().remainder_bits).exp2()).exp();
    assert!(tries <= 64.0, "{tries} tries for {} bits", filter.details().remainder_bits);
}

#[test]
fn seeds_that_the_builder_never_tries_are_refused() {
    let filter = built(&hashes(0..1, 1), &[], 0.01).unwrap();
    let (shape, tally, _) = filter.parts();
    let with_seed = |seed| {
        let mut groups = Vec::new();
        filter.each_group(|group| groups.push(group)).unwrap();
        groups.last_mut().unwrap().seed = seed;
        let mut writer = build::Writer::new(shape);
        for block in groups.chunks(shape.groups()) {
            writer.push(block).unwrap();
        }
        YesNoFilter::from_parts(shape, tally, writer.finish().unwrap()).validate()
    };
    assert!(with_seed(build::MAX_SEEDS - 1).is_ok());
    assert!(with_seed(build::MAX_SEEDS).is_err());
}
