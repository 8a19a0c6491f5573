//! Attackers who choose their queries by the answers to earlier ones.
//!
//! All of them are black boxes' enemies: they know neither members nor secrets, only what a
//! client of a store can know, whether a key was found and what it took, see [`Reply`]. Of a query
//! that finds nothing but takes long, the filter was mistaken.
//!
//! | attacker | what it does | whom it beats |
//! | --- | --- | --- |
//! | [`Collector`] | notes mistakes, and replays them among others' queries | filters that don't learn |
//! | [`Whittling`] | drops, round by round, what was no mistake | filters that can learn only so much |
//! | [`AdaptationLoop`] | finds a sequence that leads the filter back to where it was | filters with few states per fingerprint |
//! | [`Climber`] | tries all of that and neighbouring keys, and does more of what pays | filters with poor hash functions, and all of the above |

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
