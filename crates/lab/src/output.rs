//! What is printed.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Prints a line at once. If that fails, says so, and with which code to end; if nobody reads any
/// more, there is nothing to say.
pub(crate) fn print(line: impl Display) -> Result<(), ExitCode> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == ErrorKind::BrokenPipe {
            return ExitCode::SUCCESS;
        }
        failure(format_args!("could not print: {error}"))
    })
}

/// Says why nothing comes of it.
pub(crate) fn failure(why: impl Display) -> ExitCode {
    eprintln!("twiceshy-lab: {why}");
    ExitCode::from(2)
}
