//! Range filters: random operations compared with an exact model, repeated mistakes, and snapshots.

mod snapshot;

use proptest::prelude::*;
use twiceshy::{Answer, Secret, builder::Builder, range::MementoFilter};
use twiceshy_model::range::{Members, drive};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn random_operations_match_the_model(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        drive(&bytes);
    }
}

/// Returns pseudo-random numbers.
fn number(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ n >> 32
}

fn builder<const ADAPTIVE: bool>(longest_range: u64) -> Builder<MementoFilter<u64, ADAPTIVE>> {
    let builder = Builder::default().slots(4000).remainder_bits(4);
    builder.longest_range(longest_range).secret(Secret::from_bytes([3; 16]))
}

/// A repeated mistake is answered "empty" by an adaptive filter, but "maybe" by a plain one.
#[test]
fn repaired_range_is_answered_empty() {
    for longest_range in [1, 32, 1 << 12] {
        let members: Vec<u64> = (0..2000).map(number).collect();
        let plain = builder::<false>(longest_range).build_from(&members).unwrap();
        let adaptive = builder::<true>(longest_range);
        let mut filter = adaptive.build_from(&members).unwrap();
        let mut model = Members::default();
        for &member in &members {
            model.insert(member);
        }

        let mut seen = Vec::new();
        for n in 0..8000 {
            // Random ranges, and ranges right after members.
            let first =
                if n % 2 == 0 { number(n + (1 << 40)) } else { members[n as usize / 4] + 1 };
            let range = first..=first.saturating_add(longest_range - 1);
            if model.any_in(&range) {
                continue;
            }
            let maybe = plain.contains_range(range.clone());
            if let Answer::Maybe(claim) = filter.check_range(range.clone()) {
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
