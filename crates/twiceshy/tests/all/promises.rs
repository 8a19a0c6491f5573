//! Tests the filter's promises on sets of realistic size. All data comes from a fixed secret, so
//! failures are reproducible.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::RangeInclusive;
use twiceshy::{
    Answer, Hash, Member, MemberSource, QuotientFilter, Secret,
    error::{AdaptError, BuildError},
    hash::KeyedHasher,
};

/// Returns an endless sequence of random hashes for a seed.
fn random(seed: u64) -> impl Fn(u64) -> Hash + Clone {
    let hasher = KeyedHasher::new(&Secret::from_bytes([42; 16]));
    move |index| hasher.hash(&(u128::from(seed) << 64 | u128::from(index)))
}

/// All members in hash order, each with the number of its insert.
struct Timeline(Vec<(Hash, u32)>);

impl Timeline {
    fn new(hashes: impl Iterator<Item = Hash>) -> Self {
        let mut members: Vec<_> = hashes.zip(0..).collect();
        members.sort_unstable();
        Self(members)
    }

    fn listed(&self, suspects: &RangeInclusive<Hash>) -> impl Iterator<Item = (Hash, u32)> {
        let first = self.0.partition_point(|(hash, _)| hash < suspects.start());
        let last = *suspects.end();
        self.0[first..].iter().copied().take_while(move |(hash, _)| *hash <= last)
    }

    /// Returns the suspects among the first `count` members.
    fn suspects(&self, interval: &RangeInclusive<Hash>, count: u32) -> Vec<Member> {
        let listed = self.listed(interval).filter(|(_, number)| *number < count);
        listed.map(|(hash, _)| hash.into()).collect()
    }
}

impl MemberSource for Timeline {
    type Member = Member;
    type Error = Infallible;
    fn members(&self, suspects: RangeInclusive<Hash>) -> Result<Vec<Member>, Infallible> {
        Ok(self.suspects(&suspects, u32::MAX))
    }
}

/// Returns a random hash in an interval.
fn within(interval: &RangeInclusive<Hash>, random: Hash) -> Hash {
    let (first, last) = (interval.start().as_u128(), interval.end().as_u128());
    Hash::from_u128(first + random.as_u128() % (last - first + 1))
}

#[test]
fn full_filter_of_ten_million_keeps_members_and_a_million_repairs() {
    const MEMBERS: u32 = 10_000_000;
    const REPAIRS: u32 = 1_000_000;
    const REMAINDER_BITS: u32 = 9;
    let slots = f64::from(MEMBERS + REPAIRS) * 1.002 / 0.95;
    let mut filter = QuotientFilter::builder()
        .remainder_bits(REMAINDER_BITS)
        .slots(slots as u64)
        .build()
        .unwrap();
    let (member, noise) = (random(1), random(2));
    let timeline = Timeline::new((0..MEMBERS.into()).map(&member));
    let mut mistakes = Vec::new();
    let mut draws = 0;

    for inserted in 1..=MEMBERS {
        filter.insert(member(u64::from(inserted) - 1)).unwrap();
        while mistakes.len() < (inserted / (MEMBERS / REPAIRS)) as usize {
            // Choose a query that may be a mistake: any hash in the interval of suspects of some
            // member.
            draws += 1;
            let draw = noise(draws);
            let victim = member(draw.as_u128() as u64 % u64::from(inserted));
            let Answer::Maybe(claim) = filter.check(victim) else { panic!("a false negative") };
            let query = within(&claim.suspects(), draw);
            // If the filter already distinguishes the query from the member, try another member.
            let Answer::Maybe(claim) = filter.check(query) else { continue };
            let members = timeline.suspects(&claim.suspects(), inserted);
            filter.adapt(&claim, &members).unwrap();
            assert!(!filter.contains(query));
            mistakes.push((query, inserted));
        }
        assert!(filter.contains(member(u64::from(inserted / 2))), "a false negative");
    }
    let statistics = filter.stats();
    assert_eq!(mistakes.len(), REPAIRS as usize);
    assert!(statistics.load > 0.945 && statistics.load < 0.955, "{}", statistics.load);
    let lost = (0..MEMBERS.into()).filter(|&index| !filter.contains(member(index))).count();
    assert_eq!(lost, 0, "false negatives");

    // A repaired mistake can occur again only if a colliding member was inserted later.
    let back: Vec<_> = mistakes.iter().filter(|(query, _)| filter.contains(*query)).collect();
    assert!(back.len() < 50, "{} are back", back.len());
    for (query, repaired) in back {
        let Answer::Maybe(claim) = filter.check(*query) else { unreachable!() };
        let newest = timeline.listed(&claim.suspects()).map(|(_, number)| number).max();
        assert!(newest >= Some(*repaired), "{query:?} came back by itself");
    }
    filter.validate().unwrap();
}

