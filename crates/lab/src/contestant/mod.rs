//! The filters in experiments. To add one, write an adapter, and add it to the list in this module.

mod abf;
mod aqf;
mod cascade;
mod coded;
mod cuckoo;
mod listed;
pub(crate) mod lists;
mod packed;
mod peers;
pub(crate) mod range;
pub(crate) mod utaf;

pub(crate) use coded::Telescoping;

use aqf::Aqf;
use listed::Listed;
use peers::Peer;

/// A filter for `u64` keys.
pub(crate) trait Contestant {
    /// Inserts many members in one call. They are all different.
    fn insert(&mut self, keys: &[u64]);

    /// Inserts members one by one. They are all different.
    fn insert_each(&mut self, keys: &[u64]) {
        self.insert(keys);
    }

    /// Removes members. Returns `false` and changes nothing if the filter can't remove members.
    fn remove(&mut self, keys: &[u64]) -> bool;

    fn contains(&self, key: u64) -> bool;

    /// Counts the keys that may be members, without dynamic dispatch per key.
    fn count(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|&&key| self.contains(key)).count()
    }

    /// Repairs a mistake: a non-member for which the filter answers "maybe". Filters that don't
    /// adapt do nothing.
    fn repair(&mut self, mistake: u64);

    /// Queries non-members, and repairs the mistakes. Returns the number of mistakes.
    fn ask(&mut self, strangers: &[u64]) -> usize {
        let mut mistakes = 0;
        for &key in strangers {
            if self.contains(key) {
                self.repair(key);
                mistakes += 1;
            }
        }
        mistakes
    }

    /// Returns the memory usage in bits.
    fn bits(&self) -> u64;

    /// Returns the number of bits that members and repairs currently need.
    fn used_bits(&self) -> f64;
}

/// The size and the false-positive rate of a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The number of slots of the quotient filters, a power of two.
    pub(crate) slots: u64,
    /// The number of bits per remainder. Filters without remainders have about the same
    /// false-positive rate.
    pub(crate) remainder_bits: u32,
    /// The seed of the hash.
    pub(crate) seed: u64,
}

impl Shape {
    /// Returns the number of members, at the load of the papers' experiments.
    pub(crate) fn members(&self) -> u64 {
        self.slots * 9 / 10
    }

    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.remainder_bits).exp2().recip()
    }
}

/// The filters to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The adaptive quotient filter.
    Aqf,
    /// The adaptive quotient filter without repairs.
    AqfNotAdapting,
    /// The quotient filter of the crate `qfilter`.
    Qfilter,
    /// The cuckoo filter of the crate `scalable_cuckoo_filter`.
    Cuckoo,
    /// The Bloom filter of the crate `fastbloom`.
    Bloom,
    /// The cuckoo filter, in the same space as the telescoping filter. The following cuckoo filters
    /// take this space, too.
    PlainCuckoo,
    /// The vacuum filter.
    Vacuum,
    /// The cyclic adaptive cuckoo filter, with a selector of one bit.
    Cyclic1,
    /// The cyclic adaptive cuckoo filter, with a selector of two bits.
    Cyclic2,
    /// The cyclic adaptive cuckoo filter, with a selector of three bits.
    Cyclic3,
    /// The swapping adaptive cuckoo filter.
    Swapping,
    /// The cuckooing adaptive cuckoo filter.
    Cuckooing,
    /// The telescoping filter.
    Telescoping,
    /// The extension filter.
    Extension,
    /// The telescoping filter without a code. It has a two-bit selector per slot, so it is larger.
    Uncompressed,
    /// The adaptive Bloom filter.
    Abf,
    /// A cascade of plain quotient filters.
    Cascade,
}

