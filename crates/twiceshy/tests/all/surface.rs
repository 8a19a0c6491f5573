//! Tests behaviour that is the same for every filter: checking and repairing in one call, listings,
//! batches. Also limits the number of public names.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use twiceshy::claim::Adaptation;
use twiceshy::concurrent::ShardPlan;
use twiceshy::error::{AdaptError, InsertError, RemoveError};
use twiceshy::members::MemoryMap;
use twiceshy::{
    Adaptive, AdaptiveBloomFilter, AdaptiveRangeFilter, Answer, Checked, Claim, Concurrent,
    Dynamic, ExtensionFilter, Filter, Hash, Keyed, Listing, Member, MemberSource,
    PlainQuotientFilter, QuotientFilter, RangeFilter, Secret, SecretMode, Snapshot,
    TelescopingFilter, hash::KeyedHasher, range, snapshot::KeyedSnapshot,
};
use twiceshy_model::concurrent::entries_of;

const MEMBERS: u64 = 200;

fn hash(number: u64) -> Hash {
    KeyedHasher::new(&Secret::from_bytes([7; 16])).hash(&number)
}

fn quotient() -> QuotientFilter {
    QuotientFilter::builder().remainder_bits(3).slots(300).build().unwrap()
}

fn telescoping() -> TelescopingFilter {
    TelescopingFilter::builder().remainder_bits(3).slots(300).build().unwrap()
}

fn extension() -> ExtensionFilter {
    ExtensionFilter::builder().remainder_bits(3).slots(300).build().unwrap()
}

fn plain() -> PlainQuotientFilter {
    PlainQuotientFilter::builder().remainder_bits(3).slots(300).build().unwrap()
}

fn bloom() -> AdaptiveBloomFilter {
    AdaptiveBloomFilter::builder().false_positive_rate(0.1).capacity(300).build().unwrap()
}

fn shared() -> Concurrent<QuotientFilter> {
    let builder = QuotientFilter::builder().remainder_bits(3).slots(400).shards(4);
    builder.build_concurrent().unwrap()
}

/// Inserts the members, and returns them by hash.
fn fill(filter: &mut impl Dynamic) -> BTreeMap<Hash, u64> {
    let members: BTreeMap<Hash, u64> = (0..MEMBERS).map(|number| (hash(number), number)).collect();
    filter.insert_many(&members.keys().copied().collect::<Vec<_>>()).unwrap();
    members
}

/// Returns a hash that is answered "maybe", but isn't a member.
fn mistake(filter: &impl Filter) -> Hash {
    (MEMBERS..1 << 20).map(hash).find(|&hash| filter.contains(hash)).unwrap()
}

