//! Tests that every filter is sized with the same options, that plans keep their promises, and that
//! contradictory options give the same error for every filter.

use proptest::prelude::*;
use twiceshy::{
    AdaptiveBloomFilter, AdaptiveRangeFilter, ExtensionFilter, Hash, PlainQuotientFilter,
    QuotientFilter, RangeFilter, Secret, TelescopingFilter, YesNoList,
    builder::{Buildable, Builder, HasRepairs, HasSlots},
    error::PlanError,
    hash::KeyedHasher,
    telescoping::{CodedFilter, Extensions, Plain, Selectors},
};

/// A filter that a builder can size, with the operations that these tests need.
trait Sized: Buildable<Details: Clone + std::fmt::Debug + PartialEq> {
    /// Inserts a random member, chosen by its number.
    fn insert_member(&mut self, number: u64);

    /// Looks up a random key that is not a member.
    fn contains_stranger(&self, number: u64) -> bool;

    fn bytes(&self) -> u64;
}

fn hash(number: u64) -> Hash {
    KeyedHasher::new(&Secret::from_bytes([42; 16])).hash(&number)
}

/// The first number of a non-member. Members have lower numbers.
const STRANGERS: u64 = 1 << 40;

macro_rules! sized_by_hash {
    ($($filter:ty)*) => {$(
        impl Sized for $filter {
            fn insert_member(&mut self, number: u64) {
                self.insert(hash(number)).unwrap();
            }

            fn contains_stranger(&self, number: u64) -> bool {
                self.contains(hash(STRANGERS + number))
            }

            fn bytes(&self) -> u64 {
                self.stats().memory
            }
        }
    )*};
}

macro_rules! sized_by_key {
    ($($filter:ty)*) => {$(
        impl Sized for $filter {
            fn insert_member(&mut self, number: u64) {
                self.insert(hash(number).as_u128() as u64).unwrap();
            }

            fn contains_stranger(&self, number: u64) -> bool {
                // The range touches two partitions, which is the worst case for the rate.
                let start = hash(STRANGERS + number).as_u128() as u64 | 31;
                self.contains_range(start..=start.saturating_add(31))
            }

            fn bytes(&self) -> u64 {
                self.stats().memory
            }
        }
    )*};
}

sized_by_hash! {
    QuotientFilter PlainQuotientFilter TelescopingFilter ExtensionFilter AdaptiveBloomFilter
}
sized_by_key! { RangeFilter<u64> AdaptiveRangeFilter<u64> }

impl Sized for YesNoList {
    fn insert_member(&mut self, number: u64) {
        self.add_yes(hash(number)).unwrap();
    }

    fn contains_stranger(&self, number: u64) -> bool {
        self.contains(hash(STRANGERS + number))
    }

    /// Returns the size of the filter without the lists, which grow with their keys.
    fn bytes(&self) -> u64 {
        self.filter().stats().memory
    }
}

/// Calls a generic function with every filter type. The next two macros call it only with the types
/// that have slots, or repairs.
macro_rules! for_every_filter {
    ($check:ident($($argument:expr),*)) => {{
        for_every_filter_with_slots!($check($($argument),*));
        $check::<AdaptiveBloomFilter>($($argument),*);
        $check::<YesNoList>($($argument),*);
    }};
}

macro_rules! for_every_filter_with_slots {
    ($check:ident($($argument:expr),*)) => {{
        $check::<QuotientFilter>($($argument),*);
        $check::<PlainQuotientFilter>($($argument),*);
        $check::<TelescopingFilter>($($argument),*);
        $check::<ExtensionFilter>($($argument),*);
        $check::<RangeFilter<u64>>($($argument),*);
        $check::<AdaptiveRangeFilter<u64>>($($argument),*);
    }};
}

macro_rules! for_every_filter_with_repairs {
    ($check:ident($($argument:expr),*)) => {{
        $check::<QuotientFilter>($($argument),*);
        $check::<AdaptiveBloomFilter>($($argument),*);
        $check::<AdaptiveRangeFilter<u64>>($($argument),*);
    }};
}

fn builder<F: Sized>() -> Builder<F> {
    Builder::default()
}

/// Checks that a full filter keeps the planned rate and memory. Returns the planned capacity.
fn check_plan<F: Sized>(builder: &Builder<F>, rate: f64) -> usize {
    let plan = builder.plan().unwrap();
    let mut filter = builder.build().unwrap();
    assert!(plan.expected_rate <= rate * 1.000_001, "{plan:?} for a rate of {rate}");
    assert!(filter.bytes() <= plan.bytes, "{} bytes, {plan:?}", filter.bytes());
    let bits = plan.bytes as f64 * 8.0 / plan.capacity.max(1) as f64;
    assert!((plan.bits_per_member - bits).abs() < 1e-6, "{plan:?}");
    for number in 0..plan.capacity as u64 {
        filter.insert_member(number);
    }
    assert!(filter.bytes() <= plan.bytes, "{} bytes when full, {plan:?}", filter.bytes());
    let asked = 4_000;
    let mistakes = (0..asked).filter(|&number| filter.contains_stranger(number)).count() as f64;
    let expected = rate * asked as f64;
    assert!(mistakes <= expected + 6.0 * expected.sqrt() + 3.0, "{mistakes} for {rate}: {plan:?}");
    plan.capacity
}