impl Kind {
    /// The filters of the first experiments, from the paper on adaptive quotient filters.
    pub(crate) const ALL: [Self; 5] =
        [Self::Aqf, Self::AqfNotAdapting, Self::Qfilter, Self::Cuckoo, Self::Bloom];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aqf => "AQF",
            Self::AqfNotAdapting => "AQF, without repairs",
            Self::Qfilter => "QF (qfilter)",
            Self::Cuckoo => "cuckoo",
            Self::Bloom => "Bloom (fastbloom)",
            Self::PlainCuckoo => "cuckoo, bins of 4",
            Self::Vacuum => "vacuum",
            Self::Cyclic1 => "cyclic ACF, s = 1",
            Self::Cyclic2 => "cyclic ACF, s = 2",
            Self::Cyclic3 => "cyclic ACF, s = 3",
            Self::Swapping => "swapping ACF",
            Self::Cuckooing => "cuckooing ACF",
            Self::Telescoping => "telescoping",
            Self::Extension => "extension",
            Self::Uncompressed => "telescoping, 2 bits each",
            Self::Abf => "ABF",
            Self::Cascade => "quotient cascade",
        }
    }

    /// Builds an empty filter of this shape.
    pub(crate) fn build(self, shape: &Shape) -> Box<dyn Contestant> {
        match self {
            Self::Aqf => Box::new(Aqf::new(shape, true)),
            Self::AqfNotAdapting => Box::new(Aqf::new(shape, false)),
            Self::Qfilter => Box::new(Peer::<qfilter::Filter>::new(shape)),
            Self::Cuckoo => Box::new(Peer::<peers::Cuckoo>::new(shape)),
            Self::Bloom => Box::new(Peer::<fastbloom::BloomFilter>::new(shape)),
            Self::PlainCuckoo => cuckoo::plain(shape),
            Self::Vacuum => cuckoo::vacuum(shape),
            Self::Cyclic1 => cuckoo::cyclic(shape, 1),
            Self::Cyclic2 => cuckoo::cyclic(shape, 2),
            Self::Cyclic3 => cuckoo::cyclic(shape, 3),
            Self::Swapping => cuckoo::swapping(shape),
            Self::Cuckooing => cuckoo::cuckooing(shape),
            Self::Telescoping => coded::telescoping(shape),
            Self::Extension => coded::extension(shape),
            Self::Uncompressed => Box::new(utaf::Mapped::new(shape)),
            Self::Abf => Box::new(abf::new(shape)),
            Self::Cascade => Box::new(cascade::new(shape)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_lose_no_member_and_keep_their_rate() {
        let shape = Shape { slots: 1 << 14, remainder_bits: 9, seed: 1 };
        let members: Vec<u64> = (0..shape.members()).collect();
        let strangers: Vec<u64> = (1 << 40..(1 << 40) + 400_000).collect();
        for kind in Kind::ALL.into_iter().chain([Kind::Abf, Kind::Cascade]) {
            let mut filter = kind.build(&shape);
            filter.insert(&members);
            assert_eq!(filter.count(&members), members.len(), "{}", kind.name());
            let rate = filter.count(&strangers) as f64 / strangers.len() as f64;
            assert!(rate < 1.7 * shape.rate(), "{}: {rate}", kind.name());
            let per_member = filter.bits() as f64 / members.len() as f64;
            assert!((9.0..25.0).contains(&per_member), "{}: {per_member}", kind.name());
        }
    }

    #[test]
    fn adaptive_filters_repeat_no_mistake() {
        let shape = Shape { slots: 1 << 12, remainder_bits: 6, seed: 1 };
        let members: Vec<u64> = (0..shape.members()).collect();
        for kind in [Kind::Aqf, Kind::Abf, Kind::Cascade] {
            let mut filter = kind.build(&shape);
            filter.insert(&members);
            let before = filter.used_bits();
            let mistakes: Vec<u64> =
                (1 << 40..(1 << 40) + 10_000).filter(|&key| filter.contains(key)).collect();
            for &mistake in &mistakes {
                if filter.contains(mistake) {
                    filter.repair(mistake);
                }
            }
            let name = kind.name();
            // A repair of a Bloom filter can bring another mistake back, because its hash functions
            // are random.
            let most_left = if matches!(kind, Kind::Abf) { mistakes.len() / 20 } else { 0 };
            let left = filter.count(&mistakes);
            assert!(mistakes.len() > 50 && left <= most_left, "{name}: {left}");
            assert!(filter.used_bits() > before, "{name}");
            assert_eq!(filter.count(&members), members.len(), "{name}");
            assert!(filter.remove(&members[..100]));
            assert_eq!(filter.count(&members[100..]), members.len() - 100, "{name}");
        }
    }

    #[test]
    fn full_filter_keeps_all_members_and_leaves_mistakes_unrepaired() {
        let shape = Shape { slots: 1 << 10, remainder_bits: 4, seed: 1 };
        let members: Vec<u64> = (0..shape.members()).collect();
        let strangers: Vec<u64> = (1 << 40..(1 << 40) + 10_000).collect();
        let mut filter = Kind::Aqf.build(&shape);
        filter.insert(&members);
        let bits = filter.bits();
        let first = filter.ask(&strangers);
        let again = filter.ask(&strangers);
        assert!(0 < again && again < first, "{again} of {first}");
        assert_eq!(filter.bits(), bits);
        assert_eq!(filter.count(&members), members.len());
    }
}
