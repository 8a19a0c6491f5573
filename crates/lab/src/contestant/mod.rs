//! Filters in experiments. To add one is to write one adapter, and to list it here.

mod abf;
mod aqf;
mod cascade;
mod coded;
mod cuckoo;
pub(crate) mod lists;
mod packed;
mod peers;
pub(crate) mod range;
pub(crate) mod utaf;

pub(crate) use coded::Telescoping;

use abf::Abf;
use aqf::Aqf;
use cascade::Cascade;
use peers::Peer;

/// A filter of `u64` keys.
pub(crate) trait Contestant {
    /// Inserts members; all are different.
    fn insert(&mut self, keys: &[u64]);

    /// Inserts members one by one, as if they came so; all are different.
    fn insert_each(&mut self, keys: &[u64]) {
        self.insert(keys);
    }

    /// Removes members; `false` if it can't, and then nothing has changed.
    fn remove(&mut self, keys: &[u64]) -> bool;

    fn contains(&self, key: u64) -> bool;

    /// How many of these may be members; nothing is dispatched for each key.
    fn count(&self, keys: &[u64]) -> usize;

    /// Is told that a key that it contains is no member. Those that don't adapt do nothing.
    fn repair(&mut self, mistake: u64);

    /// Asks for strangers, and repairs what is a mistake; how many were.
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

    /// Bits of memory.
    fn bits(&self) -> u64;

    /// Bits of memory that members and repairs need now.
    fn used_bits(&self) -> f64;
}

/// How large and how good a filter is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Slots of the quotient filters: a power of two.
    pub(crate) slots: u64,
    /// Bits of a remainder; the others have the same false-positive rate, as near as may be.
    pub(crate) remainder_bits: u32,
    /// What keys are hashed with.
    pub(crate) seed: u64,
}

impl Shape {
    /// Members at the load of the papers' experiments.
    pub(crate) fn members(&self) -> u64 {
        self.slots * 9 / 10
    }

    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.remainder_bits).exp2().recip()
    }
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The adaptive quotient filter, told of its mistakes.
    Aqf,
    /// The same, not told.
    AqfUntold,
    /// The quotient filter of the crate `qfilter`.
    Qfilter,
    /// The cuckoo filter of the crate `scalable_cuckoo_filter`.
    Cuckoo,
    /// The Bloom filter of the crate `fastbloom`.
    Bloom,
    /// The cuckoo filter, in the space of the telescoping filter, as all that follow.
    PlainCuckoo,
    /// The vacuum filter.
    Vacuum,
    /// The cyclic adaptive cuckoo filter, with a selector of one bit.
    Cyclic1,
    /// With two.
    Cyclic2,
    /// With three.
    Cyclic3,
    /// The swapping adaptive cuckoo filter.
    Swapping,
    /// The cuckooing adaptive cuckoo filter.
    Cuckooing,
    /// The telescoping filter.
    Telescoping,
    /// The extension filter.
    Extension,
    /// The telescoping filter without a code: selectors of two bits a slot, so it is larger.
    Uncompressed,
    /// The adaptive Bloom filter, told of its mistakes.
    Abf,
    /// A cascade of plain quotient filters, told of its mistakes.
    Cascade,
}

impl Kind {
    /// Those of the first experiments, after the paper on adaptive quotient filters.
    pub(crate) const ALL: [Self; 5] =
        [Self::Aqf, Self::AqfUntold, Self::Qfilter, Self::Cuckoo, Self::Bloom];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aqf => "AQF",
            Self::AqfUntold => "AQF, not adapting",
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

    /// An empty filter.
    pub(crate) fn build(self, shape: &Shape) -> Box<dyn Contestant> {
        match self {
            Self::Aqf => Box::new(Aqf::new(shape, true)),
            Self::AqfUntold => Box::new(Aqf::new(shape, false)),
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
            Self::Abf => Box::new(Abf::new(shape)),
            Self::Cascade => Box::new(Cascade::new(shape)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_contestant_loses_a_member_and_all_have_the_rate() {
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
    fn those_that_adapt_repeat_nothing() {
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
            assert!(mistakes.len() > 50 && filter.count(&mistakes) == 0, "{name}");
            assert!(filter.used_bits() > before, "{name}");
            assert_eq!(filter.count(&members), members.len(), "{name}");
            assert!(filter.remove(&members[..100]));
            assert_eq!(filter.count(&members[100..]), members.len() - 100, "{name}");
        }
    }

    #[test]
    fn who_has_no_room_for_a_repair_keeps_the_mistake_and_all_members() {
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
