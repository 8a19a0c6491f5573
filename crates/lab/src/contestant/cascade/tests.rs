//! Compares the cascade with an exact set after random operations. Also tests it against an
//! adversary at ε = 1/4, where it has the most levels.

use super::QuotientCascade;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use twiceshy::{
    Answer, Claim, Hash, Member, Secret,
    error::{AdaptError, InsertError, RemoveError},
    hash::KeyedHasher,
};

/// One step of a random test. It uses one of a few hashes, or a neighbour of one of them.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert,
    Ask,
    Remove,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u8, u8)>> {
    let step = prop_oneof![
        4 => Just(Step::Insert),
        6 => Just(Step::Ask),
        2 => Just(Step::Remove),
    ];
    prop::collection::vec((step, any::<u8>(), any::<u8>()), 0..400)
}

fn hash(number: u8, near: u8) -> Hash {
    let spread = u128::from(number % 60).wrapping_mul(0x2d99_787e_fda9_9e3c_2ad8_6f12_9e3b_c255);
    Hash::from_u128(spread ^ u128::from(near % 4) << 100)
}

#[derive(Default)]
struct Model {
    members: BTreeMap<Hash, u64>,
}

impl Model {
    fn list(&self, suspects: std::ops::RangeInclusive<Hash>) -> Vec<Member> {
        let listed = self.members.range(suspects);
        listed.map(|(&hash, &count)| Member { hash, count }).collect()
    }
}

