use std::ops::Range;

use rand::RngExt;

use crate::Invalid;
use crate::invalid::{at_least_one, share};
use crate::random::{Random, random};

/// The smallest member; queries for smaller numbers never hit a member.
pub const FIRST_MEMBER: u64 = 1 << 63;

/// One step of a workload that changes the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Insert a key that was never a member before.
    Insert(u64),
    /// Remove a member.
    Remove(u64),
    /// Query a key.
    Ask(u64),
}

/// The shape of a [`Churn`].
#[derive(Clone, Copy, Debug)]
pub struct ChurnConfig {
    /// Number of members, constant over time.
    pub members: u64,
    /// Number of queries.
    pub queries: u64,
    /// The interval between replacements, as a share of all queries.
    pub every: f64,
    /// Share of the members that are replaced each time.
    pub replaced: f64,
    /// Share of the queries that ask for a member.
    pub hits: f64,
}

/// The setup of the adaptive quotient filter's evaluation (§6.6): 20 % of the members are replaced
/// after each 10 % of the work, and no query asks for a member.
impl Default for ChurnConfig {
    fn default() -> Self {
        Self { members: 1_000_000, queries: 3_000_000, every: 0.1, replaced: 0.2, hits: 0.0 }
    }
}

/// A stream of queries that is interrupted to replace many members. New members collide
/// with frequent queries, and the filter loses what it learnt about the removed members.
#[derive(Clone, Debug)]
pub struct Churn<Q> {
    config: ChurnConfig,
    queries: Q,
    members: Vec<u64>,
    newest: u64,
    asked: u64,
    /// Number of replacements so far.
    churns: u64,
    /// Number of queries after which members are replaced next.
    due: u64,
    burst: Range<usize>,
    /// The new member to insert next, because the member that it replaces has just been removed.
    arriving: Option<u64>,
    random: Random,
}

impl<Q: Iterator<Item = u64>> Churn<Q> {
    /// Starts with [`members`](Self::members), which are present before the first event. Queries
    /// for non-members are taken from `queries`, any stream of numbers below [`FIRST_MEMBER`].
    ///
    /// # Errors
    ///
    /// If there are no members, a share isn't from 0 to 1, or `every` is so small that members
    /// would be replaced before every query.
    pub fn new(config: ChurnConfig, queries: Q, seed: u64) -> Result<Self, Invalid> {
        at_least_one("the number of members", config.members)?;
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
        at_least_one("the number of queries between churns", churn.interval() as u64)?;
        churn.due = churn.next_due();
        Ok(churn)
    }

    /// Returns the current members.
    pub fn members(&self) -> &[u64] {
        &self.members
    }

    fn interval(&self) -> f64 {
        self.config.queries as f64 * self.config.every
    }

    /// Returns the number of queries after which members are replaced next. This is computed from
    /// the total and not summed up, so that rounding doesn't change the number of replacements.
    fn next_due(&self) -> u64 {
        (self.interval() * (self.churns + 1) as f64).round() as u64
    }

    /// Removes a random old member, and makes a new one the next to insert.
    fn replace(&mut self, at: usize) -> Event {
        // The places before `at` hold new members. As in a shuffle, draw from `at` and the places
        // after it.
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
        if let Some(new_member) = self.arriving.take() {
            return Some(Event::Insert(new_member));
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
    fn one_fifth_of_members_is_replaced_after_each_tenth_of_the_queries() {
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
    fn rounding_does_not_change_the_number_of_replacements() {
        let config = ChurnConfig { members: 1, queries: 15, replaced: 1.0, ..SMALL };
        let events = Churn::new(config, 0.., 1).unwrap();
        assert_eq!(events.filter(|event| matches!(event, Event::Remove(_))).count(), 9);
    }

    #[test]
    fn removed_members_are_random() {
        let mut churn = Churn::new(SMALL, 0.., 2).unwrap();
        churn.by_ref().for_each(drop);
        // A share of 0.8^9 of the initial members is left.
        let left = churn.members().iter().filter(|m| **m < FIRST_MEMBER + 1000).count();
        assert!((100..170).contains(&left), "{left}");
    }

    #[test]
    fn share_of_hits_is_as_configured() {
        let events = Churn::new(SMALL, 0.., 3).unwrap();
        let hits = events.filter(|e| matches!(e, Event::Ask(n) if *n >= FIRST_MEMBER)).count();
        assert!((2350..2650).contains(&hits), "{hits}");
    }

    #[test]
    fn invalid_config_is_an_error() {
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
        fn events_are_consistent_with_the_members(
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
