//! `twiceshy list`: files that answer correctly for every key of a yes list and a no list.
//!
//! [`twiceshy::Matching`] says how lines are matched. Lists that can be changed are kept in a
//! [`directory`].

mod add;
mod apply;
mod build;
mod check;
mod diff;
mod directory;
mod info;
mod remove;
mod verify;

use crate::exit::Answer;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum ListCommand {
    /// Build a list file from a yes list and a no list
    Build(build::Build),
    /// Check keys against a list
    Check(check::Check),
    /// Add keys to the lists in a directory
    Add(add::Add),
    /// Remove keys from the lists in a directory
    Remove(remove::Remove),
    /// Write a delta that turns an older list into a newer one
    Diff(diff::Diff),
    /// Update a list with a delta
    Apply(apply::Apply),
    /// Show the size and the parameters of a list
    Info(info::Info),
    /// Check that a list is undamaged and gives the right answers for its keys
    Verify(verify::Verify),
}

impl ListCommand {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        match self {
            Self::Build(command) => command.run(session),
            Self::Check(command) => command.run(session),
            Self::Add(command) => command.run(session),
            Self::Remove(command) => command.run(session),
            Self::Diff(command) => command.run(session),
            Self::Apply(command) => command.run(session),
            Self::Info(command) => command.run(session),
            Self::Verify(command) => command.run(session),
        }
    }
}
