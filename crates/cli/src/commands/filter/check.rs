//! `twiceshy filter check`.

use super::file::load;
use super::secret::SecretArgs;
use crate::exit::Answer;
use crate::input::{Encoding, Lines};
use crate::output::{Output, Report};
use crate::session::Session;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const HELP: &str = "\
Examples:
  twiceshy filter check blocked.filter requests.txt
  twiceshy filter check blocked.filter requests.txt --only maybe > look-closer.txt
  twiceshy filter check blocked.filter requests.txt.gz --count --json
  echo mallory | twiceshy filter check blocked.filter - && echo 'perhaps blocked'

For each line, prints \"maybe\" or \"absent\", a tab, and the key. The answer \"absent\" is always right.
The exit code is 0 if all answers are \"maybe\", otherwise 1.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy filter check --help` for examples.")]
pub(crate) struct Check {
    /// The filter
    filter: PathBuf,
    /// A file of keys, one per line
    #[arg(default_value = "-")]
    keys: PathBuf,
    /// Print only the keys that get this answer, and omit the answer itself
    #[arg(long, value_name = "ANSWER")]
    only: Option<Only>,
    /// Print only the number of keys for each answer
    #[arg(long, conflicts_with = "only")]
    count: bool,
    #[command(flatten)]
    secret: SecretArgs,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Keys that may be members
    Maybe,
    /// Keys that are not members
    Absent,
}

impl Check {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let filter = load(&self.filter, &self.secret)?;
        let mut lines = Lines::open(&self.keys, Encoding::from_option(self.bytes), session)?;
        let (mut checked, mut absent) = (0, 0);
        let mut answers = Vec::new();
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            filter.contains_many(&keys, &mut answers);
            checked += keys.len() as u64;
            absent += answers.iter().filter(|&&maybe| !maybe).count() as u64;
            if !self.count {
                for (key, &maybe) in keys.iter().zip(&answers) {
                    self.write(&mut session.output, key, maybe)?;
                }
            }
            drop(keys);
            lines.reuse(block);
        }
        if self.count {
            let counts = Report::new()
                .count("checked", checked)
                .count("maybe", checked - absent)
                .count("absent", absent);
            session.output.report(&counts)?;
        }
        Ok(Answer::of(absent == 0))
    }

    fn write(&self, output: &mut Output, key: &[u8], maybe: bool) -> Result<()> {
        let answer = if maybe { Only::Maybe } else { Only::Absent };
        let word = if maybe { "maybe" } else { "absent" };
        if self.only.is_some_and(|only| only != answer) {
            return Ok(());
        }
        if output.is_json() {
            output.json(&Report::new().key("key", key).word("answer", word))?;
        } else if self.only.is_some() {
            output.line(&[key])?;
        } else {
            output.line(&[word.as_bytes(), b"\t", key])?;
        }
        Ok(())
    }
}
