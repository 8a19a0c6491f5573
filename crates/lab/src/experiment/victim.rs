//! A filter with a simulated disk, as attackers see it.

use crate::contestant::{Contestant, Kind, Shape};
use twiceshy_workloads::adversary::{Judge, Reply, Victim};
use twiceshy_workloads::key::scatter;

/// Counts every disk read as a mistake.
pub(super) const JUDGE: Judge = Judge::new(0);

/// A filter and a simulated disk. If the filter answers "maybe", the disk is read. If that was a
/// mistake, it is repaired.
///
/// Attackers choose among 2^64 keys, and practically never hit a member. So every disk read counts
/// as a mistake.
pub(super) struct Guarded {
    pub(super) filter: Box<dyn Contestant>,
}

/// Returns the members that fill a filter to the papers' load.
pub(super) fn members(shape: &Shape) -> Vec<u64> {
    (0..shape.members()).map(scatter).collect()
}

impl Guarded {
    /// Creates a filter, and fills it to the papers' load.
    pub(super) fn new(kind: Kind, shape: &Shape) -> Self {
        Self::of(kind.build(shape), shape)
    }

    /// Fills an empty filter to the papers' load.
    pub(super) fn of(mut filter: Box<dyn Contestant>, shape: &Shape) -> Self {
        filter.insert(&members(shape));
        Self { filter }
    }
}

impl Victim for Guarded {
    fn ask(&mut self, key: u64) -> Reply {
        let visits = self.filter.contains(key);
        if visits {
            self.filter.repair(key);
        }
        Reply { is_found: false, cost: u64::from(visits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_adaptive_filter_avoids_repeated_disk_reads() {
        let shape = Shape { slots: 1 << 12, remainder_bits: 5, seed: 1 };
        for kind in Kind::ALL {
            let mut victim = Guarded::new(kind, &shape);
            let slow = |victim: &mut Guarded, key: &u64| JUDGE.is_mistake(victim.ask(*key));
            let keys = (1 << 40..(1 << 40) + 10_000).map(scatter);
            let mistakes: Vec<u64> = keys.filter(|key| slow(&mut victim, key)).collect();
            let again = mistakes.iter().filter(|key| slow(&mut victim, key)).count();
            assert!(mistakes.len() > 50, "{}", kind.name());
            assert_eq!(again, if kind == Kind::Aqf { 0 } else { mistakes.len() });
        }
    }
}
