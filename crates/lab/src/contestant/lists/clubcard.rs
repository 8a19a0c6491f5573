//! The `clubcard` crate, which is the current design of `CRLite`. It has an approximate ribbon
//! filter, and an exact one for the keys that pass the first. It promises nothing about unlisted
//! keys. But if the first ribbon is wider than its default, wrong answers for them are rare.

use super::ListFilter;
use clubcard::builder::{ApproximateRibbon, ClubcardBuilder, ExactRibbon};
use clubcard::{ApproximateSizeOf as _, AsQuery, Clubcard, Equation, Filterable, Queryable};
use twiceshy::Hash;

/// The number of words per equation, as in `CRLite`.
const WORDS: usize = 4;

pub(super) struct Card(Clubcard<WORDS, (), ()>);

/// A key and whether it is on the yes list.
#[derive(Clone)]
struct Item {
    hash: [u8; 16],
    is_yes: bool,
}

impl Item {
    fn new(hash: Hash, is_yes: bool) -> Self {
        Self { hash: hash.as_u128().to_le_bytes(), is_yes }
    }
}

impl AsQuery<WORDS> for Item {
    fn as_query(&self, m: usize) -> Equation<WORDS> {
        let hash = u128::from_le_bytes(self.hash);
        let (mut state, high) = (hash as u64, (hash >> 64) as u64);
        // The place depends on the number of columns, so that the two ribbons have different
        // equations.
        let place = (u128::from(high.rotate_left(m as u32 % 64) ^ m as u64) * m as u128) >> 64;
        let coefficients = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ m as u64;
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) | 1
        });
        Equation::homogeneous(place as usize, coefficients)
    }

    fn block(&self) -> &[u8] {
        &[]
    }

    fn discriminant(&self) -> &[u8] {
        &self.hash
    }
}

impl Filterable<WORDS> for Item {
    fn included(&self) -> bool {
        self.is_yes
    }
}

impl Queryable<WORDS> for Item {
    type UniverseMetadata = ();
    type PartitionMetadata = ();

    fn in_universe(&self, (): &()) -> bool {
        true
    }
}

impl Card {
    pub(super) fn new(yes: &[Hash], no: &[Hash], rate: f64) -> Self {
        let mut builder = ClubcardBuilder::new();
        let mut approximate = builder.new_approx_builder(&[]);
        // The first ribbon uses log(others / members) bits. It may pass twice as many unlisted keys
        // as the rate allows, because the exact ribbon passes only half of them.
        let others = (yes.len() as f64 / (2.0 * rate)).ceil() as usize;
        approximate.set_universe_size(yes.len() + others.max(no.len()) + 1);
        for &hash in yes {
            approximate.insert(Item::new(hash, true));
        }
        builder.collect_approx_ribbons(vec![ApproximateRibbon::from(approximate)]);
        let mut exact = builder.new_exact_builder(&[]);
        for (list, is_yes) in [(yes, true), (no, false)] {
            for &hash in list {
                exact.insert(Item::new(hash, is_yes));
            }
        }
        let exact = ExactRibbon::from(exact);
        builder.collect_exact_ribbons(vec![exact]);
        Self(builder.build::<Item>((), ()))
    }
}

impl ListFilter for Card {
    fn contains(&self, hash: Hash) -> bool {
        self.0.unchecked_contains(&Item::new(hash, false))
    }

    fn bits(&self) -> u64 {
        8 * self.0.approximate_size_of() as u64
    }
}
