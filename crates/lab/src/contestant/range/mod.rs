//! The range filters in benchmarks and experiments. To add one, write an adapter, and add it to the
//! list in this module.

mod grafite;
mod ours;
mod truncated;

use grafite::Grafite;
use ours::{Aeris, Memento};
use std::ops::RangeInclusive;
use truncated::Truncated;
use twiceshy_workloads::key::scatter;

/// A range of keys to query for members.
pub(crate) type Keys = RangeInclusive<u64>;

/// A range filter for `u64` keys.
pub(crate) trait RangeContestant {
    /// Inserts members one by one. They are all different.
    fn insert_each(&mut self, keys: &[u64]);

    /// Rebuilds the filter from all its members, sorted and all different.
    fn bulk(&mut self, sorted: &[u64]);

    fn contains(&self, range: &Keys) -> bool;

    /// Counts the ranges that may contain a member, without dynamic dispatch per range.
    fn count(&self, ranges: &[Keys]) -> usize {
        ranges.iter().filter(|range| self.contains(range)).count()
    }

    /// Like [`count`](Self::count), but queries the filter in one call. A filter that doesn't
    /// [support](RangeKind::can) this is queried range by range.
    fn count_many(&self, ranges: &[Keys], _maybe: &mut Vec<bool>) -> usize {
        self.count(ranges)
    }

    /// Queries empty ranges, and repairs the mistakes. Returns the number of mistakes.
    fn ask(&mut self, empty: &[Keys]) -> usize {
        self.count(empty)
    }

    /// Repairs a mistake, which is an empty range for which the filter answers "maybe". Filters
    /// that don't adapt do nothing.
    fn repair(&mut self, _mistake: &Keys) {}

    /// Returns the memory usage in bits.
    fn bits(&self) -> u64;
}

/// The size and the false-positive rate of a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeShape {
    /// The number of slots of our filters.
    pub(crate) slots: u64,
    pub(crate) members: u64,
    /// The maximum number of keys per range.
    pub(crate) longest_range: u64,
    /// The number of bits per remainder. Filters without remainders have the same rate or the same
    /// memory.
    pub(crate) remainder_bits: u32,
    /// The seed of the hash.
    pub(crate) seed: u64,
}

impl RangeShape {
    /// Creates a shape with the load of the papers.
    pub(crate) fn new(slots: u64, longest_range: u64, remainder_bits: u32, seed: u64) -> Self {
        Self { slots, members: slots * 9 / 10, longest_range, remainder_bits, seed }
    }

    /// Returns the members, sorted. They are uniformly distributed, and depend on the seed.
    pub(crate) fn sorted_members(&self) -> Vec<u64> {
        let first = scatter(self.seed);
        let members = (0..self.members).map(|number| scatter(first.wrapping_add(number)));
        let mut members: Vec<u64> = members.collect();
        members.sort_unstable();
        members
    }
}

/// Returns whether any of the sorted members is in a range.
pub(crate) fn has_member(sorted: &[u64], range: &Keys) -> bool {
    let at = sorted.partition_point(|member| member < range.start());
    sorted.get(at).is_some_and(|member| member <= range.end())
}

/// The operations to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeOp {
    /// Insert members one by one.
    Insert,
    /// Build the filter from all members in one call. The members are sorted.
    Bulk,
    /// Query empty ranges one by one.
    Negative,
    /// Query empty ranges in one call.
    NegativeMany,
}

impl RangeOp {
    pub(crate) const ALL: [Self; 4] =
        [Self::Insert, Self::Bulk, Self::Negative, Self::NegativeMany];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Bulk => "bulk",
            Self::Negative => "range_negative",
            Self::NegativeMany => "range_negative_many",
        }
    }
}

/// The filters to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeKind {
    /// The range filter that doesn't adapt.
    Memento,
    /// The adaptive range filter, with its reverse map.
    Aeris,
    /// The adaptive range filter without a reverse map, so that it can't be repaired.
    AerisNotAdapting,
    /// The crate `grafite`. Its hash function is random and can't be seeded.
    Grafite,
    /// A set of the keys' first bits from the crate `fst`, as a substitute for `SuRF`.
    FstTruncated,
}

