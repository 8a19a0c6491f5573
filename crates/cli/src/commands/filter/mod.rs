//! `twiceshy filter`: filters as files.
//!
//! [`file`] reads and writes them, with their [`secret`].

mod build;
mod check;
mod file;
mod info;
mod merge;
mod secret;
mod verify;

use crate::exit::Answer;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum FilterCommand {
    /// Build a filter from keys, one a line
    Build(build::Build),
    /// Ask a filter for keys, one a line
    Check(check::Check),
    /// Show what a filter is made of
    Info(info::Info),
    /// Merge filters that have the same secret
    Merge(merge::Merge),
    /// Check that a filter is whole, and has all of its keys
    Verify(verify::Verify),
}

impl FilterCommand {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        match self {
            Self::Build(command) => command.run(session),
            Self::Check(command) => command.run(session),
            Self::Info(command) => command.run(session),
            Self::Merge(command) => command.run(session),
            Self::Verify(command) => command.run(session),
        }
    }
}