fn ask(filter: &mut QuotientCascade, model: &Model, query: Hash) {
    let Answer::Maybe(claim) = filter.check(query) else {
        assert!(!model.members.contains_key(&query), "a false negative");
        return;
    };
    let listed = model.list(claim.suspects());
    if model.members.contains_key(&query) {
        assert_eq!(filter.adapt(&claim, &listed), Err(AdaptError::IsMember));
        return;
    }
    let near = |member: &Member| filter.first.may_confuse(member.hash, query);
    if let Some(at) = listed.iter().position(near) {
        let mut short = listed.clone();
        short.remove(at);
        let refused = filter.adapt(&claim, &short);
        assert!(matches!(refused, Err(AdaptError::Unlisted { .. })), "{refused:?}");
    }
    match filter.adapt(&claim, &listed) {
        Ok(()) => assert!(!filter.contains(query), "a mistake was not repaired"),
        Err(AdaptError::Full { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn remove(filter: &mut QuotientCascade, model: &mut Model, hash: Hash) {
    let Answer::Maybe(claim) = filter.check(hash) else { return };
    let listed = model.list(claim.suspects());
    match filter.remove_listed(&claim, &listed) {
        Ok(()) => {
            let count = model.members.get_mut(&hash).expect("a member");
            *count -= 1;
            if *count == 0 {
                model.members.remove(&hash);
            }
            let again = filter.remove_listed(&claim, &listed);
            assert_eq!(again, Err(RemoveError::Stale));
        }
        Err(RemoveError::Absent) => assert!(!model.members.contains_key(&hash)),
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_member_is_lost(
        steps in steps(),
        rate in prop::sample::select(vec![0.6, 0.25, 0.1, 0.01]),
        capacity in 1usize..40,
    ) {
        let mut filter = QuotientCascade::new(rate, capacity).unwrap();
        let mut model = Model::default();
        for (step, number, near) in steps {
            let hash = hash(number, near);
            match step {
                Step::Insert => match filter.insert(hash) {
                    Ok(()) => *model.members.entry(hash).or_default() += 1,
                    Err(InsertError::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                Step::Ask => ask(&mut filter, &model, hash),
                Step::Remove => remove(&mut filter, &mut model, hash),
            }
            prop_assert_eq!(filter.validate(), Ok(()));
            for member in model.members.keys() {
                prop_assert!(filter.contains(*member), "a false negative: {:?}", member);
            }
        }
    }
}

/// Returns a filter whose only member is in a dead cell, and the claim of a mistake in that cell.
fn dead_cell_with_a_mistake() -> (QuotientCascade, Hash, Claim) {
    let mut filter = QuotientCascade::new(0.25, 1000).unwrap();
    let member = Hash::from_u128(0x1234_5678 << 96);
    let near = |number: u128| Hash::from_u128(member.as_u128() + (number << 60));
    filter.insert(member).unwrap();
    let Answer::Maybe(claim) = filter.check(near(1)) else { panic!("they share a cell") };
    filter.adapt(&claim, &[member]).unwrap();
    let claim = (2..100_000).find_map(|number| match filter.check(near(number)) {
        Answer::Maybe(claim) => Some(claim),
        Answer::Absent => None,
    });
    (filter, member, claim.expect("level 1 makes mistakes"))
}

#[test]
fn adapt_refuses_a_wrong_list_of_the_right_length() {
    let (mut filter, member, claim) = dead_cell_with_a_mistake();
    let mut others = (1..200).map(|number| Hash::from_u128(member.as_u128() + (number << 50)));
    let wrong = others.find(|&hash| !filter.contains(hash)).expect("most are absent");
    let refused = Err(AdaptError::Surplus { members: 1 });
    assert_eq!(filter.adapt(&claim, &[wrong]), refused);
    assert!(filter.contains(member));
    filter.validate().unwrap();
    filter.adapt(&claim, &[member]).unwrap();
    assert!(filter.contains(member) && !filter.contains(claim.query()));
}

#[test]
fn remove_refuses_a_wrong_list_of_the_right_length() {
    let (mut filter, member, claim) = dead_cell_with_a_mistake();
    filter.insert(member).unwrap();
    let Answer::Maybe(claim) = filter.check(claim.query()) else { panic!("it was a mistake") };
    // Level 1 confuses the query with the member, and holds two copies of the member.
    let list = [Member { hash: member, count: 2 }, claim.query().into()];
    let refused = filter.remove_listed(&claim, &list);
    assert_eq!(refused, Err(RemoveError::Surplus { members: 1 }));
    let mut others = (1..200).map(|number| Hash::from_u128(member.as_u128() + (number << 50)));
    let wrong = others.find(|&hash| !filter.contains(hash)).expect("most are absent");
    let refused = filter.remove_listed(&claim, &[wrong, claim.query()]);
    assert_eq!(refused, Err(RemoveError::Surplus { members: 1 }));
    assert!(filter.contains(member) && filter.first.len() == 2);
    filter.validate().unwrap();
}

/// The last level holds whole hashes, so it detects that a member is missing from a list even if
/// the number of members is right.
#[test]
fn last_level_refuses_a_list_with_one_member_counted_twice() {
    let mut filter = QuotientCascade::new(0.01, 1000).unwrap();
    assert_eq!(filter.members_below().count(), 1, "only whole hashes");
    let [member, other, query] =
        [0u128, 1, 2].map(|number| Hash::from_u128((0x1234_5678 << 96) + number));
    filter.insert(member).unwrap();
    filter.insert(other).unwrap();
    let Answer::Maybe(claim) = filter.check(query) else { panic!("they share a cell") };
    filter.adapt(&claim, &[member, other]).unwrap();
    let Answer::Maybe(claim) = filter.check(other) else { panic!("a member") };
    let twice = [Member { hash: member, count: 2 }];
    let refused = Err(AdaptError::Surplus { members: 1 });
    assert_eq!(filter.adapt(&claim, &twice), refused);
    assert!(filter.contains(member) && filter.contains(other));
    filter.validate().unwrap();
}

#[test]
fn impossible_capacity_is_refused() {
    for rate in [0.9, 0.25, 0.001] {
        assert!(QuotientCascade::new(rate, usize::MAX).is_err());
    }
}

/// Queries new keys and old mistakes, and repairs each mistake immediately.
#[test]
fn at_most_a_quarter_of_the_adversarys_queries_are_mistakes() {
    const CAPACITY: u64 = 20_000;
    const RATE: f64 = 0.25;
    let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
    let mut filter = QuotientCascade::new(RATE, CAPACITY as usize).unwrap();
    let members: BTreeSet<Hash> = (0..CAPACITY).map(|key| hasher.hash(&key)).collect();
    for &member in &members {
        filter.insert(member).unwrap();
    }
    let empty = filter.memory_usage();
    let mut ask = |query: Hash| {
        let Answer::Maybe(claim) = filter.check(query) else { return false };
        let suspects: Vec<Hash> = members.range(claim.suspects()).copied().collect();
        filter.adapt(&claim, &suspects).unwrap();
        assert!(!filter.contains(query));
        true
    };
    let (mut found, mut first, mut again) = (Vec::new(), 0, 0);
    for round in 0..CAPACITY {
        let query = hasher.hash(&(1 << 40 | round));
        if ask(query) {
            first += 1;
            found.push(query);
        }
        if !found.is_empty() {
            again += u64::from(ask(found[round as usize % found.len()]));
        }
    }
    let most = |rate: f64| (rate * CAPACITY as f64) + 5.0 * (rate * CAPACITY as f64).sqrt();
    assert!(f64::from(first) <= most(RATE), "{first} mistakes");
    assert!(first > 2000, "only {first} mistakes");
    // Level 1 has a rate of 1/16 when it is full.
    assert!(again as f64 <= most(RATE / 16.0), "{again} old mistakes");
    let below: Vec<usize> = filter.members_below().collect();
    assert_eq!(below.len(), 3, "levels of 1/16 and 2^-32, and whole hashes");
    assert!(below[0] > 10 * below[1] && below[2] < 10, "{below:?}");
    println!(
        "{:.2} bits per member, {:.2} without repairs; {below:?} below",
        filter.memory_usage() as f64 * 8.0 / CAPACITY as f64,
        empty as f64 * 8.0 / CAPACITY as f64,
    );
    assert!(members.iter().all(|&member| filter.contains(member)), "a false negative");
    filter.validate().unwrap();
}