fn check_capacity<F: Sized>(capacity: usize, rate: f64) {
    let builder = builder::<F>().false_positive_rate(rate).capacity(capacity);
    assert_eq!(check_plan(&builder, rate), capacity);
}

fn check_memory<F: Sized>(bytes: u64, rate: f64) {
    let builder = builder::<F>().false_positive_rate(rate);
    let within = builder.clone().memory(bytes);
    let plan = match within.plan() {
        Err(PlanError::Budget(refused)) => {
            assert!(refused == bytes && builder.capacity(1).plan().unwrap().bytes > bytes);
            return;
        }
        plan => plan.unwrap(),
    };
    assert!(plan.bytes <= bytes);
    assert!(builder.clone().capacity(plan.capacity + 1).plan().unwrap().bytes > bytes, "{plan:?}");
    if plan.capacity < 4_000 {
        assert_eq!(check_plan(&within, rate), plan.capacity);
    }
    assert_eq!(builder.capacity(plan.capacity).plan(), Ok(plan));
}

fn check_slots<F: Sized + HasSlots>(slots: u64, rate: f64, load: f64) {
    let builder = builder::<F>().false_positive_rate(rate).planned_load(load).slots(slots);
    let plan = builder.plan().unwrap();
    assert_eq!(plan.slots, slots);
    assert!(plan.capacity as f64 <= slots as f64 * load);
    check_plan(&builder, rate);
    // Requesting the planned remainder bits gives the same filter.
    let bits = self::builder::<F>().remainder_bits(plan.remainder_bits).planned_load(load);
    assert_eq!(bits.slots(slots).plan(), Ok(plan));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn planned_capacity_keeps_its_rate_and_memory(
        capacity in 0usize..3_000, exponent in 0.5..14.0f64,
    ) {
        for_every_filter!(check_capacity(capacity, (-exponent).exp2()));
    }

    #[test]
    fn memory_budget_is_used_and_never_exceeded(bytes in 0u64..40_000, exponent in 0.5..20.0f64) {
        for_every_filter!(check_memory(bytes, (-exponent).exp2()));
    }

    #[test]
    fn filter_with_given_slots_keeps_its_rate(
        slots in 1u64..3_000, exponent in 1.1..14.0f64, load in 0.5..0.97f64,
    ) {
        for_every_filter_with_slots!(check_slots(slots, (-exponent).exp2(), load));
    }
}

#[test]
fn defaults_are_the_same_for_every_filter() {
    fn check<F: Sized>() {
        let by_default = builder::<F>().capacity(10_000).plan().unwrap();
        let asked = builder::<F>().capacity(10_000).false_positive_rate(0.001).plan();
        assert_eq!(asked, Ok(by_default));
    }
    fn check_load<F: Sized + HasSlots>() {
        let by_default = builder::<F>().slots(10_000).plan().unwrap();
        assert!(by_default.capacity >= 9_500 * 20 / 21 - 2, "{by_default:?}");
        let asked = builder::<F>().slots(10_000).planned_load(0.95).plan();
        assert_eq!(asked, Ok(by_default));
    }
    fn check_repairs<F: Sized + HasRepairs>() {
        let builder = builder::<F>().capacity(10_000);
        let [by_default, few, many] = [
            builder.plan(),
            builder.clone().adaptations(0).plan(),
            builder.adaptations(5_000).plan(),
        ]
        .map(|plan| plan.unwrap().bytes);
        assert!(few < by_default && by_default < many, "{few} {by_default} {many}");
    }
    for_every_filter!(check());
    for_every_filter_with_slots!(check_load());
    for_every_filter_with_repairs!(check_repairs());
    for repairs in [500, 501] {
        let quotient = QuotientFilter::builder().capacity(10_000);
        let asked = quotient.clone().adaptations(repairs).plan();
        assert_eq!(asked == quotient.plan(), repairs == 500);
        let range = AdaptiveRangeFilter::<u64>::builder().capacity(10_000);
        let asked = range.clone().adaptations(repairs).plan();
        assert_eq!(asked == range.plan(), repairs == 500);
    }
}

