//! How it went, for the shell.

use crate::output::WriteError;
use anyhow::{Error, Result};
use std::io::{ErrorKind, Write as _};
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
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // Whoever read our output has had enough of it, as `head` has.
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If that can't be written either, the code has to do.
            let _ = writeln!(std::io::stderr(), "twiceshy: {}", one_line(&error));
            ExitCode::from(2)
        }
    }
}

fn is_unread(error: &Error) -> bool {
    error.downcast_ref().is_some_and(|WriteError(error)| error.kind() == ErrorKind::BrokenPipe)
}

/// The error and all its causes. An engine's error may have lines of its own.
fn one_line(error: &Error) -> String {
    let text = format!("{error:#}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn all_causes_are_told_in_one_line() {
        let error = anyhow!("deep\n  down").context("higher").context("keys.txt");
        assert_eq!(one_line(&error), "keys.txt: higher: deep down");
    }

    #[test]
    fn only_our_own_broken_pipe_is_quiet() {
        let broken = || std::io::Error::from(ErrorKind::BrokenPipe);
        assert!(is_unread(&Error::new(WriteError(broken()))));
        assert!(!is_unread(&Error::new(broken())));
        assert!(!is_unread(&Error::new(WriteError(ErrorKind::StorageFull.into()))));
    }
}