fn claim_of(filter: &impl Adaptive, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

/// Tests every outcome of `check_or_repair`.
fn check_or_repair(mut filter: impl Adaptive) {
    let members = fill(&mut filter);
    let list = |hashes| members.members(hashes);
    let is_member = |hash| {
        move || Ok::<bool, Infallible>((0..MEMBERS).any(|number| self::hash(number) == hash))
    };

    let present = filter.check_or_repair(hash(0), is_member(hash(0)), list).unwrap();
    assert_eq!(present, Checked::Present);
    assert!(present.is_present());

    let absent = (MEMBERS..1 << 20).map(hash).find(|&hash| !filter.contains(hash)).unwrap();
    let never = || -> Result<bool, Infallible> { panic!("the filter said \"absent\"") };
    assert_eq!(filter.check_or_repair(absent, never, list).unwrap(), Checked::Absent);

    let query = mistake(&filter);
    let repairs = filter.stats().repairs;
    let repaired = filter.check_or_repair(query, is_member(query), list).unwrap();
    assert!(matches!(repaired, Checked::Repaired(Adaptation { lengthened: 1.., .. })));
    assert!(!repaired.is_present() && !filter.contains(query));
    assert_eq!(filter.stats().repairs, repairs + 1);
    assert!(members.keys().all(|&member| filter.contains(member)));
    filter.validate().unwrap();

    // A listing that misses members is refused, and the mistake stays.
    let query = mistake(&filter);
    let nobody = |_| Ok::<_, Infallible>(Vec::<Member>::new());
    let unrepaired = filter.check_or_repair(query, is_member(query), nobody).unwrap();
    assert!(matches!(unrepaired, Checked::Unrepaired(AdaptError::Unlisted { .. })));
    assert!(!unrepaired.is_present() && filter.contains(query));

    // If the two closures contradict each other, the member stays.
    let never_there = || Ok::<_, Infallible>(false);
    let unrepaired = filter.check_or_repair(hash(0), never_there, list).unwrap();
    assert_eq!(unrepaired, Checked::Unrepaired(AdaptError::IsMember));
    assert!(filter.contains(hash(0)));

    // Errors of the closures are returned, and nothing changes.
    let failed = filter.check_or_repair(query, || Err::<bool, _>("down"), |_| Ok(vec![query]));
    assert_eq!(failed, Err("down"));
    let failed = filter.check_or_repair(query, || Ok(false), |_| Err::<Vec<Hash>, _>("down"));
    assert_eq!(failed, Err("down"));
    assert!(filter.contains(query));
}

#[test]
fn check_or_repair_returns_each_outcome_for_every_filter() {
    check_or_repair(quotient());
    check_or_repair(telescoping());
    check_or_repair(extension());
    check_or_repair(bloom());
    check_or_repair(&shared());
}

/// Members that are far from each other, and a filter of them for ranges of 16 keys.
fn ranges() -> (AdaptiveRangeFilter<u64>, Vec<u64>) {
    let members: Vec<u64> = (0..MEMBERS).map(|number| number * 1000).collect();
    let builder = AdaptiveRangeFilter::<u64>::builder().remainder_bits(3).longest_range(16);
    let builder = builder.slots(400).secret(Secret::from_bytes([7; 16]));
    (builder.build_from(&members).unwrap(), members)
}

/// Returns a range without members for which the filter names this many intervals.
fn mistaken_range(filter: &AdaptiveRangeFilter<u64>, intervals: usize) -> Range<u64> {
    let starts = (0..MEMBERS * 1000).filter(|start| (1..=984).contains(&(start % 1000)));
    let mut ranges = starts.map(|start| start..start + 16);
    let is_mistake = |range: &Range<u64>| match filter.check_range(range.clone()) {
        Answer::Maybe(claim) => claim.suspects().count() == intervals,
        Answer::Absent => false,
    };
    ranges.find(is_mistake).unwrap()
}

/// Returns a function that lists the members in an interval of hashes, and counts its calls.
fn listing_of<'a>(
    filter: &AdaptiveRangeFilter<u64>,
    members: &'a [u64],
    calls: &'a mut usize,
) -> impl FnMut(RangeInclusive<Hash>) -> Result<Vec<u64>, &'static str> + use<'a> {
    let partitions = filter.partitions().clone();
    move |hashes| {
        *calls += 1;
        let members = members.iter().copied();
        Ok(members.filter(|&key| hashes.contains(&partitions.hash_of(key))).collect())
    }
}

