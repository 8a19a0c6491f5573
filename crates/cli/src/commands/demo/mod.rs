//! `twiceshy demo`: what adapting is worth, seen on this machine.
//!
//! [`traffic`] says what is asked for, [`subject`] is a store that is asked, [`run`] asks two of
//! them in turns; [`results`] is what came of it, and [`page`] shows that.

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

What is done:
  Two stores on the disk get the same keys, secret and queries, in turns. One of them repairs the
  mistakes of its filter, the other doesn't. Three kinds of queries follow each other, so many of
  each as --queries says:

  skewed   popular keys are asked for more often than others (Zipf's law with exponent 1.5), and
           one query in ten is for a key that is there
  probing  an adversary asks for random keys, and notes which of them cost a visit to the disk
  hostile  as skewed, but one query in ten is the adversary's, who asks for these again

What is counted:
  A visit is a look at the disk for a key that isn't there, though the engine or the operating
  system may still have that part of it in memory. It is repeated if the same key has cost one
  before. With the same seed, counts are the same; times aren't.

  How many skewed queries cost one is luck, and so depends on the seed: a key that is taken for
  one that is there may be popular or not.

The stores are removed afterwards; meanwhile they take half a kilobyte of the disk for each key.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "Try `twiceshy demo --help` for what is done.")]
pub(crate) struct Demo {
    /// How many keys each store has
    #[arg(long, default_value_t = 500_000, value_parser = value_parser!(u64).range(1000..=1 << 32))]
    #[arg(allow_negative_numbers = true)]
    keys: u64,
    /// How many queries of each kind there are
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1000..=1 << 40))]
    #[arg(allow_negative_numbers = true)]
    queries: u64,
    /// What keys, secret and queries follow from
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Where to write the page; a file that is there is replaced
    #[arg(long, value_name = "PAGE", default_value = "twiceshy-demo.html")]
    out: PathBuf,
    /// Where to put the stores: the system's directory for temporary files if nothing is said
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
        self.tell(&results, &target, session)
    }

    fn tell(&self, results: &Results, target: &Target, session: &mut Session) -> Result<Answer> {
        let output = &mut session.output;
        if target.is_special() {
            // The page may have gone to where this would go.
        } else if output.is_json() {
            output.json(&results.told(&self.out))?;
        } else {
            let table = page::table(results).to_text(WIDTH);
            let page = format!("The curves are in {}", self.out.display());
            for text in [&table, "", &wrapped(&results.sentence()), "", &page] {
                output.line(&[text.trim_end().as_bytes()])?;
            }
        }
        Ok(Answer::Yes)
    }
}

/// A directory that is removed again.
fn temporary_in(parent: &Path) -> io::Result<(PathBuf, Undo)> {
    let mut held = interrupt::hold();
    let directory = tempfile::Builder::new().prefix("twiceshy-demo-").tempdir_in(parent)?.keep();
    let removed = directory.clone();
    Ok((directory, held.undo(move || interrupt::remove(&removed))))
}

/// Letters in a line of a terminal.
const WIDTH: usize = 80;

/// Text in lines that are not too long.
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
    fn lines_are_as_long_as_may_be() {
        let text = "seven letters ".repeat(100);
        let lines = wrapped(&text);
        assert!(lines.lines().all(|line| line.len() <= WIDTH));
        assert!(lines.lines().rev().skip(1).all(|line| line.len() + 8 > WIDTH));
        assert_eq!(lines.split_whitespace().count(), 200);
    }
}
