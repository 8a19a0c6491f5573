//! Filters that double, each in its own way.

use super::disk::Opened;
use crate::contestant::range::Keys;
use twiceshy::{AdaptiveRangeFilter, GrowError, RangeBuilder, RangeFilter, Secret};

/// Keys of the longest range.
pub(super) const LENGTH: u64 = 32;

/// How a filter doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The Aeris filter: what has run out of bits is made anew from the reverse map.
    Selective,
    /// The same, but all is made anew from the reverse map: the paper's "full".
    Full,
    /// The Memento filter: in memory as long as it can, and otherwise built of all keys.
    Memento,
    /// The same, built of all keys every time.
    EveryTime,
    /// The same, in memory as long as it can, and no further.
    Alone,
}

impl Way {
    pub(super) const ALL: [Self; 5] =
        [Self::Selective, Self::Full, Self::Memento, Self::EveryTime, Self::Alone];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Selective => "Aeris",
            Self::Full => "Aeris, all made anew",
            Self::Memento => "Memento, reads all at need",
            Self::EveryTime => "Memento, reads all each time",
            Self::Alone => "Memento, reads nothing",
        }
    }

    fn adapts(self) -> bool {
        matches!(self, Self::Selective | Self::Full)
    }
}

/// How good filters are to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The rate is one half to this power.
    pub(super) rate_bits: u32,
    /// Bits of the remainders of Aeris and Memento, if not as many as we take for the rate.
    pub(super) remainder_bits: Option<[u32; 2]>,
}

impl Setting {
    pub(super) fn rate(&self) -> f64 {
        f64::from(self.rate_bits).exp2().recip()
    }

    pub(super) fn name(&self) -> String {
        let whose = if self.remainder_bits.is_some() { "the paper's bits" } else { "our bits" };
        format!("2^-{}, {whose}", self.rate_bits)
    }
}

/// What holds members.
pub(super) enum Filter {
    Aeris(AdaptiveRangeFilter<u64>),
    Memento(RangeFilter<u64>),
}

/// A filter on its way.
pub(super) struct Growing {
    pub(super) way: Way,
    builder: RangeBuilder<u64>,
    /// None, if it couldn't double any more.
    filter: Option<Filter>,
}

impl Growing {
    pub(super) fn new(way: Way, setting: &Setting, slots: u64, seed: u64) -> Self {
        let builder = RangeFilter::builder()
            .longest_range(LENGTH)
            .expandable()
            .secret(Secret::from_bytes(u128::from(seed).to_le_bytes()));
        let builder = match setting.remainder_bits {
            Some([aeris, _]) if way.adapts() => builder.remainder_bits(aeris),
            Some([_, memento]) => builder.remainder_bits(memento),
            None => builder.false_positive_rate(setting.rate()),
        };
        let empty = builder.clone().slots(slots);
        let filter = if way.adapts() {
            Filter::Aeris(empty.build_adaptive().expect("memory for a filter"))
        } else {
            Filter::Memento(empty.build().expect("memory for a filter"))
        };
        Self { way, builder, filter: Some(filter) }
    }

    pub(super) fn insert(&mut self, keys: &[u64]) {
        for &key in keys {
            match &mut self.filter {
                Some(Filter::Aeris(filter)) => filter.insert(key),
                Some(Filter::Memento(filter)) => filter.insert(key),
                None => return,
            }
            .expect("room");
        }
    }

    /// The filter with so many slots, twice as many as it has; `None`, if that can't be.
    pub(super) fn doubled(&self, slots: u64, disk: &Opened) -> Option<Filter> {
        let of_all_keys = || {
            let filter = self.builder.clone().slots(slots).build_from(&disk.keys());
            Filter::Memento(filter.expect("memory for a filter"))
        };
        match (self.filter.as_ref()?, self.way) {
            (Filter::Aeris(filter), Way::Full) => {
                let doubled = filter.rejuvenated(disk.members());
                Some(Filter::Aeris(doubled.expect("the disk has what the filter has")))
            }
            (Filter::Aeris(filter), _) => {
                let doubled = filter.doubled_listing(|hashes| disk.listed(&hashes));
                Some(Filter::Aeris(doubled.expect("the disk has what the filter has")))
            }
            (Filter::Memento(_), Way::EveryTime) => Some(of_all_keys()),
            (Filter::Memento(filter), way) => match filter.doubled() {
                Ok(doubled) => Some(Filter::Memento(doubled)),
                Err(GrowError::NoRemainder) if way == Way::Memento => Some(of_all_keys()),
                Err(GrowError::NoRemainder) => None,
                Err(error) => panic!("memory for a filter: {error}"),
            },
        }
    }

    pub(super) fn become_doubled(&mut self, filter: Option<Filter>) {
        self.filter = filter;
    }

    /// Of ranges without a member, the share that may have one.
    pub(super) fn rate(&self, empty: &[Keys]) -> Option<f64> {
        let mistakes = match self.filter.as_ref()? {
            Filter::Aeris(filter) => count(empty, |range| filter.contains_range(range)),
            Filter::Memento(filter) => count(empty, |range| filter.contains_range(range)),
        };
        Some(mistakes as f64 / empty.len() as f64)
    }

    /// Of memory, for each member.
    pub(super) fn bits_per_key(&self) -> Option<f64> {
        let (bytes, members) = match self.filter.as_ref()? {
            Filter::Aeris(filter) => (filter.memory_usage(), filter.len()),
            Filter::Memento(filter) => (filter.memory_usage(), filter.len()),
        };
        Some(bytes as f64 * 8.0 / members as f64)
    }

    #[cfg(test)]
    pub(super) fn has(&self, key: u64) -> bool {
        self.rate(&[key..=key]).is_none_or(|rate| rate > 0.0)
    }
}

fn count(ranges: &[Keys], contains: impl Fn(Keys) -> bool) -> usize {
    ranges.iter().filter(|range| contains((*range).clone())).count()
}
