//! Where counts, values, limits and sizes end.

use twiceshy::{
    AdaptiveQuotientFilter, Answer, BuildError, Claim, Hash, InsertError, KeyedHasher, Member,
    MergeError, RemoveError, Secret,
};

/// 16 slots of 8 bits: the first digit is the quotient, then two a digit.
fn hash(digits: u64) -> Hash {
    Hash::from_u128(u128::from(digits) << 92)
}

/// They share quotient and remainder.
const A: u64 = 0x3_aa_10_00_00;
const B: u64 = 0x3_aa_20_00_00;
const MISTAKE: u64 = 0x3_aa_11_00_00;

const MOST: u64 = 1 << 40;

fn hashes(seed: u8, count: u64) -> Vec<Hash> {
    let hasher = KeyedHasher::new(&Secret::from_bytes([seed; 16]));
    (0..count).map(|key| hasher.hash(&key)).collect()
}

fn claim(filter: &AdaptiveQuotientFilter, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

/// Repairs all mistakes among some queries. Returns these.
fn repair(
    filter: &mut AdaptiveQuotientFilter,
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
fn fingerprints_are_not_shortened_to_one_that_can_not_be_counted() {
    let mut filter = AdaptiveQuotientFilter::builder().slots(64).remainder_bits(6).build().unwrap();
    let [a, b, mistake] = [A, B, MISTAKE].map(hash);
    let members = |of_a, of_b| [Member { hash: a, count: of_a }, Member { hash: b, count: of_b }];
    filter.insert_times(a, MOST - 1).unwrap();
    filter.insert(b).unwrap();
    filter.adapt(&claim(&filter, mistake), &members(MOST - 1, 1)).unwrap();
    filter.insert_times(b, 2).unwrap();

    let before: Vec<_> = filter.iter().collect();
    let listed = claim(&filter, b);
    let refused = filter.remove_listed(&listed, &members(MOST - 1, 3), Some(&[]));
    assert_eq!(refused, Err(RemoveError::Uncountable));
    assert!(filter.iter().eq(before));
    filter.remove_listed(&listed, &members(MOST - 1, 3), None).unwrap();
    assert_eq!((filter.count(a), filter.count(b)), (MOST - 1, 2));
    filter.remove_listed(&claim(&filter, b), &members(MOST - 1, 2), Some(&[])).unwrap();
    assert_eq!((filter.count(a), filter.len() as u64), (MOST, MOST));
    filter.validate().unwrap();
}

#[test]
fn a_rebuilt_filter_has_room_for_every_value() {
    let mut filter = AdaptiveQuotientFilter::builder()
        .slots(64)
        .remainder_bits(6)
        .value_bits(8)
        .build()
        .unwrap();
    let a = hash(A);
    filter.insert(a).unwrap();
    filter.set_value(a, 7).unwrap();
    let rebuilt = |bits: u32| {
        let mut parameters = filter.parameters();
        parameters.value_bits = bits;
        AdaptiveQuotientFilter::rebuilt(parameters, &[&filter], [a], [])
    };
    for bits in 3..=16 {
        let rebuilt = rebuilt(bits).unwrap();
        assert_eq!((rebuilt.count(a), rebuilt.value(a)), (1, Some(7)));
        rebuilt.validate().unwrap();
    }
    for narrow in 0..3 {
        let refused = rebuilt(narrow).unwrap_err();
        assert!(matches!(refused, BuildError::ValueTooLarge { value: 7, bits } if bits == narrow));
    }
}

#[test]
fn a_restored_filter_that_is_too_full_to_grow_takes_many_back() {
    let member = |index: u128| Hash::from_u128(index << 123);
    let mut filter =
        AdaptiveQuotientFilter::builder().slots(16).remainder_bits(1).grow_at(0.5).build().unwrap();
    (0..13).for_each(|index| filter.insert(member(2 * index)).unwrap());
    filter.bury(member(0)).unwrap();
    let mut snapshot = Vec::new();
    filter.save(&mut snapshot).unwrap();
    let mut restored = AdaptiveQuotientFilter::restore(&snapshot[..]).unwrap();

    // The first takes the tombstone's place, and leaves it when there is no room for all.
    let many: Vec<Hash> = (0..32).map(member).collect();
    assert!(matches!(restored.insert_many(&many), Err(InsertError::Full { .. })));
    assert!(restored.iter().eq(filter.iter()));
    restored.validate().unwrap();
}

#[test]
fn repairs_are_kept_without_a_list_where_intervals_are_halved_and_with_one_everywhere() {
    let mut members = hashes(5, 3000);
    members.sort_unstable();
    let mut filter =
        AdaptiveQuotientFilter::builder().slots(4000).remainder_bits(4).build().unwrap();
    filter.insert_many(&members).unwrap();
    let mut repaired = repair(&mut filter, &members, hashes(6, 3000));
    assert!(repaired.len() > 100);
    repaired.sort_unstable();
    for (slots, listed) in
        [(4000, false), (8000, false), (16_000, false), (3900, true), (4001, true), (9999, true)]
    {
        let mistakes = repaired.iter().copied().filter(|_| listed);
        let resized = filter.resized(slots, members.iter().copied(), mistakes).unwrap();
        resized.validate().unwrap();
        assert!(members.iter().all(|&member| resized.contains(member)));
        assert!(!repaired.iter().any(|&mistake| resized.contains(mistake)), "{slots} slots");
    }
}

/// Filters of one size, some doubled, with values of different widths, counts, repairs and
/// tombstones.
#[test]
fn many_filters_of_all_sizes_are_merged() {
    let (mut merges, mut refused) = (0, 0);
    for seed in 0..60u8 {
        let slots = [1, 3, 16, 50, 64][usize::from(seed) % 5];
        let bits = [7, 8, 20, 56][usize::from(seed) / 5 % 4];
        let mut filters = Vec::new();
        let mut queries = hashes(seed, 300);
        for index in 0..3 + seed % 3 {
            let builder = AdaptiveQuotientFilter::builder().slots(slots).remainder_bits(bits);
            let mut filter = builder.value_bits(u32::from(index) * 3 % 17).build().unwrap();
            for _ in 0..(seed / 3 + index) % 4 {
                filter = filter.doubled().unwrap();
            }
            // Some of them near others' members.
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
                // Where they share a fingerprint, the counts are wrong, and it is refused.
                let _ = filter.adapt(&claim, &suspects);
            }
            for &member in members.iter().step_by(3) {
                let _ = filter.bury(member);
            }
            filter.validate().unwrap();
            filters.push(filter);
        }
        let filters: Vec<&AdaptiveQuotientFilter> = filters.iter().collect();
        match AdaptiveQuotientFilter::merged(&filters) {
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
