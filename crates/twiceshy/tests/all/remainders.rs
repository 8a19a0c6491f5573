//! Tests filters with fresh remainders: the first bits of hashes are mixed with secret numbers.

use std::collections::BTreeSet;
use twiceshy::KeyedSnapshot;
use twiceshy::concurrent::{RebuildError, ShardPlan};
use twiceshy::error::{BuildError, GrowError, InsertError, PlanError};
use twiceshy::hash::KeyedHasher;
use twiceshy::quotient::{MergeError, Remainders};
use twiceshy::{
    Answer, Concurrent, Frozen, Hash, Keyed, Listing, QuotientFilter, Secret, SecretMode, Snapshot,
    TelescopingFilter,
};
use twiceshy_model::concurrent::{Members, check_entries, list};

const NONE: [Hash; 0] = [];

/// Returns a sequence of random hashes.
fn random(seed: u8) -> impl Fn(u64) -> Hash + Clone {
    let hasher = KeyedHasher::new(&Secret::from_bytes([seed; 16]));
    move |index| hasher.hash(&index)
}

/// Returns remainders that depend only on the seed.
fn remainders(seed: u64) -> Remainders {
    Remainders::from_bytes(random(99)(seed).as_u128().to_le_bytes())
}

/// Returns an empty filter.
fn filter(slots: u64, remainder_bits: u32, remainders: Remainders) -> QuotientFilter {
    let builder = QuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    let mut parameters = builder.value_bits(4).plan().unwrap().details.parameters;
    parameters.remainders = remainders;
    QuotientFilter::from_sorted(parameters, NONE, NONE).unwrap()
}

