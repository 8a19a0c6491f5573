//! The adaptive Bloom filter: random operations compared with a model, and its promises on sets of
//! real size. All data comes from a fixed secret.

use arbitrary::Unstructured;
use proptest::prelude::*;
use std::collections::BTreeSet;
use twiceshy::Listing;
use twiceshy::{
    AdaptiveBloomFilter, Answer, Hash, Member, Secret,
    builder::Builder,
    error::{BuildError, InsertError, PlanError},
    hash::KeyedHasher,
};
use twiceshy_model::bloom::{Shape, drive, drive_shape};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn random_operations_match_the_model(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive(&bytes);
    }

    /// Plans so few cells and repairs that every part becomes full.
    #[test]
    fn operations_on_full_filters_match_the_model(
        capacity in 1usize..12,
        rate in prop::sample::select(vec![0.99, 0.7, 0.5, 0.3]),
        adaptations in 0usize..6,
        bytes in prop::collection::vec(any::<u8>(), 4000),
    ) {
        drive_shape(Shape { capacity, rate, adaptations }, &mut Unstructured::new(&bytes));
    }

    /// Plans and uses several levels below the first one.
    #[test]
    fn operations_on_filters_with_many_levels_match_the_model(
        bytes in prop::collection::vec(any::<u8>(), 4000)
    ) {
        let shape = Shape { capacity: 40, rate: 0.6, adaptations: 2000 };
        let plan = planned(shape.capacity, shape.rate).adaptations(shape.adaptations).plan();
        prop_assert!(plan.unwrap().details.levels > 3);
        drive_shape(shape, &mut Unstructured::new(&bytes));
    }
}

/// Returns an endless sequence of random hashes for a seed.
fn random(seed: u64) -> impl Fn(u64) -> Hash + Clone {
    let hasher = KeyedHasher::new(&Secret::from_bytes([42; 16]));
    move |index| hasher.hash(&(u128::from(seed) << 64 | u128::from(index)))
}

/// A filter and its members in hash order.
struct Set {
    filter: AdaptiveBloomFilter,
    members: BTreeSet<Hash>,
}

impl Set {
    fn full(builder: &Builder<AdaptiveBloomFilter>, seed: u64) -> Self {
        let mut filter = builder.build().unwrap();
        let capacity = builder.plan().unwrap().capacity as u64;
        let members: BTreeSet<Hash> = (0..capacity).map(random(seed)).collect();
        for &member in &members {
            filter.insert(member).unwrap();
        }
        Self { filter, members }
    }

    /// Looks up a key that is not a member. Returns whether that was a mistake, and repairs it.
    fn ask(&mut self, query: Hash) -> bool {
        let Answer::Maybe(claim) = self.filter.check(query) else { return false };
        let suspects: Vec<Hash> = self.members.range(claim.suspects()).copied().collect();
        self.filter.adapt(&claim, &suspects).unwrap();
        assert!(!self.filter.contains(query));
        true
    }

    fn check(&self) {
        let lost = self.members.iter().filter(|&&member| !self.filter.contains(member)).count();
        assert_eq!(lost, 0, "false negatives");
        self.filter.validate().unwrap();
    }
}

fn planned(capacity: usize, rate: f64) -> Builder<AdaptiveBloomFilter> {
    AdaptiveBloomFilter::builder().capacity(capacity).false_positive_rate(rate)
}

/// Asserts that a count exceeds its expectation by less than 5 standard deviations.
fn assert_at_most(what: &str, count: u64, queries: u64, rate: f64) {
    let expected = rate * queries as f64;
    let most = expected + 5.0 * (expected * (1.0 - rate)).sqrt() + 1.0;
    assert!((count as f64) < most, "{what}: {count} of {queries}, not {expected:.0}");
}

#[test]
fn false_positive_rate_is_as_promised() {
    const QUERIES: u64 = 400_000;
    for (seed, rate) in (1..).zip([0.9, 0.5, 0.25, 0.1, 0.01, 0.001]) {
        let set = Set::full(&planned(30_000, rate), seed);
        let queries: Vec<Hash> = (0..QUERIES).map(random(100)).collect();
        let mut maybe = Vec::new();
        set.filter.contains_many(&queries, &mut maybe);
        let count = maybe.iter().filter(|&&maybe| maybe).count() as u64;
        let what = format!("a rate of {rate}");
        // Allow 2 % for the random number of set cells.
        assert_at_most(&what, count, QUERIES, (rate * 1.02).min(1.0));
        assert!(count as f64 > 0.93 * rate * QUERIES as f64 - 60.0, "{what}: only {count}");
        set.check();
    }
}

