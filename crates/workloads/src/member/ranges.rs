use std::ops::RangeInclusive;

use libm::exp2;
use rand::RngExt;
use rand::distr::Distribution;

use crate::Invalid;
use crate::invalid::{at_least_one, share};
use crate::key::scatter;
use crate::random::{Random, random};
use crate::stream::Zipf;

/// Where ranges begin.
#[derive(Clone, Copy, Debug)]
pub enum Endpoints {
    /// Shortly after a member, which is drawn by Zipf's law.
    ///
    /// The distance is at most `2^(30·(1 - degree))`.
    Correlated {
        /// How close ranges are to members, from 0 (within 2^30) to 1 (right after the member).
        degree: f64,
    },
    /// Anywhere, independent of the members: one of `universe` points, drawn by Zipf's law.
    Uncorrelated {
        /// Number of points.
        universe: u64,
    },
}

impl Endpoints {
    /// The CORRELATED ranges of the evaluation: they begin at most 64 after a member.
    pub const CORRELATED: Self = Self::Correlated { degree: 0.8 };
    /// The UNCORRELATED ranges of the evaluation. The evaluation doesn't state the universe.
    pub const UNCORRELATED: Self = Self::Uncorrelated { universe: 1_000_000_000 };
}

/// Ranges that contain no member, as in the evaluation of the Aeris filter (§5.2). All have the
/// same length. Some are far more frequent than others. They are near members or anywhere.
///
/// If ranges are near to members, a range filter that only looks at the first bits of keys fails.
/// If a frequent range is a mistake, a filter that can't learn fails.
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    members: &'a [u64],
    endpoints: Endpoints,
    length: u64,
    law: Zipf,
    /// A random number that determines the point of each rank.
    salt: u64,
    random: Random,
}

/// Number of ranges in a row that contain a member, after which the iteration ends.
const TRIES: u32 = 100_000;

impl<'a> Ranges<'a> {
    /// Generates ranges of `length` numbers (1, 32 and 1024 in the evaluation) that contain none of
    /// the `members`, which must be sorted. `exponent` is that of Zipf's law (1.5 in the
    /// evaluation).
    ///
    /// # Errors
    ///
    /// If the length is 0, the members aren't sorted, there are none although ranges should be near
    /// them, the universe is empty, or the degree or the exponent is invalid.
    pub fn new(
        members: &'a [u64],
        endpoints: Endpoints,
        length: u64,
        exponent: f64,
        seed: u64,
    ) -> Result<Self, Invalid> {
        at_least_one("the length of the ranges", length)?;
        let disorder = members.array_windows().filter(|[a, b]| a > b).count();
        if disorder > 0 {
            let parameter = "the number of members that are out of order";
            return Err(Invalid { parameter, given: disorder as f64, wanted: "0" });
        }
        let universe = match endpoints {
            Endpoints::Correlated { degree } => {
                share("the degree of correlation", degree)?;
                members.len() as u64
            }
            Endpoints::Uncorrelated { universe } => universe,
        };
        let law = Zipf::new(universe, exponent)?;
        let mut random = random(seed, "ranges");
        Ok(Self { members, endpoints, length, law, salt: random.random(), random })
    }

    fn first(&mut self) -> u64 {
        let rank = self.law.sample(&mut self.random);
        // Ranks are hashed to points, so that frequent points aren't neighbours. Two ranks may
        // share a member, whose frequency is then the sum of both.
        let point = scatter(rank ^ self.salt);
        match self.endpoints {
            Endpoints::Uncorrelated { .. } => point,
            Endpoints::Correlated { degree } => {
                let at = (u128::from(point) * self.members.len() as u128) >> 64;
                let distance = exp2(30.0 * (1.0 - degree)).round() as u64;
                self.members[at as usize].saturating_add(self.random.random_range(0..=distance))
            }
        }
    }
}

