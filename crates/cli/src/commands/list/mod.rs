//! `twiceshy list`: files that are right about every key of two lists.
//!
//! How lines are matched is the library's part: [`twiceshy::Matching`]. Lists that change are kept in
//! a [`directory`].

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
    /// Build a list from keys to answer yes and keys to answer no
    Build(build::Build),
    /// Ask a list for keys, one a line
    Check(check::Check),
    /// Add keys to lists in a directory
    Add(add::Add),
    /// Remove keys from lists in a directory
    Remove(remove::Remove),
    /// Write what makes a newer list of an older one
    Diff(diff::Diff),
    /// Make a newer list of an older one
    Apply(apply::Apply),
    /// Show what a list is made of
    Info(info::Info),
    /// Check that a list is whole, and right about every key
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
