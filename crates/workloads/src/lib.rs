//! Workloads for experiments with filters: seeded, and the same on every machine.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`stream`] | queries that don't depend on the answers: uniform, Zipfian, `FireHose`'s, flows of packets |
//! | [`member`] | queries that depend on the members: churn, and ranges near to them or far |
//! | [`adversary`] | queries that depend on the answers: four attackers, each of whom tries harder |
//! | [`load`] | what users have: lists of keys, traces, captured packets, lists of URLs |
//! | [`key`] | from the numbers that generators speak of to keys |
//!
//! A generator's items are *numbers*, small and telling: a Zipfian one says 0 for the most
//! frequent key. What is inserted or asked for is a number's [`key`](mod@key), which says nothing:
//! otherwise a filter with a poor hash function would be tested on consecutive integers only.
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
//!     // ask the filter for `bytes`
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
