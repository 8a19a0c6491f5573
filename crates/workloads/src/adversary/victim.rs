use std::ops::AddAssign;

use rand::RngExt;

use crate::random::Random;

/// The answer to a query, as an attacker sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Whether the key was found.
    pub is_found: bool,
    /// The cost: nanoseconds for a real store, disk reads for a simulated one.
    pub cost: u64,
}

/// A store with any kind of filter in front of its data.
pub trait Victim {
    /// Looks up a key. A filter that learns from its mistakes does so before the reply.
    fn ask(&mut self, key: u64) -> Reply;
}

impl<F: FnMut(u64) -> Reply> Victim for F {
    fn ask(&mut self, key: u64) -> Reply {
        self(key)
    }
}

/// Totals over a number of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of queries.
    pub queries: u64,
    /// Number of queries that were mistakes.
    pub mistakes: u64,
    /// Total cost of the queries.
    pub cost: u64,
}

impl Tally {
    /// Returns the mistakes per query.
    pub fn rate(&self) -> f64 {
        self.mistakes as f64 / self.queries.max(1) as f64
    }

    /// Returns the cost per query.
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

/// Tells mistakes from correct answers by their cost.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    slow: u64,
}

/// A query that costs more than `FACTOR` times the median has read the disk.
const FACTOR: u64 = 4;

impl Judge {
    /// Creates a judge: a miss is a mistake if it costs more than `slow`.
    pub const fn new(slow: u64) -> Self {
        Self { slow }
    }

    /// Creates a judge whose limit is a multiple of the median cost of random queries. Any useful
    /// filter answers more than half of them without the disk.
    pub fn calibrate(victim: &mut impl Victim, random: &mut Random) -> Self {
        let mut costs = [(); 255].map(|()| victim.ask(random.random()).cost);
        costs.sort_unstable();
        Self::new(costs[costs.len() / 2].saturating_mul(FACTOR))
    }

    /// Returns whether a reply shows a mistake of the filter.
    pub fn is_mistake(self, reply: Reply) -> bool {
        !reply.is_found && reply.cost > self.slow
    }

    /// Queries a key, adds the result to the tally, and returns whether it was a mistake.
    pub(super) fn ask(self, victim: &mut impl Victim, key: u64, tally: &mut Tally) -> bool {
        let reply = victim.ask(key);
        let is_mistake = self.is_mistake(reply);
        *tally += Tally { queries: 1, mistakes: u64::from(is_mistake), cost: reply.cost };
        is_mistake
    }

    /// Queries all keys, and returns those that were mistakes, in order.
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
    fn slow_miss_is_judged_a_mistake() {
        // The costs have some noise, and the disk takes fifty times as long as the filter.
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