/// Asserts that a count is within 5 standard deviations of its mean.
fn assert_near(what: &str, count: u64, queries: u64, rate: f64, spread_of_rate: f64) {
    let expected = rate * queries as f64;
    let variance = expected * (1.0 - rate) + (spread_of_rate * queries as f64).powi(2);
    let distance = (count as f64 - expected) / variance.sqrt();
    assert!(distance.abs() < 5.0, "{what}: {count}, not {expected:.0} ({distance:+.1} sigma)");
}

#[test]
fn false_positive_rate_is_as_promised() {
    const SLOTS: u64 = 50_021;
    const QUERIES: u64 = 1_000_000;
    for remainder_bits in [1, 3, 5, 8, 9, 12] {
        let mut filter =
            QuotientFilter::builder().remainder_bits(remainder_bits).slots(SLOTS).build().unwrap();
        let (member, query) = (random(10 + u64::from(remainder_bits)), random(3));
        for percent in [10, 50, 75, 90, 95, 99] {
            while filter.stats().load < f64::from(percent) / 100.0 {
                filter.insert(member(filter.len() as u64)).unwrap();
            }
            let queries: Vec<Hash> = (0..QUERIES).map(&query).collect();
            let mut maybe = Vec::new();
            filter.contains_many(&queries, &mut maybe);
            assert!(queries.iter().map(|&hash| filter.contains(hash)).eq(maybe.iter().copied()));
            let count = maybe.iter().filter(|&&maybe| maybe).count();
            let cells = SLOTS as f64 * f64::from(remainder_bits).exp2();
            let density = filter.len() as f64 / cells;
            let rate = 1.0 - (-density).exp();
            // The number of occupied cells is also random, so add its variance.
            let spread = (rate * (1.0 - rate) / cells).sqrt();
            let what = format!("{remainder_bits} bits at {percent} %");
            assert_near(&what, count as u64, QUERIES, rate, spread);
            assert_near(&what, count as u64, QUERIES, filter.stats().expected_rate, 0.0);
        }
    }
}

#[test]
fn builder_keeps_the_requested_rate() {
    const QUERIES: u64 = 2_000_000;
    let (member, query) = (random(5), random(6));
    for rate in [0.5, 0.1, 0.02, 0.01, 0.001, 0.0002] {
        let builder = QuotientFilter::builder().false_positive_rate(rate).capacity(60_000);
        let plan = builder.plan().unwrap();
        let mut filter = builder.build().unwrap();
        for index in 0..60_000 {
            filter.insert(member(index)).unwrap();
        }
        let count = (0..QUERIES).filter(|&index| filter.contains(query(index))).count() as u64;
        assert_near("planned", count, QUERIES, plan.expected_rate, plan.expected_rate * 0.01);
        assert!(plan.expected_rate <= rate, "{} for {rate}", plan.expected_rate);
        assert!(filter.stats().load <= 0.951);
        assert_eq!(filter.stats().memory, plan.bytes);
        let bits = plan.bytes as f64 * 8.0 / 60_000.0;
        assert!(bits < 1.2 * (-rate.log2()).max(6.0) + 5.0, "{bits} bits per key for {rate}");
    }
}

