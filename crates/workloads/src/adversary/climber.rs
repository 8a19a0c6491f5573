use rand::RngExt;

use super::memory::Memory;
use super::{Judge, Tally, Victim};
use crate::Invalid;
use crate::invalid::{at_least_one, share};
use crate::random::{Random, random};

/// An attacker that learns which of several [`Move`]s cost its victim most per query, and repeats
/// them. It also keeps *sequences* of queries that stay expensive when repeated.
///
/// It remembers keys that were mistakes recently, and its best sequences. It builds new sequences
/// from the remembered keys and tries their neighbours. The worth of a sequence is the cost per
/// query when it was last played. If a sequence has too few mistakes, only its mistakes are kept.
///
/// It adapts to the filter without knowing it. It becomes a collector if the filter doesn't learn,
/// a loop finder if fingerprints have few states, and a crawler if the hash function keeps
/// neighbours together. Against an adaptive filter, no move is worth more than random queries.
#[derive(Clone, Debug)]
pub struct Climber {
    config: ClimberConfig,
    judge: Judge,
    mistakes: Memory,
    sequences: Vec<Sequence>,
    /// Recent cost per query of each move; `None` if never tried.
    worth: [Option<f64>; Move::ALL.len()],
    spent: Tally,
    /// Number of queries spent on randomly chosen moves.
    curious: u64,
    random: Random,
}

/// A move of a [`Climber`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Query random keys.
    Explore,
    /// Query neighbours of a key that was a mistake.
    Crawl,
    /// Build a sequence from keys that were mistakes.
    Gather,
    /// Join two good sequences.
    Splice,
    /// Play the best sequence again.
    Exploit,
}

impl Move {
    /// All moves.
    pub const ALL: [Self; 5] =
        [Self::Explore, Self::Crawl, Self::Gather, Self::Splice, Self::Exploit];
}

/// Settings of a [`Climber`].
#[derive(Clone, Copy, Debug)]
pub struct ClimberConfig {
    /// Number of mistakes to remember.
    pub mistakes: usize,
    /// Number of sequences to keep.
    pub sequences: usize,
    /// Number of queries in a move that asks for single keys. It is also the minimum length of a
    /// new sequence.
    pub batch: usize,
    /// Maximum number of queries per sequence.
    pub longest: usize,
    /// Share of the queries whose move is chosen at random. The other queries use the best move.
    pub curiosity: f64,
}

impl Default for ClimberConfig {
    fn default() -> Self {
        Self { mistakes: 4096, sequences: 32, batch: 64, longest: 4096, curiosity: 0.1 }
    }
}

#[derive(Clone, Debug)]
struct Sequence {
    keys: Vec<u64>,
    worth: f64,
}

/// A sequence with at least this share of mistakes is kept unchanged.
const GOOD: f64 = 0.9;

/// Weight of the newest sample in the moving average of a move's worth.
const FORGETTING: f64 = 0.1;

impl Climber {
    /// Creates a climber and calibrates what counts as slow.
    ///
    /// # Errors
    ///
    /// If a size is 0, or the curiosity isn't from 0 to 1.
    pub fn new(
        victim: &mut impl Victim,
        config: ClimberConfig,
        seed: u64,
    ) -> Result<Self, Invalid> {
        at_least_one("the number of mistakes", config.mistakes as u64)?;
        at_least_one("the number of sequences", config.sequences as u64)?;
        at_least_one("the batch", config.batch as u64)?;
        at_least_one("the longest sequence", config.longest as u64)?;
        share("the curiosity", config.curiosity)?;
        let mut random = random(seed, "climber");
        let judge = Judge::calibrate(victim, &mut random);
        Ok(Self {
            config,
            judge,
            mistakes: Memory::new(config.mistakes),
            sequences: Vec::new(),
            worth: [None; Move::ALL.len()],
            spent: Tally::default(),
            curious: 0,
            random,
        })
    }

    /// Attacks the victim with at least `queries` queries.
    pub fn climb(&mut self, victim: &mut impl Victim, queries: u64) -> Tally {
        let mut tally = Tally::default();
        while tally.queries < queries {
            let is_random =
                self.curious as f64 <= self.config.curiosity * self.spent.queries as f64;
            let chosen = if is_random {
                self.random.random_range(0..Move::ALL.len())
            } else {
                self.best_move()
            };
            let gain = self.make(Move::ALL[chosen], victim);
            if is_random {
                self.curious += gain.queries;
            }
            let now = gain.mean_cost();
            let before = self.worth[chosen].unwrap_or(now);
            self.worth[chosen] = Some(before + FORGETTING * (now - before));
            self.spent += gain;
            tally += gain;
        }
        tally
    }

