//! Concurrent filters with one thread and an exact model, and with many threads.

mod model;
mod rebuild;
mod threads;

use model::Numbers;
use proptest::prelude::*;
use std::collections::BTreeMap;
use twiceshy::Listing;
use twiceshy::{
    Answer, Claim, Concurrent, Dynamic, Hash, Keyed, QuotientFilter, Secret,
    builder::Builder,
    error::{AdaptError, BuildError, InsertError, PlanError, RemoveError},
};
use twiceshy_deadline::Deadline;
use twiceshy_model::concurrent::{check_entries, drive, drive_bytes};

fn builder() -> Builder<QuotientFilter> {
    QuotientFilter::builder()
}

fn claim(filter: &Concurrent<QuotientFilter>, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// After any operations, the shards together have the same contents and answers as one plain
    /// filter with as many slots.
    #[test]
    fn sharded_filter_matches_unsharded_filter(
        shards in prop::sample::select(vec![1usize, 2, 8]),
        slots in 300u64..600,
        remainder_bits in 6u32..14,
        operations in prop::collection::vec(model::operation(), 0..150),
    ) {
        let shape = builder().remainder_bits(remainder_bits).slots(slots * shards as u64).value_bits(2);
        let filter = shape.clone().shards(shards).build_concurrent().unwrap();
        drive(&filter, Some(shape.build().unwrap()), &operations);
    }

    /// Runs the same scripts as the fuzzer.
    #[test]
    fn random_scripts_match_the_model(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        drive_bytes(&bytes);
    }

    #[test]
    fn filter_with_one_shard_grows_like_an_unsharded_filter(
        slots in 30u64..80,
        operations in prop::collection::vec(model::operation(), 0..150),
    ) {
        let shape = builder().remainder_bits(10).slots(slots).value_bits(2).grow_at(0.9);
        let filter = shape.clone().shards(1).build_concurrent().unwrap();
        drive(&filter, Some(shape.build().unwrap()), &operations);
    }

    #[test]
    fn growing_shards_match_the_model(
        shards in prop::sample::select(vec![2usize, 8]),
        slots in 30u64..80,
        operations in prop::collection::vec(model::operation(), 0..150),
    ) {
        let shape = builder().remainder_bits(10).slots(slots * shards as u64).value_bits(2);
        let filter = shape.grow_at(0.9).shards(shards).build_concurrent().unwrap();
        drive(&filter, None, &operations);
    }
}

#[test]
fn suspects_end_at_the_border_of_their_shard() {
    let filter = builder().remainder_bits(8).slots(8 * 35).shards(8).build_concurrent().unwrap();
    for border in (1..8u128).map(|shard| shard << 125) {
        let (last, first) = (Hash::from_u128(border - 1), Hash::from_u128(border));
        filter.insert_each(&[last, first]).unwrap();
        let [before, behind] = [last, first].map(|hash| claim(&filter, hash).suspects());
        assert_eq!((*before.end(), *behind.start()), (last, first));
        assert!(before.start() < before.end() && behind.start() < behind.end());
        // A neighbour in the other shard is not a suspect.
        let (query, near) =
            (Hash::from_u128(border + 1), claim(&filter, Hash::from_u128(border + 1)));
        assert_eq!(filter.adapt(&near, &[first, last]), Err(AdaptError::Outside { member: last }));
        // Nor is a hash at the same place in a different shard.
        let twin = Hash::from_u128(border.wrapping_add(3 << 125));
        assert_eq!(filter.adapt(&near, &[twin]), Err(AdaptError::Outside { member: twin }));
        filter.adapt(&near, &[first]).unwrap();
        assert!(filter.contains(first) && filter.contains(last) && !filter.contains(query));
    }
    filter.validate().unwrap();
}

