//! Telescoping and extension filters: random operations compared with a model, filters that are
//! built from lists, and snapshots.

mod concurrent;
mod snapshot;

use arbitrary::Unstructured;
use proptest::prelude::*;
use std::collections::BTreeSet;
use twiceshy::quotient::Remainders;
use twiceshy::{
    Answer, Claim, ExtensionFilter, Hash, Member, Secret, TelescopingFilter,
    builder::Builder,
    error::{AdaptError, BuildError, InsertError, PlanError},
    hash::KeyedHasher,
    telescoping::{self, CodedFilter, Extensions, Selectors},
};
use twiceshy_model::coded::{Shape, drive, drive_shape};
use twiceshy_model::script::Spread;

fn shapes(slots: std::ops::Range<u64>, spread: Spread) -> impl Strategy<Value = Shape> {
    let numbers = any::<Option<[u8; 16]>>();
    (slots, 1u32..=8, 8u32..=120, numbers).prop_map(
        move |(slots, remainder_bits, code_bits, numbers)| Shape {
            slots,
            remainder_bits,
            code_bits,
            spread,
            remainders: numbers.map_or(Remainders::PLAIN, Remainders::from_bytes),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn random_operations_match_the_model(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        drive(&bytes);
    }

    /// All hashes are in one or two blocks, whose codes are soon full.
    #[test]
    fn operations_with_full_codes_match_the_model(
        shape in shapes(1..60, Spread::Uniform),
        bytes in prop::collection::vec(any::<u8>(), 2000),
    ) {
        drive_shape::<Selectors>(shape, &mut Unstructured::new(&bytes));
        drive_shape::<Extensions>(shape, &mut Unstructured::new(&bytes));
    }

    /// All hashes are in one run, which becomes longer than the block.
    #[test]
    fn operations_in_one_run_match_the_model(
        shape in shapes(30..200, Spread::OneQuotient),
        bytes in prop::collection::vec(any::<u8>(), 1500),
    ) {
        drive_shape::<Selectors>(shape, &mut Unstructured::new(&bytes));
        drive_shape::<Extensions>(shape, &mut Unstructured::new(&bytes));
    }
}

/// Returns an endless sequence of random hashes for a seed.
fn random(seed: u64) -> impl Fn(u64) -> Hash + Clone {
    let hasher = KeyedHasher::new(&Secret::from_bytes([42; 16]));
    move |index| hasher.hash(&(u128::from(seed) << 64 | u128::from(index)))
}

/// A filter and its members in hash order.
struct Set<S: telescoping::CodedScheme> {
    filter: CodedFilter<S>,
    members: BTreeSet<Hash>,
}

impl<S: telescoping::CodedScheme> Set<S> {
    fn new(builder: &Builder<CodedFilter<S>>) -> Self {
        Self { filter: builder.build().unwrap(), members: BTreeSet::new() }
    }

    fn insert(&mut self, hash: Hash) {
        match self.filter.insert(hash) {
            Err(InsertError::NeedsMembers(claim)) => {
                let listed: Vec<Hash> = self.members.range(claim.suspects()).copied().collect();
                self.filter.insert_listed(&claim, &listed).unwrap();
            }
            inserted => inserted.unwrap(),
        }
        self.members.insert(hash);
    }

    /// Looks up a key that is not a member. Returns whether that was a mistake, and repairs it.
    fn ask(&mut self, query: Hash) -> bool {
        let Answer::Maybe(claim) = self.filter.check(query) else { return false };
        let suspects: Vec<Hash> = self.members.range(claim.suspects()).copied().collect();
        match self.filter.adapt(&claim, &suspects) {
            Ok(_) => assert!(!self.filter.contains(query)),
            Err(AdaptError::Crowded) if self.filter.suspects(query) != claim.suspects() => {
                return self.ask(query);
            }
            Err(AdaptError::Crowded | AdaptError::Inseparable) => {}
            Err(error) => panic!("{error}"),
        }
        true
    }

    fn check(&self) {
        let lost = self.members.iter().filter(|&&member| !self.filter.contains(member)).count();
        assert_eq!(lost, 0, "false negatives");
        self.filter.validate().unwrap();
    }
}

/// Checks that building a filter from a list of mistakes repairs at least about as many of them as
/// single repairs do.
fn check_built<S: telescoping::CodedScheme>() {
    const MEMBERS: u64 = 1000;
    let builder = CodedFilter::<S>::builder().remainder_bits(4).slots(1111);
    let mut asked = Set::new(&builder);
    (0..MEMBERS).for_each(|number| asked.insert(random(1)(number)));
    for per_member in [1, 64] {
        let mistakes: Vec<Hash> = (0..per_member * MEMBERS).map(random(2)).collect();
        let members: Vec<Hash> = asked.members.iter().copied().collect();
        let built = builder.build_from(members.clone(), mistakes.clone()).unwrap();
        let built = Set { filter: built, members: asked.members.clone() };
        built.check();
        assert_eq!(built.filter.len() as u64, MEMBERS);
        let maybe = |filter: &CodedFilter<S>| {
            mistakes.iter().filter(|&&mistake| filter.contains(mistake)).count()
        };
        let left = maybe(&built.filter);
        assert_eq!(built.filter.details().unrepaired, left as u64);
        for &mistake in &mistakes {
            asked.ask(mistake);
        }
        let by_asking = maybe(&asked.filter);
        let about = by_asking + by_asking / 20;
        assert!(left <= about, "{left} of {} are left, {by_asking} by asking", mistakes.len());
        assert_eq!(left > 0, per_member > 1, "{left} of {} are left", mistakes.len());
    }
}

/// A repair is refused once if the code is full. The next claim names the whole block, so that
/// another repair can be forgotten.
#[test]
fn repair_refused_by_a_full_code_succeeds_with_the_next_claim() {
    let mut retried = 0;
    for seed in 0..200 {
        let mut set = Set::new(&TelescopingFilter::builder().remainder_bits(8).slots(100));
        (0..90).for_each(|number| set.insert(random(seed)(number)));
        // Codes become nearly full, and then full.
        for number in 0..60 * seed {
            set.ask(random(1000 + seed)(number));
        }
        for number in 0..90 {
            // The hashes share 40 bits after the quotient, so the sixth digit distinguishes them.
            let query = Hash::from_u128(random(seed)(number).as_u128() ^ 1 << 74);
            let Answer::Maybe(narrow) = set.filter.check(query) else { continue };
            let list = |claim: &Claim| -> Vec<Hash> {
                set.members.range(claim.suspects()).copied().collect()
            };
            let listed = list(&narrow);
            if set.filter.adapt(&narrow, &listed) != Err(AdaptError::Crowded) {
                continue;
            }
            let Answer::Maybe(wide) = set.filter.check(query) else { panic!("not repaired") };
            assert_ne!(wide.suspects(), narrow.suspects());
            assert_eq!(wide.suspects(), set.filter.claim_near(query).suspects());
            let listed = list(&wide);
            set.filter.adapt(&wide, &listed).unwrap();
            assert!(!set.filter.contains(query));
            retried += 1;
        }
        set.check();
    }
    assert!(retried > 10, "{retried}");
}

/// The batch is undone before the claim is made, so the claim is not stale, even if an earlier hash
/// of the batch is in the same block.
#[test]
fn claim_of_a_refused_batch_is_valid() {
    let mut refused = 0;
    for seed in 0..50 {
        let builder = TelescopingFilter::builder().remainder_bits(7).slots(100).code_bits(8);
        let mut set = Set::new(&builder);
        (0..50).for_each(|number| set.insert(random(seed)(number)));
        for number in 0..3000 {
            set.ask(random(1000 + seed)(number));
        }
        let batch: Vec<Hash> = (50..80).map(random(seed)).collect();
        let Err(InsertError::NeedsMembers(claim)) = set.filter.insert_many(&batch) else {
            continue;
        };
        assert!(batch.contains(&claim.query()));
        refused += usize::from(claim.query() != batch[0]);
        let listed: Vec<Hash> = set.members.range(claim.suspects()).copied().collect();
        set.filter.insert_listed(&claim, &listed).unwrap();
        set.members.insert(claim.query());
        set.check();
    }
    assert!(refused > 5, "{refused}");
}

/// Inserts one hash 10^5 times. Another member of its quotient causes the mistake.
fn check_copies<S: telescoping::CodedScheme>() {
    const COPIES: u64 = 100_000;
    let _deadline = twiceshy_deadline::Deadline::new();
    let builder = CodedFilter::<S>::builder().remainder_bits(8).slots(2 * COPIES);
    let parameters = builder.build().unwrap().parameters();
    let [copied, member] = [2u128, 1].map(|digit| Hash::from_u128(1 << 127 | digit << 102));
    let members = [member.into(), Member { hash: copied, count: COPIES }];
    let mut filter = CodedFilter::<S>::from_sorted(parameters, members, []).unwrap();
    let query = Hash::from_u128(member.as_u128() + (1 << 100));
    let Answer::Maybe(claim) = filter.check(query) else { panic!("a mistake") };
    filter.adapt(&claim, &members).unwrap();
    assert!(!filter.contains(query) && filter.contains(member) && filter.contains(copied));

    // All copies would need a repair, and no code has room for that.
    let mistake = Hash::from_u128(copied.as_u128() + (1 << 100));
    let Answer::Maybe(claim) = filter.check(mistake) else { panic!("a mistake") };
    let fewer = [members[0], Member { count: COPIES - 1, ..members[1] }];
    assert_eq!(filter.adapt(&claim, &fewer), Err(AdaptError::Unlisted { members: 1 }));
    assert_eq!(filter.adapt(&claim, &members), Err(AdaptError::Crowded));

    let Answer::Maybe(claim) = filter.check(copied) else { panic!("a member") };
    filter.remove(&claim, &members).unwrap();
    assert_eq!(filter.len() as u64, COPIES);
    filter.validate().unwrap();
    let built = CodedFilter::<S>::from_sorted(parameters, members, [mistake]).unwrap();
    assert!(built.contains(copied) && built.details().unrepaired == 1);
}

#[test]
fn many_copies_of_a_hash_are_matched_in_one_step() {
    check_copies::<Selectors>();
    check_copies::<Extensions>();
}

/// A telescoping filter needs a second digit of each hash.
#[test]
fn remainders_too_long_for_repairs_are_refused() {
    let telescoping = |slots: u64, bits: u32| {
        TelescopingFilter::builder().slots(slots).remainder_bits(bits).plan().map(drop)
    };
    for (slots, most) in [(1, 64), (1 << 20, 54), ((1 << 20) + 1, 53), (1 << 24, 52)] {
        telescoping(slots, most.min(56)).unwrap();
        let refused = telescoping(slots, most + 1);
        assert!(
            most > 55
                || matches!(refused, Err(PlanError::NoRepairs { slots: refused, remainder_bits })
                    if refused == slots && remainder_bits == most + 1),
            "{refused:?}"
        );
        if let (Err(error), true) = (refused, most < 56) {
            assert!(error.to_string().contains(&format!("at most {most} bits")), "{error}");
        }
    }
    let rate = TelescopingFilter::builder().capacity(1 << 20).false_positive_rate(f64::exp2(-55.0));
    let Err(BuildError::Plan(refused)) = rate.build() else { panic!("no bits for repairs") };
    assert!(matches!(refused, PlanError::NoRepairs { .. }));
    ExtensionFilter::builder().slots(1 << 20).remainder_bits(56).build().unwrap();
}

#[test]
fn building_repairs_as_many_mistakes_as_fit() {
    check_built::<Selectors>();
    check_built::<Extensions>();
}

#[test]
fn unsorted_or_contradictory_or_too_long_lists_are_refused() {
    let [first, last] = [1u128, 9].map(|number| Hash::from_u128(number << 120));
    let builder = || TelescopingFilter::builder().slots(2).remainder_bits(8);
    let parameters = builder().build().unwrap().parameters();
    let built = TelescopingFilter::from_sorted(parameters, [last, first], []);
    assert!(matches!(built, Err(BuildError::Unsorted("members"))));
    let built = TelescopingFilter::from_sorted(parameters, [first], [last, first]);
    assert!(matches!(built, Err(BuildError::Unsorted("mistakes"))));
    let built = builder().build_from(vec![first, last], vec![last]);
    assert!(matches!(built, Err(BuildError::MistakeIsMember { hash, .. }) if hash == last));
    let built = builder().build_from(vec![first, first, last], vec![]);
    assert!(matches!(built, Err(BuildError::Full { slots: 2 })));
    let unsized_one = ExtensionFilter::builder().build_from(vec![first, last], vec![]).unwrap();
    assert!(unsized_one.contains(first) && unsized_one.contains(last));
}
