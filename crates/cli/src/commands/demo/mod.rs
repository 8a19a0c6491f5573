//! `twiceshy demo`: measures the benefit of repairs on this machine.
//!
//! [`traffic`] generates queries, and [`run`] sends them to two stores by turns. A [`subject`] is
//! one of these stores. [`results`] has the measurements, and [`page`] shows them.

mod page;
mod results;
mod run;
mod subject;
mod traffic;

use crate::exit::Answer;
use crate::interrupt::{self, Undo};
use crate::output::Target;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use clap::value_parser;
use results::Results;
use std::io;
use std::path::{Path, PathBuf};

const HELP: &str = "\
Examples:
  twiceshy demo
  twiceshy demo --keys 100000 --queries 100000 --out small.html
  twiceshy demo --seed 2 --json | jq .traffic

What the demo does:
  The demo creates two stores with the same keys and the same secret. One store repairs the mistakes
  of its filter, the other does not. Both answer the same queries, by turns. There are three kinds of
  traffic, with --queries queries each:

  skewed   popular keys are queried more often than others (Zipf's law with exponent 1.5), and one
           query in ten is for a present key
  probing  an attacker queries random keys, and notes which of them cost a disk read
  hostile  like skewed, but one query in ten comes from the attacker, who repeats the noted keys

What the demo counts:
  A disk read is counted when the filter mistakes an absent key for a member, even if the engine or
  the operating system has that part of the disk in memory. A disk read counts as repeated if the
  same key has caused one before. The counts depend only on the options; the times vary.

  The count for skewed traffic depends strongly on the seed, because the keys that the filter gets
  wrong may be popular or rare.

The stores take half a kilobyte of disk space per key, and are removed at the end.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "Try `twiceshy demo --help` for an explanation.")]
pub(crate) struct Demo {
    /// The number of keys in each store
    #[arg(long, default_value_t = 500_000, value_parser = value_parser!(u64).range(1000..=1 << 32))]
    #[arg(allow_negative_numbers = true)]
    keys: u64,
    /// The number of queries for each kind of traffic
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1000..=1 << 40))]
    #[arg(allow_negative_numbers = true)]
    queries: u64,
    /// The seed for generating the keys, the secret and the queries
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Where to write the page with the results; an existing file is replaced
    #[arg(long, value_name = "PAGE", default_value = "twiceshy-demo.html")]
    out: PathBuf,
    /// Where to create the stores [default: the system's temporary directory]
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let target = Target::new(&self.out)?;
        let parent = self.directory.clone().unwrap_or_else(std::env::temp_dir);
        let (directory, removal) =
            temporary_in(&parent).with_context(|| parent.display().to_string())?;
        let results =
            run::run(self, &directory, session).with_context(|| directory.display().to_string())?;
        drop(removal);
        target.write(page::page(&results).to_html())?;
        self.print(&results, &target, session)
    }

    fn print(&self, results: &Results, target: &Target, session: &mut Session) -> Result<Answer> {
        let output = &mut session.output;
        if target.is_special() {
            // The page may have been written to standard output, so print nothing else.
        } else if output.is_json() {
            output.json(&results.json(&self.out))?;
        } else {
            let table = page::table(results).to_text(WIDTH);
            let page = format!("The page with the curves is {}", self.out.display());
            for text in [&table, "", &wrapped(&results.sentence()), "", &page] {
                output.line(&[text.trim_end().as_bytes()])?;
            }
        }
        Ok(Answer::Yes)
    }
}

/// Creates a temporary directory. It is removed when the returned `Undo` is dropped.
fn temporary_in(parent: &Path) -> io::Result<(PathBuf, Undo)> {
    let mut held = interrupt::hold();
    let directory = tempfile::Builder::new().prefix("twiceshy-demo-").tempdir_in(parent)?.keep();
    let removed = directory.clone();
    Ok((directory, held.undo(move || interrupt::remove(&removed))))
}

/// The number of characters per line of a terminal.
const WIDTH: usize = 80;

/// Breaks text into lines of at most [`WIDTH`] characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= WIDTH => line.extend([" ", word]),
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_as_long_as_possible() {
        let text = "seven letters ".repeat(100);
        let lines = wrapped(&text);
        assert!(lines.lines().all(|line| line.len() <= WIDTH));
        assert!(lines.lines().rev().skip(1).all(|line| line.len() + 8 > WIDTH));
        assert_eq!(lines.split_whitespace().count(), 200);
    }
}
