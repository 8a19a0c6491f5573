//! Comparing two sets of members without storing either.

use std::iter::Sum;
use std::ops::Add;
use twiceshy::Hash;

/// The size of a set of members, and the sum of their hashes. Hashes are keyed, so two different sets have
/// the same sum with probability 2^-128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) members: u64,
    sum: u128,
}

impl Add for Census {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { members: self.members + other.members, sum: self.sum.wrapping_add(other.sum) }
    }
}

impl From<Hash> for Census {
    fn from(hash: Hash) -> Self {
        Self { members: 1, sum: hash.as_u128() }
    }
}

impl Sum<Hash> for Census {
    fn sum<I: Iterator<Item = Hash>>(hashes: I) -> Self {
        hashes.fold(Self::default(), |all, hash| all + hash.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn census_depends_on_every_member_but_not_on_their_order() {
        let census = |hashes: &[u128]| hashes.iter().map(|&hash| Hash::from_u128(hash)).sum();
        let all: Census = census(&[5, u128::MAX, 7]);
        assert_eq!(all, census(&[7, 5, u128::MAX]));
        assert_eq!(all, census(&[u128::MAX]) + census(&[7, 5]));
        assert_eq!(all.members, 3);
        for other in [&[5, u128::MAX][..], &[5, u128::MAX, 8], &[5, u128::MAX, 7, 0]] {
            assert_ne!(all, census(other), "{other:?}");
        }
    }
}
