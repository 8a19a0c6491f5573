//! How it went, for the shell.

use crate::interrupt;
use crate::output::WriteError;
use anyhow::{Error, Result};
use clap::error::ErrorKind;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The exit code of a command that could not be carried out.
const FAILED: u8 = 2;

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

/// Makes aborts end the program with the exit code of a failure. The standard library aborts when
/// there is no memory, after it has said so.
pub(crate) fn fail_on_abort() {
    use signal_hook::{consts::SIGABRT, flag};
    // If that can't be arranged, an abort is reported as one.
    let always = Arc::new(AtomicBool::new(true));
    let _ = flag::register_conditional_shutdown(SIGABRT, FAILED.into(), always);
}

/// Reports a panic as a failure, in one line. Libraries panic where no thread can be started.
pub(crate) fn fail_on_panic(run: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|panic| {
        failed(&format!("internal error: {panic}"));
    }));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(ExitCode::from(FAILED))
}

/// Explains what is wrong with the arguments, or writes the help that was asked for.
pub(crate) fn misunderstood(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return code(printed.map(|()| Answer::Yes).map_err(|error| WriteError(error).into()));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    // What is wrong, what might be meant instead, and what is known without being said.
    let text = error.to_string();
    let parts = text.split("\n\n").map(|part| part.trim().trim_start_matches("error: "));
    let is_told = |part: &&str| !part.starts_with("Usage: ") && !part.starts_with("For more ");
    let parts: Vec<_> = parts.filter(is_told).collect();
    failed(&format!("{}; see --help", parts.join("; ")))
}

/// Writes a warning about a command that was carried out.
pub(crate) fn warn(warning: &Error) {
    let _held = interrupt::hold();
    say(&format!("warning: {warning:#}"));
}

fn failed(reason: &str) -> ExitCode {
    say(reason);
    ExitCode::from(FAILED)
}

/// Writes one line to the standard error, if it can be written there.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "twiceshy: {}", one_line(text));
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
    fn a_panic_is_a_failure() {
        let code = fail_on_panic(|| panic!("on purpose"));
        let _ = panic::take_hook();
        assert_eq!(code, ExitCode::from(2));
    }

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
