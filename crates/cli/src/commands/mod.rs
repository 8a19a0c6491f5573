//! What is done.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod filter;
pub(crate) mod store;
