//! Exit codes and error messages.

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

/// The answer of a command that succeeded. It determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

impl Answer {
    /// Returns `Yes` if `yes` is true.
    pub(crate) fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// Prints an error in one line, and returns the exit code.
pub(crate) fn code(answer: Result<Answer>) -> ExitCode {
    // If a signal handler is undoing the work, `answer` may be an error only for that reason. In
    // this case, the call blocks until the process exits, so the error is not printed.
    let _held = interrupt::hold();
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // The reader of our output, for example `head`, has stopped reading.
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("{error:#}")),
    }
}

/// Makes the program end with the exit code of a failure when it aborts. The standard library
/// aborts after a message when memory runs out.
pub(crate) fn fail_on_abort() {
    use signal_hook::{consts::SIGABRT, flag};
    // If the handler cannot be installed, an abort ends the program in the usual way.
    let always = Arc::new(AtomicBool::new(true));
    let _ = flag::register_conditional_shutdown(SIGABRT, FAILED.into(), always);
}

/// Reports a panic as a failure, in one line. Libraries panic when they cannot start a thread.
pub(crate) fn fail_on_panic(run: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|panic| {
        failed(&format!("internal error: {panic}"));
    }));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(ExitCode::from(FAILED))
}

/// Prints what is wrong with the arguments, or the requested help.
pub(crate) fn misunderstood(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return code(printed.map(|()| Answer::Yes).map_err(|error| WriteError(error).into()));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    // Keep the error and the suggestion; drop the usage line and the hint about --help.
    let text = error.to_string();
    let parts = text.split("\n\n").map(|part| part.trim().trim_start_matches("error: "));
    let is_kept = |part: &&str| !part.starts_with("Usage: ") && !part.starts_with("For more ");
    let parts: Vec<_> = parts.filter(is_kept).collect();
    failed(&format!("{}; see --help", parts.join("; ")))
}

/// Prints a warning. The command has succeeded nevertheless.
pub(crate) fn warn(warning: &Error) {
    let _held = interrupt::hold();
    say(&format!("warning: {warning:#}"));
}

fn failed(reason: &str) -> ExitCode {
    say(reason);
    ExitCode::from(FAILED)
}

/// Writes one line to standard error. Ignores errors.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "twiceshy: {}", one_line(text));
}

fn is_unread(error: &Error) -> bool {
    error.downcast_ref().is_some_and(|WriteError(error)| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Joins the lines of a message. The errors of a storage engine may have several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn panic_is_reported_as_failure() {
        let code = fail_on_panic(|| panic!("on purpose"));
        let _ = panic::take_hook();
        assert_eq!(code, ExitCode::from(2));
    }

    #[test]
    fn error_message_has_all_causes_in_one_line() {
        let error = anyhow!("deep\n  down").context("higher").context("keys.txt");
        assert_eq!(one_line(&format!("{error:#}")), "keys.txt: higher: deep down");
    }

    #[test]
    fn broken_pipe_is_ignored_only_for_standard_output() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_unread(&Error::new(WriteError(broken()))));
        assert!(!is_unread(&Error::new(broken())));
        assert!(!is_unread(&Error::new(WriteError(io::ErrorKind::StorageFull.into()))));
    }
}