/// Plays the game of Bender et al.: an attacker looks up new keys and earlier mistakes, in any
/// order and as often as they like. Each mistake is repaired immediately. With any strategy, at
/// most a share ε of the queries are mistakes.
#[test]
fn share_of_mistakes_among_an_attackers_queries_is_at_most_the_rate() {
    const CAPACITY: usize = 20_000;
    for (seed, rate) in (1..).zip([0.25, 0.1, 0.02, 0.004]) {
        let mut set = Set::full(&planned(CAPACITY, rate), seed);
        let fresh = random(200 + seed);
        let (mut found, mut first, mut again) = (Vec::new(), 0, 0);
        for round in 0..CAPACITY as u64 {
            let query = fresh(round);
            if set.ask(query) {
                first += 1;
                found.push(query);
            }
            // Repeats two earlier mistakes with each new key.
            for turn in 0..2u64.min(found.len() as u64) {
                let at = (round * 2 + turn) % found.len() as u64;
                again += u64::from(set.ask(found[at as usize]));
            }
        }
        let rounds = CAPACITY as u64;
        assert_at_most(&format!("fresh keys at {rate}"), first, rounds, rate * 1.02);
        // Level 1 or a deeper level answers a repeated query, and its rate is at most ε².
        assert_at_most(&format!("old mistakes at {rate}"), again, 2 * rounds, rate * rate);
        let details = set.filter.details();
        assert!(first > rounds / 2 * (rate * 1000.0) as u64 / 1000, "{first} at {rate}");
        assert!((0.5..1.5).contains(&details.wear), "a wear of {}, not 1", details.wear);
        set.check();

        // After a rebuild, there is room for as many repairs again.
        set.filter = set.filter.rotated(set.members.iter().copied()).unwrap();
        assert_eq!(set.filter.details().dead_cells, 0);
        set.check();
    }
}

/// Plays the same game across rebuilds. The attacker knows every earlier mistake, and replays all
/// of them after each rebuild. Only the first of the k functions stays the same, so a mistake
/// recurs with probability ε^(1 − 1/k). A mistake that has recurred is not more likely to recur
/// again.
#[test]
fn replayed_mistakes_recur_at_the_documented_rate() {
    const CAPACITY: usize = 20_000;
    const BUILDS: usize = 4;
    for (seed, rate) in (1..).zip([0.25, 0.1, 0.02, 0.004]) {
        let mut set = Set::full(&planned(CAPACITY, rate), 50 + seed);
        let functions = planned(CAPACITY, rate).plan().unwrap().details.functions;
        let replayed_rate = rate.powf(1.0 - f64::from(functions).recip());
        assert!(replayed_rate < 2.5 * rate, "{replayed_rate} at {rate}");
        let fresh = random(700 + seed);
        // Earlier mistakes, and whether each was a mistake in all later builds, too.
        let mut known: Vec<(Hash, bool)> = Vec::new();
        for build in 0..BUILDS as u64 {
            let (mut came_back, mut survivors, mut survived) = (0, 0, 0);
            for (query, is_survivor) in &mut known {
                let is_mistake = set.ask(*query);
                came_back += u64::from(is_mistake);
                survivors += u64::from(*is_survivor);
                survived += u64::from(*is_survivor && is_mistake);
                *is_survivor &= is_mistake;
            }
            let what = format!("replayed at {rate} in build {build}");
            assert_at_most(&what, came_back, known.len() as u64, replayed_rate * 1.02);
            assert_at_most(&what, survived, survivors, replayed_rate * 1.02);
            let rounds = CAPACITY as u64;
            let queries = (0..rounds).map(|round| fresh(build * rounds + round));
            let found: Vec<Hash> = queries.filter(|&query| set.ask(query)).collect();
            let what = format!("fresh keys at {rate} in build {build}");
            assert_at_most(&what, found.len() as u64, rounds, rate * 1.02);
            known.extend(found.into_iter().map(|query| (query, true)));
            set.check();
            set.filter = set.filter.rotated(set.members.iter().copied()).unwrap();
        }
        assert!(known.len() as f64 > 2.0 * rate * CAPACITY as f64, "only {} mistakes", known.len());
    }
}

