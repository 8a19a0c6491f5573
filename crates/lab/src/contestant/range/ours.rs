//! The Memento filter, and the Aeris filter with its reverse map.

use super::{Keys, RangeContestant, RangeShape};
use std::collections::BTreeSet;
use twiceshy::{
    AdaptiveRangeFilter, Answer, Hash, RangeFilter, Secret, builder::Builder, error::AdaptError,
    range::MementoFilter,
};

fn builder<const ADAPTIVE: bool>(shape: &RangeShape) -> Builder<MementoFilter<u64, ADAPTIVE>> {
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&shape.seed.to_le_bytes());
    Builder::default()
        .slots(shape.slots)
        .longest_range(shape.longest_range)
        .remainder_bits(shape.remainder_bits)
        .secret(Secret::from_bytes(secret))
}

/// Counts the ranges of a batch that may contain a member.
fn count_true(maybe: &[bool]) -> usize {
    maybe.iter().filter(|&&maybe| maybe).count()
}

pub(super) struct Memento {
    builder: Builder<RangeFilter<u64>>,
    filter: RangeFilter<u64>,
}

impl Memento {
    pub(super) fn new(shape: &RangeShape) -> Result<Self, String> {
        let builder = builder(shape);
        let filter = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { builder, filter })
    }
}

impl RangeContestant for Memento {
    fn insert_each(&mut self, keys: &[u64]) {
        for &key in keys {
            self.filter.insert(key).expect("room");
        }
    }

    fn bulk(&mut self, sorted: &[u64]) {
        self.filter = self.builder.build_from(sorted).expect("room");
    }

    fn contains(&self, range: &Keys) -> bool {
        self.filter.contains_range(range.clone())
    }

    fn count_many(&self, ranges: &[Keys], maybe: &mut Vec<bool>) -> usize {
        self.filter.contains_ranges(ranges, maybe);
        count_true(maybe)
    }

    fn bits(&self) -> u64 {
        self.filter.stats().memory * 8
    }
}

pub(super) struct Aeris {
    builder: Builder<AdaptiveRangeFilter<u64>>,
    filter: AdaptiveRangeFilter<u64>,
    /// The reverse map: the members, ordered by partition hash. `None` if the filter isn't told of
    /// its mistakes.
    members: Option<BTreeSet<(Hash, u64)>>,
}

impl Aeris {
    pub(super) fn new(shape: &RangeShape, adapts: bool) -> Result<Self, String> {
        let builder = builder(shape);
        let filter = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { builder, filter, members: adapts.then(BTreeSet::new) })
    }
}

impl RangeContestant for Aeris {
    fn insert_each(&mut self, keys: &[u64]) {
        for &key in keys {
            self.filter.insert(key).expect("room");
            if let Some(members) = &mut self.members {
                members.insert((self.filter.hash_of(key), key));
            }
        }
    }

    fn bulk(&mut self, sorted: &[u64]) {
        self.filter = self.builder.build_from(sorted).expect("room");
        if let Some(members) = &mut self.members {
            *members = sorted.iter().map(|&key| (self.filter.hash_of(key), key)).collect();
        }
    }

    fn contains(&self, range: &Keys) -> bool {
        self.filter.contains_range(range.clone())
    }

    fn count_many(&self, ranges: &[Keys], maybe: &mut Vec<bool>) -> usize {
        self.filter.contains_ranges(ranges, maybe);
        count_true(maybe)
    }

    fn ask(&mut self, empty: &[Keys]) -> usize {
        let mut mistakes = 0;
        for range in empty {
            if self.contains(range) {
                self.repair(range);
                mistakes += 1;
            }
        }
        mistakes
    }

    fn repair(&mut self, mistake: &Keys) {
        let Some(members) = &self.members else { return };
        let Answer::Maybe(claim) = self.filter.check_range(mistake.clone()) else { return };
        let mut suspects: Vec<(Hash, u64)> = Vec::new();
        for hashes in claim.suspects() {
            let hashes = (*hashes.start(), 0)..=(*hashes.end(), u64::MAX);
            suspects.extend(members.range(hashes));
        }
        // Two partitions of a range may have the same fingerprint, so their suspects may overlap.
        suspects.sort_unstable();
        suspects.dedup();
        let suspects: Vec<u64> = suspects.into_iter().map(|(_, member)| member).collect();
        match self.filter.adapt(&claim, &suspects) {
            // A full filter can't repair the mistake.
            Ok(_) | Err(AdaptError::Full { .. }) => {}
            Err(error) => panic!("all suspects are listed: {error}"),
        }
    }

    fn bits(&self) -> u64 {
        self.filter.stats().memory * 8
    }
}
