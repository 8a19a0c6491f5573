use super::{Judge, Tally, Victim};

/// The attacker in rounds, of the telescoping filter's evaluation (§6.1), after the game in
/// which Bender et al. define adaptivity.
///
/// It begins with a set of queries, and asks for each of them several times a round. Those that
/// were never a mistake in a round are dropped. Against a filter that repairs its mistakes for
/// good, the set is empty soon; against one that can't, or that forgets, what is left are queries
/// that it can't get right all at once.
#[derive(Clone, Debug)]
pub struct Whittling {
    queries: Vec<u64>,
    subrounds: u32,
    judge: Judge,
}

/// One round of a [`Whittling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// How many queries were left at its beginning.
    pub candidates: usize,
    /// How many of them were a mistake at least once.
    pub survivors: usize,
    /// All that was asked.
    pub tally: Tally,
}

impl Round {
    /// The share of the queries that were a mistake at least once.
    pub fn survival(&self) -> f64 {
        self.survivors as f64 / self.candidates.max(1) as f64
    }
}

impl Whittling {
    /// Begins with any queries; the papers take random ones, ten to fifty times as many as there
    /// are members, and ten subrounds.
    pub fn new(queries: Vec<u64>, subrounds: u32, judge: Judge) -> Self {
        Self { queries, subrounds, judge }
    }

    /// What is left.
    pub fn queries(&self) -> &[u64] {
        &self.queries
    }

    pub(super) fn into_queries(self) -> Vec<u64> {
        self.queries
    }

    /// Plays one round.
    pub fn round(&mut self, victim: &mut impl Victim) -> Round {
        let candidates = self.queries.len();
        let mut tally = Tally::default();
        let mut were_mistakes = vec![false; candidates];
        for _ in 0..self.subrounds {
            for (key, was_mistake) in self.queries.iter().zip(&mut were_mistakes) {
                *was_mistake |= self.judge.ask(victim, *key, &mut tally);
            }
        }
        let judged = self.queries.iter().zip(were_mistakes);
        self.queries =
            judged.filter_map(|(key, was_mistake)| was_mistake.then_some(*key)).collect();
        Round { candidates, survivors: self.queries.len(), tally }
    }

    /// Plays until nothing is left, or `rounds` are over.
    pub fn run(&mut self, victim: &mut impl Victim, rounds: usize) -> Vec<Round> {
        let mut played = Vec::new();
        while played.len() < rounds && !self.queries.is_empty() {
            played.push(self.round(victim));
        }
        played
    }
}
