//! Random operations against the exact model; everything is compared and validated
//! after each step.

use arbitrary::Unstructured;
use proptest::prelude::*;
use twiceshy_model::script::{Shape, Spread, drive, drive_constructor, drive_shape};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_script(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive(&bytes);
    }

    #[test]
    fn any_lists(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive_constructor(&bytes);
    }

    /// Many more operations than slots: tables at 99 % and full.
    #[test]
    fn overfull(
        slots in 1u64..120,
        remainder_bits in 1u32..=40,
        spread in prop::sample::select(vec![
            Spread::Uniform, Spread::Clustered, Spread::OneQuotient, Spread::End,
        ]),
        bytes in prop::collection::vec(any::<u8>(), 12_000),
    ) {
        drive_shape(Shape { slots, remainder_bits, spread }, &mut Unstructured::new(&bytes));
    }
}
