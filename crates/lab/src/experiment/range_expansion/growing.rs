//! Filters that double in different ways.

use super::disk::Opened;
use crate::contestant::range::Keys;
use twiceshy::{
    AdaptiveRangeFilter, RangeFilter, Secret, builder::Builder, error::GrowError,
    range::MementoFilter,
};

/// The number of keys in the longest range.
pub(super) const LENGTH: u64 = 32;

/// A way of doubling a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The Aeris filter. It rebuilds only fingerprints that have run out of bits, from the reverse
    /// map.
    Selective,
    /// The Aeris filter, completely rebuilt from the reverse map. The paper calls this "full".
    Full,
    /// The Memento filter, doubled in memory as long as it can, and then rebuilt from all keys.
    Memento,
    /// The Memento filter, rebuilt from all keys every time.
    EveryTime,
    /// The Memento filter, doubled in memory until its bits run out, and never rebuilt.
    Alone,
}

impl Way {
    pub(super) const ALL: [Self; 5] =
        [Self::Selective, Self::Full, Self::Memento, Self::EveryTime, Self::Alone];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Selective => "Aeris",
            Self::Full => "Aeris, all rebuilt",
            Self::Memento => "Memento, reads all if needed",
            Self::EveryTime => "Memento, reads all each time",
            Self::Alone => "Memento, reads nothing",
        }
    }

    fn adapts(self) -> bool {
        matches!(self, Self::Selective | Self::Full)
    }
}

/// The planned rate and the remainder widths of the filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The planned rate, as a power of 1/2.
    pub(super) rate_bits: u32,
    /// The numbers of remainder bits of Aeris and Memento. If `None`, the rate determines them.
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

/// A filter of either kind.
pub(super) enum Filter {
    Aeris(AdaptiveRangeFilter<u64>),
    Memento(RangeFilter<u64>),
}

/// Returns the builder of a growing filter. If `remainder_bits` is `None`, the setting's rate
/// determines them.
fn builder<const ADAPTIVE: bool>(
    setting: &Setting,
    remainder_bits: Option<u32>,
    seed: u64,
) -> Builder<MementoFilter<u64, ADAPTIVE>> {
    let secret = Secret::from_bytes(u128::from(seed).to_le_bytes());
    let builder = Builder::default().longest_range(LENGTH).expandable().secret(secret);
    match remainder_bits {
        Some(bits) => builder.remainder_bits(bits),
        None => builder.false_positive_rate(setting.rate()),
    }
}

/// A growing filter.
pub(super) struct Growing {
    pub(super) way: Way,
    /// The builders of filters that contain all keys.
    aeris: Builder<AdaptiveRangeFilter<u64>>,
    memento: Builder<RangeFilter<u64>>,
    /// The filter, or `None` if it couldn't double any further.
    filter: Option<Filter>,
}

impl Growing {
    pub(super) fn new(way: Way, setting: &Setting, slots: u64, seed: u64) -> Self {
        let [aeris, memento] = match setting.remainder_bits {
            Some(bits) => bits.map(Some),
            None => [None; 2],
        };
        let (aeris, memento) = (builder(setting, aeris, seed), builder(setting, memento, seed));
        let filter = if way.adapts() {
            Filter::Aeris(aeris.clone().slots(slots).build().expect("memory for a filter"))
        } else {
            Filter::Memento(memento.clone().slots(slots).build().expect("memory for a filter"))
        };
        Self { way, aeris, memento, filter: Some(filter) }
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

    /// Returns a filter with `slots` slots, which are twice as many as now. Returns `None` if the
    /// filter can't double.
    pub(super) fn doubled(&self, slots: u64, disk: &Opened) -> Option<Filter> {
        let of_all_keys = || {
            let filter = self.memento.clone().slots(slots).build_from(&disk.keys());
            Filter::Memento(filter.expect("memory for a filter"))
        };
        match (self.filter.as_ref()?, self.way) {
            (Filter::Aeris(_), Way::Full) => {
                // The filter has no repairs to keep, so build it from the members alone.
                let members: Vec<u64> = disk.members().collect();
                let doubled = self.aeris.clone().slots(slots).build_from(&members);
                Some(Filter::Aeris(doubled.expect("memory for a filter")))
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

    /// Returns the share of mistakes among empty ranges.
    pub(super) fn rate(&self, empty: &[Keys]) -> Option<f64> {
        let mistakes = match self.filter.as_ref()? {
            Filter::Aeris(filter) => count(empty, |range| filter.contains_range(range)),
            Filter::Memento(filter) => count(empty, |range| filter.contains_range(range)),
        };
        Some(mistakes as f64 / empty.len() as f64)
    }

    /// Returns the memory per member in bits.
    pub(super) fn bits_per_key(&self) -> Option<f64> {
        let (bytes, members) = match self.filter.as_ref()? {
            Filter::Aeris(filter) => (filter.stats().memory, filter.len()),
            Filter::Memento(filter) => (filter.stats().memory, filter.len()),
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
