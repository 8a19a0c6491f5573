//! Compares single and batched lookups with the fingerprints, for every width: an answer is "maybe"
//! exactly if a fingerprint covers the hash.

use proptest::prelude::*;
use twiceshy::quotient::{Fingerprint, Remainders};
use twiceshy::{Answer, Hash, QuotientFilter, Secret, hash::KeyedHasher};
use twiceshy_model::quotient::{Form, hashes_of};

/// Moves a hash to one of the first `quotients` quotients, whose runs then cross many lines.
fn spread(hash: Hash, slots: u64, quotients: u64) -> Hash {
    let one_slot = u128::MAX / u128::from(slots);
    let quotient = hash.as_u128() % u128::from(quotients.min(slots));
    Hash::from_u128(quotient * one_slot + (hash.as_u128() >> 8) % one_slot)
}

/// Returns both ends of a fingerprint's interval, their outer neighbours, and a random hash nearby.
fn near(fingerprint: &Fingerprint, form: Form, noise: Hash) -> [Hash; 5] {
    let (first, last) = hashes_of(fingerprint, form).into_inner();
    let (first, last) = (first.as_u128(), last.as_u128());
    let within = (last - first) / 2 + 1;
    [
        first,
        last,
        first.wrapping_sub(1),
        last.wrapping_add(1),
        first.wrapping_add(noise.as_u128() % within.saturating_mul(1 << 6)),
    ]
    .map(Hash::from_u128)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn answers_match_the_fingerprints(
        seed in any::<[u8; 16]>(),
        width in 1u32..=56,
        slots in 1u64..600,
        load in 1u64..=100,
        quotients in prop_oneof![Just(u64::MAX), 1u64..40],
        mixed in any::<Option<[u8; 16]>>(),
    ) {
        let hasher = KeyedHasher::new(&Secret::from_bytes(seed));
        let plan = QuotientFilter::builder().remainder_bits(width).slots(slots).plan().unwrap();
        let mut parameters = plan.details.parameters;
        parameters.remainders = mixed.map_or(Remainders::PLAIN, Remainders::from_bytes);
        let form = Form::from(parameters);
        let mut filter = QuotientFilter::from_sorted(parameters, [] as [Hash; 0], []).unwrap();
        let mut members = Vec::new();
        for key in 0..slots * load / 100 {
            let hash = spread(hasher.hash(&key), slots, quotients);
            if filter.insert(hash).is_ok() {
                members.push(hash);
            }
            // Repairs some mistakes, so that there are extensions of several lengths.
            let victim = members.get(key as usize / 2).copied().unwrap_or(hash);
            let mistake = Hash::from_u128(victim.as_u128() ^ 1 << (key % 120));
            if let (0, Answer::Maybe(claim)) = (key % 4, filter.check(mistake)) {
                let suspects: Vec<Hash> =
                    members.iter().copied().filter(|hash| claim.suspects().contains(hash)).collect();
                let _ = filter.adapt(&claim, &suspects);
            }
        }
        let fingerprints: Vec<Fingerprint> =
            filter.iter().map(|entry| entry.fingerprint).collect();
        let mut queries = members.clone();
        queries.extend((0u64..).zip(&fingerprints).flat_map(|(key, fingerprint)| {
            near(fingerprint, form, hasher.hash(&(key + 1_000_000)))
        }));
        // Look up the remainders of members in the neighbouring runs, too.
        let one_slot = u128::MAX / u128::from(slots);
        queries.extend(members.iter().flat_map(|member| {
            [1, 2, 4, 6].map(|further| {
                Hash::from_u128(member.as_u128().wrapping_add(one_slot.wrapping_mul(further)))
            })
        }));
        let expected: Vec<bool> = queries
            .iter()
            .map(|&query| fingerprints.iter().any(|fingerprint| fingerprint.covers(query)))
            .collect();
        prop_assert!(expected[..members.len()].iter().all(|&maybe| maybe));
        for (&query, &maybe) in queries.iter().zip(&expected) {
            prop_assert_eq!(filter.contains(query), maybe, "{:?}", query);
        }
        let mut maybe = Vec::new();
        for count in [0, 1, 15, 16, 17, 33, queries.len()] {
            let count = count.min(queries.len());
            filter.contains_many(&queries[..count], &mut maybe);
            prop_assert_eq!(&maybe, &expected[..count]);
        }
    }
}