#[test]
fn check_or_repair_returns_each_outcome_for_range_filter() {
    let (mut filter, members) = ranges();
    let mut calls = 0;

    let list = listing_of(&filter, &members, &mut calls);
    let present = filter.check_or_repair(995..1005, || Ok(true), list);
    assert_eq!((present, calls), (Ok(Checked::Present), 0));

    let absent = (1..900).map(|start| start..start + 16);
    let absent = absent.into_iter().find(|range| !filter.contains_range(range.clone())).unwrap();
    let never = || -> Result<bool, &str> { panic!("the filter said \"absent\"") };
    let list = listing_of(&filter, &members, &mut calls);
    assert_eq!(filter.check_or_repair(absent, never, list), Ok(Checked::Absent));
    assert_eq!(calls, 0);

    for intervals in [1, 2] {
        let mistake = mistaken_range(&filter, intervals);
        let repairs = filter.stats().repairs;
        calls = 0;
        let list = listing_of(&filter, &members, &mut calls);
        let repaired = filter.check_or_repair(mistake.clone(), || Ok(false), list);
        assert!(matches!(repaired, Ok(Checked::Repaired(Adaptation { lengthened: 1.., .. }))));
        assert_eq!((calls, filter.stats().repairs), (intervals, repairs + 1));
        assert!(!filter.contains_range(mistake));
    }
    assert!(members.iter().all(|&member| filter.contains(member)));
    filter.validate().unwrap();

    // A listing that misses members is refused, and the mistake stays.
    let mistake = mistaken_range(&filter, 1);
    let nobody = |_| Ok::<_, &str>(Vec::new());
    let unrepaired = filter.check_or_repair(mistake.clone(), || Ok(false), nobody);
    assert!(matches!(unrepaired, Ok(Checked::Unrepaired(AdaptError::Unlisted { .. }))));
    assert!(filter.contains_range(mistake.clone()));

    // If the two closures contradict each other, the member stays.
    let list = listing_of(&filter, &members, &mut calls);
    let unrepaired = filter.check_or_repair(995..1005, || Ok(false), list);
    assert_eq!(unrepaired, Ok(Checked::Unrepaired(AdaptError::IsMember)));
    assert!(filter.contains(1000));

    // A range can be too long to be repaired.
    let list = listing_of(&filter, &members, &mut calls);
    let unrepaired = filter.check_or_repair(.., || Ok(false), list);
    assert_eq!(unrepaired, Ok(Checked::Unrepaired(AdaptError::TooLong)));

    // Errors of the closures are returned, and nothing changes.
    let list = listing_of(&filter, &members, &mut calls);
    assert_eq!(filter.check_or_repair(mistake.clone(), || Err("down"), list), Err("down"));
    let down = |_| Err::<Vec<u64>, _>("down");
    assert_eq!(filter.check_or_repair(mistake.clone(), || Ok(false), down), Err("down"));
    assert!(filter.contains_range(mistake));
}

#[test]
fn check_or_repair_of_range_drops_ghosts_only_if_every_listing_allows_it() {
    let (mut filter, members) = ranges();
    let ghosts = [5_000_015, 5_000_016];
    filter.insert_many(&ghosts).unwrap();
    for dropping in [1, 2] {
        let (mut calls, mut listings) = (0, 0);
        let mut list = listing_of(&filter, &members, &mut calls);
        let list = |hashes| {
            listings += 1;
            let listing = range::Listing::new(list(hashes)?);
            Ok::<_, &str>(if listings > dropping { listing } else { listing.dropping_ghosts() })
        };
        let checked = filter.check_or_repair(ghosts[0]..=ghosts[1], || Ok(false), list).unwrap();
        if dropping == 1 {
            assert!(matches!(checked, Checked::Unrepaired(AdaptError::Unlisted { .. })));
            assert_eq!(filter.len(), members.len() + 2);
        } else {
            assert!(matches!(checked, Checked::Repaired(Adaptation { ghosts: 2, .. })));
            assert_eq!(filter.len(), members.len());
        }
        assert_eq!(listings, 2);
    }
    filter.validate().unwrap();
}

#[test]
fn range_filter_removes_only_the_claimed_key() {
    let (mut filter, members) = ranges();
    for several in [999..=1000, 1000..=1001, 0..=u64::MAX] {
        let Answer::Maybe(claim) = filter.check_range(several) else { panic!("1000 is a member") };
        assert_eq!(filter.remove(&claim, &members), Err(RemoveError::ManyKeys));
    }
    let Answer::Maybe(claim) = filter.check(1000) else { panic!("1000 is a member") };
    assert_eq!(filter.check_range(1000..=1000), Answer::Maybe(claim.clone()));
    let suspects = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
    let suspects: Vec<u64> = suspects.collect();
    filter.remove(&claim, &suspects).unwrap();
    assert_eq!(filter.remove(&claim, &suspects), Err(RemoveError::Stale));
    assert_eq!(filter.len(), members.len() - 1);
    assert!(members.iter().all(|&member| member == 1000 || filter.contains(member)));
    filter.validate().unwrap();
}

#[test]
fn check_or_repair_starts_again_if_members_change_meanwhile() {
    let filter = shared();
    let mut members = fill(&mut &filter);
    let query = mistake(&filter);
    let near = *claim_of(&&filter, query).suspects().end();
    let mut listings = 0;
    let checked = filter.check_or_repair(
        query,
        || Ok::<_, Infallible>(false),
        |hashes| {
            listings += 1;
            if listings == 1 {
                filter.insert(near).unwrap();
                members.insert(near, 0);
            }
            members.members(hashes)
        },
    );
    assert!(matches!(checked, Ok(Checked::Repaired(_))));
    assert_eq!(listings, 2);
    assert!(!filter.contains(query) && filter.contains(near));
}

