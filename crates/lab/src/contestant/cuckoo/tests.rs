//! Tests all cuckoo filters against a set of members.

use super::*;
use functions::Functions;
use proptest::prelude::*;
use std::collections::HashSet;

/// The first non-member. Members are smaller.
const STRANGERS: u64 = 1 << 40;

fn build(kind: usize, size: Size) -> (&'static str, Box<dyn Cuckoo>) {
    match kind {
        0 => ("cuckoo", Box::new(PartialKey::cuckoo(size))),
        1 => ("vacuum", Box::new(PartialKey::vacuum(size))),
        2 => ("cyclic, s = 1", Box::new(Cyclic::filter(size, 1))),
        3 => ("cyclic, s = 2", Box::new(Cyclic::filter(size, 2))),
        4 => ("cyclic, s = 3", Box::new(Cyclic::filter(size, 3))),
        5 => ("swapping", Box::new(Swapping::filter(size))),
        _ => ("cuckooing", Box::new(Cuckooing::filter(size))),
    }
}

const KINDS: usize = 7;
/// The index of the first adaptive filter.
const ADAPTIVE: usize = 2;

fn filled(kind: usize, size: Size, members: u64) -> (&'static str, Box<dyn Cuckoo>) {
    let (name, mut filter) = build(kind, size);
    for key in 0..members {
        filter.insert(key).unwrap_or_else(|full| panic!("{name}: {full}"));
    }
    (name, filter)
}

fn words(filter: &dyn Cuckoo) -> Vec<u64> {
    (0..filter.words().len()).map(|slot| filter.words().get(slot)).collect()
}

/// The size of a filter with 2^12 slots. A slot has the bits for a remainder of 8 bits, and three
/// more.
const SIZE: Size = Size { slots: 1 << 12, slot_bits: 11, seed: 1 };

/// Returns the number of members at a load of 95 %.
fn members(size: Size) -> u64 {
    size.slots as u64 * 95 / 100
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64),
    Remove(u64),
    Ask(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..100u64).prop_map(Step::Insert),
        2 => (0..100u64).prop_map(Step::Remove),
        6 => (STRANGERS..STRANGERS + 200).prop_map(Step::Ask),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The filters have few bits, to cause many mistakes, and few slots, so that they become full.
    #[test]
    fn members_are_never_lost(
        kind in 0..KINDS,
        slot_bits in 4..10u32,
        slots in 1usize..80,
        seed: u64,
        steps in steps(),
    ) {
        let (_, mut filter) = build(kind, Size { slots, slot_bits, seed });
        let mut members = HashSet::new();
        for step in steps {
            match step {
                Step::Insert(key) if !members.contains(&key) => {
                    let before = words(filter.as_ref());
                    match filter.insert(key) {
                        Ok(()) => prop_assert!(members.insert(key)),
                        Err(Full { members: count, .. }) => {
                            prop_assert_eq!(count, members.len());
                            prop_assert!(words(filter.as_ref()) == before, "not undone");
                        }
                    }
                }
                Step::Remove(key) if members.remove(&key) => prop_assert!(filter.remove(key)),
                Step::Insert(_) | Step::Remove(_) => {}
                Step::Ask(stranger) => {
                    if filter.contains(stranger) {
                        let is_absent = filter.repair(stranger);
                        prop_assert_eq!(is_absent, !filter.contains(stranger));
                    }
                }
            }
            filter.validate(&members);
            prop_assert!(members.iter().all(|&key| filter.contains(key)));
        }
    }
}

#[test]
fn load_of_95_percent_is_reached() {
    for kind in 0..KINDS {
        for seed in 1..=5 {
            let size = Size { seed, ..SIZE };
            let (name, filter) = filled(kind, size, members(size));
            assert_eq!(filter.words().len(), size.slots, "{name}");
            filter.validate(&(0..members(size)).collect());
        }
    }
}

