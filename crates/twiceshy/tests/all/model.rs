//! Compares random operations with an exact model, and validates the filter after each step.

use arbitrary::Unstructured;
use proptest::prelude::*;
use twiceshy::quotient::Remainders;
use twiceshy_model::script::{Shape, Spread, drive, drive_constructor, drive_shape};

/// Generates plain remainders half of the time.
fn remainders() -> impl Strategy<Value = Remainders> {
    prop_oneof![Just(Remainders::PLAIN), any::<[u8; 16]>().prop_map(Remainders::from_bytes)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_operations_match_the_model(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive(&bytes);
    }

    #[test]
    fn building_from_random_lists_matches_the_model(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive_constructor(&bytes);
    }

    /// Runs more operations than there are slots, so that tables become full.
    #[test]
    fn operations_on_full_tables_match_the_model(
        slots in 1u64..120,
        remainder_bits in 1u32..=40,
        value_bits in 0u32..3,
        spread in prop::sample::select(vec![
            Spread::Uniform, Spread::Clustered, Spread::OneQuotient, Spread::End,
        ]),
        remainders in remainders(),
        bytes in prop::collection::vec(any::<u8>(), 5000),
    ) {
        let (grows, inserted) = (false, 0);
        let shape = Shape { slots, remainder_bits, value_bits, grows, spread, inserted, remainders };
        drive_shape(shape, &mut Unstructured::new(&bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) })]

    /// Makes runs so long that spills exceed their byte, and inserts and removes ghosts.
    #[test]
    fn operations_on_long_runs_match_the_model(
        slots in 1500u64..3000,
        remainder_bits in 1u32..=12,
        spread in prop::sample::select(vec![Spread::Clustered, Spread::OneQuotient]),
        remainders in remainders(),
        bytes in prop::collection::vec(any::<u8>(), 1500),
    ) {
        let (value_bits, grows, inserted) = (0, false, 1200);
        let shape = Shape { slots, remainder_bits, value_bits, grows, spread, inserted, remainders };
        drive_shape(shape, &mut Unstructured::new(&bytes));
    }
}
