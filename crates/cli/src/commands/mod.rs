//! What is done.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod filter;
pub(crate) mod list;
mod members;
pub(crate) mod store;
