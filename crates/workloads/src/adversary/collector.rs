use rand::RngExt;

use super::{Judge, Tally, Victim};
use crate::Invalid;
use crate::invalid::{at_least_one, share};
use crate::random::{Random, random};

/// The replaying attacker of the adaptive quotient filter's evaluation (§6.4): it queries random
/// keys, notes which ones caused a disk read, and repeats those among other clients' queries.
///
/// It replays them in turn, so a cache doesn't help the store unless it holds the whole collection.
#[derive(Clone, Debug)]
pub struct Collector {
    pub(super) collected: Vec<u64>,
    pub(super) judge: Judge,
    spent: Tally,
}

/// Limits of a [`Collector`].
#[derive(Clone, Copy, Debug)]
pub struct CollectorConfig {
    /// Maximum number of random keys to query.
    pub warm_up: u64,
    /// Maximum number of mistakes to collect.
    pub capacity: u64,
}

impl Default for CollectorConfig {
    fn default() -> Self {
        Self { warm_up: 1_000_000, capacity: 100_000 }
    }
}

impl Collector {
    /// Collects mistakes of the victim.
    ///
    /// # Errors
    ///
    /// If the capacity is 0.
    pub fn collect(
        victim: &mut impl Victim,
        config: CollectorConfig,
        seed: u64,
    ) -> Result<Self, Invalid> {
        at_least_one("the capacity", config.capacity)?;
        let mut random = random(seed, "collector");
        let judge = Judge::calibrate(victim, &mut random);
        let mut collector = Self { collected: Vec::new(), judge, spent: Tally::default() };
        while collector.spent.queries < config.warm_up
            && (collector.collected.len() as u64) < config.capacity
        {
            let key = random.random();
            if judge.ask(victim, key, &mut collector.spent) {
                collector.collected.push(key);
            }
        }
        Ok(collector)
    }

    /// Returns the keys that were mistakes.
    pub fn collected(&self) -> &[u64] {
        &self.collected
    }

    /// Returns the number, the mistakes and the cost of the collecting queries, without the
    /// calibration queries.
    pub fn spent(&self) -> Tally {
        self.spent
    }

    /// Mixes replayed mistakes into the queries of `others`. `hostile` is the share of replayed
    /// mistakes. If nothing was collected, all queries come from `others`.
    ///
    /// # Errors
    ///
    /// If the share isn't from 0 to 1.
    pub fn traffic<B: Iterator<Item = u64>>(
        self,
        others: B,
        hostile: f64,
        seed: u64,
    ) -> Result<Traffic<B>, Invalid> {
        share("the hostile share", hostile)?;
        let hostile = if self.collected.is_empty() { 0.0 } else { hostile };
        let random = random(seed, "traffic");
        Ok(Traffic { collected: self.collected, at: 0, others, hostile, random })
    }
}

/// A query of mixed traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The queried key.
    pub key: u64,
    /// Whether the attacker sent it.
    pub is_hostile: bool,
}

/// Mixed traffic of the attacker and other clients, from [`Collector::traffic`].
#[derive(Clone, Debug)]
pub struct Traffic<B> {
    collected: Vec<u64>,
    at: usize,
    others: B,
    hostile: f64,
    random: Random,
}

impl<B: Iterator<Item = u64>> Iterator for Traffic<B> {
    type Item = Query;

    fn next(&mut self) -> Option<Query> {
        if self.random.random::<f64>() >= self.hostile {
            return self.others.next().map(|key| Query { key, is_hostile: false });
        }
        let key = self.collected[self.at];
        self.at = (self.at + 1) % self.collected.len();
        Some(Query { key, is_hostile: true })
    }
}
