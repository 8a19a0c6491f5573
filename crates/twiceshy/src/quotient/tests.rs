//! Tests that need private items: SIMD and portable code agree, and suspects match the claim.

use super::{Parameters, QuotientFilter, Remainders};
use crate::bits::machine::Level;
use crate::table::QuotientTable;
use crate::{Answer, Hash, Secret, hash::KeyedHasher};
use proptest::prelude::*;

fn filter(slots: u64, width: u32, remainders: Remainders, level: Level) -> QuotientFilter {
    let table = QuotientTable::for_machine(slots, width, level).unwrap();
    over(table, slots, width, remainders)
}

fn over(table: QuotientTable, slots: u64, width: u32, remainders: Remainders) -> QuotientFilter {
    let (remainder_bits, slot_bits, value_bits) = (width, width, 0);
    let parameters = Parameters { slots, remainder_bits, slot_bits, value_bits, remainders };
    QuotientFilter::from_table(table, parameters)
}

/// A walk to the end of the table would make this test take hours.
#[test]
fn lookup_in_an_endless_entry_reads_a_bounded_number_of_slots() {
    let (slots, width) = (1 << 20, 9);
    let table = QuotientTable::of_one_endless_entry(slots, width).unwrap();
    let filter = over(table, slots, width, Remainders::PLAIN);
    // All these hashes have quotient 0, remainder 0 and a different digit after it.
    let mut queries = (1..1 << 19).map(|number| Hash::from_u128(511 << 90 | number));
    assert!(queries.all(|query| !filter.contains(query)));
}

proptest! {
    /// Uses small tables of narrow slots, so that most queries collide and clusters are long.
    #[test]
    fn simd_and_portable_code_agree(
        seed in any::<[u8; 16]>(), slots in 1u64..600, width in 1u32..20, fill in 0u64..110,
        mixed in any::<Option<[u8; 16]>>(),
    ) {
        let remainders = mixed.map_or(Remainders::PLAIN, Remainders::from_bytes);
        let mut here = filter(slots, width, remainders, Level::detect());
        let mut portable = filter(slots, width, remainders, Level::Portable);
        let hasher = KeyedHasher::new(&Secret::from_bytes(seed));
        let mut members: Vec<Hash> = Vec::new();
        for index in 0..slots * fill / 100 {
            let hash = hasher.hash(&index);
            let inserted = here.insert(hash).is_ok();
            prop_assert_eq!(inserted, portable.insert(hash).is_ok());
            if inserted {
                members.push(hash);
            }
            let query = hasher.hash(&(u128::from(index) << 64));
            prop_assert_eq!(here.contains(query), portable.contains(query));
            let near = Hash::from_u128(hash.as_u128() ^ 1 << (127 - index % 24));
            prop_assert_eq!(here.contains(near), portable.contains(near));
            if let (Answer::Maybe(a), Answer::Maybe(b)) = (here.check(query), portable.check(query)) {
                let suspects: Vec<Hash> =
                    members.iter().copied().filter(|hash| a.suspects().contains(hash)).collect();
                prop_assert_eq!(
                    here.adapt(&a, &suspects).is_ok(),
                    portable.adapt(&b, &suspects).is_ok()
                );
            }
        }
        prop_assert!(here.iter().eq(portable.iter()));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        here.contains_many(&members, &mut a);
        portable.contains_many(&members, &mut b);
        prop_assert!(a == b && a.iter().all(|&maybe| maybe));
        prop_assert!(members.iter().all(|&hash| portable.contains(hash)));
        here.validate()?;
        portable.validate()?;
    }
}

#[test]
fn suspects_returns_the_range_of_the_claim() {
    let filter = QuotientFilter::builder().slots(1000).build().unwrap();
    let shared = QuotientFilter::builder().slots(1000).shards(8).build_concurrent().unwrap();
    for number in 0..100u128 {
        let query = Hash::from_u128(number.wrapping_mul(u128::MAX / 97));
        let mut one = filter.clone();
        one.insert(query).unwrap();
        shared.insert(query).unwrap();
        let claims = [one.check(query), shared.check(query)].map(|answer| match answer {
            Answer::Maybe(claim) => claim.suspects(),
            Answer::Absent => panic!("a member"),
        });
        assert_eq!(claims, [filter.suspects(query), shared.suspects(query)]);
        assert!(claims.iter().all(|claim| claim.contains(&query)));
    }
}
