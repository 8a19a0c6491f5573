//! Tests operations at the limits of counts, values and sizes.

use twiceshy::Listing;
use twiceshy::{
    Answer, Claim, Hash, Member, QuotientFilter, Secret, Snapshot,
    error::{AdaptError, BuildError, InsertError, RemoveError},
    hash::KeyedHasher,
    quotient::{MergeError, ValueError},
};

/// Returns a hash for 16 slots of 8 bits. The first hexadecimal digit is the quotient. Each further
/// pair of digits is one digit of the filter.
fn hash(digits: u64) -> Hash {
    Hash::from_u128(u128::from(digits) << 92)
}

/// `A`, `B` and `MISTAKE` have the same quotient and remainder.
const A: u64 = 0x3_aa_10_00_00;
const B: u64 = 0x3_aa_20_00_00;
const MISTAKE: u64 = 0x3_aa_11_00_00;

const MOST: u64 = 1 << 40;

fn hashes(seed: u8, count: u64) -> Vec<Hash> {
    let hasher = KeyedHasher::new(&Secret::from_bytes([seed; 16]));
    (0..count).map(|key| hasher.hash(&key)).collect()
}

/// Rebuilds a filter in a different size, with remainders that use all bits of a slot.
fn resized(
    filter: &QuotientFilter,
    slots: u64,
    members: impl IntoIterator<Item = Hash>,
    mistakes: impl IntoIterator<Item = Hash>,
) -> QuotientFilter {
    let mut parameters = filter.parameters();
    parameters.slots = slots;
    parameters.remainder_bits = parameters.slot_bits;
    QuotientFilter::rebuilt(parameters, &[filter], members, mistakes).unwrap()
}

fn claim(filter: &QuotientFilter, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

/// Repairs all mistakes among some queries, and returns the mistakes.
fn repair(
    filter: &mut QuotientFilter,
    members: &[Hash],
    queries: impl IntoIterator<Item = Hash>,
) -> Vec<Hash> {
    let mut repaired = Vec::new();
    for query in queries {
        if let Answer::Maybe(claim) = filter.check(query) {
            let suspects = claim.suspects();
            let listed: Vec<Hash> =
                members.iter().copied().filter(|member| suspects.contains(member)).collect();
            filter.adapt(&claim, &listed).unwrap();
            repaired.push(query);
        }
    }
    repaired
}

#[test]
fn fingerprints_are_not_merged_if_counts_overflow() {
    let mut filter = QuotientFilter::builder().slots(64).remainder_bits(6).build().unwrap();
    let [a, b, mistake] = [A, B, MISTAKE].map(hash);
    let members = |of_a, of_b| [Member { hash: a, count: of_a }, Member { hash: b, count: of_b }];
    filter.insert_times(a, MOST - 1).unwrap();
    filter.insert(b).unwrap();
    filter.adapt(&claim(&filter, mistake), &members(MOST - 1, 1)).unwrap();
    filter.insert_times(b, 2).unwrap();

    let before: Vec<_> = filter.iter().collect();
    let listed = claim(&filter, b);
    let refused = filter.remove(&listed, Listing::new(&members(MOST - 1, 3)).with_mistakes(&[]));
    assert_eq!(refused, Err(RemoveError::Uncountable));
    assert!(filter.iter().eq(before));
    filter.remove(&listed, &members(MOST - 1, 3)).unwrap();
    assert_eq!((filter.count(a), filter.count(b)), (MOST - 1, 2));
    filter
        .remove(&claim(&filter, b), Listing::new(&members(MOST - 1, 2)).with_mistakes(&[]))
        .unwrap();
    assert_eq!((filter.count(a), filter.len() as u64), (MOST, MOST));
    filter.validate().unwrap();
}

#[test]
fn rebuilt_filter_has_room_for_every_value() {
    let mut filter =
        QuotientFilter::builder().slots(64).remainder_bits(6).value_bits(8).build().unwrap();
    let a = hash(A);
    filter.insert(a).unwrap();
    filter.set_value(a, 7).unwrap();
    let rebuilt = |bits: u32| {
        let mut parameters = filter.parameters();
        parameters.value_bits = bits;
        QuotientFilter::rebuilt(parameters, &[&filter], [a], [])
    };
    for bits in 3..=16 {
        let rebuilt = rebuilt(bits).unwrap();
        assert_eq!((rebuilt.count(a), rebuilt.value(a)), (1, Some(7)));
        rebuilt.validate().unwrap();
    }
    for narrow in 0..3 {
        let refused = rebuilt(narrow).unwrap_err();
        let BuildError::ValueTooLarge { value: 7, bits } = refused else { panic!("{refused}") };
        assert_eq!(bits, narrow);
    }
}

#[test]
fn failed_insert_many_is_undone_in_restored_full_filter() {
    let member = |index: u128| Hash::from_u128(index << 123);
    let mut filter =
        QuotientFilter::builder().slots(16).remainder_bits(1).grow_at(0.5).build().unwrap();
    (0..13).for_each(|index| filter.insert(member(2 * index)).unwrap());
    filter.remove_trusting_keeping_repairs(member(0)).unwrap();
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).unwrap();
    let mut restored = QuotientFilter::read_from(&snapshot[..]).unwrap();

    // The first insert replaces the tombstone. It is undone, because there is no room for all
    // members.
    let many: Vec<Hash> = (0..32).map(member).collect();
    assert!(matches!(restored.insert_many(&many), Err(InsertError::Full { .. })));
    assert!(restored.iter().eq(filter.iter()));
    restored.validate().unwrap();
}

