//! Options of the builder, and its errors.

use twiceshy::{
    Answer, Hash, Keyed, QuotientFilter, Secret,
    builder::Builder,
    error::{BuildError, PlanError},
    hash::KeyedHasher,
};

fn builder() -> Builder<QuotientFilter> {
    QuotientFilter::builder()
}

/// Returns the error message of a builder.
fn refusal(builder: &Builder<QuotientFilter>) -> String {
    builder.build().expect_err("impossible").to_string()
}

#[test]
fn impossible_options_are_refused_with_the_reason() {
    for rate in [0.0, -0.1, 1.0, 2.0, f64::NAN, f64::INFINITY, 1e-300] {
        for builder in [builder().capacity(10), builder().slots(10), builder().memory(9999)] {
            let message = refusal(&builder.false_positive_rate(rate));
            assert!(message.contains("false-positive rate of"), "{rate}: {message}");
        }
    }
    for bits in [0, 57, u32::MAX] {
        let message = refusal(&builder().remainder_bits(bits).slots(10));
        assert!(message.contains("choose 1 to 56"), "{message}");
    }
    for slots in [0, (1 << 48) + 1, u64::MAX] {
        let message = refusal(&builder().slots(slots));
        assert!(message.contains("choose 1 to 2^48"), "{message}");
    }
    let both = builder().false_positive_rate(0.1).remainder_bits(9).capacity(10);
    assert_eq!(both.plan(), Err(PlanError::RateAndRemainderBits));
    for sizes in [builder(), builder().slots(9).capacity(9), builder().memory(999).capacity(9)] {
        assert_eq!(sizes.plan(), Err(PlanError::Size));
    }
    for bytes in [0, 1, 100] {
        assert_eq!(builder().memory(bytes).plan(), Err(PlanError::Budget(bytes)));
    }
    for many in [builder().slots(100), builder().memory(1 << 20)] {
        let many = many.remainder_bits(9).adaptations(usize::MAX);
        assert!(refusal(&many).contains("no room for"), "{}", refusal(&many));
    }
    assert_eq!(builder().capacity(usize::MAX).plan(), Err(PlanError::Capacity(usize::MAX)));
    let worn = builder().capacity(9).adaptations(usize::MAX);
    assert_eq!(worn.plan(), Err(PlanError::Adaptations(usize::MAX)));
    assert!(matches!(builder().slots(1 << 48).build(), Err(BuildError::Memory { .. })));
    let mut parameters = builder().slots(10).build().unwrap().parameters();
    parameters.remainder_bits = 0;
    let zero = QuotientFilter::from_sorted(parameters, [] as [Hash; 0], []);
    assert!(matches!(zero, Err(BuildError::Plan(PlanError::RemainderBits { bits: 0, .. }))));
}

#[test]
fn memory_budget_is_used_up_but_not_exceeded() {
    for bytes in [2_000, 10_000, 1 << 16, 1_000_000, 12_345_678] {
        for rate in [0.3, 0.01, 0.000_1] {
            let builder = builder().false_positive_rate(rate).memory(bytes);
            let plan = builder.plan().unwrap();
            let filter = builder.build().unwrap();
            assert_eq!(filter.stats().memory, plan.bytes);
            assert!(plan.bytes <= bytes && plan.expected_rate <= rate);
            // One more member would not fit.
            let more = self::builder().false_positive_rate(rate).capacity(plan.capacity + 1);
            assert!(more.plan().unwrap().bytes > bytes, "{bytes} bytes, rate {rate}");
        }
    }
}

#[test]
fn rate_for_given_slots_holds_when_they_are_full() {
    for rate in [0.3, 0.02, 0.001, 1e-6] {
        let builder = builder().false_positive_rate(rate).slots(100_000);
        let plan = builder.plan().unwrap();
        assert!(plan.expected_rate <= rate && plan.slots == 100_000);
        assert_eq!(plan.capacity as u64 + plan.details.extension_slots, 95_000);
        let share = plan.details.extension_slots as f64 / plan.capacity as f64;
        assert!((share - 0.05).abs() < 0.001, "{share}");
        let plan = builder.adaptations(20_000).plan().unwrap();
        assert!(plan.details.extension_slots >= 20_000 && plan.capacity <= 75_000);
    }
}

#[test]
fn smallest_filters_hold_one_member() {
    for builder in [builder().capacity(0), builder().capacity(1), builder().slots(1)] {
        let mut filter = builder.build().unwrap();
        assert!(filter.is_empty() && filter.stats().load.abs() < f64::EPSILON);
        assert_eq!(filter.check(Hash::MAX), Answer::Absent);
        filter.insert(Hash::MAX).unwrap();
        assert!(filter.contains(Hash::MAX) && filter.len() == 1);
        filter.validate().unwrap();
    }
}