#[test]
fn full_filter_has_room_for_planned_adaptations() {
    let member = random(7);
    for remainder_bits in [2, 9] {
        let builder = QuotientFilter::builder()
            .remainder_bits(remainder_bits)
            .capacity(20_000)
            .adaptations(5_000);
        let mut filter = builder.build().unwrap();
        let timeline = Timeline::new((0..20_000).map(&member));
        for index in 0..20_000 {
            filter.insert(member(index)).unwrap();
        }
        let query = random(8);
        let mut repaired = 0;
        for query in (0..).map(query) {
            if let Answer::Maybe(claim) = filter.check(query) {
                filter.adapt(&claim, timeline.members(claim.suspects()).unwrap()).unwrap();
                repaired += 1;
            }
            if repaired == 5_000 {
                break;
            }
        }
        assert_eq!(filter.stats().repairs, 5_000);
        // The planned load is 95 %.
        assert!(filter.stats().load < 0.96, "{}", filter.stats().load);
    }
}

/// Plays the adaptivity game of the papers: an attacker repeats a set of queries, and after each
/// round keeps only those that were false positives.
fn play(slots: u64, load: f64, queries_per_member: u64) {
    let member = random(20);
    let members = (slots as f64 * load) as u64;
    let timeline = Timeline::new((0..members).map(&member));
    let mut filter = QuotientFilter::builder().remainder_bits(9).slots(slots).build().unwrap();
    for index in 0..members {
        filter.insert(member(index)).unwrap();
    }
    let query = random(21 + queries_per_member);
    let mut round: Vec<Hash> = (0..members * queries_per_member).map(&query).collect();
    let everything = round.clone();
    for number in 1..=2 {
        round.retain(|&query| match filter.check(query) {
            Answer::Absent => false,
            Answer::Maybe(claim) => {
                filter.adapt(&claim, timeline.members(claim.suspects()).unwrap()).unwrap();
                true
            }
        });
        let expected = 1.0 - (-load / 512.0).exp();
        let left = if number == 1 { everything.len() as f64 * expected } else { 0.0 };
        assert!(round.len() as f64 <= left * 1.05, "{} queries left", round.len());
    }
    assert_eq!(round, []);
    // No repair has undone another, and no member is lost.
    assert!(!everything.iter().any(|&query| filter.contains(query)));
    assert!((0..members).all(|index| filter.contains(member(index))));
    filter.validate().unwrap();
}

#[test]
fn attacker_has_no_mistakes_left_after_two_rounds() {
    for queries_per_member in [10, 20, 30, 50] {
        play(1 << 16, 0.9, queries_per_member);
    }
    play(1 << 16, 0.8, 100);
    play(100_003, 0.8, 100);
}

