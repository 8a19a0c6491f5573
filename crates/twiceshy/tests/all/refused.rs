//! Tests that operations change nothing if they fail or if the caller's code panics.

use std::iter::repeat_n;
use std::panic::{AssertUnwindSafe, catch_unwind};
use twiceshy::Listing;
use twiceshy::concurrent::ShardPlan;
use twiceshy::{
    AdaptiveBloomFilter, Answer, Claim, Hash, Key, Keyed, Member, QuotientFilter, Secret, Snapshot,
    Stats,
    error::{AdaptError, BuildError, InsertError, PlanError},
    hash::KeyedHasher,
    quotient::{Entry, MergeError},
};

/// Maximum number of members per fingerprint, and per filter.
const MOST: u64 = 1 << 40;
const MOST_IN_ALL: u64 = 1 << 62;

fn filter(slots: u64, remainder_bits: u32) -> QuotientFilter {
    let builder = QuotientFilter::builder().slots(slots);
    builder.remainder_bits(remainder_bits).build().unwrap()
}

fn claim(filter: &QuotientFilter, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

fn contents(filter: &QuotientFilter) -> (Vec<Entry>, Stats, Vec<u8>) {
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).unwrap();
    (filter.iter().collect(), filter.stats(), snapshot)
}

/// A key that panics when it is hashed if its value is `None`.
#[derive(Clone, Copy)]
struct Fragile(Option<u64>);

impl Key for Fragile {
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        match self.0 {
            Some(number) => hasher.hash(&number),
            None => std::panic::resume_unwind(Box::new("no number")),
        }
    }
}

/// Returns keys, one of which panics when it is hashed.
fn fragile(count: u64) -> Vec<Fragile> {
    let mut keys: Vec<Fragile> = (0..count).map(|number| Fragile(Some(number))).collect();
    keys[count as usize * 3 / 4].0 = None;
    keys
}

#[test]
fn insert_many_changes_nothing_if_a_hash_panics() {
    for members in [0, 50] {
        let empty = QuotientFilter::builder().slots(400).remainder_bits(8);
        let mut keyed =
            Keyed::<Fragile, _>::new(empty.build().unwrap(), Secret::from_bytes([7; 16]));
        for number in 0..members {
            keyed.insert(&Fragile(Some(1000 + number))).unwrap();
        }
        let before = contents(keyed.filter());
        let inserted = catch_unwind(AssertUnwindSafe(|| keyed.insert_many(&fragile(100))));
        assert!(inserted.is_err());
        assert!(contents(keyed.filter()) == before);
        keyed.filter().validate().unwrap();
        QuotientFilter::read_from(&before.2[..]).unwrap();
    }
}

#[test]
fn concurrent_filter_is_unchanged_and_usable_after_a_panic() {
    let builder = QuotientFilter::builder().slots(400).shards(4);
    let filter = builder.build_concurrent_keyed::<Fragile>().unwrap();
    filter.insert(&Fragile(Some(7))).unwrap();
    let hashes = filter.filter();
    let panics: [&dyn Fn(); 4] = [
        &|| filter.insert_each(&fragile(100)).unwrap(),
        &|| filter.contains_many(&fragile(100), &mut Vec::new()),
        &|| hashes.for_each(|_, _| std::panic::resume_unwind(Box::new("a visitor"))),
        &|| {
            #[derive(Clone, Copy)]
            struct Panicking;
            impl From<Panicking> for Member {
                fn from(_: Panicking) -> Self {
                    std::panic::resume_unwind(Box::new("a list"))
                }
            }
            hashes.rebuild_shard(0, ShardPlan::default(), &[Panicking], &[]).unwrap();
        },
    ];
    for panic in panics {
        assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
        assert_eq!(hashes.len(), 1);
        assert!(filter.contains(&Fragile(Some(7))));
        hashes.validate().unwrap();
    }
    filter.insert(&Fragile(Some(8))).unwrap();
    assert!(filter.contains(&Fragile(Some(8))));
}

#[test]
fn contains_many_leaves_no_wrong_answer_if_a_hash_panics() {
    let secret = Secret::from_bytes([7; 16]);
    let members: Vec<Fragile> = (0..100).map(|number| Fragile(Some(number))).collect();
    let mut quotient = Keyed::<Fragile, _>::new(filter(400, 8), secret.clone());
    quotient.insert_many(&members).unwrap();
    let bloom = AdaptiveBloomFilter::builder().capacity(100).build().unwrap();
    let mut bloom = Keyed::<Fragile, _>::new(bloom, secret);
    for member in &members {
        bloom.insert(member).unwrap();
    }
    for asking in [
        &(|maybe: &mut Vec<bool>| quotient.contains_many(&fragile(100), maybe)) as &dyn Fn(&mut _),
        &|maybe| bloom.contains_many(&fragile(100), maybe),
    ] {
        let mut maybe = vec![false; 3];
        assert!(catch_unwind(AssertUnwindSafe(|| asking(&mut maybe))).is_err());
        assert!(maybe.is_empty());
    }
}

