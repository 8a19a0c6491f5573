use std::ops::Range;

use rand::RngExt;

use crate::Invalid;
use crate::invalid::{share, some};
use crate::random::{Random, random};

/// Members are the numbers from here on, so that queries with smaller ones ask for none.
pub const FIRST_MEMBER: u64 = 1 << 63;

/// One step of a workload that changes the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It becomes a member, and hasn't been one before.
    Insert(u64),
    /// It is a member, and ceases to be.
    Remove(u64),
    /// It is asked for.
    Ask(u64),
}

/// The shape of a [`Churn`].
#[derive(Clone, Copy, Debug)]
pub struct ChurnConfig {
    /// How many members there are, always.
    pub members: u64,
    /// How many queries there are.
    pub queries: u64,
    /// The share of the queries after which members are replaced.
    pub every: f64,
    /// The share of the members that are replaced then.
    pub replaced: f64,
    /// The share of the queries that ask for a member.
    pub hits: f64,
}

/// As in the evaluation of the adaptive quotient filter (§6.6): 20 % of the members are replaced
/// after each 10 % of the work, and no query asks for a member.
impl Default for ChurnConfig {
    fn default() -> Self {
        Self { members: 1_000_000, queries: 3_000_000, every: 0.1, replaced: 0.2, hits: 0.0 }
    }
}

/// Queries, interrupted by the replacement of many members at once: newcomers collide with what
/// is asked for often, and what the filter has learnt of the members who left is worth nothing.
#[derive(Clone, Debug)]
pub struct Churn<Q> {
    config: ChurnConfig,
    queries: Q,
    members: Vec<u64>,
    newest: u64,
    asked: u64,
    /// How often members have been replaced.
    churns: u64,
    /// The next query before which they are.
    due: u64,
    burst: Range<usize>,
    /// The newcomer at a place whose old member has just been removed.
    arriving: Option<u64>,
    random: Random,
}

impl<Q: Iterator<Item = u64>> Churn<Q> {
    /// Begins with [`members`](Self::members), who are there before the first event. The
    /// `queries` that don't ask for members are taken from any stream of numbers below
    /// [`FIRST_MEMBER`].
    ///
    /// # Errors
    ///
    /// If there are no members, or a share isn't from 0 to 1, or so small that members would be
    /// replaced before every query.
    pub fn new(config: ChurnConfig, queries: Q, seed: u64) -> Result<Self, Invalid> {
        some("the number of members", config.members)?;
        share("the share of the work", config.every)?;
        share("the share that is replaced", config.replaced)?;
        share("the share of hits", config.hits)?;
        let newest = FIRST_MEMBER + config.members;
        let mut churn = Self {
            config,
            queries,
            members: (FIRST_MEMBER..newest).collect(),
            newest,
            asked: 0,
            churns: 0,
            due: 0,
            burst: 0..0,
            arriving: None,
            random: random(seed, "churn"),
        };
        some("the number of queries between churns", churn.interval() as u64)?;
        churn.due = churn.next_due();
        Ok(churn)
    }

    /// The members, as of now.
    pub fn members(&self) -> &[u64] {
        &self.members
    }

    fn interval(&self) -> f64 {
        self.config.queries as f64 * self.config.every
    }

    /// Rounded from the whole, not summed up, so that churns are as many as they should be.
    fn next_due(&self) -> u64 {
        (self.interval() * (self.churns + 1) as f64).round() as u64
    }

    /// Removes a random member that isn't new, and lets another one arrive.
    fn replace(&mut self, at: usize) -> Event {
        // Newcomers are in front: each place is drawn from those behind it, as in a shuffle.
        let other = self.random.random_range(at..self.members.len());
        self.members.swap(at, other);
        self.arriving = Some(self.newest);
        let gone = std::mem::replace(&mut self.members[at], self.newest);
        self.newest += 1;
        Event::Remove(gone)
    }

    fn ask(&mut self) -> Option<Event> {
        self.asked += 1;
        if self.random.random::<f64>() < self.config.hits {
            let at = self.random.random_range(0..self.members.len());
            return Some(Event::Ask(self.members[at]));
        }
        self.queries.next().map(Event::Ask)
    }
}

