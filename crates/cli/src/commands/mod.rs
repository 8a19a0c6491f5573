//! The commands.

mod closing;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod filter;
pub(crate) mod list;
mod making;
mod members;
pub(crate) mod store;
