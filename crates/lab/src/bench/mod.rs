//! Benchmarks.

mod adapters;
pub(crate) mod aqf_ops;
mod limit;
mod measure;
pub(crate) mod point;