#[test]
fn check_or_repair_finds_a_key_that_is_inserted_meanwhile() {
    let filter = shared();
    let members = fill(&mut &filter);
    let query = mistake(&filter);
    let mut looks = 0;
    let is_member = || {
        looks += 1;
        if looks == 1 {
            filter.insert(query).unwrap();
        }
        Ok::<_, Infallible>(looks > 1)
    };
    let checked = filter.check_or_repair(query, is_member, |hashes| members.members(hashes));
    assert_eq!(checked, Ok(Checked::Present));
    assert!(filter.contains(query));
}

#[test]
fn check_or_repair_gives_up_if_members_never_stop_changing() {
    let filter = shared();
    let mut members = fill(&mut &filter);
    let query = mistake(&filter);
    let near = *claim_of(&&filter, query).suspects().end();
    let checked = filter.check_or_repair(
        query,
        || Ok::<_, Infallible>(false),
        |hashes| {
            if members.remove(&near).is_some() {
                filter.remove_trusting(near).unwrap();
            } else {
                filter.insert(near).unwrap();
                members.insert(near, 0);
            }
            members.members(hashes)
        },
    );
    assert_eq!(checked, Ok(Checked::Unrepaired(AdaptError::Stale)));
    assert!(members.keys().all(|&member| filter.contains(member)));
}

#[test]
fn keyed_filters_check_and_repair_by_key() {
    let secret = Secret::from_bytes([9; 16]);
    let mut keyed = Keyed::<u64, _>::new(telescoping(), secret.clone());
    let shared = Keyed::<u64, _>::new(shared(), secret);
    let mut map = MemoryMap::new();
    let keys: Vec<u64> = (0..MEMBERS).collect();
    keyed.insert_many(&keys).unwrap();
    shared.insert_many(&keys).unwrap();
    for &key in &keys {
        map.insert(keyed.hash(&key), key);
    }
    let mut repaired = 0;
    for key in 0..1000 {
        let is_member = || Ok::<_, Infallible>(key < MEMBERS);
        let one = keyed.check_or_repair(&key, is_member, |hashes| map.members(hashes)).unwrap();
        let many = shared.check_or_repair(&key, is_member, |hashes| map.members(hashes)).unwrap();
        assert_eq!((one.is_present(), many.is_present()), (key < MEMBERS, key < MEMBERS));
        repaired += u32::from(matches!(many, Checked::Repaired(_)));
    }
    assert!(repaired > 10, "{repaired}");
    assert_eq!(keyed.len() + shared.len(), 2 * MEMBERS as usize);
    assert!(keys.iter().all(|key| keyed.contains(key) && shared.contains(key)));
}

/// Returns a filter with one quotient, its two members, a mistake that collides with the first, and
/// the claim of that mistake.
fn one_quotient() -> (QuotientFilter, [Hash; 2], Hash, Claim) {
    let mut filter = QuotientFilter::builder().remainder_bits(8).slots(8).build().unwrap();
    let members = [1u128, 2].map(|remainder| Hash::from_u128(remainder << 117));
    let mistake = Hash::from_u128(members[0].as_u128() + (1 << 112));
    filter.insert_many(&members).unwrap();
    let claim = claim_of(&filter, mistake);
    (filter, members, mistake, claim)
}

#[test]
fn suspects_of_a_claim_are_the_interval_of_its_quotient() {
    let (filter, members, _, claim) = one_quotient();
    assert_eq!(claim.suspects(), Hash::MIN..=Hash::from_u128((1 << 125) - 1));
    assert_eq!(filter.suspects(members[1]), claim.suspects());
    assert!(!filter.may_confuse(members[0], members[1]));
    assert!(filter.may_confuse(members[0], claim.query()));
}

#[test]
fn listed_members_of_other_remainders_are_ignored() {
    let [a, b] = one_quotient().1;
    for listed in [vec![a, b], vec![b, a], vec![a], vec![a, b, b, b]] {
        let (mut filter, _, mistake, claim) = one_quotient();
        filter.adapt(&claim, &listed).unwrap();
        assert!(!filter.contains(mistake) && filter.contains(a) && filter.contains(b));
        filter.validate().unwrap();
        let claim = claim_of(&filter, a);
        filter.remove(&claim, &listed).unwrap();
        assert!(!filter.contains(a) && filter.contains(b));
    }
}

