//! `twiceshy store`: guarded stores in directories.
//!
//! [`open`] finds, creates and opens them, [`pairs`] reads pairs from lines, [`shape`] says what
//! filter they get.

mod check;
mod delete;
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
    /// Put many pairs, from lines of keys and values
    Import(import::Import),
    /// Write the value of a key
    Get(get::Get),
    /// Give a key a value
    Put(put::Put),
    /// Remove keys and their values
    Delete(delete::Delete),
    /// Look for many keys, one a line
    Check(check::Check),
    /// Show what a store and its filter are like
    Stats(stats::Stats),
    /// Check that all that is in a store can be found
    Verify(verify::Verify),
    /// Build the filter again from what is in the store
    Rebuild(rebuild::Rebuild),
}

impl StoreCommand {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        match self {
            Self::Import(command) => command.run(session),
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
