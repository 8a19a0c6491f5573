use std::ops::AddAssign;

use rand::RngExt;

use crate::random::Random;

/// What an attacker sees of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Whether the key was there.
    pub is_found: bool,
    /// What it took: nanoseconds of a real store, or visits to the disk of a simulated one.
    pub cost: u64,
}

/// Whoever can be asked, with a filter of any kind in front of the data.
pub trait Victim {
    /// Looks a key up. A filter that learns from its mistakes does so before the reply.
    fn ask(&mut self, key: u64) -> Reply;
}

impl<F: FnMut(u64) -> Reply> Victim for F {
    fn ask(&mut self, key: u64) -> Reply {
        self(key)
    }
}

/// What queries have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many there were.
    pub queries: u64,
    /// How many of them were mistakes.
    pub mistakes: u64,
    /// What they took in all.
    pub cost: u64,
}

impl Tally {
    /// Mistakes per query.
    pub fn rate(&self) -> f64 {
        self.mistakes as f64 / self.queries.max(1) as f64
    }

    /// Cost per query.
    pub fn mean_cost(&self) -> f64 {
        self.cost as f64 / self.queries.max(1) as f64
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.queries += other.queries;
        self.mistakes += other.mistakes;
        self.cost = self.cost.saturating_add(other.cost);
    }
}

/// Tells mistakes from right answers by what they took.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    slow: u64,
}

/// Whatever takes longer than so many times the usual went to the disk.
const FACTOR: u64 = 4;

impl Judge {
    /// Costs above `slow` are a mistake's.
    pub const fn new(slow: u64) -> Self {
        Self { slow }
    }

    /// Finds out what is slow from the median of some random queries: a filter that is of any
    /// use answers more than half of them itself.
    pub fn calibrate(victim: &mut impl Victim, random: &mut Random) -> Self {
        let mut costs = [(); 255].map(|()| victim.ask(random.random()).cost);
        costs.sort_unstable();
        Self::new(costs[costs.len() / 2].saturating_mul(FACTOR))
    }

    /// Whether a reply was a mistake of the filter.
    pub fn is_mistake(self, reply: Reply) -> bool {
        !reply.is_found && reply.cost > self.slow
    }

    /// Asks, judges and keeps the tally.
    pub(super) fn ask(self, victim: &mut impl Victim, key: u64, tally: &mut Tally) -> bool {
        let reply = victim.ask(key);
        let is_mistake = self.is_mistake(reply);
        *tally += Tally { queries: 1, mistakes: u64::from(is_mistake), cost: reply.cost };
        is_mistake
    }

    /// Asks for all keys, and gives those that were mistakes, in order.
    pub(super) fn mistakes(
        self,
        victim: &mut impl Victim,
        keys: &[u64],
        tally: &mut Tally,
    ) -> Vec<u64> {
        keys.iter().copied().filter(|key| self.ask(victim, *key, tally)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Judge, Reply, Tally};
    use crate::random::random;

    #[test]
    fn what_takes_long_and_finds_nothing_was_a_mistake() {
        // Some noise, and a disk that takes fifty times as long.
        let mut victim = |key: u64| Reply {
            is_found: false,
            cost: 100 + key % 50 + if key.is_multiple_of(20) { 5000 } else { 0 },
        };
        let judge = Judge::calibrate(&mut victim, &mut random(1, "judge"));
        let mut tally = Tally::default();
        for key in 0..1000 {
            assert_eq!(judge.ask(&mut victim, key, &mut tally), key.is_multiple_of(20));
        }
        assert_eq!((tally.queries, tally.mistakes), (1000, 50));
        assert!((tally.rate() - 0.05).abs() < 1e-9 && tally.mean_cost() > 350.0);
        assert!(!judge.is_mistake(Reply { is_found: true, cost: 9999 }));
    }
}