/// The number of bins is three times a power of two, and ranges are much shorter than the table.
#[test]
fn vacuum_filter_size_need_not_be_a_power_of_two() {
    let size = Size { slots: 3 << 18, ..SIZE };
    let (_, filter) = filled(1, size, members(size));
    assert_eq!(filter.words().len(), size.slots);
    filter.validate(&(0..members(size)).collect());
    let (_, filter) = build(0, size);
    assert_eq!(filter.words().len(), 1 << 20);
}

/// There are more slots than kicks, and many inserts fail. If a move weren't undone, the test
/// would notice.
#[test]
fn insert_into_full_filter_changes_nothing() {
    for kind in 0..KINDS {
        let (name, mut filter) = build(kind, SIZE);
        let (mut inside, mut failed) = (HashSet::new(), 0);
        for key in 0.. {
            let before = words(filter.as_ref());
            match filter.insert(key) {
                Ok(()) => assert!(inside.insert(key)),
                Err(full) => {
                    assert!(full.members as u64 > members(SIZE), "{name}: {full}");
                    assert!(words(filter.as_ref()) == before, "{name}: not undone");
                    assert!(kind < ADAPTIVE || !filter.remove(key), "{name}: the key was inserted");
                    failed += 1;
                }
            }
            if failed == 30 {
                break;
            }
        }
        filter.validate(&inside);
    }
}

#[test]
fn false_positive_rate_is_as_expected() {
    const ASKED: u64 = 1_000_000;
    // For each kind: the number of slots that a lookup reads, and the number of fingerprint bits.
    let looks = [(8, 11), (8, 11), (4, 10), (4, 9), (4, 8), (8, 11), (4, 11)];
    for (kind, (looked_at, bits)) in looks.into_iter().enumerate() {
        let (name, filter) = filled(kind, SIZE, members(SIZE));
        let mistakes = (STRANGERS..STRANGERS + ASKED).filter(|&key| filter.contains(key)).count();
        let rate = mistakes as f64 / ASKED as f64;
        let expected = f64::from(looked_at) * 0.95 / f64::from((1 << bits) - 1);
        let ratio = rate / expected;
        assert!((1.0 / 1.3..1.3).contains(&ratio), "{name}: {rate}, not {expected}");
    }
}

#[test]
fn repaired_mistake_is_absent() {
    for kind in 0..KINDS {
        let (name, mut filter) = filled(kind, SIZE, members(SIZE));
        let mut mistakes = 0;
        for stranger in STRANGERS..STRANGERS + 100_000 {
            if filter.contains(stranger) {
                mistakes += 1;
                assert_eq!(filter.repair(stranger), kind >= ADAPTIVE, "{name}");
                assert_eq!(filter.contains(stranger), kind < ADAPTIVE, "{name}");
            }
        }
        assert!(mistakes > 100, "{name}: {mistakes}");
        filter.validate(&(0..members(SIZE)).collect());
    }
}

/// With a single slot, only the fingerprints matter.
#[test]
fn cyclic_filter_repairs_unless_all_fingerprints_collide() {
    const BITS: u32 = 2;
    for selector_bits in 1..=3 {
        let size = Size { slots: 1, slot_bits: BITS + selector_bits, seed: 1 };
        let mut filter = Cyclic::filter(size, selector_bits);
        filter.insert(0).unwrap();
        let hasher = crate::contestant::aqf::hasher(size.seed);
        let fingerprint =
            |key: u64, number| Functions::new(hasher.hash(&key)).fingerprint(number, BITS);
        let (mut repaired, mut exhausted) = (0, 0);
        for stranger in STRANGERS..STRANGERS + 100_000 {
            let collides = |number| fingerprint(stranger, number) == fingerprint(0, number);
            let always = (0..1 << selector_bits).all(collides);
            if filter.contains(stranger) {
                assert_eq!(filter.repair(stranger), !always);
                *(if always { &mut exhausted } else { &mut repaired }) += 1;
            } else {
                assert!(!always);
            }
        }
        assert!(repaired > 10_000 && exhausted > 0, "{repaired}, {exhausted}");
        filter.validate(&HashSet::from([0]));
    }
}