/// The paper claims (1 + O(ε)) times the space of a Bloom filter, after as many queries as there
/// are members. The constant in the O is 9 at ε = 1/4, where a dead cell takes as much space as a
/// member, and less at lower rates.
#[test]
fn adaptive_filter_takes_little_more_space_than_plain_bloom_filter() {
    const CAPACITY: usize = 200_000;
    println!(
        "rate      Bloom  planned    taken   factor  (factor-1)/rate  bits/member  dead cells  bits each"
    );
    for (seed, rate) in (1..).zip([0.25, 0.1, 0.02, 0.004, 0.001]) {
        let mut set = Set::full(&planned(CAPACITY, rate), seed);
        let plan = planned(CAPACITY, rate).plan().unwrap();
        let fresh = random(300 + seed);
        let mistakes = (0..CAPACITY as u64).filter(|&index| set.ask(fresh(index))).count();
        assert!(mistakes as u64 >= set.filter.details().dead_cells);
        let (stats, details) = (set.filter.stats(), set.filter.details());
        let bits = f64::from(plan.details.functions) * plan.slots as f64;
        let factor = stats.memory as f64 * 8.0 / bits;
        let dead = details.dead_bytes as f64 * 8.0 / details.dead_cells as f64;
        println!(
            "{rate:<7} {:>7.0} {:>8} {:>8} {factor:>8.4} {:>16.2} {:>12.2} {:>11} {dead:>10.1}",
            bits / 8.0,
            plan.bytes,
            stats.memory,
            (factor - 1.0) / rate,
            stats.memory as f64 * 8.0 / stats.members as f64,
            details.dead_cells,
        );
        // Versions and the struct itself take space independent of ε.
        let fixed = 10_000.0 * 8.0 / bits;
        assert!(factor < 1.0 + 9.5 * rate + fixed, "{factor} at a rate of {rate}");
        assert!(stats.memory as f64 <= plan.bytes as f64 * 1.02, "more than was planned");
        // The optimum of any partitioned Bloom filter is log₂ e · log₂(1/ε).
        let optimum = core::f64::consts::LOG2_E * rate.recip().log2();
        assert!(bits / (CAPACITY as f64) < 1.03 * optimum, "level 0 at {rate}");
        set.check();
    }
}

#[test]
fn many_unplanned_repairs_lose_no_member() {
    let mut set = Set::full(&planned(2000, 0.1).adaptations(20), 1);
    let fresh = random(400);
    let mistakes: Vec<Hash> = (0..20_000).map(fresh).filter(|&query| set.ask(query)).collect();
    assert!(mistakes.len() > 1000, "{}", mistakes.len());
    let details = set.filter.details();
    assert!(details.rebuild_due && details.wear > 10.0, "{details:?}");
    let again = mistakes.iter().filter(|&&query| set.filter.contains(query)).count();
    assert!(again < mistakes.len() / 20, "{again} of {} are back", mistakes.len());
    set.check();
}

/// Members are inserted and removed. Removed members leave ghosts, which a rebuild clears.
#[test]
fn churn_fills_the_filter_until_it_is_rebuilt() {
    let mut set = Set::full(&planned(5000, 0.02), 1);
    let (newcomer, fresh) = (random(500), random(501));
    let mut rebuilds = 0;
    for index in 0..20_000 {
        let gone = *set.members.iter().nth(index % 97).unwrap();
        let Answer::Maybe(claim) = set.filter.check(gone) else { panic!("a false negative") };
        let suspects: Vec<Hash> = set.members.range(claim.suspects()).copied().collect();
        set.filter.remove(&claim, &suspects).unwrap();
        set.members.remove(&gone);
        let hash = newcomer(index as u64);
        if let Err(InsertError::Full { load }) = set.filter.insert(hash) {
            assert!(load >= 1.0 && set.filter.details().rebuild_due);
            // There must be room for the members that are inserted and removed.
            let keep: Vec<Hash> = set.members.iter().copied().take(4000).collect();
            set.members = keep.iter().copied().collect();
            set.filter = set.filter.rotated(keep).unwrap();
            set.filter.insert(hash).unwrap();
            rebuilds += 1;
        }
        set.members.insert(hash);
        let query = fresh(index as u64);
        if let Answer::Maybe(claim) = set.filter.check(query) {
            let suspects: Vec<Hash> = set.members.range(claim.suspects()).copied().collect();
            set.filter.adapt(&claim, Listing::new(&suspects).dropping_ghosts()).unwrap();
            assert!(!set.filter.contains(query));
        }
    }
    assert!(rebuilds > 3);
    set.check();
}