#[test]
fn listing_that_does_not_match_the_remainder_is_refused() {
    let (mut filter, [a, b], mistake, mut claim) = one_quotient();
    let outside = Hash::MAX;
    let refusals = [
        (vec![b], AdaptError::Unlisted { members: 1 }),
        (vec![a, a, b], AdaptError::Surplus { members: 1 }),
        (vec![a, b, outside], AdaptError::Outside { member: outside }),
        (vec![a, b, mistake], AdaptError::IsMember),
    ];
    for (listed, error) in refusals {
        assert_eq!(filter.adapt(&claim, &listed), Err(error.clone()));
        let dropping = filter.adapt(&claim, Listing::new(&listed).dropping_ghosts());
        match error {
            AdaptError::Unlisted { .. } => {
                // Dropping ghosts is safe only if the listing is complete, which the caller
                // promises here.
                assert_eq!(dropping.unwrap().ghosts, 1);
                (filter, .., claim) = one_quotient();
            }
            error => assert_eq!(dropping, Err(error)),
        }
        assert!(filter.contains(a) && filter.contains(b));
    }
}

#[test]
fn claim_from_before_a_rebuild_is_stale() {
    let filter = shared();
    let members = fill(&mut &filter);
    let query = mistake(&filter);
    let claim = claim_of(&&filter, query);
    let shard = filter.shard_of(query);
    let listed = members.members(filter.shard_hashes(shard)).unwrap();
    filter.rebuild_shard(shard, ShardPlan::capacity(400), &listed, &[]).unwrap();
    let near = members.members(claim.suspects()).unwrap();
    assert_eq!(filter.adapt(&claim, &near), Err(AdaptError::Stale));
    assert_eq!(filter.remove(&claim, &near), Err(RemoveError::Stale));
    assert!(members.keys().all(|&member| filter.contains(member)));
}

#[test]
fn removal_shortens_fingerprints_only_if_mistakes_are_listed() {
    for (kept, is_kept) in [(None, true), (Some(vec![]), false)] {
        let (mut filter, [a, b], mistake, claim) = one_quotient();
        filter.insert(a).unwrap();
        let again = claim_of(&filter, mistake);
        assert_eq!(filter.adapt(&claim, &[a, a, b]), Err(AdaptError::Stale));
        filter.adapt(&again, &[a, a, b]).unwrap();
        let listing = Listing::from(vec![a, a, b]);
        let listing = match kept {
            Some(mistakes) => listing.with_mistakes(mistakes),
            None => listing,
        };
        let claim = claim_of(&filter, a);
        filter.remove(&claim, listing).unwrap();
        assert_eq!(filter.contains(mistake), !is_kept);
        assert!(filter.contains(a) && filter.contains(b) && filter.len() == 2);
    }
}

/// Repairs a mistake near members that were inserted twice, and removes one copy of each.
fn removal_keeps_repairs(mut filter: impl Adaptive) {
    let members = fill(&mut filter);
    let query = mistake(&filter);
    let near = claim_of(&filter, query).suspects();
    let twice = |hash: &Hash| Member { hash: *hash, count: 2 };
    let mut near: Vec<Member> = members.range(near).map(|(hash, _)| twice(hash)).collect();
    for member in &near {
        filter.insert(member.hash).unwrap();
    }
    let claim = claim_of(&filter, query);
    filter.adapt(&claim, Listing::new(&near)).unwrap();
    for at in 0..near.len() {
        let claim = claim_of(&filter, near[at].hash);
        filter.remove(&claim, Listing::new(&near)).unwrap();
        near[at].count -= 1;
    }
    assert!(!filter.contains(query));
    assert!(near.iter().all(|member| filter.contains(member.hash)));
    filter.validate().unwrap();
}