#[test]
fn errors_name_the_whole_hash_not_its_part_within_the_shard() {
    let filter = builder().remainder_bits(4).slots(80).shards(8).build_concurrent().unwrap();
    let [member, other] = [0u128, 1].map(|low| Hash::from_u128(5 << 125 | low));
    let twin = Hash::from_u128(2 << 125);
    filter.insert_each(&[member, other]).unwrap();
    let remove = |mistakes: &[Hash]| {
        filter
            .remove(&claim(&filter, other), Listing::new(&[member, other]).with_mistakes(mistakes))
    };
    assert_eq!(remove(&[member]), Err(RemoveError::MistakeIsMember { hash: member }));
    // A mistake in a different shard doesn't matter, even if it equals the member within its shard.
    remove(&[twin]).unwrap();
    let refused = filter.remove_keeping_repairs(&claim(&filter, member), &[member, twin]);
    assert_eq!(refused, Err(RemoveError::Outside { member: twin }));
    let again = claim(&filter, member);
    assert_eq!(filter.adapt(&again, &[member]), Err(AdaptError::IsMember));
    filter.remove_keeping_repairs(&again, &[member]).unwrap();
    assert!(filter.is_empty() && !filter.contains(member));
}

#[test]
fn stale_claims_are_refused() {
    let shape = builder().remainder_bits(6).slots(64).shards(4).grow_at(0.9);
    let filter = shape.build_concurrent().unwrap();
    let hash = |low: u128| Hash::from_u128(3 << 126 | low << 110);
    filter.insert(hash(0)).unwrap();
    let refused = |claim: &Claim, members: &[Hash]| {
        assert_eq!(filter.adapt(claim, members), Err(AdaptError::Stale));
        assert_eq!(
            filter.adapt(claim, Listing::new(members).dropping_ghosts()),
            Err(AdaptError::Stale)
        );
        assert_eq!(filter.remove(claim, members), Err(RemoveError::Stale));
        assert_eq!(filter.remove_keeping_repairs(claim, members), Err(RemoveError::Stale));
    };
    let before = claim(&filter, hash(9));
    filter.insert(hash(1)).unwrap();
    refused(&before, &[hash(0), hash(1)]);
    let before = claim(&filter, hash(9));
    filter.remove_trusting(hash(1)).unwrap();
    refused(&before, &[hash(0)]);
    // A claim of a different filter is refused, even if that filter has the same members.
    let other = shape.build_concurrent().unwrap();
    other.insert(hash(0)).unwrap();
    refused(&claim(&other, hash(9)), &[hash(0)]);
    // A claim of a plain filter is refused.
    let mut plain = QuotientFilter::builder().remainder_bits(1).slots(1).build().unwrap();
    plain.insert(hash(0)).unwrap();
    let Answer::Maybe(of_plain) = plain.check(hash(9)) else { panic!("they share a bit") };
    refused(&of_plain, &[hash(0)]);
    // Inserts into other shards keep a claim valid. Growth of its own shard makes it stale.
    let before = claim(&filter, hash(9));
    let elsewhere: Vec<Hash> = (0..40).map(|number| Hash::from_u128(number << 115)).collect();
    filter.insert_each(&elsewhere).unwrap();
    assert_eq!(filter.adapt(&before, &[hash(0)]).map(|adaptation| adaptation.lengthened), Ok(1));
    let before = claim(&filter, hash(0));
    let slots = filter.parameters()[3].slots;
    let here = (1..40u128).map(|number| Hash::from_u128(3 << 126 | number << 119));
    let here: Vec<Hash> = here.collect();
    filter.insert_each(&here).unwrap();
    assert!(filter.parameters()[3].slots > slots);
    refused(&before, &[hash(0)]);
    filter.validate().unwrap();
}

