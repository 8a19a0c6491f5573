//! Removals, counts, merges and growth: one scenario per test.

use twiceshy::Listing;
use twiceshy::{
    Answer, Claim, Hash, Keyed, Member, QuotientFilter, Secret,
    error::{BuildError, GrowError, InsertError, PlanError, RemoveError},
    hash::KeyedHasher,
    quotient::{MergeError, ValueError},
};

/// Returns a hash for 16 slots of 8 bits. The first hexadecimal digit is the quotient. Each further
/// pair of digits is one digit of the filter.
fn hash(digits: u64) -> Hash {
    Hash::from_u128(u128::from(digits) << 92)
}

fn filter() -> QuotientFilter {
    QuotientFilter::builder().slots(16).remainder_bits(8).value_bits(3).build().unwrap()
}

fn claim(filter: &QuotientFilter, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

/// `A`, `B` and `MISTAKE` have the same quotient and remainder.
const A: u64 = 0x3_aa_10_00_00;
const B: u64 = 0x3_aa_20_00_00;
const MISTAKE: u64 = 0x3_aa_11_00_00;

fn hashes(count: u64) -> Vec<Hash> {
    let hasher = KeyedHasher::new(&Secret::from_bytes([3; 16]));
    (0..count).map(|key| hasher.hash(&key)).collect()
}

#[test]
fn members_with_equal_fingerprints_keep_their_counts() {
    let mut filter = filter();
    let [a, b] = [A, B].map(hash);
    filter.insert_times(a, 3).unwrap();
    filter.insert(b).unwrap();
    assert_eq!((filter.count(a), filter.count(b), filter.len()), (4, 4, 4));

    // Only the list says how the count of four is divided between the members. A wrong division is
    // refused.
    let wrong = [Member { hash: a, count: 2 }, Member { hash: b, count: 2 }];
    let right = [Member { hash: a, count: 3 }, Member { hash: b, count: 1 }];
    filter.adapt(&claim(&filter, hash(MISTAKE)), &right).unwrap();
    assert_eq!((filter.count(a), filter.count(b)), (3, 1));
    let refused = filter.remove(&claim(&filter, b), &wrong);
    assert_eq!(refused, Err(RemoveError::Surplus { members: 1 }));

    filter.remove(&claim(&filter, b), &right).unwrap();
    assert!(!filter.contains(b) && filter.count(a) == 3);
    filter.validate().unwrap();
}

#[test]
fn removing_absent_key_fails_and_changes_nothing() {
    let mut filter = filter();
    let [a, b] = [A, B].map(hash);
    filter.insert(a).unwrap();
    let before: Vec<_> = filter.iter().collect();
    assert_eq!(filter.remove_trusting(hash(0x4_00_00_00_00)), Err(RemoveError::Absent));
    // The hash shares a member's fingerprint, but isn't listed.
    let refused = filter.remove(&claim(&filter, b), &[a]);
    assert_eq!(refused, Err(RemoveError::Absent));
    let refused = filter.remove(&claim(&filter, a), &[] as &[Hash]);
    assert_eq!(refused, Err(RemoveError::Unlisted { members: 1 }));
    assert!(filter.iter().eq(before));
}

#[test]
fn removal_keeps_repairs_only_if_it_leaves_a_tombstone() {
    for bury in [false, true] {
        let mut filter = filter();
        let (a, mistake) = (hash(A), hash(MISTAKE));
        filter.insert(a).unwrap();
        filter.adapt(&claim(&filter, mistake), &[a]).unwrap();
        let removed = if bury {
            filter.remove_trusting_keeping_repairs(a)
        } else {
            filter.remove_trusting(a)
        };
        removed.unwrap();
        assert!(!filter.contains(a) && filter.is_empty());
        filter.insert(a).unwrap();
        assert!(filter.contains(a));
        assert_eq!(filter.contains(mistake), !bury);
        filter.validate().unwrap();
    }
}

#[test]
fn extensions_shrink_as_far_as_listed_mistakes_allow() {
    let mut filter = filter();
    let [a, b, mistake] = [A, B, MISTAKE].map(hash);
    filter.insert_many(&[a, b]).unwrap();
    filter.adapt(&claim(&filter, mistake), &[a, b]).unwrap();
    let lengths = |filter: &QuotientFilter| -> Vec<u32> {
        filter.iter().map(|entry| entry.fingerprint.bits()).collect()
    };
    assert_eq!(lengths(&filter), [16, 16]);

    let mut kept = filter.clone();
    kept.remove(&claim(&kept, b), &[a, b]).unwrap();
    assert_eq!(lengths(&kept), [16]);
    let mut needed = filter.clone();
    needed.remove(&claim(&needed, b), Listing::new(&[a, b]).with_mistakes(&[mistake])).unwrap();
    assert_eq!(lengths(&needed), [16]);
    assert!(!needed.contains(mistake));
    let listed = claim(&filter, b);
    let refused = filter.remove(&listed, Listing::new(&[a, b]).with_mistakes(&[a]));
    assert_eq!(refused, Err(RemoveError::MistakeIsMember { hash: a }));
    filter.remove(&listed, Listing::new(&[a, b]).with_mistakes(&[])).unwrap();
    assert_eq!(lengths(&filter), [8]);
}

#[test]
fn counts_are_exact_up_to_2_to_the_40() {
    let mut filter = QuotientFilter::builder().slots(64).remainder_bits(1).build().unwrap();
    let a = hash(A);
    let most = 1 << 40;
    for (times, count) in [(1, 1), (1, 2), (5, 7), (most - 8, most - 1), (1, most)] {
        filter.insert_times(a, times).unwrap();
        assert_eq!((filter.count(a), filter.len() as u64), (count, count));
        filter.validate().unwrap();
    }
    assert_eq!(filter.insert(a), Err(InsertError::Uncountable));
    assert_eq!(filter.insert_times(a, u64::MAX), Err(InsertError::Uncountable));
    assert_eq!(filter.insert_many(&[a, a]), Err(InsertError::Uncountable));
    filter.remove_trusting(a).unwrap();
    assert_eq!(filter.count(a), most - 1);
}

#[test]
fn value_stays_with_its_members() {
    let mut filter = filter();
    let [a, b, mistake] = [A, B, MISTAKE].map(hash);
    assert_eq!(filter.set_value(a, 1), Err(ValueError::Absent));
    filter.insert_many(&[a, b]).unwrap();
    assert_eq!(filter.value(a), Some(0));
    assert_eq!(filter.set_value(a, 5), Ok(0));
    assert_eq!(filter.set_value(a, 8), Err(ValueError::TooLarge { value: 8, bits: 3 }));
    filter.adapt(&claim(&filter, mistake), &[a, b]).unwrap();
    assert_eq!((filter.value(a), filter.value(b), filter.value(mistake)), (Some(5), Some(5), None));
    let mut members = [a, b];
    members.sort_unstable();
    let mut parameters = filter.parameters();
    parameters.slots = 1000;
    let grown = QuotientFilter::rebuilt(parameters, &[&filter], members, []).unwrap();
    assert_eq!((grown.value(a), grown.value(b)), (Some(5), Some(5)));
}

#[test]
fn merged_filter_keeps_all_members_and_repairs() {
    let hashes = hashes(4000);
    let (members, queries) = hashes.split_at(1500);
    // The sizes differ by a power of two, and all fingerprints have the same length.
    let small = QuotientFilter::builder().slots(512).remainder_bits(6).build().unwrap();
    let mut filters = [small.doubled().unwrap(), small.clone(), small];
    for (filter, members) in filters.iter_mut().zip(members.chunks(500)) {
        let (members, strangers) = (&members[..400], &members[400..]);
        filter.insert_many(members).unwrap();
        for &query in strangers.iter().chain(&queries[..500]) {
            if let Answer::Maybe(claim) = filter.check(query) {
                let within = |hash: &&Hash| claim.suspects().contains(hash);
                let suspects: Vec<Hash> = members.iter().filter(within).copied().collect();
                let _ = filter.adapt(&claim, &suspects);
            }
        }
        assert!(filter.stats().repairs > 0);
    }
    let all: Vec<&QuotientFilter> = filters.iter().collect();
    let merged = QuotientFilter::merged(&all).unwrap();
    merged.validate().unwrap();
    assert_eq!(merged.len(), 1200);
    assert!(hashes.iter().any(|&hash| !merged.contains(hash)));
    let doubled = merged.doubled().unwrap();
    for &hash in &hashes {
        let together = filters.iter().any(|filter| filter.contains(hash));
        assert_eq!(merged.contains(hash), together, "{hash:?}");
        assert_eq!(doubled.contains(hash), together, "{hash:?}");
    }
}

#[test]
fn incompatible_filters_are_not_merged() {
    let build =
        |slots, bits| QuotientFilter::builder().slots(slots).remainder_bits(bits).build().unwrap();
    let merge = |one: &QuotientFilter, other: &QuotientFilter| {
        QuotientFilter::merged(&[one, other]).unwrap_err()
    };
    assert!(matches!(QuotientFilter::merged(&[]), Err(MergeError::Nothing)));
    let error = merge(&build(100, 8), &build(300, 8));
    assert!(matches!(error, MergeError::Sizes(100, 300)));
    let error = merge(&build(100, 8), &build(200, 9));
    assert!(matches!(error, MergeError::SlotBits(8, 9)));
    assert!(matches!(merge(&build(100, 2), &build(400, 2)), MergeError::NoRemainder));

    let (mut small, mut large) = (build(16, 8), build(32, 8));
    let (member, mistake) = (hash(A), hash(MISTAKE));
    small.insert(hash(0x7_00_00_00_00)).unwrap();
    large.insert(member).unwrap();
    assert_eq!(QuotientFilter::merged(&[&small, &large]).unwrap().len(), 2);
    large.adapt(&claim(&large, mistake), &[member]).unwrap();
    assert!(matches!(merge(&small, &large), MergeError::Lengthened));

    let keyed = |seed| {
        QuotientFilter::builder()
            .slots(100)
            .secret(Secret::from_bytes([seed; 16]))
            .build_keyed::<u64>()
            .unwrap()
    };
    let (one, other) = (keyed(1), keyed(2));
    assert!(matches!(Keyed::merged(&[&one, &other]), Err(MergeError::Secrets)));
    assert!(Keyed::merged(&[&one, &keyed(1)]).is_ok());
}

#[test]
fn growth_ends_when_remainders_have_no_bits_left() {
    let members = hashes(5000);
    let mut filter =
        QuotientFilter::builder().slots(100).remainder_bits(6).grow_at(0.9).build().unwrap();
    let mut inserted = 0;
    let mut sizes = vec![filter.parameters().slots];
    for &member in &members {
        if filter.insert(member).is_err() {
            break;
        }
        inserted += 1;
        let slots = filter.parameters().slots;
        if slots != sizes[sizes.len() - 1] {
            sizes.push(slots);
        }
    }
    assert_eq!(sizes, [100, 200, 400, 800, 1600, 3200]);
    assert_eq!(filter.parameters().remainder_bits, 1);
    assert!(matches!(filter.doubled(), Err(GrowError::NoRemainder)));
    assert!(filter.stats().expected_rate > 0.3);
    filter.validate().unwrap();
    assert!(members[..inserted].iter().all(|&member| filter.contains(member)));

    let growing = QuotientFilter::builder().slots(100).grow_at(0.0).build();
    assert!(matches!(growing, Err(BuildError::Plan(PlanError::Growth(_)))));
}

#[test]
fn growing_filter_uses_all_slots_when_it_cannot_double_again() {
    // Two members take 18 slots of one bit for their count and value. That is too many for a load
    // of 0.8, and the remainder has no bit left for a doubling.
    let mut filter = QuotientFilter::builder()
        .slots(19)
        .remainder_bits(1)
        .value_bits(16)
        .grow_at(0.8)
        .build()
        .unwrap();
    filter.insert_many(&[hash(A); 2]).unwrap();
    assert_eq!((filter.count(hash(A)), filter.parameters().slots), (2, 19));
}

#[test]
fn rebuilt_filter_regains_remainder_bits_and_keeps_repairs() {
    let mut members = hashes(1000);
    let queries = members.split_off(600);
    let mut filter = QuotientFilter::builder().slots(700).remainder_bits(6).build().unwrap();
    filter.insert_many(&members).unwrap();
    members.sort_unstable();
    let mut repaired = Vec::new();
    for &query in &queries {
        if let Answer::Maybe(claim) = filter.check(query) {
            let first = members.partition_point(|member| member < claim.suspects().start());
            let behind = members.partition_point(|member| member <= claim.suspects().end());
            filter.adapt(&claim, &members[first..behind]).unwrap();
            repaired.push(query);
        }
    }
    assert!(!repaired.is_empty());
    repaired.sort_unstable();
    let doubled = filter.doubled().unwrap();
    assert_eq!(doubled.parameters().remainder_bits, 5);
    for slots in [650, 701, 1999] {
        let mut parameters = filter.parameters();
        parameters.slots = slots;
        let listed = members.iter().copied();
        let mistakes = repaired.iter().copied();
        let rebuilt = QuotientFilter::rebuilt(parameters, &[&doubled], listed, mistakes);
        let rebuilt = rebuilt.unwrap();
        rebuilt.validate().unwrap();
        assert_eq!(rebuilt.parameters(), parameters);
        assert!(members.iter().all(|&member| rebuilt.contains(member)));
        assert!(repaired.iter().all(|&mistake| !rebuilt.contains(mistake)));
    }
}

#[test]
fn merged_and_rebuilt_filters_grow_at_the_lowest_load_of_their_sources() {
    let members = hashes(100);
    let build = |load: Option<f64>| {
        let builder = QuotientFilter::builder().slots(64).remainder_bits(16);
        let builder = load.map_or(builder.clone(), |load| builder.grow_at(load));
        let mut filter = builder.build().unwrap();
        filter.insert(members[0]).unwrap();
        filter
    };
    let (fixed, early, late) = (build(None), build(Some(0.5)), build(Some(0.9)));
    let sources = [&fixed, &late, &early];
    let replaced = [
        QuotientFilter::merged(&sources).unwrap(),
        QuotientFilter::rebuilt(fixed.parameters(), &sources, [members[0]], []).unwrap(),
    ];
    for mut filter in replaced {
        filter.insert_many(&members[1..]).unwrap();
        assert!((0.25..=0.5).contains(&filter.stats().load), "{:?}", filter.stats());
    }
    let mut filter = QuotientFilter::merged(&[&fixed, &fixed]).unwrap();
    assert!(matches!(filter.insert_many(&members), Err(InsertError::Full { .. })));
}
