//! `twiceshy filter`: filter files.
//!
//! [`file`] reads and writes filter files, and [`secret`] reads and writes files with secrets.

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
    /// Build a filter from keys
    Build(build::Build),
    /// Check keys against a filter
    Check(check::Check),
    /// Show the size and the parameters of a filter
    Info(info::Info),
    /// Merge filters that have the same secret
    Merge(merge::Merge),
    /// Check that a filter is undamaged and contains the given keys
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
