//! `twiceshy store`: key-value stores in directories.
//!
//! [`open`] creates and opens stores, [`shape`] has the options of their filters, [`pairs`] reads
//! pairs from lines, and [`form`] and [`escape`] convert lines to pairs and back.

mod check;
mod delete;
mod escape;
mod export;
mod form;
mod get;
mod import;
mod open;
mod pairs;
mod put;
mod rebuild;
mod shape;
mod stats;
mod verify;

use crate::exit::Answer;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Import many keys and values from files, one pair per line
    Import(import::Import),
    /// Export all keys and values, one pair per line
    Export(export::Export),
    /// Print the value of a key
    Get(get::Get),
    /// Set the value of a key
    Put(put::Put),
    /// Delete keys and their values
    Delete(delete::Delete),
    /// Look up many keys
    Check(check::Check),
    /// Show statistics of a store and its filter
    Stats(stats::Stats),
    /// Check that every pair in a store can be found
    Verify(verify::Verify),
    /// Build the filter again from the keys in the store
    Rebuild(rebuild::Rebuild),
}

impl StoreCommand {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        match self {
            Self::Import(command) => command.run(session),
            Self::Export(command) => command.run(session),
            Self::Get(command) => command.run(session),
            Self::Put(command) => command.run(session),
            Self::Delete(command) => command.run(session),
            Self::Check(command) => command.run(session),
            Self::Stats(command) => command.run(session),
            Self::Verify(command) => command.run(session),
            Self::Rebuild(command) => command.run(session),
        }
    }
}