#[test]
fn contradictory_options_give_the_same_error_for_every_filter() {
    fn check<F: Sized>() {
        let refused = |builder: Builder<F>, expected: PlanError| {
            assert_eq!(builder.plan().unwrap_err(), expected);
            let built = builder.build().err().unwrap().to_string();
            assert_eq!(built, expected.to_string());
        };
        let both = builder::<F>().capacity(9).memory(1 << 20);
        refused(both.clone(), PlanError::Size);
        refused(both.false_positive_rate(0.1), PlanError::Size);
        let huge = builder::<F>().capacity(usize::MAX);
        refused(huge, PlanError::Capacity(usize::MAX));
        refused(builder::<F>().memory(100), PlanError::Budget(100));
        refused(builder::<F>().memory(0), PlanError::Budget(0));
        for impossible in [0.0, -0.1, 1.0, 2.0, f64::NAN, f64::INFINITY, 1e-300] {
            for builder in [builder::<F>().capacity(10), builder().memory(9999), builder()] {
                let refused = builder.false_positive_rate(impossible).plan();
                let Err(PlanError::Rate { rate, least }) = refused else { panic!("{refused:?}") };
                assert!(rate.to_bits() == impossible.to_bits() && least > 0.0 && least < 1e-9);
            }
        }
    }
    fn check_slots<F: Sized + HasSlots>() {
        let refused = |builder: Builder<F>, expected: PlanError| {
            assert_eq!(builder.plan().unwrap_err(), expected);
        };
        refused(builder(), PlanError::Size);
        refused(builder().slots(9).capacity(9), PlanError::Size);
        refused(builder().slots(9).memory(9999), PlanError::Size);
        refused(builder().slots(9).memory(9999).capacity(9), PlanError::Size);
        for size in [builder::<F>(), builder().slots(9), builder().capacity(9)] {
            let two = size.clone().false_positive_rate(0.1).remainder_bits(9);
            refused(two, PlanError::RateAndRemainderBits);
            for load in [0.0, 0.49, 0.991, 1.0, -1.0] {
                refused(size.clone().planned_load(load), PlanError::Load(load));
            }
            for bits in [0, 57, u32::MAX] {
                let refused = size.clone().remainder_bits(bits).plan();
                let Err(PlanError::RemainderBits { bits: named, most }) = refused else {
                    panic!("{refused:?}")
                };
                assert!(named == bits && (40..=56).contains(&most));
            }
        }
        for slots in [0, (1 << 48) + 1, u64::MAX] {
            refused(builder().slots(slots), PlanError::Slots(slots));
        }
    }
    fn check_repairs<F: Sized + HasRepairs>() {
        for count in [usize::MAX, usize::MAX / 2, 1 << 60] {
            for size in [builder::<F>().capacity(9), builder().memory(1 << 20)] {
                let refused = size.adaptations(count).plan();
                assert_eq!(refused.unwrap_err(), PlanError::Adaptations(count));
            }
        }
    }
    for_every_filter!(check());
    for_every_filter_with_slots!(check_slots());
    for_every_filter_with_repairs!(check_repairs());
    let crowded = QuotientFilter::builder().slots(100).adaptations(96).plan();
    assert_eq!(crowded, Err(PlanError::Adaptations(96)));
    let crowded = AdaptiveRangeFilter::<u64>::builder().slots(100).adaptations(96).plan();
    assert_eq!(crowded, Err(PlanError::Adaptations(96)));
}

#[test]
fn missing_size_is_an_error_unless_the_filter_grows_by_itself() {
    assert_eq!(AdaptiveBloomFilter::builder().plan(), Err(PlanError::Size));
    let mut list = YesNoList::builder().build().unwrap();
    (0..1000).for_each(|number| list.insert_member(number));
    list.validate().unwrap();
}

#[test]
fn plan_refuses_impossible_options_that_only_some_filters_have() {
    let quotient = || QuotientFilter::builder().capacity(10);
    assert_eq!(quotient().value_bits(17).plan(), Err(PlanError::ValueBits(17)));
    assert_eq!(quotient().grow_at(0.05).plan(), Err(PlanError::Growth(0.05)));
    let coded = ExtensionFilter::builder().capacity(10);
    assert_eq!(coded.clone().code_bits(7).plan(), Err(PlanError::CodeBits(7)));
    assert_eq!(coded.code_bits(121).plan(), Err(PlanError::CodeBits(121)));
    let range = || RangeFilter::<u64>::builder().capacity(10);
    assert_eq!(range().longest_range(0).plan(), Err(PlanError::LongestRange(0)));
    let long = (1 << 20) + 1;
    assert_eq!(range().longest_range(long).plan(), Err(PlanError::LongestRange(long)));
    let both = range().planned_load(0.9).expandable().plan();
    assert_eq!(both, Err(PlanError::Load(0.9)));
}

#[test]
fn filters_with_few_slots_can_be_built() {
    for slots in 1..=8 {
        let builder = builder::<AdaptiveRangeFilter<u64>>().remainder_bits(1).slots(slots);
        assert_eq!(builder.plan().unwrap().slots, slots);
        builder.build().unwrap();
        let refused = builder.adaptations(100).plan();
        assert_eq!(refused, Err(PlanError::Adaptations(100)));
    }
}

#[test]
fn plan_has_the_parameters_of_the_built_filter() {
    macro_rules! check {
        ($($scheme:ty),+) => {$(
            let builder = CodedFilter::<$scheme>::builder().capacity(1000);
            let planned = builder.plan().unwrap().details;
            assert_eq!(planned, builder.build().unwrap().parameters());
        )+};
    }
    check!(Plain, Selectors, Extensions);
    let builder = QuotientFilter::builder().capacity(1000);
    assert_eq!(builder.plan().unwrap().details.parameters, builder.build().unwrap().parameters());
}
