//! Telescoping and extension filters: random operations against their model, what is built from
//! lists, and snapshots.

#[path = "coded/concurrent.rs"]
mod concurrent;
#[path = "coded/snapshot.rs"]
mod snapshot;

use arbitrary::Unstructured;
use proptest::prelude::*;
use std::collections::BTreeSet;
use twiceshy::{
    AdaptError, Answer, BuildError, CodedBuilder, CodedFilter, CodedScheme, ExtensionFilter,
    Extensions, Hash, InsertError, KeyedHasher, Secret, Selectors, TelescopingFilter,
};
use twiceshy_model::coded::{Shape, drive, drive_shape};
use twiceshy_model::script::Spread;

fn shapes(slots: std::ops::Range<u64>, spread: Spread) -> impl Strategy<Value = Shape> {
    (slots, 1u32..=8, 8u32..=120).prop_map(move |(slots, remainder_bits, code_bits)| Shape {
        slots,
        remainder_bits,
        code_bits,
        spread,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn any_script(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        drive(&bytes);
    }

    /// All hashes in one block, or two, whose codes are soon full.
    #[test]
    fn full_codes(
        shape in shapes(1..60, Spread::Uniform),
        bytes in prop::collection::vec(any::<u8>(), 2000),
    ) {
        drive_shape::<Selectors>(shape, &mut Unstructured::new(&bytes));
        drive_shape::<Extensions>(shape, &mut Unstructured::new(&bytes));
    }

    /// All hashes in one run, as long as the block and longer.
    #[test]
    fn one_run(
        shape in shapes(30..200, Spread::OneQuotient),
        bytes in prop::collection::vec(any::<u8>(), 1500),
    ) {
        drive_shape::<Selectors>(shape, &mut Unstructured::new(&bytes));
        drive_shape::<Extensions>(shape, &mut Unstructured::new(&bytes));
    }
}

/// An endless list of random hashes for each seed.
fn random(seed: u64) -> impl Fn(u64) -> Hash + Clone {
    let hasher = KeyedHasher::new(&Secret::from_bytes([42; 16]));
    move |index| hasher.hash(&(u128::from(seed) << 64 | u128::from(index)))
}

/// A filter, and its members in hash order.
struct Set<S: CodedScheme> {
    filter: CodedFilter<S>,
    members: BTreeSet<Hash>,
}

impl<S: CodedScheme> Set<S> {
    fn new(builder: CodedBuilder<S>) -> Self {
        Self { filter: builder.build().unwrap(), members: BTreeSet::new() }
    }

    fn insert(&mut self, hash: Hash) {
        match self.filter.insert(hash) {
            Err(InsertError::Crowded) => {
                let claim = self.filter.claim_to_insert(hash);
                let listed: Vec<Hash> = self.members.range(claim.suspects()).copied().collect();
                self.filter.insert_listed(&claim, &listed).unwrap();
            }
            inserted => inserted.unwrap(),
        }
        self.members.insert(hash);
    }

    /// Asks for a stranger, and repairs the mistake, if it is one.
    fn ask(&mut self, query: Hash) -> bool {
        let Answer::Maybe(claim) = self.filter.check(query) else { return false };
        let suspects: Vec<Hash> = self.members.range(claim.suspects()).copied().collect();
        match self.filter.adapt(&claim, &suspects) {
            Ok(_) => assert!(!self.filter.contains(query)),
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

/// Of the mistakes that a filter is built with, about as many are repaired as by asking for them one
/// by one, or more.
fn check_built<S: CodedScheme>() {
    const MEMBERS: u64 = 1000;
    let builder = CodedFilter::<S>::builder().remainder_bits(4).slots(1111);
    let mut asked = Set::new(builder.clone());
    (0..MEMBERS).for_each(|number| asked.insert(random(1)(number)));
    for per_member in [1, 64] {
        let mistakes: Vec<Hash> = (0..per_member * MEMBERS).map(random(2)).collect();
        let members: Vec<Hash> = asked.members.iter().copied().collect();
        let built = builder.clone().build_from(members.clone(), mistakes.clone()).unwrap();
        let built = Set { filter: built, members: asked.members.clone() };
        built.check();
        assert_eq!(built.filter.len() as u64, MEMBERS);
        let maybe = |filter: &CodedFilter<S>| {
            mistakes.iter().filter(|&&mistake| filter.contains(mistake)).count()
        };
        let left = maybe(&built.filter);
        assert_eq!(built.filter.statistics().unrepaired, left as u64);
        for &mistake in &mistakes {
            asked.ask(mistake);
        }
        let by_asking = maybe(&asked.filter);
        let about = by_asking + by_asking / 20;
        assert!(left <= about, "{left} of {} are left, {by_asking} by asking", mistakes.len());
        assert_eq!(left > 0, per_member > 1, "{left} of {} are left", mistakes.len());
    }
}

#[test]
fn building_repairs_what_there_is_room_for() {
    check_built::<Selectors>();
    check_built::<Extensions>();
}

#[test]
fn impossible_lists_are_refused() {
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
    let none: [(&ExtensionFilter, [Hash; 0]); 0] = [];
    assert!(matches!(ExtensionFilter::merged(none, []), Err(BuildError::Size)));
    let unsized_one = ExtensionFilter::builder().build_from(vec![first, last], vec![]).unwrap();
    assert!(unsized_one.contains(first) && unsized_one.contains(last));
}