impl<Q: Iterator<Item = u64>> Iterator for Churn<Q> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if let Some(newcomer) = self.arriving.take() {
            return Some(Event::Insert(newcomer));
        }
        if let Some(at) = self.burst.next() {
            return Some(self.replace(at));
        }
        if self.asked == self.config.queries {
            return None;
        }
        if self.asked == self.due {
            self.churns += 1;
            self.due = self.next_due();
            self.burst = 0..(self.members.len() as f64 * self.config.replaced) as usize;
            return self.next();
        }
        self.ask()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::{Churn, ChurnConfig, Event, FIRST_MEMBER};

    const SMALL: ChurnConfig =
        ChurnConfig { members: 1000, queries: 10_000, every: 0.1, replaced: 0.2, hits: 0.25 };

    #[test]
    fn a_fifth_is_replaced_after_each_tenth() {
        let events: Vec<Event> = Churn::new(SMALL, 0.., 1).unwrap().collect();
        let asks = |events: &[Event]| events.iter().filter(|e| matches!(e, Event::Ask(_))).count();
        assert_eq!(asks(&events), 10_000);
        assert_eq!(events.len(), 10_000 + 9 * 2 * 200);
        let mut rest = &events[..];
        for churn in 1..=9 {
            assert_eq!(asks(&rest[..1000]), 1000);
            assert_eq!(asks(&rest[1000..1400]), 0, "churn {churn}");
            rest = &rest[1400..];
        }
        assert_eq!(asks(rest), 1000);
    }

    #[test]
    fn churns_are_spread_evenly_where_the_work_has_no_tenths() {
        let config = ChurnConfig { members: 1, queries: 15, replaced: 1.0, ..SMALL };
        let events = Churn::new(config, 0.., 1).unwrap();
        assert_eq!(events.filter(|event| matches!(event, Event::Remove(_))).count(), 9);
    }

    #[test]
    fn members_leave_at_random() {
        let mut churn = Churn::new(SMALL, 0.., 2).unwrap();
        churn.by_ref().for_each(drop);
        // Of the first members, 0.8^9 are left.
        let left = churn.members().iter().filter(|m| **m < FIRST_MEMBER + 1000).count();
        assert!((100..170).contains(&left), "{left}");
    }

    #[test]
    fn hits_are_as_many_as_asked_for() {
        let events = Churn::new(SMALL, 0.., 3).unwrap();
        let hits = events.filter(|e| matches!(e, Event::Ask(n) if *n >= FIRST_MEMBER)).count();
        assert!((2350..2650).contains(&hits), "{hits}");
    }

    #[test]
    fn nonsense_is_refused() {
        for config in [
            ChurnConfig { members: 0, ..SMALL },
            ChurnConfig { every: 0.0, ..SMALL },
            ChurnConfig { replaced: -0.1, ..SMALL },
            ChurnConfig { hits: 1.5, ..SMALL },
        ] {
            assert!(Churn::new(config, 0.., 1).is_err(), "{config:?}");
        }
    }

    proptest! {
        #[test]
        fn events_make_sense_one_after_the_other(
            members in 1_u64..50,
            queries in 10_u64..200,
            every in 0.1..1.0,
            replaced in 0.0..=1.0,
            hits in 0.0..=1.0,
            seed: u64,
        ) {
            let config = ChurnConfig { members, queries, every, replaced, hits };
            let mut churn = Churn::new(config, 0.., seed).unwrap();
            let mut now: HashSet<u64> = churn.members().iter().copied().collect();
            let mut ever = now.clone();
            for event in churn.by_ref() {
                match event {
                    Event::Insert(member) => {
                        prop_assert!(ever.insert(member));
                        now.insert(member);
                    }
                    Event::Remove(member) => prop_assert!(now.remove(&member)),
                    Event::Ask(number) => {
                        prop_assert_eq!(number >= FIRST_MEMBER, now.contains(&number));
                        prop_assert_eq!(now.len() as u64, members);
                    }
                }
            }
            prop_assert_eq!(now, churn.members().iter().copied().collect::<HashSet<_>>());
        }
    }
}