#[test]
fn resizing_and_doubling_keep_repairs() {
    let mut members = hashes(5, 3000);
    members.sort_unstable();
    let mut filter = QuotientFilter::builder().slots(4000).remainder_bits(4).build().unwrap();
    filter.insert_many(&members).unwrap();
    let mut repaired = repair(&mut filter, &members, hashes(6, 3000));
    assert!(repaired.len() > 100);
    repaired.sort_unstable();
    for (slots, listed) in
        [(4000, false), (8000, false), (16_000, false), (3900, true), (4001, true), (9999, true)]
    {
        let mistakes = repaired.iter().copied().filter(|_| listed);
        let resized = resized(&filter, slots, members.iter().copied(), mistakes);
        resized.validate().unwrap();
        assert!(members.iter().all(|&member| resized.contains(member)));
        assert!(!repaired.iter().any(|&mistake| resized.contains(mistake)), "{slots} slots");
    }
}

/// Merges filters of one size, some of them doubled, with values of different widths, counts,
/// repairs and tombstones.
#[test]
fn merging_random_filters_keeps_members_and_repairs() {
    let (mut merges, mut refused) = (0, 0);
    for seed in 0..60u8 {
        let slots = [1, 3, 16, 50, 64][usize::from(seed) % 5];
        let bits = [7, 8, 20, 56][usize::from(seed) / 5 % 4];
        let mut filters = Vec::new();
        let mut queries = hashes(seed, 300);
        for index in 0..3 + seed % 3 {
            let builder = QuotientFilter::builder().slots(slots).remainder_bits(bits);
            let mut filter = builder.value_bits(u32::from(index) * 3 % 17).build().unwrap();
            for _ in 0..(seed / 3 + index) % 4 {
                filter = filter.doubled().unwrap();
            }
            // Some members are close to the members of other filters.
            let near = |(at, &hash): (usize, &Hash)| match at % 3 {
                0 => Hash::from_u128(hash.as_u128() ^ 1 << (at % 100)),
                _ => hash,
            };
            let members: Vec<Hash> = queries
                .iter()
                .skip(7 * usize::from(index))
                .enumerate()
                .map(near)
                .take(filter.parameters().slots as usize / 3)
                .collect();
            for (at, &member) in members.iter().enumerate() {
                let _ = filter.insert_times(member, [1, 1, 3, MOST / 64][at % 4]);
                let _ = filter.set_value(member, at as u64 % 2);
            }
            queries.extend(&members);
            let mut listed: Vec<Member> = Vec::new();
            for &hash in &members {
                let count = filter.count(hash);
                listed.push(Member { hash, count });
            }
            for &query in &queries {
                let Answer::Maybe(claim) = filter.check(query) else { continue };
                let suspects: Vec<Member> = listed
                    .iter()
                    .copied()
                    .filter(|member| claim.suspects().contains(&member.hash))
                    .collect();
                // If members share a fingerprint, their listed counts are too high, and the repair
                // is refused.
                let _ = filter.adapt(&claim, &suspects);
            }
            for &member in members.iter().step_by(3) {
                let _ = filter.remove_trusting_keeping_repairs(member);
            }
            filter.validate().unwrap();
            filters.push(filter);
        }
        let filters: Vec<&QuotientFilter> = filters.iter().collect();
        match QuotientFilter::merged(&filters) {
            Ok(merged) => {
                merges += 1;
                merged.validate().unwrap();
                let members: usize = filters.iter().map(|filter| filter.len()).sum();
                assert_eq!(merged.len(), members);
                for &query in &queries {
                    let count: u64 = filters.iter().map(|filter| filter.count(query)).sum();
                    assert_eq!(merged.contains(query), count > 0);
                    assert!(merged.count(query) >= count);
                    let value = filters.iter().map(|filter| filter.value(query)).max();
                    assert!(merged.value(query) >= value.unwrap());
                }
            }
            Err(MergeError::NoRemainder) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(merges > 40, "{merges} merges, {refused} refused");
}

#[test]
fn member_replaced_by_a_tombstone_is_absent_for_every_operation() {
    let mut filter =
        QuotientFilter::builder().slots(16).remainder_bits(8).value_bits(3).build().unwrap();
    let [a, b] = [A, B].map(hash);
    filter.insert(a).unwrap();
    filter.adapt(&claim(&filter, hash(MISTAKE)), &[a]).unwrap();
    filter.set_value(a, 5).unwrap();
    filter.remove_trusting_keeping_repairs(a).unwrap();
    for key in [a, b] {
        assert_eq!(filter.remove_trusting(key), Err(RemoveError::Absent));
        assert_eq!(filter.remove_trusting_keeping_repairs(key), Err(RemoveError::Absent));
        assert_eq!(filter.set_value(key, 1), Err(ValueError::Absent));
        assert_eq!((filter.count(key), filter.value(key)), (0, None));
        assert!(!filter.check(key).is_maybe());
    }
    assert_eq!((filter.len(), filter.details().fingerprints), (0, 1));
    filter.validate().unwrap();
}

#[test]
fn changes_of_members_make_claims_stale() {
    let [a, b, mistake] = [A, B, MISTAKE].map(hash);
    let changes: [fn(&mut QuotientFilter, Hash); 7] = [
        |filter, hash| filter.insert(hash).unwrap(),
        |filter, hash| filter.insert_times(hash, 3).unwrap(),
        |filter, hash| filter.insert_many(&[hash]).unwrap(),
        |filter, hash| filter.remove_trusting(hash).unwrap(),
        |filter, hash| filter.remove_trusting_keeping_repairs(hash).unwrap(),
        |filter, hash| {
            let listed = [A, B].map(self::hash);
            filter.remove(&claim(filter, hash), &listed).unwrap();
        },
        |filter, hash| {
            let listed = [A, B].map(self::hash);
            filter.remove_keeping_repairs(&claim(filter, hash), &listed).unwrap();
        },
    ];
    for change in changes {
        let mut filter = QuotientFilter::builder().slots(16).remainder_bits(8).build().unwrap();
        filter.insert_many(&[a, b]).unwrap();
        let stale = claim(&filter, mistake);
        change(&mut filter, b);
        let before: Vec<_> = filter.iter().collect();
        // One list matches the old filter, and one the new filter. The stale claim is refused with
        // both.
        assert_eq!(filter.adapt(&stale, &[a, b]), Err(AdaptError::Stale));
        assert_eq!(
            filter.adapt(&stale, Listing::new(&[a]).dropping_ghosts()),
            Err(AdaptError::Stale)
        );
        assert_eq!(filter.remove(&stale, &[a]), Err(RemoveError::Stale));
        assert_eq!(filter.remove_keeping_repairs(&stale, &[a]), Err(RemoveError::Stale));
        assert!(filter.iter().eq(before));
    }
}

#[test]
fn listed_member_with_count_0_is_ignored() {
    let mut filter = QuotientFilter::builder().slots(16).remainder_bits(8).build().unwrap();
    let [a, mistake] = [A, MISTAKE].map(hash);
    filter.insert(a).unwrap();
    let listed = [Member { hash: a, count: 1 }, Member { hash: mistake, count: 0 }];
    let made = claim(&filter, mistake);
    assert_eq!(filter.remove(&made, &listed), Err(RemoveError::Absent));
    assert_eq!(filter.remove_keeping_repairs(&made, &listed), Err(RemoveError::Absent));
    assert_eq!(filter.adapt(&made, &listed).unwrap().lengthened, 1);
    assert!(filter.contains(a) && !filter.contains(mistake));

    let built = QuotientFilter::from_sorted(filter.parameters(), listed, [mistake]);
    assert!(built.unwrap().iter().eq(filter.iter()));
    let uncountable = [Member { hash: a, count: MOST + 1 }];
    let refused = QuotientFilter::from_sorted(filter.parameters(), uncountable, []);
    assert!(matches!(refused, Err(BuildError::Uncountable)));
    for count in [MOST / 2 + 1, 1 << 63] {
        let together = [a, hash(B)].map(|hash| Member { hash, count });
        let refused = QuotientFilter::from_sorted(filter.parameters(), together, []);
        assert!(matches!(refused, Err(BuildError::Uncountable)));
    }
}

#[test]
fn merged_filter_has_the_widest_values_and_counts_all_repairs() {
    let [a, b, mistake] = [A, 0x7_00_00_00_00, MISTAKE].map(hash);
    let filter = |value_bits, member, value| {
        let builder = QuotientFilter::builder().slots(16).remainder_bits(8);
        let mut filter = builder.value_bits(value_bits).build().unwrap();
        filter.insert(member).unwrap();
        filter.set_value(member, value).unwrap();
        filter
    };
    let (mut narrow, wide) = (filter(2, a, 3), filter(9, b, 300));
    narrow.adapt(&claim(&narrow, mistake), &[a]).unwrap();
    for filters in [[&narrow, &wide], [&wide, &narrow]] {
        let merged = QuotientFilter::merged(&filters).unwrap();
        assert_eq!(merged.parameters().value_bits, 9);
        assert_eq!((merged.value(a), merged.value(b)), (Some(3), Some(300)));
        assert_eq!(merged.stats().repairs, 1);
        merged.validate().unwrap();
    }
    // The sum of the counts may be too large.
    let mut many = [filter(2, a, 3), filter(2, a, 1)];
    for filter in &mut many {
        filter.insert_times(a, MOST / 2 - 1).unwrap();
    }
    let merged = QuotientFilter::merged(&[&many[0], &many[1]]).unwrap();
    assert_eq!((merged.count(a), merged.value(a)), (MOST, Some(3)));
    many[1].insert(a).unwrap();
    let refused = QuotientFilter::merged(&[&many[0], &many[1]]);
    assert!(matches!(refused, Err(MergeError::Build(BuildError::Uncountable))));
}

#[test]
fn doubled_filter_still_grows_and_keeps_its_counts() {
    let mut filter =
        QuotientFilter::builder().slots(16).remainder_bits(8).grow_at(0.5).build().unwrap();
    let (a, mistake) = (hash(A), hash(MISTAKE));
    filter.insert(a).unwrap();
    filter.adapt(&claim(&filter, mistake), &[a]).unwrap();
    let mut doubled = filter.doubled().unwrap();
    assert_eq!(doubled.stats().repairs, 1);
    for member in hashes(8, 20) {
        doubled.insert(member).unwrap();
    }
    assert_eq!(doubled.parameters().slots, 64);
}

#[test]
fn filter_grows_if_a_repair_needs_more_slots() {
    let members: Vec<Hash> = (0..8).map(|index| Hash::from_u128(index << 124)).collect();
    let builder = QuotientFilter::builder().slots(16).remainder_bits(8).grow_at(0.5);
    let mut filter = builder.build().unwrap();
    filter.insert_many(&members).unwrap();
    let mistake = Hash::from_u128(3 << 124 | 1);
    let made = claim(&filter, mistake);
    // A listing that doesn't match is refused before the filter grows.
    assert!(matches!(filter.adapt(&made, &[mistake]), Err(AdaptError::IsMember)));
    assert!(matches!(filter.adapt(&made, &[] as &[Hash; 0]), Err(AdaptError::Unlisted { .. })));
    assert_eq!(filter.parameters().slots, 16);

    assert_eq!(filter.adapt(&made, &members[3..4]).unwrap().lengthened, 1);
    // The repair takes 15 slots, so that one doubling isn't enough.
    assert_eq!((filter.parameters().slots, filter.stats().repairs), (64, 1));
    assert!(!filter.contains(mistake) && members.iter().all(|&member| filter.contains(member)));
    assert_eq!(filter.adapt(&made, &members[3..4]), Err(AdaptError::Stale));
    filter.validate().unwrap();
}

#[test]
fn filters_whose_size_ratio_is_not_a_power_of_two_are_not_merged() {
    let build = |slots| QuotientFilter::builder().slots(slots).build().unwrap();
    for (small, large) in [(100, 101), (100, 150), (100, 250), (100, 300), (100, 499), (64, 96)] {
        for (one, other) in [(small, large), (large, small)] {
            let merged = QuotientFilter::merged(&[&build(one), &build(other)]);
            assert!(matches!(merged, Err(MergeError::Sizes(..))), "{one} and {other}");
        }
    }
}

#[test]
fn rebuilt_filter_takes_largest_value_and_ignores_tombstones() {
    let [a, mistake] = [A, MISTAKE].map(hash);
    let filter = |value| {
        let builder = QuotientFilter::builder().slots(16).remainder_bits(8);
        let mut filter = builder.value_bits(3).build().unwrap();
        filter.insert(a).unwrap();
        filter.adapt(&claim(&filter, mistake), &[a]).unwrap();
        filter.set_value(a, value).unwrap();
        filter
    };
    let (small, large) = (filter(3), filter(5));
    for sources in [[&small, &large], [&large, &small]] {
        let rebuilt = QuotientFilter::rebuilt(small.parameters(), &sources, [a, a], []).unwrap();
        assert_eq!((rebuilt.value(a), rebuilt.count(a)), (Some(5), 2));
        assert!(!rebuilt.contains(mistake));
    }
    let mut buried = filter(7);
    buried.remove_trusting_keeping_repairs(a).unwrap();
    let rebuilt = resized(&buried, 16, [a], []);
    let entry = rebuilt.iter().next().unwrap();
    assert_eq!((entry.fingerprint.bits(), entry.count, entry.value), (8, 1, 0));
}

#[test]
fn rebuild_with_a_new_member_keeps_values_and_repairs() {
    let builder = QuotientFilter::builder().slots(16).remainder_bits(8);
    let mut filter = builder.value_bits(3).build().unwrap();
    let [newcomer, b, mistake] = [A, B, 0x3_aa_21_00_00].map(hash);
    filter.insert(b).unwrap();
    filter.adapt(&claim(&filter, mistake), &[b]).unwrap();
    filter.set_value(b, 6).unwrap();
    // The two members have the same quotient and remainder, and the new member comes first.
    let rebuilt = resized(&filter, 16, [newcomer, b], []);
    assert_eq!((rebuilt.value(newcomer), rebuilt.value(b)), (Some(0), Some(6)));
    assert!(!rebuilt.contains(mistake));
}

#[test]
fn filter_grows_if_a_value_or_a_tombstone_needs_more_slots() {
    let members: Vec<Hash> = (0..8).map(|index| Hash::from_u128(index << 124)).collect();
    let builder = QuotientFilter::builder().slots(16).remainder_bits(8).value_bits(3);
    let mut filter = builder.grow_at(0.6).build().unwrap();
    filter.insert_many(&members).unwrap();
    let mistake = Hash::from_u128(1 << 110);
    filter.adapt(&claim(&filter, mistake), &members[..1]).unwrap();
    assert_eq!((filter.parameters().slots, filter.details().extension_slots), (16, 1));
    let mut valued = filter.clone();
    assert_eq!(valued.set_value(members[0], 7), Ok(0));
    let mut buried = filter.clone();
    buried.remove_trusting_keeping_repairs(members[0]).unwrap();
    filter.remove_keeping_repairs(&claim(&filter, members[0]), &members[..1]).unwrap();
    assert!(filter.iter().eq(buried.iter()));
    for grown in [&valued, &buried, &filter] {
        assert_eq!(grown.parameters().slots, 32);
        assert!(members[1..].iter().all(|&member| grown.contains(member)));
        grown.validate().unwrap();
    }
}

#[test]
fn listed_member_without_fingerprint_is_refused() {
    let [before, member, behind, mistake, query] =
        [A, B, 0x3_aa_30_00_00, 0x3_aa_21_00_00, 0x3_aa_20_01_00].map(hash);
    let mut filter = QuotientFilter::builder().slots(16).remainder_bits(8).build().unwrap();
    filter.insert(member).unwrap();
    filter.adapt(&claim(&filter, mistake), &[member]).unwrap();
    for surplus in [before, behind] {
        let (made, listed) = (claim(&filter, query), [member, surplus]);
        let refused = filter.adapt(&made, &listed);
        assert_eq!(refused, Err(AdaptError::Surplus { members: 1 }));
        let refused = filter.adapt(&made, Listing::new(&listed).dropping_ghosts());
        assert_eq!(refused, Err(AdaptError::Surplus { members: 1 }));
        let refused = filter.remove(&claim(&filter, member), &listed);
        assert_eq!(refused, Err(RemoveError::Surplus { members: 1 }));
    }
    filter.adapt(&claim(&filter, query), &[member]).unwrap();
    assert!(filter.contains(member) && !filter.contains(query));
}
