//! What is printed.

use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use twiceshy_report::Table;

/// Width of printed tables, in characters.
const WIDTH: usize = 120;

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

/// Prints rows as a table, or as JSON, one object per line.
pub(crate) fn print_rows<R: Serialize>(
    rows: &[R],
    json: bool,
    table: impl FnOnce(&[R]) -> Table,
) -> Result<(), ExitCode> {
    if json {
        return rows
            .iter()
            .try_for_each(|row| print(serde_json::to_string(row).expect("plain data")));
    }
    print(table(rows).to_text(WIDTH).trim_end())
}

/// Says why nothing comes of it.
pub(crate) fn failure(why: impl Display) -> ExitCode {
    eprintln!("twiceshy-lab: {why}");
    ExitCode::from(2)
}