#[test]
fn shards_double_one_after_the_other() {
    const SHARDS: usize = 16;
    const CAPACITY: usize = 100_000;
    let filter = builder().capacity(CAPACITY).shards(SHARDS).build_concurrent().unwrap();
    let slots = |filter: &Concurrent<QuotientFilter>| {
        filter.parameters().iter().map(|shard| shard.slots).collect::<Vec<_>>()
    };
    let planned = slots(&filter);
    let mut numbers = Numbers(1);
    let mut grown = Vec::new();
    for inserted in 0..CAPACITY * 3 / 2 {
        filter.insert(numbers.hash()).unwrap();
        if inserted % 50 == 0 {
            let doubled =
                slots(&filter).iter().zip(&planned).filter(|(now, then)| now > then).count();
            grown.resize(doubled, inserted);
        }
    }
    assert_eq!(grown.len(), SHARDS, "each shard doubles once");
    assert!(grown[0] > CAPACITY, "a shard doubled below the planned capacity");
    assert!(grown[SHARDS - 1] - grown[0] > CAPACITY / 12, "the shards doubled within a short time");
    let at_once = grown.chunk_by(|a, b| a == b).map(<[usize]>::len).max();
    assert!(at_once < Some(4), "too many shards doubled within 50 inserts");
    filter.validate().unwrap();
}

#[test]
fn batches_agree_with_single_operations() {
    let mut numbers = Numbers(2);
    let members: Vec<Hash> = (0..20_000).map(|_| numbers.hash()).collect();
    let queries: Vec<Hash> =
        members.iter().copied().chain((0..20_000).map(|_| numbers.hash())).collect();
    for shards in [1, 4, 64] {
        // First with room for all hashes, then with too little room, so that some are refused.
        for shape in [builder().capacity(100), builder().slots(8_000).remainder_bits(5)] {
            let build = || shape.clone().shards(shards).build_concurrent().unwrap();
            let [single, batched] = [build(), build()];
            // Insert the first part one by one, so that later batches find members in the filter.
            let (first, rest) = members.split_at(3_000);
            let insert = |(at, &hash): (usize, &Hash)| single.insert(hash).err().map(|_| at);
            let refused: Vec<usize> =
                first.iter().chain(rest).enumerate().filter_map(insert).collect();
            batched.insert_each(first).unwrap();
            let inserted = batched.insert_each(rest);
            assert_eq!(batched.len() + refused.len(), members.len());
            match inserted {
                Ok(()) => assert!(refused.is_empty(), "{refused:?}"),
                Err(error) => {
                    assert!(matches!(error.cause, InsertError::Full { .. }));
                    let positions: Vec<usize> = error.refused.iter().map(|at| at + 3_000).collect();
                    assert_eq!(refused, positions);
                }
            }
            let mut maybe = vec![true; 3];
            batched.contains_many(&queries, &mut maybe);
            let one_by_one: Vec<bool> =
                queries.iter().map(|&query| batched.contains(query)).collect();
            assert!(maybe == one_by_one);
            let mut model = BTreeMap::<Hash, u64>::new();
            for (at, &hash) in members.iter().enumerate() {
                if refused.binary_search(&at).is_err() {
                    *model.entry(hash).or_default() += 1;
                }
            }
            check_entries(&batched, &model);
            batched.validate().unwrap();
        }
    }
}

/// Two threads have removed one member each from the store, but not yet from the filter. Removing
/// with a list can never succeed for either thread, but removing without a list does.
#[test]
fn concurrent_removals_of_neighbours_need_remove_trusting() {
    let filter = builder().remainder_bits(6).slots(64).shards(2).build_concurrent().unwrap();
    let [one, other] = [1u128, 2].map(Hash::from_u128);
    filter.insert_each(&[one, other]).unwrap();
    for _ in 0..3 {
        for member in [one, other] {
            let refused = filter.remove(&claim(&filter, member), &[member]);
            assert_eq!(refused, Err(RemoveError::Unlisted { members: 1 }));
        }
    }
    filter.remove_trusting(one).unwrap();
    // Now the other member is the only one left.
    filter.remove(&claim(&filter, other), &[other]).unwrap();
    assert!(filter.is_empty() && !filter.contains(one) && !filter.contains(other));
}

