//! Workloads for experiments with filters: seeded, and identical on every machine.
//!
//! | module | contents |
//! | --- | --- |
//! | [`stream`] | queries that don't depend on the answers: uniform, Zipfian, `FireHose`, packet flows |
//! | [`member`] | queries that depend on the members: churn, and ranges near to members or far from them |
//! | [`adversary`] | queries that depend on the answers: four attackers |
//! | [`load`] | loaders for real data: lists of keys, traces, captured packets, lists of URLs |
//! | [`key`] | turns the generators' numbers into keys |
//!
//! Generators produce small, meaningful *numbers*: in a Zipfian stream, 0 is the most frequent key.
//! Insert and query a number's [`key`](mod@key) instead, which looks random. Otherwise a filter
//! with a poor hash function would only be tested on consecutive integers.
//!
//! # Examples
//!
//! ```
//! use twiceshy_workloads::key::key;
//! use twiceshy_workloads::stream::Zipf;
//!
//! let zipf = Zipf::new(1_000_000_000, 1.5)?;
//! for number in zipf.stream(42).take(1000) {
//!     let bytes: [u8; 16] = key(number);
//!     // query the filter for `bytes`
//! #   assert_ne!(bytes, [0; 16]);
//! }
//! # Ok::<(), twiceshy_workloads::Invalid>(())
//! ```
#![forbid(unsafe_code)]

pub mod adversary;
mod invalid;
pub mod key;
pub mod load;
pub mod member;
mod random;
pub mod stream;
#[cfg(test)]
mod testing;

pub use invalid::Invalid;
pub use random::Random;