#[test]
fn removal_without_listed_mistakes_keeps_repairs_of_every_filter() {
    removal_keeps_repairs(quotient());
    removal_keeps_repairs(telescoping());
    removal_keeps_repairs(extension());
    removal_keeps_repairs(bloom());
    removal_keeps_repairs(&shared());

    for is_listed in [false, true] {
        let (mut filter, members) = ranges();
        let mistake = mistaken_range(&filter, 1);
        let claim_of = |filter: &AdaptiveRangeFilter<u64>, range| match filter.check_range(range) {
            Answer::Maybe(claim) => claim,
            Answer::Absent => panic!("it is answered \"maybe\""),
        };
        let claim = claim_of(&filter, mistake.clone());
        let near = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
        let near: Vec<u64> = near.collect();
        filter.insert_many(&near).unwrap();
        let mut listed = [&near[..], &near[..]].concat();
        let claim = claim_of(&filter, mistake.clone());
        filter.adapt(&claim, &listed).unwrap();
        for &key in &near {
            let claim = claim_of(&filter, key..key + 1);
            let listing = range::Listing::new(&listed);
            let none: [Range<u64>; 0] = [];
            let listing = if is_listed { listing.with_mistakes(&none) } else { listing };
            filter.remove(&claim, listing).unwrap();
            listed.remove(0);
        }
        assert_eq!(filter.contains_range(mistake), is_listed);
        assert!(members.iter().all(|&member| filter.contains(member)));
        filter.validate().unwrap();
    }
}

/// Inserts with stale claims and incomplete listings.
fn refuses_wrong_listings(mut filter: impl Adaptive) {
    let members = fill(&mut filter);
    let query = mistake(&filter);
    let claim = claim_of(&filter, query);
    let near: Vec<Hash> = members.range(claim.suspects()).map(|(&hash, _)| hash).collect();
    let refused = Err(InsertError::Mismatch);
    assert_eq!(filter.insert_listed(&claim, Listing::default()), refused);
    filter.insert(*claim.suspects().end()).unwrap();
    assert_eq!(filter.insert_listed(&claim, Listing::new(&near)), refused);
    assert_eq!(filter.len(), members.len() + 1);
    filter.validate().unwrap();
}

#[test]
fn insert_listed_refuses_stale_claims_and_incomplete_listings() {
    refuses_wrong_listings(quotient());
    refuses_wrong_listings(telescoping());
    refuses_wrong_listings(extension());
    refuses_wrong_listings(bloom());
    refuses_wrong_listings(&shared());
}

/// Inserts with the listing of a claim, in a filter that never asks for one.
fn inserts_listed(mut filter: impl Adaptive) {
    let members = fill(&mut filter);
    let query = mistake(&filter);
    let claim = claim_of(&filter, query);
    let near: Vec<Hash> = members.range(claim.suspects()).map(|(&hash, _)| hash).collect();
    filter.insert_listed(&claim, Listing::new(&near)).unwrap();
    assert_eq!(filter.len(), members.len() + 1);
    filter.remove_trusting(query).unwrap();
    assert!(members.keys().all(|&member| filter.contains(member)));
    filter.validate().unwrap();
}

#[test]
fn insert_listed_accepts_a_complete_listing() {
    inserts_listed(quotient());
    inserts_listed(bloom());
    inserts_listed(&shared());
}

/// Drops a ghost, and compares the numbers of repairs.
fn counts_dropped_ghosts(mut filter: impl Adaptive) {
    let members = fill(&mut filter);
    let ghost = (MEMBERS..1 << 20).map(hash).find(|&hash| !filter.contains(hash)).unwrap();
    filter.insert(ghost).unwrap();
    let claim = claim_of(&filter, ghost);
    let near: Vec<Hash> = members.range(claim.suspects()).map(|(&hash, _)| hash).collect();
    filter.adapt(&claim, Listing::new(&near).dropping_ghosts()).unwrap();
    assert!(!filter.contains(ghost));
    assert_eq!(filter.stats().repairs, 1);
}

#[test]
fn every_filter_counts_dropping_ghosts_as_a_repair() {
    counts_dropped_ghosts(quotient());
    counts_dropped_ghosts(telescoping());
    counts_dropped_ghosts(extension());
    counts_dropped_ghosts(bloom());
    counts_dropped_ghosts(&shared());

    let (mut filter, members) = ranges();
    let ghost = (1..1000).find(|&key| !filter.contains(key)).unwrap();
    filter.insert(ghost).unwrap();
    let Answer::Maybe(claim) = filter.check(ghost) else { panic!("it was inserted") };
    let near = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
    let near: Vec<u64> = near.collect();
    filter.adapt(&claim, range::Listing::new(&near).dropping_ghosts()).unwrap();
    assert!(!filter.contains(ghost));
    assert_eq!(filter.stats().repairs, 1);
}