/// Returns hashes close together at the end of the table, so that doubling makes no room.
fn crowded(count: u128) -> Vec<Hash> {
    (0..count).map(|number| Hash::from_u128(u128::MAX - (number << 102))).collect()
}

#[test]
fn refused_insert_many_does_not_grow_the_filter() {
    let builder = QuotientFilter::builder().slots(1000).remainder_bits(16);
    let mut filter = builder.grow_at(0.9).build().unwrap();
    let member = Hash::from_u128(7 << 100);
    filter.insert_times(member, MOST).unwrap();
    let query = Hash::from_u128((7 << 100) + 1);
    let made = claim(&filter, query);
    let before = contents(&filter);

    for _ in 0..3 {
        let refused = filter.insert_many(&crowded(2000));
        assert_eq!(refused, Err(InsertError::Full { load: filter.stats().load }));
        assert!(contents(&filter) == before);
    }
    // All except the last one would fit into a larger filter.
    let spread = (0..5000).map(|number| Hash::from_u128(number << 115));
    let uncountable: Vec<Hash> = spread.chain([member]).collect();
    assert_eq!(filter.insert_many(&uncountable), Err(InsertError::Uncountable));
    assert!(contents(&filter) == before);

    filter.adapt(&made, &[Member { hash: member, count: MOST }]).expect("the claim still holds");
    filter.insert_many(&uncountable[..5000]).unwrap();
    assert_eq!(filter.len() as u64, MOST + 5000);
    filter.validate().unwrap();
}

#[test]
fn insert_each_with_refused_hashes_grows_like_single_inserts() {
    let builder = QuotientFilter::builder().slots(1000).remainder_bits(16).shards(1);
    let [at_once, in_turn] =
        [(); 2].map(|()| builder.clone().grow_at(0.9).build_concurrent().unwrap());
    let hashes = crowded(2000);
    let error = at_once.insert_each(&hashes).unwrap_err();
    let refused: Vec<usize> =
        (0..2000).filter(|&index| in_turn.insert(hashes[index]).is_err()).collect();
    assert_eq!(error.refused, refused);
    assert_eq!(at_once.parameters(), in_turn.parameters());
}

#[test]
fn equal_hashes_are_counted_exactly_or_refused() {
    let hash = Hash::from_u128(7 << 100);
    let parameters = filter(100, 8).parameters();
    let built = |count: u64, times: usize| {
        let members = repeat_n(Member { hash, count }, times);
        QuotientFilter::from_sorted(parameters, members, [])
    };
    let filter = built(1, 1 << 20).unwrap();
    assert_eq!((filter.len(), filter.count(hash)), (1 << 20, 1 << 20));
    assert_eq!(built(MOST / 4, 4).unwrap().count(hash), MOST);
    for (count, times) in [(MOST / 4, 5), (MOST, 1 << 24), (1 << 63, 2), (u64::MAX, 2)] {
        assert!(matches!(built(count, times), Err(BuildError::Uncountable)), "{count} · {times}");
    }
}

#[test]
fn filter_counts_2_to_the_62_members_and_no_more() {
    let each = (0..MOST_IN_ALL / MOST).map(|number| Member {
        hash: Hash::from_u128(u128::from(number) << (128 - 22)),
        count: MOST,
    });
    let parameters = filter(3 << 22, 40).parameters();
    let one_more = each.clone().chain([Member { hash: Hash::MAX, count: 1 }]);
    let refused = QuotientFilter::from_sorted(parameters, one_more, []);
    assert!(matches!(refused, Err(BuildError::Uncountable)));

    let mut filter = QuotientFilter::from_sorted(parameters, each, []).unwrap();
    assert_eq!(filter.len() as u64, MOST_IN_ALL);
    let other = Hash::MAX;
    for times in [1, MOST, u64::MAX] {
        assert_eq!(filter.insert_times(other, times), Err(InsertError::Uncountable));
    }
    assert!(!filter.contains(other));
    let merged = QuotientFilter::merged(&[&filter, &filter]);
    assert!(matches!(merged, Err(MergeError::Build(BuildError::Uncountable))));
    // A single insert is never refused because of the count, and the filter can be saved.
    filter.insert(other).unwrap();
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).unwrap();
    assert_eq!(QuotientFilter::read_from(&snapshot[..]).unwrap().len(), filter.len());
}

