//! Yes/no lists that change: no listed key is ever answered wrongly, and unlisted ones are "yes" no
//! more often than was asked for.

use proptest::prelude::*;
use std::collections::BTreeSet;
use twiceshy::{Hash, Keyed, ListError, Secret, YesNoList, YesNoListBuilder};

#[derive(Clone, Copy, Debug)]
enum Op {
    AddYes(u8),
    AddNo(u8),
    RemoveYes(u8),
    RemoveNo(u8),
    Move(u8),
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (0u8..8, any::<u8>()).prop_map(|(kind, key)| match kind {
        0 | 1 => Op::AddYes(key),
        2 | 3 => Op::AddNo(key),
        4 => Op::RemoveYes(key),
        5 => Op::RemoveNo(key),
        _ => Op::Move(key),
    });
    prop::collection::vec(op, 0..most)
}

/// Universes of 256 hashes, so that everything collides.
#[derive(Clone, Copy, Debug)]
enum Universe {
    /// Anywhere.
    Uniform,
    /// In a few slots.
    Near,
    /// Alike but for the last bits: extensions are as long as can be.
    Alike,
    /// Pairs that differ in the last bit.
    Twins,
}

impl Universe {
    fn hash(self, key: u8) -> Hash {
        let random = |n: u8| {
            let odd = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
            let mixed = (u128::from(n) + 1).wrapping_mul(odd);
            (mixed ^ mixed >> 67).wrapping_mul(odd)
        };
        Hash::from_u128(match self {
            Self::Uniform => random(key),
            Self::Near => u128::from(key % 3) << 126 | random(key) >> 12,
            Self::Alike => 5 << 100 | u128::from(key),
            Self::Twins => random(key / 2) & !1 | u128::from(key % 2),
        })
    }
}

fn universe() -> impl Strategy<Value = Universe> {
    use Universe::*;
    prop::sample::select(vec![Uniform, Near, Alike, Twins])
}

struct Pair {
    universe: Universe,
    list: YesNoList,
    yes: BTreeSet<Hash>,
    no: BTreeSet<Hash>,
}

impl Pair {
    fn new(universe: Universe, rate: f64) -> Self {
        let list = YesNoList::builder().false_positive_rate(rate).build().unwrap();
        Self { universe, list, yes: BTreeSet::new(), no: BTreeSet::new() }
    }