fn sorted(count: u64, seed: u8) -> Vec<Hash> {
    (0..count).map(random(seed)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Finds mistakes of a filter among random queries.
fn mistakes(filter: &QuotientFilter, queries: u64, seed: u8) -> Vec<Hash> {
    let asked = (0..queries).map(random(seed)).filter(|&query| filter.contains(query));
    asked.collect::<BTreeSet<_>>().into_iter().collect()
}

/// At load α, a mistake shares its quotient with 1 + α members on average. With fresh remainders it
/// collides with each of them with probability 2^-r.
#[test]
fn replayed_mistakes_recur_at_the_promised_rate() {
    let (slots, bits) = (1u64 << 14, 6);
    let members = sorted(slots * 9 / 10, 1);
    let load = members.len() as f64 / slots as f64;
    let built = |seed| {
        let parameters = filter(slots, bits, remainders(seed)).parameters();
        QuotientFilter::from_sorted(parameters, members.iter().copied(), NONE).unwrap()
    };
    let first = built(0);
    let mistakes = mistakes(&first, 200_000, 2);
    let rate = mistakes.len() as f64 / 200_000.0;
    assert!((rate / (load / 64.0) - 1.0).abs() < 0.1, "a rate of {rate}");
    let builds = 40;
    let repeated: usize = (1..=builds)
        .map(built)
        .map(|again| mistakes.iter().filter(|&&mistake| again.contains(mistake)).count())
        .sum();
    let repeated = repeated as f64 / (mistakes.len() as f64 * builds as f64);
    let expected = (1.0 + load) / 64.0;
    assert!((repeated / expected - 1.0).abs() < 0.1, "{repeated}, not {expected}");
}

/// Repairing ever more distinct queries fills a filter. Rotating it to fresh remainders frees the
/// room.
#[test]
fn rotation_frees_the_room_that_repairs_took() {
    let members = sorted(700, 3);
    let mut filter = filter(1000, 4, Remainders::PLAIN);
    filter.insert_many(&members).unwrap();
    let query = random(4);
    let mut queries = (0..).map(query);
    let mut repair = |filter: &mut QuotientFilter| {
        let query = queries.by_ref().find(|&query| filter.contains(query)).unwrap();
        let Answer::Maybe(claim) = filter.check(query) else { panic!("it was a mistake") };
        let listed = members.iter().copied().filter(|hash| claim.suspects().contains(hash));
        filter.adapt(&claim, listed.collect::<Vec<_>>())
    };
    for _ in 0..5 {
        while repair(&mut filter).is_ok() {}
        let full = filter.stats().load;
        let before = filter.parameters();
        filter = filter.rotated(members.iter().copied(), NONE).unwrap();
        let after = filter.parameters();
        assert!(full > 0.99 && filter.stats().load < 0.75);
        assert!(before.remainders != after.remainders && !after.remainders.is_plain());
        assert_eq!((before.slots, before.slot_bits), (after.slots, after.slot_bits));
        assert!(members.iter().all(|&member| filter.contains(member)));
        filter.validate().unwrap();
    }
}

#[test]
fn rotated_filter_keeps_members_values_and_listed_repairs() {
    let members = sorted(3000, 5);
    let mut old = filter(4000, 5, Remainders::PLAIN);
    old.insert_many(&members).unwrap();
    for (index, &member) in members.iter().enumerate().step_by(50) {
        old.set_value(member, index as u64 % 15 + 1).unwrap();
    }
    let mistakes = mistakes(&old, 20_000, 6);
    assert!(mistakes.len() > 100);
    // Rotate twice: from plain remainders, and then from fresh ones.
    for _ in 0..2 {
        let new = old.rotated(members.iter().copied(), mistakes.iter().copied()).unwrap();
        new.validate().unwrap();
        assert_eq!(new.len(), members.len());
        for &member in &members {
            assert!(new.value(member) >= old.value(member));
        }
        assert!(mistakes.iter().all(|&mistake| !new.contains(mistake)));
        old = new;
    }
    let both = old.rotated([members[0]], [members[0]]);
    assert!(matches!(both, Err(BuildError::MistakeIsMember { hash, .. }) if hash == members[0]));
    let backwards = old.rotated([members[1], members[0]], NONE);
    assert!(matches!(backwards, Err(BuildError::Unsorted("members"))));
    for mistakes in [[members[1], members[0]], [Hash::MAX, Hash::MIN]] {
        let backwards = old.rotated([members[2]], mistakes);
        assert!(matches!(backwards, Err(BuildError::Unsorted("mistakes"))));
    }
}

/// A rebuild keeps unlisted repairs if both filters make the same fingerprints.
#[test]
fn rebuilding_with_equal_remainders_keeps_unlisted_repairs() {
    let members = sorted(900, 7);
    let mut old = filter(1500, 5, remainders(1));
    old.insert_many(&members).unwrap();
    let found = mistakes(&old, 3000, 8);
    for &mistake in &found {
        let Answer::Maybe(claim) = old.check(mistake) else { continue };
        let listed: Vec<Hash> =
            members.iter().copied().filter(|hash| claim.suspects().contains(hash)).collect();
        old.adapt(&claim, &listed).unwrap();
    }
    let rebuilt = |slots, remainders| {
        let mut parameters = old.parameters();
        (parameters.slots, parameters.remainders) = (slots, remainders);
        let members = members.iter().copied();
        QuotientFilter::rebuilt(parameters, &[&old], members, NONE).unwrap()
    };
    let came_back = |filter: &QuotientFilter| {
        filter.validate().unwrap();
        assert!(members.iter().all(|&member| filter.contains(member)));
        found.iter().filter(|&&mistake| filter.contains(mistake)).count()
    };
    let same = rebuilt(1500, remainders(1));
    assert_eq!(came_back(&same), 0);
    assert!(same.iter().eq(old.iter()));
    assert!(found.len() > 40);
    for other in [rebuilt(1500, remainders(2)), rebuilt(3000, remainders(1))] {
        // Repairs would be useless in this filter, so they are not carried over.
        assert_eq!(
            other.details().extension_slots,
            other.len() as u64 - other.details().fingerprints
        );
        assert!(came_back(&other) < found.len() / 3);
    }
}

/// The members fill several buckets of the radix sort.
#[test]
fn inserting_a_large_batch_gives_the_same_filter_as_building_from_sorted_members() {
    for slots in [400_000, 1 << 18] {
        let members: Vec<Hash> = (0..slots * 9 / 10).map(random(9)).collect();
        let mut bulk = filter(slots, 9, remainders(2));
        bulk.insert_many(&members).unwrap();
        bulk.validate().unwrap();
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let built = QuotientFilter::from_sorted(bulk.parameters(), sorted, NONE).unwrap();
        assert!(bulk.iter().eq(built.iter()));
        let mut maybe = Vec::new();
        bulk.contains_many(&members, &mut maybe);
        assert!(maybe.iter().all(|&maybe| maybe));
    }
}

#[test]
fn filters_with_fresh_remainders_are_not_doubled() {
    let members = sorted(300, 10);
    let growing = QuotientFilter::builder().slots(400).remainder_bits(9).grow_at(0.8);
    let mut filter = growing.build().unwrap();
    filter.insert_many(&members).unwrap();
    let mut filter = filter.rotated(members, NONE).unwrap();
    assert!(matches!(filter.doubled(), Err(GrowError::FreshRemainders)));
    let mut inserted = Vec::new();
    let error = loop {
        let hash = random(11)(inserted.len() as u64);
        match filter.insert(hash) {
            Ok(()) => inserted.push(hash),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, InsertError::Full { load } if load > 0.97), "{error}");
    assert_eq!(filter.parameters().slots, 400);
    assert!(inserted.iter().all(|&hash| filter.contains(hash)));
    filter.validate().unwrap();
    // A restored filter doesn't grow, either.
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    let mut restored = QuotientFilter::read_from(&bytes[..]).unwrap();
    assert!(restored.insert_many(&sorted(100, 12)).is_err());
    assert!(restored.iter().eq(filter.iter()));
}

#[test]
fn merging_requires_equal_remainders_and_sizes() {
    let with = |slots, remainders, seed| {
        let mut filter = filter(slots, 9, remainders);
        filter.insert_many(&sorted(300, seed)).unwrap();
        filter
    };
    let one = with(1000, remainders(1), 1);
    let same = with(1000, remainders(1), 2);
    let merged = QuotientFilter::merged(&[&one, &same]).unwrap();
    merged.validate().unwrap();
    assert_eq!((merged.len(), merged.parameters()), (600, one.parameters()));
    for hash in sorted(300, 1).into_iter().chain(sorted(300, 2)) {
        assert!(merged.contains(hash));
    }
    for other in [
        with(1000, remainders(2), 3),
        with(1000, Remainders::PLAIN, 3),
        with(2000, remainders(1), 3),
        with(500, remainders(1), 3),
    ] {
        for pair in [[&one, &other], [&other, &one]] {
            assert!(matches!(QuotientFilter::merged(&pair), Err(MergeError::Remainders)));
        }
    }
    let four = [1, 2, 3, 4].map(|seed| with(1000, remainders(1), seed));
    let merged = QuotientFilter::merged(&four.each_ref());
    assert!(matches!(merged, Err(MergeError::Build(BuildError::Full { slots: 1000 }))));
}

#[test]
fn debug_output_hides_the_secret_numbers_of_remainders() {
    let filter = filter(100, 9, remainders(1));
    let debug = format!("{filter:?} {:?}", filter.iter().next());
    assert!(debug.contains("Remainders(redacted)"), "{debug}");
    for number in remainders(1).expose().chunks_exact(8) {
        let number = u64::from_le_bytes(number.try_into().unwrap());
        assert!(!debug.contains(&format!("{number}")) && !debug.contains(&format!("{number:x}")));
    }
}

#[test]
fn snapshots_keep_fresh_remainders() {
    let secret = Secret::from_bytes([7; 16]);
    let mut keyed = Keyed::<u64, _>::new(filter(1000, 9, remainders(1)), secret.clone());
    for key in 0..800 {
        keyed.insert(&key).unwrap();
    }
    for mode in [SecretMode::Include, SecretMode::Omit] {
        let mut bytes = Vec::new();
        keyed.write_to(&mut bytes, mode).unwrap();
        let copy =
            Keyed::<u64, QuotientFilter>::read_from(&bytes[..], Some(secret.clone())).unwrap();
        assert_eq!(copy.filter().parameters(), keyed.filter().parameters());
        let frozen = Frozen::<QuotientFilter>::from_bytes(bytes).unwrap();
        frozen.validate().unwrap();
        assert_eq!(frozen.parameters(), keyed.filter().parameters());
        let hasher = KeyedHasher::new(&secret);
        assert!((0..800u64).all(|key| copy.contains(&key) && frozen.contains(hasher.hash(&key))));
        for key in 0..10_000u64 {
            let hash = hasher.hash(&key);
            assert_eq!(frozen.contains(hash), keyed.filter().contains(hash));
        }
    }
}

#[test]
fn rebuilt_shards_follow_their_plans() {
    let builder = QuotientFilter::builder().capacity(4000).remainder_bits(9).shards(4);
    let filter = builder.build_concurrent().unwrap();
    let hashes = sorted(4000, 13);
    filter.insert_each(&hashes).unwrap();
    let all: Members = hashes.iter().map(|&hash| (hash, 1)).collect();
    let before = filter.parameters();
    let of_shard = |shard| list(&all, filter.shard_hashes(shard));
    for (shard, plan) in [
        (0, ShardPlan::default().fresh()),
        (1, ShardPlan::slots(1500).fresh().remainder_bits(5)),
        (2, ShardPlan::capacity(2000).remainder_bits(12)),
    ] {
        let query = random(14)(shard as u64);
        let claim = filter.claim_near(query);
        filter.rebuild_shard(shard, plan, &of_shard(shard), &[]).unwrap();
        let is_stale = filter.adapt(&claim, Listing::default()).is_err();
        assert_eq!(is_stale, filter.shard_of(query) == shard);
    }
    check_entries(&filter, &all);
    filter.validate().unwrap();
    let after = filter.parameters();
    let sizes = |shard: usize| (after[shard].slots, after[shard].slot_bits);
    assert_eq!((sizes(0), sizes(1)), ((before[0].slots, 9), (1500, 5)));
    assert!(sizes(2).0 > 2000 && sizes(2).1 == 12 && after[2].remainder_bits == 12);
    assert_eq!(after[3], before[3]);
    assert!(after[0].remainders != after[1].remainders && after[2].remainders.is_plain());
    // A later rebuild keeps the remainders.
    filter.rebuild_shard(1, ShardPlan::default(), &of_shard(1), &[]).unwrap();
    assert_eq!(filter.shard_parameters(1), after[1]);
    let plain = ShardPlan::slots(after[1].slots).remainders(Remainders::PLAIN);
    filter.rebuild_shard(1, plain, &of_shard(1), &[]).unwrap();
    assert!(filter.shard_parameters(1).remainders.is_plain());
    let back = plain.remainders(after[1].remainders);
    filter.rebuild_shard(1, back, &of_shard(1), &[]).unwrap();
    // An exact size isn't enlarged, and a failure changes nothing.
    let few = filter.rebuild_shard(1, ShardPlan::slots(900), &of_shard(1), &[]);
    assert!(matches!(few, Err(RebuildError::Build(BuildError::Full { slots: 900 }))));
    let wide = filter.rebuild_shard(1, ShardPlan::default().remainder_bits(57), &of_shard(1), &[]);
    let Err(RebuildError::Build(wide)) = wide else { panic!("{wide:?}") };
    assert!(matches!(wide, BuildError::Plan(PlanError::RemainderBits { bits: 57, .. })));
    assert_eq!(filter.shard_parameters(1), after[1]);
    // Shards with fresh remainders are saved with the others. When they are full, they refuse
    // inserts instead of growing.
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    let restored = Concurrent::<QuotientFilter>::read_from(&bytes[..]).unwrap();
    assert_eq!(restored.parameters(), after);
    check_entries(&restored, &all);
    let refused = restored.insert_each(&sorted(8000, 15)).unwrap_err();
    assert!(!refused.refused.is_empty());
    for (shard, parameters) in restored.parameters().iter().enumerate() {
        assert_eq!(parameters.slots > after[shard].slots, parameters.remainders.is_plain());
    }
    restored.validate().unwrap();
    assert!(hashes.iter().all(|&hash| restored.contains(hash)));
}

#[test]
fn rebuilt_shards_of_coded_filters_follow_their_plans() {
    let builder = TelescopingFilter::builder().slots(4000).remainder_bits(8).shards(2);
    let filter = builder.build_concurrent().unwrap();
    let hashes = sorted(3000, 16);
    let all: Members = hashes.iter().map(|&hash| (hash, 1)).collect();
    for shard in 0..2 {
        let listed = list(&all, filter.shard_hashes(shard));
        let plan = ShardPlan::slots(1777).remainder_bits(7).fresh();
        filter.rebuild_shard(shard, plan, &listed, &[]).unwrap();
        let parameters = filter.shard_parameters(shard);
        assert_eq!((parameters.slots, parameters.remainder_bits), (1777, 7));
        assert!(!parameters.remainders.is_plain());
        let few = filter.rebuild_shard(shard, ShardPlan::slots(1000), &listed, &[]);
        assert!(matches!(few, Err(RebuildError::Build(BuildError::Full { slots: 1000 }))));
    }
    assert!(hashes.iter().all(|&hash| filter.contains(hash)));
    filter.validate().unwrap();
}