#[test]
fn listed_counts_that_overflow_are_refused() {
    let mut filter = filter(16, 8);
    let [a, b, query] = [1u128, 2, 3].map(|low| Hash::from_u128(7 << 120 | low << 80));
    filter.insert(a).unwrap();
    let made = claim(&filter, query);
    let listed = [a, b].map(|hash| Member { hash, count: u64::MAX });
    let refused = filter.adapt(&made, &listed);
    assert_eq!(refused, Err(AdaptError::Surplus { members: u64::MAX - 1 }));
    assert!(filter.contains(a));
}

#[test]
fn expected_rate_does_not_count_tombstones() {
    let members: Vec<Hash> = (0..20).map(|number| Hash::from_u128(number << 123)).collect();
    let mut filter = filter(64, 8);
    filter.insert_many(&members).unwrap();
    // This converts the rate to a number of fingerprints.
    let counted =
        |filter: &QuotientFilter| (filter.stats().expected_rate * 64.0 * 256.0).round() as u64;
    assert_eq!(counted(&filter), 20);
    for &member in &members[..8] {
        let Answer::Maybe(claim) = filter.check(Hash::from_u128(member.as_u128() | 1 << 110))
        else {
            panic!("it shares 17 bits with a member");
        };
        filter.adapt(&claim, &[member]).unwrap();
    }
    members[..8].iter().for_each(|&member| filter.remove_trusting_keeping_repairs(member).unwrap());
    assert_eq!(filter.details().fingerprints, 20);
    assert_eq!(counted(&filter), 12);

    let restored = QuotientFilter::read_from(&contents(&filter).2[..]).unwrap();
    let merged = QuotientFilter::merged(&[&filter]).unwrap();
    let doubled = filter.doubled().unwrap();
    for copy in [&restored, &merged, &doubled] {
        assert_eq!(counted(copy), 12);
        copy.validate().unwrap();
    }
    // Revive the tombstone by an insert, by a batch, and by a batch that is undone.
    filter.insert(members[0]).unwrap();
    assert_eq!(counted(&filter), 13);
    filter.insert_many(&members[1..3]).unwrap();
    assert_eq!(counted(&filter), 15);
    let too_many: Vec<Hash> = members[3..8]
        .iter()
        .copied()
        .chain((0..200).map(|number| Hash::from_u128(number << 120)))
        .collect();
    filter.insert_many(&too_many).unwrap_err();
    assert_eq!(counted(&filter), 15);
    filter
        .remove(&claim(&filter, members[9]), Listing::new(&members[9..10]).with_mistakes(&[]))
        .unwrap();
    assert_eq!(counted(&filter), 14);
    filter.validate().unwrap();
}

/// Merging cuts fingerprints to the length of the shortest, so they match more hashes.
#[test]
fn merged_filter_with_cut_remainders_matches_more_hashes() {
    let (mut short, mut long) = (filter(16, 8), filter(32, 8));
    let bits = |bits: u128| Hash::from_u128(bits << (128 - 20));
    let [member, mistake] = [bits(0x12_300), bits(0x12_3ff)];
    short.insert(member).unwrap();
    short.adapt(&claim(&short, mistake), &[member]).unwrap();
    // This hash has 12 bits in common with the mistake, and differs in the 13th.
    let other = Hash::from_u128(mistake.as_u128() ^ 1 << (128 - 13));
    long.insert(other).unwrap();
    assert!(!short.contains(mistake) && !long.contains(mistake));
    let merged = QuotientFilter::merged(&[&short, &long]).unwrap();
    assert!(merged.contains(member) && merged.contains(other));
    assert!(merged.contains(mistake), "the remainders of one filter were cut");

    // If the fingerprints of both filters have equal lengths, nothing is cut.
    let mut same = filter(16, 8).doubled().unwrap();
    same.insert(Hash::from_u128(mistake.as_u128() ^ 1 << (128 - 12))).unwrap();
    let merged = QuotientFilter::merged(&[&short, &same]).unwrap();
    assert!(!merged.contains(mistake));
}

#[test]
fn plan_and_build_refuse_the_same_value_bits() {
    for bits in [17, u32::MAX] {
        for builder in [
            QuotientFilter::builder().slots(100),
            QuotientFilter::builder().capacity(100),
            QuotientFilter::builder().memory(10_000),
        ] {
            let builder = builder.value_bits(bits);
            let refused = PlanError::ValueBits(bits);
            assert_eq!(builder.plan(), Err(refused));
            let built = builder.build();
            assert!(matches!(built, Err(BuildError::Plan(error)) if error == refused));
        }
    }
}