/// A removed member that was alone in its cell leaves no ghost, but its other bits stay.
#[test]
fn rebuild_is_due_if_it_would_make_room_in_a_full_filter() {
    let mut set = Set::full(&planned(1000, 0.02), 3);
    // Members whose cells were already set took no room.
    let mut others = (0..).map(random(900));
    let refused = others.find(|&hash| match set.filter.insert(hash) {
        Ok(()) => !set.members.insert(hash),
        Err(error) => matches!(error, InsertError::Full { .. }),
    });
    let refused = refused.expect("the filter gets full");
    assert!(!set.filter.details().rebuild_due, "there is nothing to free");
    let alone = set.members.iter().copied().find(|&member| {
        let Answer::Maybe(claim) = set.filter.check(member) else { panic!("a false negative") };
        set.members.range(claim.suspects()).count() == 1
    });
    let gone = alone.expect("one of a thousand is alone");
    let Answer::Maybe(claim) = set.filter.check(gone) else { panic!("a false negative") };
    set.filter.remove(&claim, &[gone]).unwrap();
    set.members.remove(&gone);
    assert_eq!((set.filter.details().ghosts, set.filter.stats().load), (0, 1.0));
    assert!(matches!(set.filter.insert(refused), Err(InsertError::Full { .. })));
    assert!(set.filter.details().rebuild_due, "an insert is refused that has room after a rebuild");
    // After a rebuild with other hash functions, members that took no room before may need room.
    set.filter = set.filter.rotated(set.members.iter().copied().take(999)).unwrap();
    set.filter.insert(refused).unwrap();
    assert!(!set.filter.details().rebuild_due);
}

#[test]
fn rebuild_refuses_counts_that_overflow() {
    let set = Set::full(&planned(100, 0.02), 4);
    let before = set.filter.stats();
    let [one, other] = [1u128, 2].map(|key| Hash::from_u128(key << 120));
    for counts in [[u64::MAX, u64::MAX], [u64::MAX, 1], [1 << 62, 1 << 62]] {
        let members = [(one, counts[0]), (other, counts[1])];
        let members = members.map(|(hash, count)| Member { hash, count });
        let refused = set.filter.rotated(members);
        assert!(matches!(refused, Err(BuildError::Members { .. })), "{refused:?}");
        assert_eq!(set.filter.stats(), before);
    }
    set.check();
}

/// Plans no repairs, so all repairs go to the last level.
#[test]
fn last_level_holds_many_members() {
    const MEMBERS: u64 = 20_000;
    let mut set = Set::full(&planned(MEMBERS as usize, 0.3).adaptations(0), 5);
    let fresh = random(800);
    for index in 0..4 * MEMBERS {
        set.ask(fresh(index));
    }
    let details = set.filter.details();
    assert!(details.exact > MEMBERS / 2, "{details:?}");
    let rest = set.filter.stats().memory - details.first_bytes - details.dead_bytes;
    assert!(rest < 20 * details.exact + 10_000, "{rest} bytes");
    set.check();
}

#[test]
fn impossible_plans_are_refused_and_built_filters_match_their_plans() {
    let builder = AdaptiveBloomFilter::builder();
    assert!(matches!(builder.plan(), Err(PlanError::Size)));
    assert!(matches!(builder.clone().capacity(9).memory(9).plan(), Err(PlanError::Size)));
    assert!(matches!(builder.clone().memory(100).plan(), Err(PlanError::Budget(100))));
    for rate in [0.0, -1.0, 1.0, f64::NAN] {
        assert!(matches!(planned(10, rate).plan(), Err(PlanError::Rate { .. })));
    }
    assert!(matches!(planned(usize::MAX, 0.1).plan(), Err(PlanError::Capacity(usize::MAX))));
    assert!(planned(0, 0.1).build().unwrap().insert(Hash::MIN).is_err());
    for count in [usize::MAX, usize::MAX / 2, usize::MAX / 16 + 1] {
        let planned = planned(100, 0.1).adaptations(count).plan();
        assert!(matches!(planned, Err(PlanError::Adaptations(refused)) if refused == count));
        let within = AdaptiveBloomFilter::builder().memory(1 << 20).adaptations(count).plan();
        assert!(matches!(within, Err(PlanError::Adaptations(refused)) if refused == count));
    }
    for rate in [0.99, 0.5, 0.1, 0.001, 1e-9, 1e-16] {
        for capacity in [1, 100, 10_000] {
            let plan = planned(capacity, rate).plan().unwrap();
            assert!(plan.expected_rate <= rate * 1.000_001 && plan.capacity == capacity);
            let filter = planned(capacity, rate).build().unwrap();
            assert!(filter.stats().memory <= plan.bytes);
            let within = AdaptiveBloomFilter::builder().false_positive_rate(rate);
            let largest = within.memory(plan.bytes).plan().unwrap();
            assert!(largest.capacity >= capacity && largest.bytes <= plan.bytes);
        }
    }
}
