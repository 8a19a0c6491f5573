//! Benchmarks.

mod adapters;
pub(crate) mod aqf_ops;
pub(crate) mod fixed;
mod lab;
pub(crate) mod life;
mod limit;
pub(crate) mod list;
pub(crate) mod measure;
pub(crate) mod point;
mod random;
pub(crate) mod range;
pub(crate) mod range_store;
pub(crate) mod reverse_map;
pub(crate) mod store;
pub(crate) mod target;

pub(crate) use adapters::Mixed;
pub(crate) use random::Random;
