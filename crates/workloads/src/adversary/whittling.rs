use super::{Judge, Tally, Victim};

/// An attacker that drops, round by round, the queries that were not mistakes. It is from the
/// telescoping filter's evaluation (§6.1), and from the game by which Bender et al. define
/// adaptivity.
///
/// It starts with a set of queries, and repeats each of them several times per round. Queries that
/// were never a mistake during a round are dropped. If the filter repairs its mistakes for good,
/// the set is soon empty. Otherwise, the filter can't answer all of the remaining queries correctly
/// at the same time.
#[derive(Clone, Debug)]
pub struct Whittling {
    queries: Vec<u64>,
    subrounds: u32,
    judge: Judge,
}

/// One round of a [`Whittling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Number of queries at the beginning of the round.
    pub candidates: usize,
    /// Number of queries that were a mistake at least once.
    pub survivors: usize,
    /// Totals of the round.
    pub tally: Tally,
}

impl Round {
    /// Returns the share of the queries that were a mistake at least once.
    pub fn survival(&self) -> f64 {
        self.survivors as f64 / self.candidates.max(1) as f64
    }
}

impl Whittling {
    /// Starts with the given queries. The papers use random ones, ten to fifty times as many as
    /// there are members, and ten subrounds.
    pub fn new(queries: Vec<u64>, subrounds: u32, judge: Judge) -> Self {
        Self { queries, subrounds, judge }
    }

    /// Returns the remaining queries.
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

    /// Plays until no query is left, but at most `rounds` rounds.
    pub fn run(&mut self, victim: &mut impl Victim, rounds: usize) -> Vec<Round> {
        let mut played = Vec::new();
        while played.len() < rounds && !self.queries.is_empty() {
            played.push(self.round(victim));
        }
        played
    }
}
