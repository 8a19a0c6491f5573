//! Converts lines to pairs of a key and a value, and pairs to lines.

use super::escape::{UnknownEscape, escape, is_plain, unescape};
use crate::input::{LONGEST, begins_as_text};
use anyhow::{Result, bail};
use clap::Args;
use std::borrow::Cow;

#[derive(Args)]
pub(super) struct FormArgs {
    /// The separator between a key and its value [default: a tab]
    #[arg(long, value_name = "TEXT", conflicts_with = "keys_only")]
    separator: Option<String>,
    /// Lines are keys without values
    #[arg(long)]
    keys_only: bool,
    /// Lines contain escapes such as \n and \xff, so that keys and values can contain any bytes
    #[arg(long)]
    escaped: bool,
}

impl FormArgs {
    pub(super) fn form(&self) -> Result<Form> {
        let separator = self.separator.as_deref().unwrap_or("\t");
        Form::new((!self.keys_only).then(|| separator.into()), self.escaped)
    }
}

/// The format of lines, each with a key and perhaps a value.
pub(super) struct Form {
    /// The text between the key and the value. If there is none, the whole line is the key, and the
    /// value is empty.
    separator: Option<String>,
    escaped: bool,
}

/// A key or a value: a part of a line, or its unescaped bytes.
type Part<'a> = Cow<'a, [u8]>;

impl Form {
    /// Creates a format. Returns an error if the separator is invalid.
    pub(super) fn new(separator: Option<String>, escaped: bool) -> Result<Self> {
        let has =
            |is_bad: fn(char) -> bool| separator.as_ref().is_some_and(|it| it.contains(is_bad));
        if separator.as_deref() == Some("") {
            bail!("--separator must not be empty; use --keys-only for keys without values");
        }
        if has(|character| character == '\n') {
            bail!("--separator must not contain a line feed, because it ends a line");
        }
        if escaped && has(|character| character != '\t' && !is_plain(character)) {
            bail!(
                "with --escaped, --separator must not contain backslashes, or control characters \
                 except tabs"
            );
        }
        Ok(Self { separator, escaped })
    }

    /// Returns the key and the value of a line, or what is wrong with it.
    pub(super) fn split<'a>(&self, line: &'a [u8]) -> Result<(Part<'a>, Part<'a>), String> {
        let separator = self.separator.as_deref().map(str::as_bytes);
        let pair = if self.escaped {
            split_escaped(line, separator).map_err(|UnknownEscape(escape)| {
                format!(r"has the unknown escape {escape}; a backslash is written as \\")
            })?
        } else {
            split_plain(line, separator)
        };
        pair.ok_or_else(|| "has no separator; see --separator".into())
    }

    pub(super) fn is_keys_only(&self) -> bool {
        self.separator.is_none()
    }
}

fn split_plain<'a>(line: &'a [u8], separator: Option<&[u8]>) -> Option<(Part<'a>, Part<'a>)> {
    let (key, value) = match separator {
        None => (line, &line[line.len()..]),
        Some(separator) => {
            let at = memchr::memmem::find(line, separator)?;
            (&line[..at], &line[at + separator.len()..])
        }
    };
    Some((key.into(), value.into()))
}

/// Splits a line at the first separator that is not part of an escape.
fn split_escaped<'a>(
    line: &'a [u8],
    separator: Option<&[u8]>,
) -> Result<Option<(Part<'a>, Part<'a>)>, UnknownEscape> {
    let mut rest = line;
    let is_end = |rest: &[u8]| rest.is_empty() || separator.is_some_and(|it| rest.starts_with(it));
    let key = unescape(&mut rest, is_end)?;
    let mut value = match separator.map(|separator| rest.strip_prefix(separator)) {
        None => rest,
        Some(Some(value)) => value,
        Some(None) => return Ok(None),
    };
    let value = unescape(&mut value, <[u8]>::is_empty)?;
    Ok(Some((key.into(), value.into())))
}

/// Turns pairs into the lines of one file.
pub(super) struct LineWriter<'a> {
    form: &'a Form,
    line: Vec<u8>,
    is_first: bool,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(form: &'a Form) -> Self {
        Self { form, line: Vec::new(), is_first: true }
    }

    /// Returns the line of a pair, with its ending, or an error if it could not be read back.
    pub(super) fn line(&mut self, key: &[u8], value: &[u8]) -> Result<&[u8]> {
        self.line.clear();
        self.push(key, value);
        if !self.form.escaped
            && let Some(reason) = self.fault(key, value)
        {
            bail!("{} cannot be written as a line, because {reason}; use --escaped", named(key));
        }
        if self.line.len() >= LONGEST {
            let bytes = self.line.len();
            bail!("{} would become a line of {bytes} bytes, which is too long", named(key));
        }
        self.is_first = false;
        self.line.push(b'\n');
        Ok(&self.line)
    }

    /// Appends a pair to the line.
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let (form, line) = (self.form, &mut self.line);
        let separator = form.separator.as_deref();
        if form.escaped {
            // Escape the first character of the separator, so that no separator begins within the
            // key.
            escape(key, separator.and_then(|it| it.chars().next()), line);
        } else {
            line.extend(key);
        }
        let Some(separator) = separator else { return };
        line.extend(separator.as_bytes());
        if form.escaped {
            escape(value, None, line);
        } else {
            line.extend(value);
        }
    }

    /// Returns the reason why a pair could not be read back from its line, if there is one. The
    /// line has no escapes.
    fn fault(&self, key: &[u8], value: &[u8]) -> Option<&'static str> {
        let line = &self.line;
        let value = if self.form.is_keys_only() { &[] } else { value };
        if line.contains(&b'\n') {
            Some("it contains a line feed")
        } else if line.ends_with(b"\r") {
            Some("its line would end in a carriage return")
        } else if std::str::from_utf8(line).is_err() {
            Some("it is not UTF-8")
        } else if self.is_first && !begins_as_text(line) {
            Some("the file would begin with a byte order mark or like a compressed file")
        } else if self.form.split(line) != Ok((key.into(), value.into())) {
            Some("the separator would be found within the key")
        } else {
            None
        }
    }
}

/// Describes a pair for an error message, by the beginning of its key.
fn named(key: &[u8]) -> String {
    const LONGEST_NAME: usize = 100;
    let start = &key[..key.len().min(LONGEST_NAME)];
    let mut name = Vec::new();
    escape(start, None, &mut name);
    let more = if start.len() < key.len() { "…" } else { "" };
    format!("the pair with the key \"{}{more}\"", String::from_utf8_lossy(&name))
}