#[test]
fn range_filter_answers_many_keys_like_single_keys() {
    let (filter, _) = ranges();
    let keys: Vec<u64> = (0..2000).map(|number| number * 500).chain([u64::MAX]).collect();
    let mut answers = vec![true; 3];
    filter.contains_many(&keys, &mut answers);
    let expected: Vec<bool> = keys.iter().map(|&key| filter.contains(key)).collect();
    assert_eq!(answers, expected);
    assert!(expected.contains(&false));
}

/// Scans of the table would make this test take ten minutes.
#[test]
fn long_range_in_empty_range_filter_is_answered_without_a_scan() {
    let builder = RangeFilter::<u64>::builder().remainder_bits(8).slots(1 << 23);
    let mut filter = builder.build().unwrap();
    assert!((0..1 << 20).all(|first| !filter.contains_range(first..)));
    filter.insert(7).unwrap();
    assert!(filter.contains_range(..));
    filter.remove_trusting(7).unwrap();
    assert!(!filter.contains_range(..));
}

/// Inserts a batch that doesn't fit. No hash of the batch may stay.
fn refuses_all_or_nothing(mut filter: impl Dynamic) {
    let members = fill(&mut filter);
    let before = filter.stats();
    let batch: Vec<Hash> = (1000..4000).map(hash).collect();
    let refused = filter.insert_many(&batch);
    assert!(matches!(refused, Err(InsertError::Full { .. } | InsertError::NeedsMembers(_))));
    let after = filter.stats();
    assert_eq!((after.members, after.load), (before.members, before.load));
    filter.validate().unwrap();
    let mut answers = Vec::new();
    let hashes: Vec<Hash> = members.keys().copied().chain(batch).collect();
    filter.contains_many(&hashes, &mut answers);
    assert_eq!(answers.len(), hashes.len());
    assert!(answers[..members.len()].iter().all(|&maybe| maybe));
    assert!(answers.iter().filter(|&&maybe| !maybe).count() > 1000);
    for (&hash, maybe) in hashes.iter().zip(answers) {
        assert_eq!(filter.contains(hash), maybe);
    }
    filter.insert_many(&[]).unwrap();
    filter.insert_many(&[hash(1), hash(2)]).unwrap();
    assert_eq!(filter.len(), before.members + 2);
}

#[test]
fn batch_that_does_not_fit_changes_nothing() {
    refuses_all_or_nothing(quotient());
    refuses_all_or_nothing(telescoping());
    refuses_all_or_nothing(extension());
    refuses_all_or_nothing(plain());
    refuses_all_or_nothing(bloom());
    refuses_all_or_nothing(&shared());
}

#[test]
fn refused_batch_keeps_tombstones_and_repairs() {
    let filter = QuotientFilter::builder().remainder_bits(8).slots(64).shards(2);
    let filter = filter.build_concurrent().unwrap();
    let [a, query] = [1u128 << 100, (1 << 100) + 1].map(Hash::from_u128);
    filter.insert(a).unwrap();
    filter.adapt(&claim_of(&&filter, query), &[a]).unwrap();
    filter.remove_keeping_repairs(&claim_of(&&filter, a), &[a]).unwrap();
    let entries = entries_of(&filter);
    // The first shard takes its part of the batch, which revives the tombstone; the second refuses.
    let batch: Vec<Hash> =
        std::iter::once(a).chain((0..60).map(|n| Hash::from_u128(1 << 127 | n << 120))).collect();
    assert!(matches!(filter.insert_many(&batch), Err(InsertError::Full { .. })));
    assert_eq!((filter.len(), entries_of(&filter)), (0, entries));
    filter.validate().unwrap();
    filter.insert(a).unwrap();
    assert!(filter.contains(a) && !filter.contains(query), "the repair was kept");
}

