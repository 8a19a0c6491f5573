//! Writes text or JSON to standard output, and writes output files.

mod draft;
mod report;
mod target;
mod text;

pub(crate) use draft::Draft;
pub(crate) use report::{Report, grouped, sized};
pub(crate) use target::Target;

use serde::Serialize;
use std::io::{self, BufWriter, Stdout, Write};

/// An error when writing to standard output.
#[derive(Debug)]
pub(crate) struct WriteError(pub(crate) io::Error);

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output")
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

type Written = Result<(), WriteError>;

/// Standard output.
pub(crate) struct Output {
    writer: BufWriter<Stdout>,
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { writer: BufWriter::with_capacity(1 << 16, io::stdout()), json }
    }

    /// Returns whether the option `--json` was given.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a report as a table or as JSON.
    pub(crate) fn report(&mut self, report: &Report) -> Written {
        if self.json { self.json(report) } else { self.bytes(report.table().as_bytes()) }
    }

    /// Writes a report if the output is JSON, for commands that print no text.
    pub(crate) fn report_if_json(&mut self, report: &Report) -> Written {
        if self.json { self.json(report) } else { Ok(()) }
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Written {
        serde_json::to_writer(&mut self.writer, value).map_err(|error| WriteError(error.into()))?;
        self.bytes(b"\n")
    }

    /// Writes a line that consists of these parts.
    pub(crate) fn line(&mut self, parts: &[&[u8]]) -> Written {
        parts.iter().try_for_each(|part| self.bytes(part))?;
        self.bytes(b"\n")
    }

    /// Writes bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Written {
        self.writer.write_all(bytes).map_err(WriteError)
    }

    pub(crate) fn flush(&mut self) -> Written {
        self.writer.flush().map_err(WriteError)
    }
}