#[test]
fn full_filter_refuses_inserts_and_keeps_its_answers() {
    let (member, query) = (random(30), random(31));
    let timeline = Timeline::new((0..1_900).map(&member));
    let mut filter = QuotientFilter::builder().remainder_bits(5).slots(2_000).build().unwrap();
    for index in 0..1_900 {
        filter.insert(member(index)).unwrap();
    }
    let mut refused = 0;
    for index in 0..20_000 {
        let Answer::Maybe(claim) = filter.check(query(index)) else { continue };
        let members = timeline.members(claim.suspects()).unwrap();
        let before: Vec<_> = filter.iter().collect();
        match filter.adapt(&claim, &members) {
            Ok(_) => assert!(!filter.contains(query(index))),
            Err(AdaptError::Full { load }) => {
                refused += 1;
                assert!(load > 0.98, "{load}");
                assert!(filter.contains(query(index)));
                assert!(filter.iter().eq(before));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    assert!(filter.stats().load <= 1.0);
    assert!((0..1_900).all(|index| filter.contains(member(index))));
    filter.validate().unwrap();
}

#[test]
fn building_from_lists_equals_inserting_and_repairing() {
    let (member, query) = (random(40), random(41));
    let mistakes: Vec<Hash> = (0..200_000).map(query).collect();
    for remainder_bits in [3, 9] {
        let builder = QuotientFilter::builder().remainder_bits(remainder_bits);
        let members: Vec<Hash> = (0..20_000).map(&member).collect();
        let built = builder.build_from(members.clone(), mistakes.clone()).unwrap();
        built.validate().unwrap();
        assert!(members.iter().all(|&hash| built.contains(hash)));
        assert!(!mistakes.iter().any(|&hash| built.contains(hash)));

        let mut grown = builder.clone().slots(built.parameters().slots).build().unwrap();
        let timeline = Timeline::new(members.iter().copied());
        for &hash in &members {
            grown.insert(hash).unwrap();
        }
        for &hash in &mistakes {
            if let Answer::Maybe(claim) = grown.check(hash) {
                grown.adapt(&claim, timeline.members(claim.suspects()).unwrap()).unwrap();
            }
        }
        assert!(grown.iter().eq(built.iter()), "{remainder_bits} bits");
    }
}

#[test]
fn all_ways_of_inserting_give_the_same_filter() {
    let random = random(17);
    let skewed = |index: u64| Hash::from_u128(random(index).as_u128() >> (index % 8));
    let spreads: [(u64, &dyn Fn(u64) -> Hash); 4] = [
        (300_000, &|index| random(index)),
        (10_000, &skewed),
        (300_000, &|index| Hash::from_u128(u128::MAX / 300_000 * u128::from(index))),
        (300, &|_| random(5)),
    ];
    for (members, hash) in spreads {
        let hashes: Vec<Hash> = (0..members).map(hash).collect();
        for (remainder_bits, slots) in [(9, 330_000), (1, 1 << 19), (7, 350_003), (40, 400_001)] {
            let empty = || {
                let builder = QuotientFilter::builder();
                builder.remainder_bits(remainder_bits).slots(slots).build().unwrap()
            };
            let (mut one_by_one, mut batches, mut bulk) = (empty(), empty(), empty());
            for &hash in &hashes {
                one_by_one.insert(hash).unwrap();
            }
            for batch in hashes.chunks(1000) {
                batches.insert_many(batch).unwrap();
            }
            bulk.insert_many(&hashes).unwrap();
            for filter in [&one_by_one, &batches, &bulk] {
                filter.validate().unwrap();
                assert_eq!(filter.len(), hashes.len());
                assert!(filter.iter().eq(one_by_one.iter()));
            }
        }
    }
}

#[test]
fn filter_is_enlarged_if_its_capacity_was_estimated_too_small() {
    const QUERIES: u64 = 1_000_000;
    let (member, query, other) = (random(50), random(51), random(52));
    let members: Vec<Hash> = (0..5_000).map(member).collect();
    let mistakes: Vec<Hash> = (0..500_000).map(query).collect();
    let builder = QuotientFilter::builder();
    for capacity in [0, 1, 10, 100, 4_900, 5_000] {
        // The requested rate holds, however wrong the estimate is.
        let few = builder.clone().false_positive_rate(0.001).capacity(capacity);
        let built = few.build_from(members.clone(), vec![]).unwrap();
        let count = (0..QUERIES).filter(|&index| built.contains(other(index))).count();
        assert!(count < 1_200, "{count} of a million for capacity {capacity}");
        // The room for repairs is also kept.
        let many = builder.clone().remainder_bits(4).capacity(capacity);
        let built = many.build_from(members.clone(), mistakes.clone()).unwrap();
        assert!(built.len() == 5_000 && !mistakes.iter().any(|&hash| built.contains(hash)));
    }
    // A requested size is not enlarged.
    let refused = builder.remainder_bits(4).slots(5_100).build_from(members, mistakes);
    assert!(matches!(refused, Err(BuildError::Full { slots: 5_100 })));
}

#[test]
fn different_secrets_have_different_mistakes() {
    let hashers = [1, 2].map(|byte| KeyedHasher::new(&Secret::from_bytes([byte; 16])));
    let positives: Vec<HashSet<u64>> = hashers
        .iter()
        .map(|hasher| {
            let mut filter = QuotientFilter::builder().capacity(10_000).build().unwrap();
            for key in 0..10_000u64 {
                filter.insert(hasher.hash(&key)).unwrap();
            }
            (10_000..1_000_000u64).filter(|key| filter.contains(hasher.hash(key))).collect()
        })
        .collect();
    // Each filter makes about a thousand mistakes. About one is common to both by chance.
    assert!(positives.iter().all(|keys| keys.len() > 500));
    assert!(positives[0].intersection(&positives[1]).count() < 10);
}