#[test]
fn plain_filter_is_restored_from_its_snapshot() {
    let mut filter = plain();
    let members = fill(&mut filter);
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    let back = PlainQuotientFilter::read_from(&bytes[..]).unwrap();
    assert!(back.iter().eq(filter.iter()) && back.parameters() == filter.parameters());
    assert!(members.keys().all(|&member| back.contains(member)));
    let other = ExtensionFilter::read_from(&bytes[..]).unwrap_err();
    assert!(other.to_string().contains("plain quotient filter"), "{other}");

    let mut keyed = Keyed::<u64, _>::new(plain(), Secret::from_bytes([3; 16]));
    keyed.insert(&7).unwrap();
    bytes.clear();
    KeyedSnapshot::write_to(&keyed, &mut bytes, SecretMode::Include).unwrap();
    let mut back = Keyed::<u64, PlainQuotientFilter>::read_from(&bytes[..], None).unwrap();
    assert!(back.contains(&7));
    back.remove_trusting(&7).unwrap();
    assert!(back.is_empty() && !back.contains(&7));
}

/// The public methods that write a snapshot or read one. `Frozen::to_filter` and
/// `Frozen::validate` are not among them, because they work on a snapshot that is already open.
const SNAPSHOT_METHODS: [&str; 12] = [
    "Frozen::from_bytes",
    "KeyedSnapshot::from_bytes",
    "KeyedSnapshot::open",
    "KeyedSnapshot::read_from",
    "KeyedSnapshot::save",
    "KeyedSnapshot::write_to",
    "MatchingFilter::open",
    "MatchingFilter::save",
    "Snapshot::open",
    "Snapshot::read_from",
    "Snapshot::save",
    "Snapshot::write_to",
];

/// The highest number of names that the crate root may export, without its modules.
const MOST_ROOT_NAMES: usize = 30;

fn source_of(path: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path)).unwrap()
}

/// Returns the public methods in a source file that may fail with a `SnapshotError` and that take a
/// reader, a writer, a path or bytes.
fn snapshot_methods(source: &str) -> Vec<String> {
    let (mut methods, mut owner, mut is_public_trait) = (Vec::new(), "", false);
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        let named = line.strip_prefix("pub trait ").or(line.strip_prefix("impl"));
        if let Some(named) = named.filter(|_| line.ends_with('{')) {
            let generics = named.starts_with('<').then(|| named.split_once("> ")).flatten();
            let named = generics.map_or(named, |(_, named)| named).trim_start();
            owner = named.split(['<', ':', ' ']).next().unwrap_or(named);
            is_public_trait = line.starts_with("pub trait ");
        }
        let function = line.strip_prefix("pub fn ");
        let function = function.or(line.strip_prefix("fn ").filter(|_| is_public_trait));
        let Some(function) = function else { continue };
        let mut signature = line.to_owned();
        while !signature.ends_with(['{', ';']) {
            signature += lines.next().expect("a signature ends").trim();
        }
        let inputs = ["impl Read", "impl Write", "AsRef<Path>", "AsRef<[u8]>"];
        if signature.contains("SnapshotError") && inputs.iter().any(|&it| signature.contains(it)) {
            let name = function.split(['<', '(']).next().unwrap_or(function);
            methods.push(format!("{owner}::{name}"));
        }
    }
    methods
}

/// Adds the snapshot methods of all source files in a folder.
fn collect_snapshot_methods(folder: &Path, methods: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_snapshot_methods(&path, methods);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            methods.extend(snapshot_methods(&source_of(path)));
        }
    }
}

#[test]
fn snapshots_have_twelve_public_methods() {
    let mut methods = Vec::new();
    collect_snapshot_methods(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut methods);
    methods.sort();
    assert_eq!(methods, SNAPSHOT_METHODS);
}

#[test]
fn crate_root_exports_at_most_30_names() {
    let source = source_of("lib.rs");
    let exports = source.split("\npub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let names: Vec<&str> = exports
        .flat_map(|export| {
            let names = export.split_once('{').map_or(export, |(_, names)| names);
            names.split([',', '}']).map(str::trim).filter(|name| !name.is_empty())
        })
        .map(|name| name.rsplit("::").next().unwrap())
        .collect();
    assert!(names.contains(&"Keyed") && names.contains(&"Stats"), "{names:?}");
    assert!(names.len() <= MOST_ROOT_NAMES, "{} names: {names:?}", names.len());
}
