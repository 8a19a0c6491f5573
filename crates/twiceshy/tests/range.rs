//! Filters for ranges: random operations against the exact model, the adversary's game, and
//! snapshots.

#[path = "range/snapshot.rs"]
mod snapshot;

use proptest::prelude::*;
use twiceshy::{AdaptiveRangeFilter, RangeAnswer, RangeFilter, Secret};
use twiceshy_model::range::{Members, drive};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_script(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        drive(&bytes);
    }
}

/// Numbers that look random.
fn number(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ n >> 32
}

/// Whoever asks for what was a mistake once more gets nothing out of it; of a filter that doesn't
/// adapt, all of it.
#[test]
fn the_adversary_has_nothing_left_after_a_round() {
    for longest_range in [1, 32, 1 << 12] {
        let members: Vec<u64> = (0..2000).map(number).collect();
        let builder = AdaptiveRangeFilter::<u64>::builder().slots(4000).remainder_bits(4);
        let builder = builder.longest_range(longest_range).secret(Secret::from_bytes([3; 16]));
        let plain: RangeFilter<u64> = builder.clone().build_from(&members).unwrap();
        let mut filter = builder.build_adaptive_from(&members).unwrap();
        let mut model = Members::default();
        for &member in &members {
            model.insert(member);
        }

        let mut seen = Vec::new();
        for n in 0..8000 {
            // Anywhere, and right behind members.
            let first =
                if n % 2 == 0 { number(n + (1 << 40)) } else { members[n as usize / 4] + 1 };
            let range = first..=first.saturating_add(longest_range - 1);
            if model.any_in(&range) {
                continue;
            }
            let maybe = plain.contains_range(range.clone());
            if let RangeAnswer::Maybe(claim) = filter.check_range(range.clone()) {
                assert!(maybe, "repairs make no mistakes");
                let suspects = model.suspects(&filter, &claim);
                filter.adapt(&claim, &suspects).unwrap();
            }
            if maybe {
                seen.push(range);
            }
        }
        assert!(seen.len() > 200, "{}", seen.len());
        assert!(seen.iter().all(|range| !filter.contains_range(range.clone())));
        assert!(seen.iter().all(|range| plain.contains_range(range.clone())));
        assert!(members.iter().all(|&member| filter.contains(member)));
        filter.validate().unwrap();
    }
}
