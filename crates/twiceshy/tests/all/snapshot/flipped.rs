//! Flips bits of snapshots and recomputes their checksums. Each snapshot is refused or gives a
//! valid filter.

use super::{Numbers, build, restored, saved, worn};
use proptest::prelude::*;
use twiceshy::{Answer, Hash, QuotientFilter};
use twiceshy_model::snapshot::{HEADER, read, seal};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Builds long runs, with plain blocks next to blocks that have counters and extensions.
    #[test]
    fn snapshot_with_flipped_bits_is_refused_or_valid(
        slots in 50u64..500, remainder_bits in prop_oneof![4 => 2u32..=14, 1 => 1u32..=56],
        load in 50u64..=100, counted in 0u64..8, more in 0u64..40, seed: u64, flips in 1usize..3,
    ) {
        let mut filter = build(slots, remainder_bits, 0);
        let mut numbers = Numbers::new(seed);
        for _ in 0..slots * load / 100 {
            let times = if numbers.below(100) < counted { 2 } else { 1 };
            let _ = filter.insert_times(Hash::from_u128(numbers.next()), times);
        }
        let bytes = saved(&worn(filter, more, seed));
        for _ in 0..300 {
            let mut flipped = bytes.clone();
            for _ in 0..flips {
                let bit = numbers.below((bytes.len() - HEADER) as u64 * 8) as usize;
                flipped[HEADER + bit / 8] ^= 1 << (bit % 8);
            }
            seal(&mut flipped);
            read(&flipped);
        }
    }
}

/// A run continues in a block with a counter. Such a block isn't checked as a whole, so the order
/// of the run must be checked separately.
#[test]
fn run_that_is_out_of_order_in_the_next_block_is_refused() {
    let mut filter = build(200, 9, 0);
    let hash = |quotient: u128, remainder: u128| {
        Hash::from_u128(u128::MAX / 200 * quotient + (remainder << 112))
    };
    // The first block has 42 quotients, and quotient 40 is the second to last of them.
    for remainder in 1..9 {
        filter.insert(hash(40, remainder)).unwrap();
    }
    filter.insert_times(hash(60, 3), 5).unwrap();
    let bytes = saved(&filter);
    for bit in HEADER * 8..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        seal(&mut flipped);
        read(&flipped);
    }
}

/// Tries every power of two as the number of repairs, which takes 8 bytes in the header.
#[test]
fn filter_with_the_greatest_repair_count_can_be_repaired_and_restored() {
    let mut filter = build(100, 8, 0);
    let [member, query] = [7, 8].map(|number| Hash::from_u128(number << 80));
    filter.insert(member).unwrap();
    let bytes = saved(&filter);
    let mut greatest = 0;
    for bit in 0..64 {
        let mut changed = bytes.clone();
        changed[64..72].copy_from_slice(&(1u64 << bit).to_le_bytes());
        seal(&mut changed);
        let Ok(mut filter) = restored(&changed) else { continue };
        greatest = 1 << bit;
        let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 40 bits") };
        filter.adapt(&claim, &[member]).unwrap();
        let again = restored(&saved(&filter)).unwrap();
        assert!(again.stats().repairs >= greatest);
        let merged = QuotientFilter::merged(&[&again, &again, &again]).unwrap();
        assert!(restored(&saved(&merged)).unwrap().stats().repairs >= greatest);
    }
    assert!(greatest > 1 << 60);
}
