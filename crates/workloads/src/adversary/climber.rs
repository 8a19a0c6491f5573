use rand::RngExt;

use super::memory::Memory;
use super::{Judge, Tally, Victim};
use crate::Invalid;
use crate::invalid::{share, some};
use crate::random::{Random, random};

/// An attacker that climbs: it tries several [`Move`]s, does more often what has cost its victim
/// most per query, and keeps *sequences* of queries that go on to cost when they are repeated.
///
/// It has two memories: of keys that have been mistakes lately, from which it makes new
/// sequences and whose neighbours it tries, and of its best sequences. A sequence is worth what
/// its last play cost per query, and is cut down to its mistakes if they aren't almost all. So
/// against a filter that doesn't learn it ends as a collector, against one with few states as
/// the finder of a loop, against one with a hash function that keeps neighbours together as a
/// crawler; and it needn't be told which it is up against. Against a filter that is adaptive
/// none of its moves is worth more than random queries.
#[derive(Clone, Debug)]
pub struct Climber {
    config: ClimberConfig,
    judge: Judge,
    mistakes: Memory,
    sequences: Vec<Sequence>,
    /// What each move has been worth lately, in cost per query, if it was tried.
    worth: [Option<f64>; Move::ALL.len()],
    spent: Tally,
    /// How many queries were owed to curiosity.
    curious: u64,
    random: Random,
}

/// What a [`Climber`] can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Ask for random keys.
    Explore,
    /// Ask for neighbours of a key that was a mistake.
    Crawl,
    /// Make a sequence of keys that were mistakes.
    Gather,
    /// Join two good sequences.
    Splice,
    /// Play the best sequence again.
    Exploit,
}

impl Move {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Explore, Self::Crawl, Self::Gather, Self::Splice, Self::Exploit];
}

/// How a [`Climber`] climbs.
#[derive(Clone, Copy, Debug)]
pub struct ClimberConfig {
    /// How many mistakes are remembered.
    pub mistakes: usize,
    /// How many sequences are kept.
    pub sequences: usize,
    /// The queries of a move that asks for single keys, and the fewest that are tried together.
    pub batch: usize,
    /// The most queries of a sequence.
    pub longest: usize,
    /// The share of the queries whose move is chosen blindly; for the others it is the best.
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

/// The share of mistakes from which on a sequence is left as it is.
const GOOD: f64 = 0.9;

/// How fast what a move was worth is forgotten.
const FORGETTING: f64 = 0.1;

impl Climber {
    /// Learns what is slow, and nothing else yet.
    ///
    /// # Errors
    ///
    /// If it is to remember nothing or ask for nothing, or the curiosity isn't from 0 to 1.
    pub fn new(
        victim: &mut impl Victim,
        config: ClimberConfig,
        seed: u64,
    ) -> Result<Self, Invalid> {
        some("the number of mistakes", config.mistakes as u64)?;
        some("the number of sequences", config.sequences as u64)?;
        some("the batch", config.batch as u64)?;
        some("the longest sequence", config.longest as u64)?;
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

    /// Attacks with at least so many queries.
    pub fn climb(&mut self, victim: &mut impl Victim, queries: u64) -> Tally {
        let mut tally = Tally::default();
        while tally.queries < queries {
            let is_curious =
                self.curious as f64 <= self.config.curiosity * self.spent.queries as f64;
            let chosen = if is_curious {
                self.random.random_range(0..Move::ALL.len())
            } else {
                self.best_move()
            };
            let gain = self.make(Move::ALL[chosen], victim);
            if is_curious {
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

    /// What each move has been worth lately, in cost per query; nothing if it was never tried.
    pub fn worth(&self) -> impl Iterator<Item = (Move, f64)> {
        Move::ALL.into_iter().zip(self.worth.map(Option::unwrap_or_default))
    }

    /// The sequence that costs most, if any does.
    pub fn best(&self) -> Option<&[u64]> {
        self.sequences.first().map(|sequence| &sequence.keys[..])
    }

    /// What it has asked in all.
    pub fn spent(&self) -> Tally {
        self.spent
    }

    /// The move that was worth most lately, or one that was never tried.
    fn best_move(&self) -> usize {
        let worth = self.worth.iter().map(|worth| worth.unwrap_or(f64::INFINITY));
        let best = worth.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or(0, |(index, _)| index)
    }

    /// Makes a move; what it needs and hasn't got yet, it goes for first.
    fn make(&mut self, choice: Move, victim: &mut impl Victim) -> Tally {
        match choice {
            Move::Explore => {
                let batch = 0..self.config.batch;
                let keys: Vec<u64> = batch.map(|_| self.random.random()).collect();
                self.probe(victim, &keys)
            }
            Move::Crawl => {
                let Some(key) = self.mistakes.some(&mut self.random) else {
                    return self.make(Move::Explore, victim);
                };
                let batch = 0..self.config.batch;
                let keys: Vec<u64> = batch.map(|_| neighbour(key, &mut self.random)).collect();
                self.probe(victim, &keys)
            }
            Move::Gather => {
                // Many take longer to try, but it takes many to find some that belong together.
                let many = self.config.batch << self.random.random_range(0..8);
                let keys = self.mistakes.several(many, &mut self.random);
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

    /// Asks for single keys, and remembers those that were mistakes.
    fn probe(&mut self, victim: &mut impl Victim, keys: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for key in self.judge.mistakes(victim, keys, &mut tally) {
            self.mistakes.note(key, &mut self.random);
        }
        tally
    }

    /// Plays a new sequence twice: what is a mistake the first time is so by its past.
    fn rehearse(&mut self, victim: &mut impl Victim, mut sequence: Vec<u64>) -> Tally {
        sequence.truncate(self.config.longest);
        let mut tally = Tally::default();
        self.judge.mistakes(victim, &sequence, &mut tally);
        tally += self.play(victim, sequence);
        tally
    }

    /// Plays a sequence, and keeps it if it is among the best. If too little of it were mistakes,
    /// only those are kept; a few may be somebody else's doing, and come back.
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

/// A key that differs in one bit, or in the last few: close by any measure that a poor hash
/// function could preserve.
fn neighbour(key: u64, random: &mut Random) -> u64 {
    if random.random() {
        key ^ 1 << random.random_range(0..u64::BITS)
    } else {
        key.wrapping_add(random.random_range(0..=32)).wrapping_sub(16)
    }
}
