//! All of them, against a set of members.

use super::*;
use functions::Functions;
use proptest::prelude::*;
use std::collections::HashSet;

/// Strangers begin here; members are below.
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
/// From here on they adapt.
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

/// 2^12 slots, as many bits as beside remainders of 8.
const SIZE: Size = Size { slots: 1 << 12, slot_bits: 11, seed: 1 };

/// 95 % of the slots.
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

    /// With few bits, so that there are many mistakes, and few slots, so that they fill up.
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
fn a_load_of_95_percent_is_reached() {
    for kind in 0..KINDS {
        for seed in 1..=5 {
            let size = Size { seed, ..SIZE };
            let (name, filter) = filled(kind, size, members(size));
            assert_eq!(filter.words().len(), size.slots, "{name}");
            filter.validate(&(0..members(size)).collect());
        }
    }
}

/// Three times a power of two, and ranges that are much shorter than the table.
#[test]
fn a_vacuum_filter_needs_no_power_of_two() {
    let size = Size { slots: 3 << 18, ..SIZE };
    let (_, filter) = filled(1, size, members(size));
    assert_eq!(filter.words().len(), size.slots);
    filter.validate(&(0..members(size)).collect());
    let (_, filter) = build(0, size);
    assert_eq!(filter.words().len(), 1 << 20);
}

/// There are more slots than kicks, and many that fail, so that what isn't undone is seen.
#[test]
fn who_is_full_says_so_and_stays_as_it_was() {
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
                    assert!(kind < ADAPTIVE || !filter.remove(key), "{name}: it is inside");
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
fn mistakes_are_as_frequent_as_they_should_be() {
    const ASKED: u64 = 1_000_000;
    // How many slots are looked at, and what is left of their bits for a fingerprint.
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
fn a_repaired_mistake_is_absent_right_after() {
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

/// In a filter of one slot, all that counts are the fingerprints.
#[test]
fn a_cyclic_filter_repairs_all_but_who_collides_with_every_fingerprint() {
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
