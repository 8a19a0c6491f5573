use super::{Collector, CollectorConfig, Judge, Tally, Victim, Whittling};
use crate::Invalid;
use crate::invalid::at_least_one;

/// An attack on adaptive cuckoo filters (Reviriego et al., in §2.5 of the adaptive quotient
/// filter's paper).
///
/// It finds a sequence of queries that are all mistakes, and that leaves the filter in the state in
/// which it started. The sequence can be replayed forever.
///
/// Such a sequence exists if a fingerprint has few states and every mistake moves it to the next
/// state: the queries that collide in one state move the fingerprint to a state in which other
/// queries collide. The search needs no knowledge of the filter:
///
/// 1. Collect keys that were mistakes.
/// 2. Query all of them several times, and drop those that are no longer mistakes. The remaining
///    keys take turns.
/// 3. Query them in order, repeatedly, and drop those that are not mistakes. Dropping is safe
///    because a correct answer doesn't change the filter. If the state of a fingerprint doesn't
///    match the first of its queries, it matches a later one. After a few passes, only cycles
///    remain.
#[derive(Clone, Debug)]
pub struct AdaptationLoop {
    sequence: Vec<u64>,
    judge: Judge,
    spent: Tally,
}

/// Limits of the search for an [`AdaptationLoop`].
#[derive(Clone, Copy, Debug)]
pub struct AdaptationLoopConfig {
    /// Maximum number of random keys to query.
    pub search: u64,
    /// Maximum number of mistakes to collect. A loop needs several mistakes per fingerprint. So
    /// choose several times (members × states per fingerprint).
    pub pool: u64,
    /// How many times to query all keys before dropping those that are no longer mistakes; at least
    /// the number of states per fingerprint.
    pub passes: u32,
    /// Maximum number of times to play and trim the sequence.
    pub trims: u32,
}

impl Default for AdaptationLoopConfig {
    fn default() -> Self {
        Self { search: 10_000_000, pool: 1_000_000, passes: 16, trims: 16 }
    }
}

impl AdaptationLoop {
    /// Searches for a loop. If none is found, the sequence is empty.
    ///
    /// # Errors
    ///
    /// If the pool or the number of passes is 0.
    pub fn find(
        victim: &mut impl Victim,
        config: AdaptationLoopConfig,
        seed: u64,
    ) -> Result<Self, Invalid> {
        at_least_one("the number of passes", config.passes.into())?;
        let collection = CollectorConfig { warm_up: config.search, capacity: config.pool };
        let collector = Collector::collect(victim, collection, seed)?;
        let (judge, mut spent) = (collector.judge, collector.spent());
        let mut whittling = Whittling::new(collector.collected, config.passes, judge);
        spent += whittling.round(victim).tally;
        let mut sequence = whittling.into_queries();
        for _ in 0..config.trims {
            let before = sequence.len();
            sequence = judge.mistakes(victim, &sequence, &mut spent);
            if sequence.len() == before {
                break;
            }
        }
        Ok(Self { sequence, judge, spent })
    }

    /// Returns the keys of the loop, in order.
    pub fn sequence(&self) -> &[u64] {
        &self.sequence
    }

    /// Returns the number, the mistakes and the cost of the queries in the search.
    pub fn spent(&self) -> Tally {
        self.spent
    }

    /// Plays the loop once. Every query should be a mistake, unless other clients' queries
    /// intervene.
    pub fn replay(&self, victim: &mut impl Victim) -> Tally {
        let mut tally = Tally::default();
        self.judge.mistakes(victim, &self.sequence, &mut tally);
        tally
    }
}