    /// Returns the recent cost per query of each move; 0 if never tried.
    pub fn worth(&self) -> impl Iterator<Item = (Move, f64)> {
        Move::ALL.into_iter().zip(self.worth.map(Option::unwrap_or_default))
    }

    /// Returns the most expensive sequence, if there is one.
    pub fn best(&self) -> Option<&[u64]> {
        self.sequences.first().map(|sequence| &sequence.keys[..])
    }

    /// Returns the totals over all queries so far.
    pub fn spent(&self) -> Tally {
        self.spent
    }

    /// Returns the index of a move that was never tried, or else of the best recent move.
    fn best_move(&self) -> usize {
        let worth = self.worth.iter().map(|worth| worth.unwrap_or(f64::INFINITY));
        let best = worth.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or(0, |(index, _)| index)
    }

    /// Makes a move, or a simpler one if there are no mistakes or sequences to work with yet.
    fn make(&mut self, choice: Move, victim: &mut impl Victim) -> Tally {
        match choice {
            Move::Explore => {
                let batch = 0..self.config.batch;
                let keys: Vec<u64> = batch.map(|_| self.random.random()).collect();
                self.probe(victim, &keys)
            }
            Move::Crawl => {
                let Some(key) = self.mistakes.sample(&mut self.random) else {
                    return self.make(Move::Explore, victim);
                };
                let batch = 0..self.config.batch;
                let keys: Vec<u64> = batch.map(|_| neighbour(key, &mut self.random)).collect();
                self.probe(victim, &keys)
            }
            Move::Gather => {
                // Long sequences take longer to try, but are more likely to contain keys that
                // belong together.
                let many = self.config.batch << self.random.random_range(0..8);
                let keys = self.mistakes.samples(many, &mut self.random);
                if keys.is_empty() {
                    return self.make(Move::Explore, victim);
                }
                self.rehearse(victim, keys)
            }
            Move::Splice if !self.sequences.is_empty() => {
                let mut keys = self.any_sequence();
                keys.extend(self.any_sequence());
                self.rehearse(victim, keys)
            }
            Move::Exploit if !self.sequences.is_empty() => {
                let best = self.sequences.remove(0);
                self.play(victim, best.keys)
            }
            Move::Splice | Move::Exploit => self.make(Move::Gather, victim),
        }
    }

    fn any_sequence(&mut self) -> Vec<u64> {
        self.sequences[self.random.random_range(0..self.sequences.len())].keys.clone()
    }

    /// Queries single keys, and remembers the mistakes.
    fn probe(&mut self, victim: &mut impl Victim, keys: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for key in self.judge.mistakes(victim, keys, &mut tally) {
            self.mistakes.note(key, &mut self.random);
        }
        tally
    }

    /// Plays a new sequence twice. The first play leaves the filter in the state from which a
    /// repeated sequence starts, so only the second play determines the worth of the sequence.
    fn rehearse(&mut self, victim: &mut impl Victim, mut sequence: Vec<u64>) -> Tally {
        sequence.truncate(self.config.longest);
        let mut tally = Tally::default();
        self.judge.mistakes(victim, &sequence, &mut tally);
        tally += self.play(victim, sequence);
        tally
    }

    /// Plays a sequence, and keeps it if it is among the best. Keeps only its mistakes if their
    /// share is low. A few correct answers are tolerated, because other clients may have caused
    /// them.
    fn play(&mut self, victim: &mut impl Victim, sequence: Vec<u64>) -> Tally {
        let mut tally = Tally::default();
        let mistakes = self.judge.mistakes(victim, &sequence, &mut tally);
        if !mistakes.is_empty() {
            let keys = if tally.rate() < GOOD { mistakes } else { sequence };
            let worth = tally.mean_cost();
            let at = self.sequences.partition_point(|sequence| sequence.worth >= worth);
            self.sequences.insert(at, Sequence { keys, worth });
            self.sequences.truncate(self.config.sequences);
        }
        tally
    }
}

/// Returns a key that differs from `key` in one bit, or by at most 16. A poor hash function could
/// keep such neighbours together.
fn neighbour(key: u64, random: &mut Random) -> u64 {
    if random.random() {
        key ^ 1 << random.random_range(0..u64::BITS)
    } else {
        key.wrapping_add(random.random_range(0..=32)).wrapping_sub(16)
    }
}
