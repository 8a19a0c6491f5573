//! Operations on a concurrent filter, for property tests.

use proptest::prelude::*;
use twiceshy::{Hash, quotient::Remainders};
use twiceshy_model::concurrent::{Operation, SHIFTS, near_border};

/// Generates hashes close to the borders of eight shards, many with common prefixes.
fn hash() -> impl Strategy<Value = Hash> {
    let shifts = prop::sample::select(&SHIFTS[..]);
    (0u128..8, 0u128..16, shifts, any::<bool>())
        .prop_map(|(border, number, shift, before)| near_border(border, number, shift, before))
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => hash().prop_map(Operation::Insert),
        1 => (hash(), 0u64..100).prop_map(|(hash, times)| Operation::InsertTimes(hash, times)),
        1 => prop::collection::vec(hash(), 0..5).prop_map(Operation::InsertMany),
        1 => any::<usize>().prop_map(Operation::Remove),
        1 => any::<usize>().prop_map(Operation::Bury),
        1 => any::<usize>().prop_map(Operation::RemoveListed),
        1 => any::<usize>().prop_map(Operation::RemoveShortened),
        1 => any::<usize>().prop_map(Operation::BuryListed),
        1 => (hash(), 0u64..5).prop_map(|(hash, value)| Operation::SetValue(hash, value)),
        6 => hash().prop_map(Operation::Adapt),
        1 => (hash(), hash()).prop_map(|(query, extra)| Operation::AdaptWrongly(query, extra)),
        1 => any::<(usize, bool)>().prop_map(|(shard, planned)| Operation::Rebuild(shard, planned)),
        1 => any::<(usize, bool, Option<[u8; 16]>)>().prop_map(|(shard, wider, numbers)| {
            let remainders = numbers.map_or(Remainders::PLAIN, Remainders::from_bytes);
            Operation::Rotate(shard, wider, remainders)
        }),
    ]
}

/// A pseudo-random number generator.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn hash(&mut self) -> Hash {
        Hash::from_u128(u128::from(self.next()) << 64 | u128::from(self.next()))
    }
}
