//! All tests of the command line, in one program.

mod common;
mod demo;
mod errors;
mod export;
mod filter;
mod full;
mod golden;
mod interrupt;
mod list;
mod memory;
mod store;
