//! Minimal filters in front of a set of members, as victims for the attackers.

use std::collections::{HashMap, HashSet};

use twiceshy_workloads::adversary::{Reply, Victim};
use twiceshy_workloads::key::scatter;

/// Number of members of all victims.
pub(crate) const MEMBERS: u64 = 512;
/// The probability that a random query is a mistake: 2^-14 per member.
pub(crate) const RATE: f64 = 1.0 / 32.0;
const FINGERPRINT_BITS: u32 = 14;

fn members() -> impl Iterator<Item = u64> {
    (0..MEMBERS).map(|number| scatter(number ^ 0xABCD))
}

fn answer(is_found: bool, is_positive: bool) -> Reply {
    // A disk takes a hundred times as long as a filter.
    Reply { is_found, cost: if is_positive { 1000 } else { 10 } }
}

/// A filter that never learns.
pub(crate) struct Fixed {
    fingerprints: HashSet<u64>,
    members: HashSet<u64>,
}

impl Fixed {
    pub(crate) fn new() -> Self {
        let fingerprints = members().map(Self::fingerprint).collect();
        Self { fingerprints, members: members().collect() }
    }

    fn fingerprint(key: u64) -> u64 {
        scatter(key) >> (64 - FINGERPRINT_BITS)
    }
}

impl Victim for Fixed {
    fn ask(&mut self, key: u64) -> Reply {
        let is_positive = self.fingerprints.contains(&Self::fingerprint(key));
        answer(self.members.contains(&key), is_positive)
    }
}

/// A filter that repairs each mistake for good.
pub(crate) struct Repaired<V> {
    filter: V,
    mistakes: HashSet<u64>,
}

impl<V> Repaired<V> {
    pub(crate) fn new(filter: V) -> Self {
        Self { filter, mistakes: HashSet::new() }
    }
}

impl<V: Victim> Victim for Repaired<V> {
    fn ask(&mut self, key: u64) -> Reply {
        if self.mistakes.contains(&key) {
            return answer(false, false);
        }
        let reply = self.filter.ask(key);
        if reply.cost > 10 && !reply.is_found {
            self.mistakes.insert(key);
        }
        reply
    }
}

/// A filter whose hash function ignores some bits of the key.
pub(crate) struct Poor {
    filter: Fixed,
    ignored: u64,
}

impl Poor {
    pub(crate) fn new(ignored: u64) -> Self {
        Self { filter: Fixed::new(), ignored }
    }
}

impl Victim for Poor {
    fn ask(&mut self, key: u64) -> Reply {
        self.filter.ask(key & !self.ignored)
    }
}

/// A small cyclic adaptive cuckoo filter: a member has four fingerprints, and each mistake moves it
/// to the next.
pub(crate) struct Cyclic {
    /// 64 buckets of members with their selectors. Fingerprints have eight bits, which gives
    /// [`RATE`].
    buckets: HashMap<u64, Vec<(u64, u8)>>,
}

impl Cyclic {
    const SELECTORS: u8 = 4;

    pub(crate) fn new() -> Self {
        let mut buckets: HashMap<u64, Vec<(u64, u8)>> = HashMap::new();
        for member in members() {
            buckets.entry(Self::bucket(member)).or_default().push((member, 0));
        }
        Self { buckets }
    }

    fn bucket(key: u64) -> u64 {
        scatter(key) % 64
    }

    fn fingerprint(key: u64, selector: u8) -> u64 {
        scatter(key ^ (u64::from(selector) << 32)) >> 56
    }
}

impl Victim for Cyclic {
    fn ask(&mut self, key: u64) -> Reply {
        let Some(bucket) = self.buckets.get_mut(&Self::bucket(key)) else {
            return answer(false, false);
        };
        let is_found = bucket.iter().any(|(member, _)| *member == key);
        let mut is_positive = false;
        for (member, selector) in bucket {
            if Self::fingerprint(key, *selector) == Self::fingerprint(*member, *selector) {
                is_positive = true;
                if !is_found {
                    *selector = (*selector + 1) % Self::SELECTORS;
                }
            }
        }
        answer(is_found, is_positive)
    }
}
