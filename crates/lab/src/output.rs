//! Prints results and errors.

use crate::origin::Origin;
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use twiceshy_report::Table;

/// Width of printed tables, in characters.
pub(crate) const WIDTH: usize = 120;

/// Prints and flushes a line. If this fails, returns the exit code. Prints the error, unless the
/// reader has closed the pipe.
pub(crate) fn print(line: impl Display) -> Result<(), ExitCode> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == ErrorKind::BrokenPipe {
            return ExitCode::SUCCESS;
        }
        failure(format_args!("could not print: {error}"))
    })
}

/// Prints a JSON object that describes the run: `{"origin": …}`. It comes before all results, so
/// that `twiceshy-lab results` can say where they come from.
pub(crate) fn print_origin() -> Result<(), ExitCode> {
    print(serde_json::json!({ "origin": Origin::here() }))
}

/// Prints rows as a table, or as JSON, one object per line after the [origin](print_origin).
pub(crate) fn print_rows<R: Serialize>(
    rows: &[R],
    json: bool,
    table: impl FnOnce(&[R]) -> Table,
) -> Result<(), ExitCode> {
    if json {
        print_origin()?;
        return print_json(rows);
    }
    print(table(rows).to_text(WIDTH).trim_end())
}

/// Prints rows as JSON, one object per line.
pub(crate) fn print_json<R: Serialize>(rows: &[R]) -> Result<(), ExitCode> {
    rows.iter().try_for_each(|row| print(serde_json::to_string(row).expect("plain data")))
}

/// Prints an error, and returns the exit code.
pub(crate) fn failure(why: impl Display) -> ExitCode {
    eprintln!("twiceshy-lab: {why}");
    ExitCode::from(2)
}
