//! The state that all commands need: the output, and whether to show progress.

use crate::cli::Cli;
use crate::output::{Output, WriteError};
use crate::progress::{Progress, Total};
use anyhow::Result;
use std::io::IsTerminal as _;

pub(crate) struct Session {
    pub(crate) output: Output,
    shows_progress: bool,
}

impl Session {
    pub(crate) fn new(cli: &Cli) -> Self {
        let shows_progress = !cli.quiet && std::io::stderr().is_terminal();
        Self { output: Output::new(cli.json), shows_progress }
    }

    /// Returns a progress bar that is shown until it is dropped.
    pub(crate) fn progress(&self, task: &'static str, total: Total) -> Progress {
        Progress::new(task, total, self.shows_progress)
    }

    /// Flushes the output.
    pub(crate) fn finish(mut self) -> Result<(), WriteError> {
        self.output.flush()
    }
}