/// The iteration ends only if the members are so dense that no range seems to fit between them.
impl Iterator for Ranges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        for _ in 0..TRIES {
            let first = self.first();
            let Some(last) = first.checked_add(self.length - 1) else { continue };
            let next = self.members.partition_point(|member| *member < first);
            if self.members.get(next).is_none_or(|member| *member > last) {
                return Some(first..=last);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::{Endpoints, Ranges};
    use crate::stream::uniform;

    fn members() -> Vec<u64> {
        let mut members: Vec<u64> = uniform(u64::MAX, 1).unwrap().take(10_000).collect();
        members.sort_unstable();
        members
    }

    /// Returns the distance to the last member that is not above `first`.
    fn distance(members: &[u64], first: u64) -> u64 {
        let count = members.partition_point(|member| *member <= first);
        if count == 0 { u64::MAX } else { first - members[count - 1] }
    }

    #[test]
    fn correlated_ranges_are_close_to_members() {
        let members = members();
        for (degree, limit) in [(0.8, 64), (1.0, 1), (0.0, 1 << 30)] {
            let endpoints = Endpoints::Correlated { degree };
            let ranges = Ranges::new(&members, endpoints, 32, 1.5, 2).unwrap().take(100_000);
            let distances: Vec<u64> = ranges.map(|r| distance(&members, *r.start())).collect();
            assert!(distances.iter().all(|distance| (1..=limit).contains(distance)));
            let mean = distances.iter().sum::<u64>() as f64 / 100_000.0;
            let wanted = f64::midpoint(limit as f64, 1.0);
            assert!((mean / wanted - 1.0).abs() < 0.01, "{mean} instead of {wanted}");
        }
    }

    #[test]
    fn uncorrelated_ranges_are_far_from_members() {
        let members = members();
        let ranges = Ranges::new(&members, Endpoints::UNCORRELATED, 32, 0.1, 3).unwrap();
        let near = ranges.take(10_000).filter(|r| distance(&members, *r.start()) < 1 << 30).count();
        assert_eq!(near, 0);
    }

    /// By Zipf's law with exponent 1.5, the first rank has a share of 1/ζ(1.5) = 38.3 %.
    #[test]
    fn most_frequent_range_has_its_zipfian_share() {
        let members = members();
        for endpoints in [Endpoints::Correlated { degree: 1.0 }, Endpoints::UNCORRELATED] {
            let mut counts: HashMap<u64, u32> = HashMap::new();
            for range in Ranges::new(&members, endpoints, 1, 1.5, 4).unwrap().take(100_000) {
                // With degree 1, a range begins at the member or right after it.
                *counts.entry(range.start() >> 1 << 1).or_default() += 1;
            }
            let most = counts.values().max().unwrap();
            assert!((37_500..40_000).contains(most), "{most}");
        }
    }

    #[test]
    fn invalid_config_is_refused_and_iteration_ends_if_members_are_too_dense() {
        let refused = |members: &[u64], endpoints, length| {
            Ranges::new(members, endpoints, length, 1.5, 1).is_err()
        };
        assert!(refused(&[], Endpoints::CORRELATED, 1));
        assert!(refused(&[2, 1], Endpoints::CORRELATED, 1));
        assert!(refused(&[1], Endpoints::CORRELATED, 0));
        assert!(refused(&[1], Endpoints::Correlated { degree: 1.1 }, 1));
        assert!(refused(&[1], Endpoints::Uncorrelated { universe: 0 }, 1));
        let dense: Vec<u64> = (0..100).collect();
        let endpoints = Endpoints::Correlated { degree: 1.0 };
        let mut ranges = Ranges::new(&dense[..99], endpoints, u64::MAX, 1.5, 1).unwrap();
        assert_eq!(ranges.next(), None);
    }

    proptest! {
        #[test]
        fn no_range_contains_a_member(
            mut members in proptest::collection::vec(0_u64..100_000, 1..100),
            length in 1_u64..100,
            is_near: bool,
            seed: u64,
        ) {
            members.sort_unstable();
            let endpoints =
                if is_near { Endpoints::CORRELATED } else { Endpoints::UNCORRELATED };
            let ranges = Ranges::new(&members, endpoints, length, 1.5, seed).unwrap();
            for range in ranges.take(20) {
                prop_assert_eq!(range.end() - range.start(), length - 1);
                prop_assert!(!members.iter().any(|member| range.contains(member)));
            }
        }
    }
}