#[test]
fn same_secret_gives_the_same_hashes() {
    let first = builder().capacity(10).build_keyed::<str>().unwrap();
    let secret = Secret::from_bytes(*first.secret().expose());
    let again = builder().capacity(10).secret(secret.clone()).build_keyed::<str>().unwrap();
    assert_eq!(first.hash("alice"), again.hash("alice"));

    // This also holds for a filter that was built from hashes.
    let hashes = vec![KeyedHasher::new(&secret).hash("alice")];
    let filter = builder().build_from(hashes, vec![]).unwrap();
    let keyed: Keyed<str, _> = Keyed::new(filter, secret);
    assert!(keyed.contains("alice"));
}

#[test]
fn key_on_both_lists_is_refused_with_its_position() {
    let error = builder().build_keyed_from::<u64>([1, 2, 3], [7, 8, 2]).unwrap_err();
    assert!(matches!(error, BuildError::MistakeIsMember { position: Some(2), .. }));
    assert!(error.to_string().contains("number 3 of the mistakes"), "{error}");
}

#[test]
fn duplicate_keys_count_once() {
    let twice = (0..1000_u64).chain(0..1000);
    let list = builder().build_keyed_from::<u64>(twice, [5000]).unwrap();
    assert_eq!(list.len(), 1000);
}

#[test]
fn equal_hashes_are_counted() {
    for mistakes in [vec![], vec![Hash::MIN]] {
        let filter = builder().build_from(vec![Hash::MAX; 20_000], mistakes).unwrap();
        assert_eq!((filter.stats().members, filter.details().fingerprints), (20_000, 1));
        assert_eq!(filter.count(Hash::MAX), 20_000);
    }
}

#[test]
fn enlarged_filter_has_room_for_repairs_and_is_not_much_larger() {
    let hasher = KeyedHasher::new(&Secret::from_bytes([9; 16]));
    let hashes =
        |from: u64, count: u64| (from..from + count).map(|key| hasher.hash(&key)).collect();
    for (members, bits, mistakes, least) in [
        (20_000, 8, 600_000, 0.8),
        (10_000, 9, 520_000, 0.8),
        (20_000, 1, 60_000, 0.5), // the number of collisions depends on the final size
        (5_000, 4, 0, 0.8),
    ] {
        let builder = builder().remainder_bits(bits).adaptations(500);
        let filter = builder.build_from(hashes(0, members), hashes(1 << 32, mistakes)).unwrap();
        let (slots, load) = (filter.parameters().slots, filter.stats().load);
        assert!(slots as f64 * (0.951 - load) >= 490.0, "load {load} of {slots}");
        assert!(load > least, "load {load} for {members} members, {mistakes} mistakes");
    }
}

#[test]
fn unevenly_distributed_hashes_get_more_slots() {
    let last: Vec<Hash> = (0..1000).map(|key| Hash::from_u128(u128::MAX - key)).collect();
    for members in [last, vec![Hash::from_u128(1 << 77); 1000]] {
        let filter = QuotientFilter::builder().build_from(members.clone(), vec![]).unwrap();
        assert!(members.iter().all(|&member| filter.contains(member)) && filter.len() == 1000);
        filter.validate().unwrap();
    }
}

#[test]
fn filter_with_equal_fingerprints_is_built_in_one_pass() {
    use std::cell::Cell;
    let members: Vec<Hash> = {
        let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
        let mut members: Vec<Hash> = (0..10_000u64).map(|key| hasher.hash(&key)).collect();
        members.sort_unstable();
        members
    };
    for (rate, capacity) in [(0.1, 10_000), (0.001, 10_000), (0.1, 20_000)] {
        let builder = builder().false_positive_rate(rate).capacity(capacity);
        let passes = Cell::new(0);
        let listed = || {
            passes.set(passes.get() + 1);
            members.iter().copied()
        };
        let filter = builder.build_sorted(listed, std::iter::empty).unwrap();
        assert_eq!(passes.get(), 1, "{rate}, {capacity}");
        assert_eq!(filter.parameters(), builder.plan().unwrap().details.parameters);
        let details = filter.details();
        assert!(details.extension_slots > 0, "some share a fingerprint, and are counted");
        assert!(details.fingerprints + details.extension_slots <= 10_000);
    }
}
