//! How it went, for the shell.

use crate::interrupt;
use crate::output::WriteError;
use anyhow::{Error, Result};
use clap::error::ErrorKind;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// What a command that could be carried out has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

impl Answer {
    /// "Yes" if that is so.
    pub(crate) fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// Tells what went wrong, in one line, and the exit code.
pub(crate) fn code(answer: Result<Answer>) -> ExitCode {
    // What fails because it is being undone isn't told.
    let _held = interrupt::hold();
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // Whoever read our output has had enough of it, as `head` has.
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("{error:#}")),
    }
}

/// Tells what can't be understood of what was typed, or gives the help that was asked for.
pub(crate) fn misunderstood(error: &clap::Error) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        error.exit();
    }
    // What is wrong, what might be meant instead, and what is known without being said.
    let text = error.to_string();
    let parts = text.split("\n\n").map(|part| part.trim().trim_start_matches("error: "));
    let is_told = |part: &&str| !part.starts_with("Usage: ") && !part.starts_with("For more ");
    let parts: Vec<_> = parts.filter(is_told).collect();
    failed(&format!("{}; see --help", parts.join("; ")))
}

fn failed(reason: &str) -> ExitCode {
    // If that can't be written either, the code has to do.
    let _ = writeln!(io::stderr(), "twiceshy: {}", one_line(reason));
    ExitCode::from(2)
}

fn is_unread(error: &Error) -> bool {
    error.downcast_ref().is_some_and(|WriteError(error)| error.kind() == io::ErrorKind::BrokenPipe)
}

/// An engine's error may have lines of its own.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn all_causes_are_told_in_one_line() {
        let error = anyhow!("deep\n  down").context("higher").context("keys.txt");
        assert_eq!(one_line(&format!("{error:#}")), "keys.txt: higher: deep down");
    }

    #[test]
    fn only_our_own_broken_pipe_is_quiet() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_unread(&Error::new(WriteError(broken()))));
        assert!(!is_unread(&Error::new(broken())));
        assert!(!is_unread(&Error::new(WriteError(io::ErrorKind::StorageFull.into()))));
    }
}