impl RangeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memento => "Memento",
            Self::Aeris => "Aeris",
            Self::AerisNotAdapting => "Aeris, without repairs",
            Self::Grafite => "Grafite",
            Self::FstTruncated => "truncated keys (fst)",
        }
    }

    /// Returns whether the filter supports an operation. Filters that adapt don't support queries
    /// in one call.
    pub(crate) fn can(self, op: RangeOp) -> bool {
        match op {
            RangeOp::Insert => !matches!(self, Self::Grafite | Self::FstTruncated),
            RangeOp::Bulk | RangeOp::Negative => true,
            RangeOp::NegativeMany => matches!(self, Self::Memento | Self::AerisNotAdapting),
        }
    }

    /// Builds an empty filter. If this is impossible, returns an explanation.
    pub(crate) fn empty(self, shape: &RangeShape) -> Result<Box<dyn RangeContestant>, String> {
        Ok(match self {
            Self::Memento => Box::new(Memento::new(shape)?),
            Self::Aeris => Box::new(Aeris::new(shape, true)?),
            Self::AerisNotAdapting => Box::new(Aeris::new(shape, false)?),
            Self::Grafite => Box::new(Grafite::new(shape)?),
            // Let this filter use as much memory as ours.
            Self::FstTruncated => Box::new(Truncated::new(Memento::new(shape)?.bits())),
        })
    }

    /// Builds a filter from sorted members.
    pub(crate) fn filled(
        self,
        shape: &RangeShape,
        sorted: &[u64],
    ) -> Result<Box<dyn RangeContestant>, String> {
        let mut filter = self.empty(shape)?;
        filter.bulk(sorted);
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [RangeKind; 5] = [
        RangeKind::Memento,
        RangeKind::Aeris,
        RangeKind::AerisNotAdapting,
        RangeKind::Grafite,
        RangeKind::FstTruncated,
    ];

    fn strangers(members: &[u64], length: u64, count: u64) -> Vec<Keys> {
        let ranges = (1 << 40..).map(scatter).map(|first| first..=first.saturating_add(length - 1));
        ranges.filter(|range| !has_member(members, range)).take(count as usize).collect()
    }

    #[test]
    fn range_includes_both_ends() {
        let members = [10, 20, 30];
        for range in [10..=10, 5..=10, 30..=40, 11..=20, 0..=u64::MAX] {
            assert!(has_member(&members, &range));
        }
        for range in [0..=9, 11..=19, 31..=u64::MAX] {
            assert!(!has_member(&members, &range));
        }
    }

    #[test]
    fn filters_lose_no_member_and_keep_their_rate_and_space() {
        for length in [1, 32, 1024] {
            let shape = RangeShape::new(1 << 13, length, 9, 1);
            let members = shape.sorted_members();
            let strangers = strangers(&members, length, 100_000);
            let space = RangeKind::Memento.empty(&shape).unwrap().bits() as f64;
            for kind in ALL {
                let filter = kind.filled(&shape, &members).unwrap();
                let around = |&member: &u64| {
                    let first = member - scatter(member) % length;
                    first..=first.saturating_add(length - 1)
                };
                let around: Vec<Keys> = members.iter().map(around).collect();
                assert_eq!(filter.count(&around), members.len(), "{}", kind.name());
                let rate = filter.count(&strangers) as f64 / strangers.len() as f64;
                let most = if kind == RangeKind::FstTruncated { 0.7 } else { 2.0 / 512.0 };
                assert!(rate > 0.0 && rate < most, "{}, {length}: {rate}", kind.name());
                assert!(filter.bits() as f64 <= 1.1 * space, "{}, {length}", kind.name());
                assert!(filter.contains(&around[7]));
                let mut maybe = Vec::new();
                assert_eq!(filter.count_many(&around, &mut maybe), members.len());
                assert_eq!(filter.count_many(&strangers, &mut maybe), filter.count(&strangers));
                if kind.can(RangeOp::Insert) {
                    let mut one_by_one = kind.empty(&shape).unwrap();
                    one_by_one.insert_each(&members);
                    assert_eq!(one_by_one.count(&around), members.len(), "{}", kind.name());
                    assert_eq!(one_by_one.count(&strangers), filter.count(&strangers));
                }
            }
        }
    }

    /// Queries each filter's mistakes again.
    #[test]
    fn only_the_adaptive_filter_avoids_repeated_mistakes() {
        let shape = RangeShape::new(1 << 12, 32, 6, 1);
        let members = shape.sorted_members();
        let strangers = strangers(&members, 32, 10_000);
        for kind in ALL {
            let mut filter = kind.filled(&shape, &members).unwrap();
            let mut left = strangers.clone();
            left.retain(|range| filter.contains(range));
            let mistakes = left.len();
            assert!(mistakes > 50, "{}: {mistakes}", kind.name());
            assert!(filter.ask(&left) <= mistakes);
            left.retain(|range| filter.contains(range));
            let wanted = if kind == RangeKind::Aeris { 0 } else { mistakes };
            assert_eq!(left.len(), wanted, "{}", kind.name());
            let members: Vec<Keys> = members.iter().map(|&member| member..=member).collect();
            assert_eq!(filter.count(&members), members.len(), "{}", kind.name());
        }
    }

    #[test]
    fn impossible_shape_is_an_error() {
        let shape = RangeShape::new(1 << 12, 1 << 21, 9, 1);
        assert!(RangeKind::Memento.empty(&shape).err().unwrap().contains("2^20"));
        let shape = RangeShape::new(1 << 40, 1 << 20, 9, 1);
        assert!(RangeKind::Grafite.empty(&shape).err().unwrap().contains("Grafite"));
    }
}
