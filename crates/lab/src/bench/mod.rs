//! Benchmarks.

mod adapters;
mod limit;
pub(crate) mod point;
