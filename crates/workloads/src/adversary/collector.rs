use rand::RngExt;

use super::{Judge, Tally, Victim};
use crate::Invalid;
use crate::invalid::{share, some};
use crate::random::{Random, random};

/// The replaying attacker of the adaptive quotient filter's evaluation (§6.4): it asks random
/// keys, notes which went to the disk, and asks for those again and again, among the queries of
/// others.
///
/// It goes through them in turn, so that a cache of the store is of no use if it is smaller than
/// the collection.
#[derive(Clone, Debug)]
pub struct Collector {
    pub(super) collected: Vec<u64>,
    pub(super) judge: Judge,
    spent: Tally,
}

/// How much a [`Collector`] collects.
#[derive(Clone, Copy, Debug)]
pub struct CollectorConfig {
    /// How many random keys it asks for at most.
    pub warm_up: u64,
    /// How many mistakes it needs at most.
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
    /// If it is to collect nothing.
    pub fn collect(
        victim: &mut impl Victim,
        config: CollectorConfig,
        seed: u64,
    ) -> Result<Self, Invalid> {
        some("the capacity", config.capacity)?;
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

    /// The keys that were mistakes.
    pub fn collected(&self) -> &[u64] {
        &self.collected
    }

    /// What it took to collect them, without the queries by which it learnt what is slow.
    pub fn spent(&self) -> Tally {
        self.spent
    }

    /// The queries of others, with a `hostile` share of replayed mistakes among them. If none
    /// were collected, there are only the others'.
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
    /// The key that is asked for.
    pub key: u64,
    /// Whether it is the attacker who asks.
    pub is_hostile: bool,
}

/// Traffic with an attacker in it, from [`Collector::traffic`].
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