    fn step(&mut self, op: Op) {
        let hash = |key| self.universe.hash(key);
        match op {
            Op::AddYes(key) => {
                let hash = hash(key);
                match self.list.add_yes(hash) {
                    Err(ListError::OnNoList { hash: found }) => {
                        assert!(found == hash && self.no.contains(&hash));
                    }
                    added => assert_eq!(added.unwrap(), self.yes.insert(hash)),
                }
            }
            Op::AddNo(key) => {
                let hash = hash(key);
                match self.list.add_no(hash) {
                    Err(ListError::OnYesList { hash: found }) => {
                        assert!(found == hash && self.yes.contains(&hash));
                    }
                    added => assert_eq!(added.unwrap(), self.no.insert(hash)),
                }
            }
            Op::RemoveYes(key) => {
                assert_eq!(self.list.remove_yes(hash(key)), self.yes.remove(&hash(key)));
            }
            Op::RemoveNo(key) => {
                assert_eq!(self.list.remove_no(hash(key)), self.no.remove(&hash(key)));
            }
            Op::Move(key) => {
                if self.yes.contains(&hash(key)) {
                    self.step(Op::RemoveYes(key));
                    self.step(Op::AddNo(key));
                } else if self.no.contains(&hash(key)) {
                    self.step(Op::RemoveNo(key));
                    self.step(Op::AddYes(key));
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        self.list.validate().unwrap();
        assert!(self.list.yes().eq(self.yes.iter().copied()));
        assert!(self.list.no().eq(self.no.iter().copied()));
        let all: Vec<Hash> = (0..=255).map(|key| self.universe.hash(key)).collect();
        let mut answers = Vec::new();
        self.list.contains_many(&all, &mut answers);
        for (&hash, answer) in all.iter().zip(answers) {
            assert_eq!(self.list.contains(hash), answer);
            let (is_yes, is_no) = (self.yes.contains(&hash), self.no.contains(&hash));
            assert_eq!((self.list.is_yes(hash), self.list.is_no(hash)), (is_yes, is_no));
            assert!(if answer { !is_no } else { !is_yes }, "{hash:?} is answered {answer}");
        }
        assert_eq!(self.list.yes_len() + self.list.no_len(), self.yes.len() + self.no.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn no_listed_key_is_ever_wrong(
        universe in universe(),
        rate in prop::sample::select(vec![0.9, 0.3, 0.1, 0.01, 1e-6]),
        ops in ops(250),
    ) {
        let mut pair = Pair::new(universe, rate);
        for op in ops {
            pair.step(op);
        }
    }

    #[test]
    fn what_is_built_at_once_is_what_grows(
        universe in universe(),
        kinds in prop::collection::vec(0u8..3, 256),
        ops in ops(40),
    ) {
        let of = |kind: u8| {
            let keys = (0..=255u8).filter(|&key| kinds[usize::from(key)] == kind).collect::<Vec<_>>();
            keys.into_iter().map(|key| universe.hash(key)).collect::<BTreeSet<_>>()
        };
        let (yes, no) = (of(1), of(2));
        let builder = YesNoList::builder().false_positive_rate(0.2);
        let list = builder.build_from(yes.iter().copied().chain(yes.first().copied()), no.clone());
        let mut pair = Pair { universe, list: list.unwrap(), yes, no };
        pair.check();
        for op in ops {
            pair.step(op);
        }
    }
}

fn numbered(builder: &YesNoListBuilder) -> Keyed<u64, YesNoList> {
    builder.clone().secret(Secret::from_bytes([9; 16])).build_keyed().unwrap()
}

/// With as many unlisted keys as are asked for, chance gives no more than five standard deviations.
fn assert_rate(list: &Keyed<u64, YesNoList>, rate: f64, what: &str) {
    const ASKED: u64 = 200_000;
    let keys: Vec<u64> = (1 << 40..(1 << 40) + ASKED).collect();
    let mut answers = Vec::new();
    list.contains_many(&keys, &mut answers);
    let wrong = answers.iter().filter(|&&answer| answer).count() as f64;
    let mean = rate * ASKED as f64;
    assert!(wrong <= mean + 5.0 * mean.sqrt() + 1.0, "{wrong} of {ASKED} at {rate}, {what}");
    assert!(list.filter().statistics().expected_rate <= rate);
}

#[test]
fn unlisted_keys_are_seldom_yes_however_many_are_listed() {
    // Rates between powers of two, too.
    for rate in [0.3, 0.02, 1.0 / 256.0, 0.0015] {
        let mut list = numbered(&YesNoList::builder().false_positive_rate(rate));
        for step in [300, 3_000, 12_000] {
            let (yes, no) = (list.filter().yes_len() as u64, list.filter().no_len() as u64);
            (yes..step).for_each(|key| assert!(list.add_yes(&key).unwrap()));
            (no..2 * step).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
            assert_rate(&list, rate, "grown");
            list.filter().validate().unwrap();
        }
        (200..12_000).for_each(|key| assert!(list.remove_yes(&key)));
        assert_rate(&list, rate, "shrunk");
        (0..200).for_each(|key| assert!(list.contains(&key)));
        (0..24_000).for_each(|key| assert!(!list.contains(&(1 << 30 | key))));
    }
}

#[test]
fn what_is_removed_gives_its_room_back() {
    let mut list = numbered(&YesNoList::builder().false_positive_rate(0.1));
    let empty = list.filter().statistics();
    (0..20_000).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..20_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    let full = list.filter().statistics();
    assert!(full.repairs > 100 && full.extension_slots > 100, "{full:?}");
    // A no key that goes gives the extensions back that it needed.
    (0..20_000).for_each(|key| assert!(list.remove_no(&(1 << 30 | key))));
    let yes_only = list.filter().statistics();
    list.filter().validate().unwrap();
    assert!(yes_only.extension_slots < full.extension_slots, "{yes_only:?} of {full:?}");
    assert!(yes_only.list_bytes < full.list_bytes * 6 / 10);
    (0..20_000).for_each(|key| assert!(list.remove_yes(&key)));
    let emptied = list.filter().statistics();
    assert!(emptied.filter_bytes < 2 * empty.filter_bytes, "{emptied:?} from {empty:?}");
    assert_eq!(emptied.list_bytes, empty.list_bytes);
}

#[test]
fn a_key_is_on_one_list_at_most_and_errors_say_so() {
    let mut list = numbered(&YesNoList::builder());
    assert!(list.add_yes(&1).unwrap() && list.add_no(&2).unwrap());
    assert!(!list.add_yes(&1).unwrap() && !list.add_no(&2).unwrap());
    let hashes = [1, 2].map(|key| list.hash(&key));
    let error = list.add_no(&1).unwrap_err();
    assert!(matches!(error, ListError::OnYesList { hash } if hash == hashes[0]));
    assert!(error.to_string().ends_with("is on the yes list; remove it there first"));
    let error = list.add_yes(&2).unwrap_err();
    assert!(matches!(error, ListError::OnNoList { hash } if hash == hashes[1]));
    assert!(!list.remove_yes(&2) && !list.remove_no(&1) && !list.remove_yes(&3));
    assert!(list.contains(&1) && !list.contains(&2));
    let twice = YesNoList::builder().build_keyed_from::<u64>([1, 2, 3], [4, 3]);
    assert!(matches!(twice, Err(ListError::OnYesList { .. })));
    list.filter().validate().unwrap();
}

#[test]
fn room_is_planned_for_what_is_announced() {
    let builder = YesNoList::builder().false_positive_rate(0.01);
    let planned = builder.clone().yes_capacity(5_000).no_capacity(50_000);
    let mut list = numbered(&planned);
    (0..4_900).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..49_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    assert_eq!(list.filter().statistics().rebuilds, 0);
    assert!(builder.clone().false_positive_rate(0.0).build().is_err());
    assert!(builder.yes_capacity(usize::MAX).build().is_err());
}

#[test]
fn memory_is_told_apart() {
    let mut list = numbered(&YesNoList::builder());
    (0..10_000).for_each(|key| assert!(list.add_yes(&key).unwrap()));
    (0..30_000).for_each(|key| assert!(list.add_no(&(1 << 30 | key)).unwrap()));
    let statistics = list.filter().statistics();
    assert_eq!((statistics.yes, statistics.no), (10_000, 30_000));
    assert_eq!(statistics.filter_bytes, list.filter().filter().memory_usage());
    assert!(statistics.list_bytes < 19 * 40_000, "{statistics:?}");
    assert!(list.filter().memory_usage() >= statistics.filter_bytes + statistics.list_bytes);
}