#[test]
fn planned_size_is_the_total_of_all_shards() {
    for shards in [1usize, 3, 16] {
        let count = shards.next_power_of_two();
        let filter = builder().memory(1 << 20).shards(shards).build_concurrent().unwrap();
        assert_eq!(filter.parameters().len(), count);
        assert!(filter.stats().memory <= 1 << 20 && filter.stats().memory > 1 << 19);
        let filter = builder().slots(10_007).shards(shards).build_concurrent().unwrap();
        let slots: Vec<u64> = filter.parameters().iter().map(|shard| shard.slots).collect();
        assert_eq!(slots.iter().sum::<u64>(), 10_007);
        assert!(slots.iter().max().unwrap() - slots.iter().min().unwrap() <= 1, "uneven sizes");
        assert_eq!(filter.stats().members, 0);
    }
    // With one shard, the plan equals that of a plain filter.
    let (plain, one) = (builder().capacity(5_000), builder().capacity(5_000).shards(1));
    let one = one.build_concurrent().unwrap();
    assert_eq!(one.parameters(), [plain.plan().unwrap().details.parameters]);
    // The requested rate is kept.
    let filter = builder().false_positive_rate(0.01).capacity(50_000).shards(8).build_concurrent();
    let filter = filter.unwrap();
    let mut numbers = Numbers(3);
    filter.insert_each(&(0..50_000).map(|_| numbers.hash()).collect::<Vec<_>>()).unwrap();
    assert!(filter.stats().expected_rate <= 0.01);
    let maybe = (0..100_000).filter(|_| filter.contains(numbers.hash())).count();
    assert!(maybe < 1_150, "{maybe} of 100,000");
    assert!(filter.stats().load > 0.8);

    let build = |builder: Builder<QuotientFilter>| builder.build_concurrent().unwrap_err();
    assert!(matches!(build(builder().slots(9).shards(0)), BuildError::Plan(PlanError::Shards(0))));
    assert!(matches!(
        build(builder().slots(9).shards(4097)),
        BuildError::Plan(PlanError::Shards(4097))
    ));
    assert!(matches!(
        build(builder().memory(999).shards(8)),
        BuildError::Plan(PlanError::Budget(999))
    ));
    let crowded = builder().slots(100).adaptations(1_000).shards(4);
    assert!(matches!(build(crowded), BuildError::Plan(PlanError::Adaptations(1_000))));
    assert!(matches!(build(builder().shards(4)), BuildError::Plan(PlanError::Size)));
}

#[test]
fn keyed_and_generic_access_use_the_same_filter() {
    fn fill(mut filter: impl Dynamic, hash: Hash) -> usize {
        filter.insert(hash).unwrap();
        filter.len()
    }
    let _deadline = Deadline::new();
    let secret = Secret::generate().unwrap();
    let keyed =
        builder().capacity(100).secret(secret.clone()).build_concurrent_keyed::<u64>().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let keyed = &keyed;
            scope.spawn(move || keyed.insert_each(&[thread, thread + 10]).unwrap());
        }
    });
    keyed.insert(&99).unwrap();
    keyed.insert_each(&[100, 101]).unwrap();
    assert_eq!(fill(keyed.filter(), keyed.hash(&102)), 12);
    let mut borrowed = Keyed::<u64, _>::new(keyed.filter(), secret);
    borrowed.insert(&103).unwrap();
    let mut maybe = Vec::new();
    keyed.contains_many(&[0, 13, 99, 101, 103], &mut maybe);
    assert_eq!(maybe, [true; 5]);
    keyed.remove_trusting(&99).unwrap();
    let Answer::Maybe(claim) = keyed.check(&0) else { panic!("it is a member") };
    keyed.remove(&claim, &[keyed.hash(&0)]).unwrap();
    assert!(!keyed.contains(&0) && !keyed.contains(&99) && keyed.len() == 11);
}
