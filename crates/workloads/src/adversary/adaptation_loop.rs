use super::{Collector, CollectorConfig, Judge, Tally, Victim, Whittling};
use crate::Invalid;
use crate::invalid::some;

/// The attack on adaptive cuckoo filters (Reviriego et al., in §2.5 of the adaptive quotient
/// filter's paper): a sequence of queries, each of them a mistake, after which the filter is in
/// the state in which it was before. It can be replayed forever.
///
/// There is such a sequence wherever a fingerprint has few states and is taken to the next one by
/// every mistake: queries that collide with it in one state bring back the state in which others
/// do. How it is found without knowing the filter:
///
/// 1. Collect keys that have been mistakes.
/// 2. Ask for all of them, several times over, and drop those that weren't mistakes any more.
///    What is left takes turns.
/// 3. Ask for them in order, once more and again, dropping what was no mistake. A right answer
///    doesn't change the filter, so nothing is lost with it; and a fingerprint whose state doesn't
///    fit the first of its queries joins in where it does. So after a few times only circles are
///    left.
#[derive(Clone, Debug)]
pub struct AdaptationLoop {
    sequence: Vec<u64>,
    judge: Judge,
    spent: Tally,
}

/// How hard an [`AdaptationLoop`] is searched for.
#[derive(Clone, Copy, Debug)]
pub struct AdaptationLoopConfig {
    /// How many random keys are asked for at most.
    pub search: u64,
    /// How many mistakes are collected at most. Loops need several for the same fingerprint, so
    /// it should be several times the number of members times that of a fingerprint's states.
    pub pool: u64,
    /// How often all are asked for before those that aren't mistakes any more are dropped; at
    /// least as often as a fingerprint has states.
    pub passes: u32,
    /// How often the sequence is played and trimmed at most.
    pub trims: u32,
}

impl Default for AdaptationLoopConfig {
    fn default() -> Self {
        Self { search: 10_000_000, pool: 1_000_000, passes: 16, trims: 16 }
    }
}

impl AdaptationLoop {
    /// Searches for a loop; the sequence is empty if there is none to be found.
    ///
    /// # Errors
    ///
    /// If there is to be no pool or no pass.
    pub fn find(
        victim: &mut impl Victim,
        config: AdaptationLoopConfig,
        seed: u64,
    ) -> Result<Self, Invalid> {
        some("the number of passes", config.passes.into())?;
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

    /// The loop.
    pub fn sequence(&self) -> &[u64] {
        &self.sequence
    }

    /// What the search took.
    pub fn spent(&self) -> Tally {
        self.spent
    }

    /// Plays the loop once more. As long as nobody else's queries come between, all of it should
    /// be mistakes.
    pub fn replay(&self, victim: &mut impl Victim) -> Tally {
        let mut tally = Tally::default();
        self.judge.mistakes(victim, &self.sequence, &mut tally);
        tally
    }
}
