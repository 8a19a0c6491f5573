//! Attackers that choose each query based on earlier answers.
//!
//! They treat the store as a black box. They know neither members nor secrets, only what a client
//! of a store can see: whether a key was found, and what the query cost (see [`Reply`]). If a query
//! finds nothing but takes long, the filter made a mistake.
//!
//! | attacker | what it does | which filters it beats |
//! | --- | --- | --- |
//! | [`Collector`] | collects mistakes, and replays them among other clients' queries | filters that don't learn |
//! | [`Whittling`] | drops, round by round, the queries that were not mistakes | filters that can only learn a limited amount |
//! | [`AdaptationLoop`] | finds a sequence that returns the filter to its initial state | filters with few states per fingerprint |
//! | [`Climber`] | tries all of these and neighbouring keys, and repeats what costs the store most | all of the above, and filters with poor hash functions |

mod adaptation_loop;
mod climber;
mod collector;
mod memory;
mod victim;
mod whittling;

pub use adaptation_loop::{AdaptationLoop, AdaptationLoopConfig};
pub use climber::{Climber, ClimberConfig, Move};
pub use collector::{Collector, CollectorConfig, Query, Traffic};
pub use victim::{Judge, Reply, Tally, Victim};
pub use whittling::{Round, Whittling};
